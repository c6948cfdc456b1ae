/* folder_files.c - the small files of a cache folder. SPDX-License-Identifier: Apache-2.0
 *
 * A file is replaced as a whole: the new one is written beside it, synced, and renamed. So after a
 * crash at any point there is the old file or the new one. */
#include "store/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/failpoint.h"
#include "base/file.h"

int folder_dir(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

const char *const folder_needed[FOLDER_NEEDED] = { "extents", "index", "ages", "lock", "format",
                                                   "index/data.mdb" };
#define NEEDED_FOLDERS 3u

const char *folder_odd(int folder, const char *name)
{
    bool is_folder = slice_is_one_of(slice_of(name), folder_needed, NEEDED_FOLDERS);
    return is_folder ? file_odd_folder(folder, name) : file_odd(folder, name);
}

enum err folder_sync(int folder, const char *inner)
{
    int fd = openat(folder, inner, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return file_err(errno);
    int rc = fsync(fd);
    close(fd);
    return rc == 0 ? OK : ERR_IO;
}

/* The file `names` is written by the thread that starts the process, perhaps while the committer
 * writes another file. So it has a temporary file of its own. */
static const char *temporary_for(const char *name)
{
    return strcmp(name, "names") == 0 ? FOLDER_FRESH_NAMES : FOLDER_FRESH;
}

enum err folder_write(int folder, const char *name, const void *bytes, size_t len)
{
    const char *fresh = temporary_for(name);
    int fd = file_make_new(folder, fresh);
    if (fd < 0)
        return file_err(errno);
    errno = 0;
    ssize_t wrote = failpoint(FAIL_FILE_WRITE) ? -1 : write(fd, bytes, len);
    if (wrote >= 0 && wrote < (ssize_t)len)
        errno = ENOSPC;    /* there was room for a part of it */
    bool good = wrote == (ssize_t)len && fsync(fd) == 0;
    good = close(fd) == 0 && good;
    if (!good || failpoint(FAIL_FILE_RENAME) || renameat(folder, fresh, folder, name) != 0) {
        enum err e = file_err(errno);
        unlinkat(folder, fresh, 0);
        return e;
    }
    (void)failpoint(FAIL_FILE_RENAMED);
    return fsync(folder) == 0 ? OK : ERR_IO;
}

enum err folder_read(int folder, const char *name, size_t max, struct arena *keep, slice *ret)
{
    struct stat stat;
    int fd = file_open(folder, name, O_RDONLY);
    if (fd < 0)
        return errno == ENOENT ? ERR_NOT_FOUND : ERR_IO;
    bool known = fstat(fd, &stat) == 0 && stat.st_size >= 0;
    size_t bytes = known ? (size_t)stat.st_size : 0;
    char *to = known && bytes <= max ? arena_alloc(keep, bytes + 1) : NULL;
    ssize_t len = to && !failpoint(FAIL_FILE_READ) ? pread(fd, to, bytes, 0) : -1;
    close(fd);
    if (known && bytes > max)
        return ERR_GONE;
    *ret = (slice){ to, bytes };
    return len == (ssize_t)bytes ? OK : ERR_IO;
}

enum err folder_read_rows(int folder, const char *name, void *rows, size_t row_bytes, size_t max,
                          size_t *ret_count)
{
    uint32_t crc;
    *ret_count = 0;
    check(row_bytes > sizeof(crc));
    int fd = file_open(folder, name, O_RDONLY);
    if (fd < 0)
        return errno == ENOENT ? ERR_NOT_FOUND : ERR_IO;
    ssize_t len = failpoint(FAIL_FILE_READ) ? -1 : pread(fd, rows, (max + 1) * row_bytes, 0);
    close(fd);
    if (len < 0)
        return ERR_IO;
    if (len < (ssize_t)sizeof(crc) || (size_t)len % row_bytes != sizeof(crc))
        return ERR_GONE;
    size_t bytes = (size_t)len - sizeof(crc);
    memcpy(&crc, (char *)rows + bytes, sizeof(crc));
    if (crc != crc32c(0, rows, bytes))
        return ERR_GONE;
    *ret_count = bytes / row_bytes;
    return OK;
}

enum err folder_write_rows(const struct folder *folder, const char *name, void *rows,
                           size_t row_bytes, size_t count)
{
    size_t bytes = count * row_bytes;
    uint32_t crc = crc32c(0, rows, bytes);
    check(row_bytes > sizeof(crc));
    memcpy((char *)rows + bytes, &crc, sizeof(crc));
    return folder_replace(folder, name, rows, bytes + sizeof(crc));
}

enum err folder_path_of(int folder, const char *path, const char *name, char ret[FOLDER_PATH_MAX])
{
    struct stat there, mine;
    int len = snprintf(ret, FOLDER_PATH_MAX, "/proc/self/fd/%d", folder);
    bool leads = fstat(folder, &mine) == 0 && stat(ret, &there) == 0 &&
                 there.st_ino == mine.st_ino && there.st_dev == mine.st_dev;
    if (!leads)
        len = snprintf(ret, FOLDER_PATH_MAX, "%s", path);
    if (len >= FOLDER_PATH_MAX)
        return ERR_IO;
    return snprintf(ret + len, (size_t)(FOLDER_PATH_MAX - len), "/%s", name) < FOLDER_PATH_MAX - len
               ? OK : ERR_IO;
}
