/* clean.c - the mark of a clean stop. SPDX-License-Identifier: Apache-2.0
 *
 * If an older copy of the folder is put back, at least one of these changes:
 *   - cp, rsync, tar, a restored backup: the inodes; if files are overwritten in place, their
 *     change times, which no program can set back;
 *   - a folder moved away and back: the change time of the folder itself;
 *   - a snapshot of another subvolume or volume: the device;
 *   - a machine rolled back or cloned: the boot.
 * Three cases are not noticed (penstock-operating(7)): a volume that is rolled back while the
 * machine runs on; a folder that was not used while Penstock ran with other folders; and a process
 * during which all cache folders were out of service. If a valid mark is rejected, each object
 * costs one call to the origin, so in doubt the mark is rejected.
 *
 * The mark is made as an empty file, and then filled in place, which does not change the time of
 * the folder any more. An empty mark is rejected: it is left by a crash, or by an older
 * Penstock. */
#include "store/clean.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/guard.h"

#define BOOT_BYTES 40u
#define BOOT_FILE "/proc/sys/kernel/random/boot_id"

#define ON_DISK struct __attribute__((packed))

ON_DISK disk_place {
    uint64_t device, inode;
    int64_t changed_s;
    uint64_t changed_ns;
};
enum { FOLDER, LOCK, FORMAT, INDEX, PLACES };
ON_DISK disk_clean {
    char magic[8];
    uint32_t version, page_bytes;
    char boot[BOOT_BYTES];
    uint64_t opening;
    struct disk_place places[PLACES];
    uint64_t transaction, root, last_page;
    uint32_t meta_crc[2];
    uint32_t zero, crc;               /* of all before */
};
static_assert(sizeof(struct disk_clean) == 232, "on disk");

static const char clean_magic[8] = "PENCLEAN";
static const char *const names[PLACES] = { ".", "lock", "format", "index/data.mdb" };

static bool read_boot(char ret[BOOT_BYTES])
{
    int fd = open(BOOT_FILE, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, ret, BOOT_BYTES - 1);
    if (fd >= 0)
        close(fd);
    return len > 0;
}

static bool read_places(int folder, struct disk_place places[PLACES])
{
    for (size_t i = 0; i < PLACES; i++) {
        struct stat st;
        if (fstatat(folder, names[i], &st, 0) != 0)
            return false;
        places[i] = (struct disk_place){ .device = st.st_dev, .inode = st.st_ino,
                                         .changed_s = st.st_ctim.tv_sec,
                                         .changed_ns = (uint64_t)st.st_ctim.tv_nsec };
    }
    return true;
}

/* Makes the mark that would be valid now. */
static bool make(int folder, uint64_t opening, const struct metas *metas, struct disk_clean *ret)
{
    *ret = (struct disk_clean){ .version = 1, .page_bytes = metas->page_bytes, .opening = opening,
                                .transaction = metas->transaction, .root = metas->root,
                                .last_page = metas->last_page,
                                .meta_crc = { metas->crc[0], metas->crc[1] } };
    memcpy(ret->magic, clean_magic, sizeof(clean_magic));
    if (!read_boot(ret->boot) || !read_places(folder, ret->places))
        return false;
    ret->crc = crc32c(0, ret, offsetof(struct disk_clean, crc));
    return true;
}

static enum err fill(int folder, int fd, uint64_t opening, const struct metas *metas)
{
    struct disk_clean clean;
    if (fsync(folder) != 0 || !make(folder, opening, metas, &clean))
        return ERR_IO;
    if (failpoint(FAIL_CLEAN_LEAVE) || write(fd, &clean, sizeof(clean)) != sizeof(clean) ||
        fsync(fd) != 0)
        return errno == ENOSPC || errno == EDQUOT ? ERR_FULL : ERR_IO;
    return OK;
}

enum err clean_leave(int folder, uint64_t opening, const struct metas *metas)
{
    int fd = file_make_new(folder, "clean");
    enum err e = fd < 0 ? ERR_IO : fill(folder, fd, opening, metas);
    if (fd >= 0) {
        close(fd);
        if (e)
            unlinkat(folder, "clean", 0);
    }
    return e;
}

static bool read_mark(int folder, struct disk_clean *ret)
{
    int fd = file_open(folder, "clean", O_RDONLY);
    ssize_t len = fd < 0 ? -1 : pread(fd, ret, sizeof(*ret), 0);
    if (fd >= 0)
        close(fd);
    return len == sizeof(*ret) && ret->crc == crc32c(0, ret, offsetof(struct disk_clean, crc));
}

static bool holds(int folder, uint64_t opening)
{
    struct disk_clean clean, now;
    struct metas metas;
    return read_mark(folder, &clean) &&
           metas_read_file(folder, names[INDEX], clean.page_bytes, &metas) == OK &&
           make(folder, opening, &metas, &now) && memcmp(&clean, &now, sizeof(now)) == 0;
}

bool clean_take(int folder, uint64_t opening)
{
    bool clean = !guard_on(GUARD_MARK) || holds(folder, opening);
    (void)failpoint(FAIL_CLEAN_TAKE);
    return unlinkat(folder, "clean", 0) == 0 && clean;
}

bool clean_look(int folder, uint64_t opening, bool *ret_there)
{
    *ret_there = faccessat(folder, "clean", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    return holds(folder, opening);
}
