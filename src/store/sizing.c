/* sizing.c - the size of a cache folder if no setting gives it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The size is derived from the free bytes and the bytes of the cache, at each opening of the folder
 * and while it is in use. It is never less than at the opening before. If other programs fill the
 * disk, the cache uses less than its size, so that the reserve stays free. */
#include "store/sizing.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/file.h"
#include "store/folder.h"
#include "store/store.h"

enum err store_space(const char *path, struct store_space *ret)
{
    struct statvfs fs;
    if (statvfs(path, &fs) != 0)
        return ERR_IO;
    *ret = (struct store_space){ .bytes = (uint64_t)fs.f_blocks * fs.f_frsize,
                                 .free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize,
                                 .free_files = fs.f_files ? fs.f_favail : UINT64_MAX };
    return OK;
}

uint64_t sizing_derive(uint64_t kept, uint64_t free, uint64_t own)
{
    uint64_t derived = (free + own) / 10 * 8;
    return MAX(derived >= kept / 8 * 9 ? derived : kept, SIZE_LEAST);
}

/* At least two extents fit into the cache, and an extent takes any record. */
uint32_t sizing_extent(uint64_t size_bytes, uint32_t wish)
{
    uint64_t bytes = wish ? wish : MIN(MAX(size_bytes / 64, 4 * MIB), 64 * MIB);
    bytes = MIN(MIN(bytes, size_bytes / 2), 64 * MIB);
    bytes = round_up(MAX(bytes, 2 * MIB), PAGE_BYTES);
    static_assert(2 * MIB >= RECORD_BYTES_MAX + METADATA_BLOCK_MAX + 3 * PAGE_BYTES,
                  "the smallest extent takes the largest record and a table of contents");
    return (uint32_t)bytes;
}

/* Returns the disk space of the files in one subfolder of a cache folder. */
static uint64_t files_in(const char *folder, const char *inner)
{
    char path[4096];
    uint64_t bytes = 0;
    DIR *dir = snprintf(path, sizeof(path), "%s/%s", folder, inner) < (int)sizeof(path)
        ? opendir(path) : NULL;
    struct dirent *item;
    struct stat st;
    enum err e = OK;    /* after an error, the size is derived from the files before it */
    while (dir && (item = file_next(dir, &e)))
        if (fstatat(dirfd(dir), item->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_blocks * 512;
    if (dir)
        closedir(dir);
    return bytes;
}

uint64_t store_derived_size(const char *folder, const char *on)
{
    struct format format;
    const char *why;
    struct store_space space = { 0 };
    uint64_t kept = folder_peek(folder, &format, &why) == OK ? format.size_bytes : 0;
    uint64_t own = files_in(folder, "extents") + files_in(folder, "index");
    return store_space(on, &space) == OK ? sizing_derive(kept, space.free_bytes, own)
                                         : MAX(kept, SIZE_LEAST);
}
