/* open_files.c - opens and closes the files of extents. SPDX-License-Identifier: Apache-2.0
 *
 * Extents use at most a quarter of the process's file descriptors, and at most 4,096, whatever the
 * number of extents. The file of an extent is open while a reader holds the extent. If the extents
 * or the process have no descriptor left, a file that no reader holds is closed. The files take
 * turns at that, and a file that was held since its last turn is spared once (CLOCK). If no
 * file can be closed, the result is ERR_LIMIT, which says nothing about the extent. A second
 * descriptor, for direct reads, is opened only if there is room; it is closed with the first one.
 * So is a map (maps.c).
 *
 * Threads: any. The table's lock guards the descriptors and the clocks. Holding an open file takes
 * no lock: REF_OPEN and the number of references are one word. A file is closed only after that
 * word changed, in one step, from "open, and only the table has a reference" to "closed". The first
 * holder after that sets the descriptor. Files are opened outside of the lock, under folder_lock,
 * which is taken first. */
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "store/disk.h"
#include "store/extent_inside.h"

#define FDS_MAX 4096u
#define FDS_MIN 4u
#define FDS_SHARE 4u                  /* a quarter of the process's limit: connections need more */
#define NAME_BYTES 16u

uint32_t extent_fds_allowed(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return FDS_MIN;
    return (uint32_t)MAX(FDS_MIN, MIN(FDS_MAX, files.rlim_cur / FDS_SHARE));
}

void extent_close_fd(struct extents *all, int fd)
{
    close(fd);
    atomic_fetch_sub(&all->fds, 1);
}

