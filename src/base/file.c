/* file.c - reads small files, and opens files in folders that other programs can change.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITER_MS 5000     /* so long a writer of a FIFO may write nothing */

/* A FIFO may have a writer that writes nothing. */
static ssize_t read_piece(int fd, char *piece, size_t bytes)
{
    ssize_t got = read(fd, piece, bytes);
    if (got >= 0 || errno != EAGAIN)
        return got;
    if (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, WRITER_MS) == 1)
        return read(fd, piece, bytes);
    errno = ETIMEDOUT;
    return -1;
}

bool file_read(const char *path, size_t max, struct arena *keep, slice *ret)
{
    struct text text = text_in(keep);
    char piece[4096];
    ssize_t got = -1;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    while (fd >= 0 && text.len <= max && (got = read_piece(fd, piece, sizeof(piece))) > 0)
        text_add(&text, (slice){ piece, (size_t)got });
    int error = got < 0 ? errno : EFBIG;
    text_char(&text, '\0');
    *ret = (slice){ text.ptr, text.len - 1 };
    if (fd >= 0)
        close(fd);
    errno = error;
    return got == 0;
}

enum err file_err(int error)
{
    switch (error) {
    case ENOSPC: case EDQUOT: case EFBIG:    /* EFBIG: the limit of file sizes (RLIMIT_FSIZE) */
        return ERR_FULL;
    case EMFILE: case ENFILE: case ENOMEM:
        return ERR_LIMIT;
    default:
        return ERR_IO;
    }
}

/* ---- what a name stands for ---- */

static const char *text_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "a file";
    case S_IFDIR:
        return "a folder";
    case S_IFLNK:
        return "a symbolic link";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    default:
        return "a device";
    }
}

static const char *odd(int dir, const char *name, mode_t wanted)
{
    struct stat st;
    bool there = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    return there && (st.st_mode & S_IFMT) != wanted ? text_of(st.st_mode) : NULL;
}

const char *file_odd(int dir, const char *name)
{
    return odd(dir, name, S_IFREG);
}

const char *file_odd_folder(int dir, const char *name)
{
    return odd(dir, name, S_IFDIR);
}

/* Returns true if open() gives this error for something that is no ordinary file. */
static bool may_be_odd(int error)
{
    return error == ELOOP || error == EISDIR || error == ENXIO || error == ENODEV;
}

const char *file_odd_kind(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) ? text_of(st.st_mode) : NULL;
}

const char *file_read_fault(const char *path, size_t max, int error, struct arena *keep)
{
    const char *kind = file_odd_kind(path);
    if (error == EFBIG && kind)
        return arena_printf(keep, "it is %s that gives more than %zu KiB", kind,
                            (size_t)(max / KIB)).ptr;
    if (error == EFBIG)
        return arena_printf(keep, "it has more than %zu KiB", (size_t)(max / KIB)).ptr;
    if (error == ETIMEDOUT && kind)
        return arena_printf(keep, "it is %s to which nothing was written for %d s", kind,
                            WRITER_MS / 1000).ptr;
    return kind && may_be_odd(error) ? arena_printf(keep, "it is %s", kind).ptr : strerror(error);
}

int file_open(int dir, const char *name, int flags)
{
    struct stat st;
    int fd = openat(dir, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0) {
        int error = errno;
        errno = may_be_odd(error) && file_odd(dir, name) ? FILE_ODD : error;
        return -1;
    }
    int error = fstat(fd, &st) != 0 ? errno : S_ISREG(st.st_mode) ? 0 : FILE_ODD;
    /* removes O_NONBLOCK: with it, io_uring would not wait for the disk */
    if (!error && fcntl(fd, F_SETFL, flags) != 0)
        error = errno;
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

int file_make_new(int dir, const char *name)
{
    (void)unlinkat(dir, name, 0);
    return openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

/* ---- the files in a folder ---- */

struct dirent *file_next(DIR *dir, enum err *ret)
{
    struct dirent *item;
    do {
        errno = 0;    /* readdir returns NULL for the end, and for an error */
        item = readdir(dir);
    } while (item && (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0));
    if (!item && errno)
        *ret = file_err(errno);
    return item;
}
