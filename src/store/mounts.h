/* mounts.h - finds a file system that should be mounted at or above a path, and is not.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_MOUNTS_H
#define STORE_MOUNTS_H

#include "base/arena.h"

/* The files that say what should be mounted on a machine, and what is mounted. */
struct mounts_files {
    const char *fstab, *mounts;       /* both in the format of fstab */
    const char *booted;                /* if this folder is missing, mount units are ignored */
    /* Folders of mount units, up to a NULL. If several folders have a unit of one name, the first
     * one counts. */
    const char *const *unit_dirs;
    size_t own_dirs;                   /* the first own_dirs folders belong to the administrator;
                                        * in the other ones only a wanted unit counts */
};
extern const struct mounts_files mounts_here;

struct mounts_missing {
    slice point, by;                   /* the mount point, and the file that names it */
};
/* These functions read the files each time. If `mounts` can't be read, mounts_point returns "", and
 * the other two return false. `path` need not exist. */
/* Returns true if a mount point at or above `path` has nothing mounted on it. */
bool mounts_missing(const char *path, const struct mounts_files *files, struct arena *keep,
                    struct mounts_missing *ret) MUST_USE;
/* Returns the mount point of the file system that `path` lies on, in keep. */
slice mounts_point(const char *path, const struct mounts_files *files, struct arena *keep) MUST_USE;
/* Returns true if nothing is mounted on `point` any more. `point` is a result of mounts_point; ""
 * (below a chroot, or while `mounts` can't be read) is never gone. */
bool mounts_gone(slice point, const struct mounts_files *files) MUST_USE;

#endif