/* Acquire: all earlier holders have finished with the file. */
static bool claim(struct extent *extent)
{
    unsigned idle = REF_OPEN | 1;
    return atomic_compare_exchange_strong_explicit(&extent->refs, &idle, 1, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

void extent_unclaim(struct extent *extent)
{
    atomic_fetch_or_explicit(&extent->refs, REF_OPEN, memory_order_release);
}

/* Makes at most two rounds. The second one also claims extents that were used since their last
 * turn. So readers that use all extents again and again cannot make the search fail. */
struct extent *extent_claim(struct extents *all, enum clock which)
{
    struct list *clock = &all->clocks[which], *first = NULL;
    for (unsigned round = 0; !list_empty(clock);) {
        struct turn *turn = list_of(list_take(clock), struct turn, link);
        list_add(clock, &turn->link);
        round += &turn->link == first;
        if (round == 2)
            break;
        if (!first)
            first = &turn->link;
        bool used = atomic_load_explicit(&turn->used, memory_order_relaxed);
        atomic_store_explicit(&turn->used, false, memory_order_relaxed);
        if ((!used || round > 0) && claim(turn->extent))
            return turn->extent;
    }
    return NULL;
}

bool extent_close_idle(struct extents *all)
{
    int fd = -1, direct_fd = -1;
    uint8_t *map = NULL;
    uint64_t map_bytes = 0;
    pthread_mutex_lock(&all->lock);
    struct extent *extent = extent_claim(all, CLOCK_FILES);
    if (extent) {
        fd = extent->fd;
        extent->fd = -1;
        direct_fd = atomic_exchange(&extent->direct_fd, -1);
        map = extent_take_map(extent);
        map_bytes = extent->map_bytes;
        list_del(&extent->turns[CLOCK_FILES].link);
    }
    pthread_mutex_unlock(&all->lock);
    if (fd >= 0)
        extent_close_fd(all, fd);
    if (direct_fd >= 0)
        extent_close_fd(all, direct_fd);
    extent_unmap(all, map, map_bytes);
    return fd >= 0;
}

static bool reserve_fd(struct extents *all)
{
    if (atomic_fetch_add(&all->fds, 1) < all->fds_max || extent_close_idle(all))
        return true;
    atomic_fetch_sub(&all->fds, 1);
    return false;
}

static void name_of(uint32_t number, char ret[NAME_BYTES])
{
    snprintf(ret, NAME_BYTES, "%08x", number);
}

/* Without O_NOATIME, a read of a file that was written since its last read sets a time in its inode.
 * If the disk hangs, this waits for the file system's journal, even if the page cache has the bytes,
 * and then the loop that reads hangs, too. The kernel refuses the flag if the file is another
 * user's, as all are on some file systems of a network. open() would refuse it only after it has
 * made the file. For a like reason, the kernel must not read ahead: the read of a cached page at which
 * it had planned to read on would begin that, and wait if the queue of the device is full. */
enum err extent_open_file(struct extents *all, uint32_t number, int flags, int *ret)
{
    char name[NAME_BYTES];
    name_of(number, name);
    enum err e;
    do {
        *ret = file_open(all->folder_fd, name, flags);
        e = *ret < 0 ? file_err(errno) : OK;
    } while (e == ERR_LIMIT && extent_close_idle(all));
    if (!e) {
        (void)!fcntl(*ret, F_SETFL, flags | O_NOATIME);
        (void)posix_fadvise(*ret, 0, 0, POSIX_FADV_RANDOM);
    }
    return e;
}

enum err extent_open_old(struct extents *all, uint32_t number, int *ret)
{
    enum err e = extent_open_file(all, number, O_RDWR, ret);
    return e == ERR_IO ? extent_open_file(all, number, O_RDONLY, ret) : e;
}

bool extent_is_lost(struct extents *all, uint32_t number)
{
    char name[NAME_BYTES];
    struct stat st;
    name_of(number, name);
    pthread_rwlock_rdlock(&all->folder_lock);
    bool lost = extent_is_there(all, number) &&
                fstatat(all->folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
    pthread_rwlock_unlock(&all->folder_lock);
    return lost;
}

static bool is_listed(struct extent *extent)
{
    pthread_mutex_lock(&extent->all->lock);
    bool listed = extent_find(extent->all, extent->number) == extent;
    pthread_mutex_unlock(&extent->all->lock);
    return listed;
}

static bool is_open(struct extent *extent)
{
    pthread_mutex_lock(&extent->all->lock);
    bool open = extent->fd >= 0;
    pthread_mutex_unlock(&extent->all->lock);
    return open;
}

/* If another thread has opened the file meanwhile, this descriptor is closed. */
static void set_fd(struct extent *extent, int fd)
{
    struct extents *all = extent->all;
    pthread_mutex_lock(&all->lock);
    bool first = extent->fd < 0;
    if (first) {
        extent->fd = fd;
        extent_unclaim(extent);
    }
    if (first && extent_find(all, extent->number) == extent)
        list_add(&all->clocks[CLOCK_FILES], &extent->turns[CLOCK_FILES].link);
    pthread_mutex_unlock(&all->lock);
    if (!first)
        extent_close_fd(all, fd);
}

/* An extent that has left the table is not opened: the file with its number may belong to another
 * folder now. */
enum err extent_open_held(struct extent *extent)
{
    struct extents *all = extent->all;
    int fd;
    if (is_open(extent))
        return OK;
    if (!reserve_fd(all))
        return ERR_LIMIT;
    pthread_rwlock_rdlock(&all->folder_lock);
    enum err e = is_listed(extent) ? extent_open_old(all, extent->number, &fd) : ERR_NOT_FOUND;
    pthread_rwlock_unlock(&all->folder_lock);
    if (e)
        atomic_fetch_sub(&all->fds, 1);
    else
        set_fd(extent, fd);
    return e == OK || e == ERR_LIMIT ? e : ERR_NOT_FOUND;
}

/* ---- direct reads ---- */

/* Returns false if the file system reports that it has no direct reads, or none of single pages. */
static bool takes_pages(int fd)
{
    struct statx st = { 0 };
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) != 0 ||
        !(st.stx_mask & STATX_DIOALIGN))
        return true;    /* before Linux 6.1 there is no report: the first read will tell */
    return st.stx_dio_offset_align && st.stx_dio_offset_align <= DISK_ALIGN &&
           st.stx_dio_mem_align <= DISK_ALIGN;
}

void extent_refuse_direct(struct extents *all)
{
    atomic_store(&all->direct_refused, true);
}

/* Opens the file for direct reads. The caller has reserved the descriptor. */
static int open_direct(struct extent *extent)
{
    struct extents *all = extent->all;
    int fd = -1;
    pthread_rwlock_rdlock(&all->folder_lock);
    enum err e = is_listed(extent) ? extent_open_file(all, extent->number, O_RDONLY | O_DIRECT, &fd)
                                   : ERR_NOT_FOUND;
    pthread_rwlock_unlock(&all->folder_lock);
    if (e == ERR_IO && errno == EINVAL)
        extent_refuse_direct(all);
    if (e || takes_pages(fd))
        return fd;
    extent_refuse_direct(all);
    close(fd);
    return -1;
}

int extent_direct_fd(struct extent *extent)
{
    struct extents *all = extent->all;
    int fd = atomic_load(&extent->direct_fd), none = -1;
    if (atomic_load_explicit(&all->direct_refused, memory_order_relaxed))
        return -1;
    if (fd >= 0 || !reserve_fd(all))
        return fd;
    fd = open_direct(extent);
    if (fd < 0)
        atomic_fetch_sub(&all->fds, 1);
    else if (!atomic_compare_exchange_strong(&extent->direct_fd, &none, fd))
        extent_close_fd(all, fd);
    return atomic_load(&extent->direct_fd);
}
