/* dir_file.c - files and folders as buckets and objects. SPDX-License-Identifier: Apache-2.0
 *
 * dir_open.c resolves the client's key beneath the bucket: with an absolute symbolic link or a link
 * that leads out of the bucket, it finds nothing. A key that can't be a file name ("a//b", "./x",
 * "../x", "x/", a component of more than 255 bytes) gets a 404 that says so.
 *
 * Nothing locks a file while it is read. So after every read, before the caller gets the block,
 * fstat compares the file with its state at opening. If the file has changed, the call ends with
 * ERR_ORIGIN_CUT, so two versions never mix. A write within one tick of the file system's clock
 * would not be noticed. So the answer for a file that changed less than 2 s ago (dir_is_young) has
 * Cache-Control: no-store, and the cache does not store it. */
#include "origin/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "s3/checksum.h"

#define YOUNG_NS (2 * (int64_t)1000000000)

bool dir_is_file_name(slice key)
{
    if (key.len == 0 || key.len >= PATH_MAX || slice_has(key, '\0'))
        return false;
    for (slice rest = key; rest.ptr;) {
        slice part = slice_cut(&rest, '/');
        if (part.len == 0 || part.len > NAME_MAX || slice_eq(part, S(".")) ||
            slice_eq(part, S("..")))
            return false;
    }
    return true;
}

static int64_t stat_ns(struct timespec when)
{
    return (int64_t)when.tv_sec * 1000000000 + when.tv_nsec;
}

/* The ETag must change with the file. It must not look like an MD5, because clients would compare
 * it with the MD5 of the bytes. So it ends in "-1": in S3, such an ending marks an ETag that is no
 * MD5 of the bytes, but a digest of the digests of parts. */
slice dir_etag(struct arena *keep, const struct stat *file)
{
    uint64_t facts[] = { (uint64_t)file->st_dev, (uint64_t)file->st_ino, (uint64_t)file->st_size,
                         (uint64_t)stat_ns(file->st_mtim), (uint64_t)stat_ns(file->st_ctim) };
    uint8_t digest[CHECKSUM_BYTES_MAX];
    checksum_of(CHECKSUM_SHA256, (slice){ (const char *)facts, sizeof(facts) }, digest);
    char hex[32];
    hex_write(digest, 16, hex);
    return arena_printf(keep, "\"%.32s-1\"", hex);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           stat_ns(a->st_mtim) == stat_ns(b->st_mtim) && stat_ns(a->st_ctim) == stat_ns(b->st_ctim);
}

static enum err err_of_errno(int error, enum err missing)
{
    switch (error) {
    case ENOENT: case ENOTDIR: case ELOOP: case EXDEV: case ENAMETOOLONG: case ENXIO: case EINVAL:
        return missing;
    case EACCES: case EPERM:
        return ERR_DENIED;
    case EMFILE: case ENFILE: case ENOMEM: case EAGAIN:
        return ERR_SLOW_DOWN;
    default:
        return ERR_IO;
    }
}

bool dir_is_young(const struct stat *file)
{
    int64_t now = (int64_t)clock_ns(CLOCK_REALTIME);
    return now - MAX(stat_ns(file->st_mtim), stat_ns(file->st_ctim)) < YOUNG_NS;
}

enum err dir_open_bucket(const struct dir_call *call, int *ret_fd)
{
    const struct dir *dir = container_of(call->hook.origin, struct dir, origin);
    slice bucket = call->hook.call->bucket;
    char name[NAME_MAX + 1];
    if (!dir_is_file_name(bucket) || slice_has(bucket, '/') || bucket.len > NAME_MAX)
        return ERR_NO_SUCH_BUCKET;
    snprintf(name, sizeof(name), "%.*s", SLICE_ARG(bucket));
    int fd = dir_open(dir->root, name, O_RDONLY | O_DIRECTORY, true);
    if (fd < 0)
        return err_of_errno(errno, ERR_NO_SUCH_BUCKET);
    *ret_fd = fd;
    return OK;
}

enum err dir_open_file(struct dir_call *call, slice *ret_why)
{
    slice key = call->hook.call->key;
    int bucket;
    enum err e = dir_open_bucket(call, &bucket);
    if (e)
        return e;
    if (!dir_is_file_name(key)) {
        close(bucket);
        *ret_why = S("This origin is a directory of files, and the key is not a valid file name: "
                     "each part between '/' must have 1 to 255 bytes, and not be '.' or '..'");
        return ERR_NO_SUCH_KEY;
    }
    int fd = dir_open(bucket, arena_copy(&call->keep, key).ptr, O_RDONLY | O_NONBLOCK, true);
    int error = errno;
    close(bucket);
    if (fd < 0)
        return err_of_errno(error, ERR_NO_SUCH_KEY);
    if (fstat(fd, &call->file) != 0 || !S_ISREG(call->file.st_mode)) {
        close(fd);
        *ret_why = S("This origin is a directory of files, and the key names a folder or a special "
                     "file there: name a regular file");
        return ERR_NO_SUCH_KEY;
    }
    call->fd = fd;
    return OK;
}

enum err dir_read(struct dir_call *call, char *buffer, size_t bytes, slice *ret)
{
    check(call->at < call->end && bytes > 0);
    bytes = MIN(bytes, call->end - call->at);
    if (call->fd < 0) {
        *ret = slice_sub(call->memory, call->at, bytes);
        return OK;
    }
    ssize_t got;
    do
        got = pread(call->fd, buffer, bytes, (off_t)call->at);
    while (got < 0 && errno == EINTR);
    struct stat now;
    if (got <= 0 || fstat(call->fd, &now) != 0 || !same_file(&now, &call->file))
        return ERR_ORIGIN_CUT;
    *ret = (slice){ buffer, (size_t)got };
    return OK;
}
