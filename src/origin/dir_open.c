/* dir_open.c - opens a path beneath a folder, and nothing outside it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The system call openat2 does this, whatever links and renames there are. But Linux before 5.6
 * lacks it. systemd (RestrictSUIDSGID=yes, which DynamicUser=yes implies) and the seccomp profiles
 * of some containers forbid it. The answer is then ENOSYS or EPERM, and this file walks the path
 * itself: openat opens one name at a time, from a descriptor of the directory before it.
 *
 * The kernel follows no link and no ".." on this walk (O_NOFOLLOW). The walk replaces the name of
 * a link by the link's target, and goes on in the same directory. It removes ".." from the path
 * together with the name before it, and starts again at the folder: the parent of a directory that
 * was moved meanwhile may lie outside. So each descriptor was opened by the name of an entry of a
 * directory beneath the folder, or is the folder itself. Errors are those of openat2. With the
 * targets of its links, a path may have at most PATH_MAX bytes. */
#include "origin/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINKS_MAX 40                /* of a path, as in the kernel */
#define RENAMES_MAX 16              /* seen on a walk */
#define MORE (-2)                   /* in place of a descriptor: the walk goes on */

struct steps {
    int folder, dir;                /* path[0] to path[at - 1] leads from the one to the other */
    char path[PATH_MAX];            /* names of directories up to `at`; any names after it */
    size_t at;
    int flags;
    bool follow;
    int links, renames;
};

static int failed(int error)
{
    errno = error;
    return -1;
}

/* Takes the descriptor of a directory, and closes the one that was used before. */
static void enter(struct steps *steps, int dir)
{
    if (steps->dir != steps->folder)
        close(steps->dir);
    steps->dir = dir;
}

/* Replaces the part of the path from `from` to `to`. Names before `from` stay where they are. */
static int replace(struct steps *steps, size_t from, size_t to, slice with)
{
    size_t rest = strlen(steps->path + to) + 1;
    if (from + with.len + rest > sizeof(steps->path))
        return failed(ENAMETOOLONG);
    memmove(steps->path + from + with.len, steps->path + to, rest);
    slice_put(steps->path + from, with);
    return MORE;
}

/* `at` is at "..". Removes it, and any ".." right after it, each with a name before it. */
static int go_up(struct steps *steps)
{
    size_t from = steps->at, to = steps->at;
    do {
        if (from == 0)
            return failed(EXDEV);
        do
            from--;
        while (from > 0 && steps->path[from - 1] != '/');
        to += steps->path[to + 2] ? 3 : 2;
    } while (steps->path[to] == '.' && steps->path[to + 1] == '.' &&
             (steps->path[to + 2] == '/' || steps->path[to + 2] == '\0'));
    enter(steps, steps->folder);
    steps->at = 0;
    return replace(steps, from, to, S(""));
}

/* openat has failed with `error`, as it does for a link. */
static int follow_link(struct steps *steps, const char *name, int error)
{
    char target[PATH_MAX];
    ssize_t len = readlinkat(steps->dir, name, target, sizeof(target));
    if (len < 0 && errno == EINVAL)    /* no link; but it was one if a rename has replaced it */
        return ++steps->renames < RENAMES_MAX ? MORE : failed(error);
    if (len < 0)
        return -1;
    if (!steps->follow || steps->links++ >= LINKS_MAX)
        return failed(ELOOP);
    if (len > 0 && target[0] == '/')
        return failed(EXDEV);
    return replace(steps, steps->at, steps->at + strlen(name), (slice){ target, (size_t)len });
}

static int open_name(int dir, const char *name, int flags)
{
    int fd;
    do
        fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    struct stat file;
    if (fd < 0 || !(flags & O_PATH) || (fstat(fd, &file) == 0 && !S_ISLNK(file.st_mode)))
        return fd;
    close(fd);    /* O_PATH opens a link itself */
    return failed(ELOOP);
}

/* Returns the descriptor at the end of the path, MORE, or -1 with errno set. */
static int step(struct steps *steps)
{
    char name[NAME_MAX + 1];
    const char *from = steps->path + steps->at;
    slice part = { from, strcspn(from, "/") };
    bool last = from[part.len] == '\0';
    if (slice_eq(part, S("..")))
        return go_up(steps);
    if (part.len == 0)    /* as in "a//b", or after the last '/' */
        part = S(".");
    if (slice_eq(part, S(".")) && !last)
        return replace(steps, steps->at, steps->at + strcspn(from, "/") + 1, S(""));
    if (part.len > NAME_MAX)
        return failed(ENAMETOOLONG);
    name[slice_put(name, part)] = '\0';
    int fd = open_name(steps->dir, name, last ? steps->flags : O_PATH | O_DIRECTORY);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return follow_link(steps, name, errno);
    if (fd < 0 || last)
        return fd;
    enter(steps, fd);
    steps->at += part.len + 1;
    return MORE;
}

static int open_by_steps(int folder, const char *path, int flags, bool follow)
{
    struct steps steps = { .folder = folder, .dir = folder, .flags = flags, .follow = follow };
    size_t len = strlen(path);
    if (len >= sizeof(steps.path))
        return failed(ENAMETOOLONG);
    if (len == 0 || path[0] == '/')
        return failed(len ? EXDEV : ENOENT);
    memcpy(steps.path, path, len + 1);
    int fd;
    do
        fd = step(&steps);
    while (fd == MORE);
    int error = errno;
    enter(&steps, folder);
    errno = error;
    return fd;
}

int dir_open(int at, const char *path, int flags, bool follow)
{
    flags |= O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY);
    struct open_how how = {
        .flags = (uint64_t)flags,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (follow ? 0 : RESOLVE_NO_SYMLINKS),
    };
    long fd;
    int tries = 0;
    do    /* EAGAIN: a directory on the path was just renamed */
        fd = syscall(SYS_openat2, at, path, &how, sizeof(how));
    while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < 16)));
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        return open_by_steps(at, path, flags, follow);
    return (int)fd;
}
