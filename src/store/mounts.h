/* mounts.h - a mount that belongs at or above a path, and is not there.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_MOUNTS_H
#define STORE_MOUNTS_H

#include "base/arena.h"

/* Where a machine says what should be mounted, and what is. */
struct mounts_files {
    const char *fstab, *mountinfo;
    const char *booted;                /* mount units count while this folder is there */
    const char *const *unit_dirs;      /* of mount units, the first that has a name wins; NULL ends */
    size_t own_dirs;    /* so many of them are the administrator's; in others a unit must be wanted */
};
extern const struct mounts_files mounts_here;

struct mounts_missing {
    slice point, by;                   /* the mount point, and the file that names it */
};
/* True if a mount point at or above `path` has nothing mounted on it. `path` need not exist. Where
 * mountinfo can't be read nothing is missing. Reads the files each time. */
bool mounts_missing(const char *path, const struct mounts_files *files, struct arena *keep,
                    struct mounts_missing *ret) MUST_USE;

#endif
