/* lend.c - bytes of extents that stay in memory. SPDX-License-Identifier: Apache-2.0
 *
 * A block that was read from the disk must be verified before a client gets it. If its pages stay
 * in memory afterwards, the disk can't change it any more. So the extents that are read most, and
 * new ones, are mapped and locked (locker.c). The first reader verifies a block there if the page
 * cache has it; if it had to come from the disk, the thread `lock` does. Readers get no copy: they
 * are lent the bytes in the map, and later ones need no checksum.
 *
 * For each page of the file, the checksum of the block that begins there and was verified is kept.
 * A reader compares it with the checksum in its index entry. So an entry that names another
 * object's block never finds a verified one. (If several small blocks begin in one page, one of
 * them counts.) If all blocks of a read are right, a mark is kept that stands for them together:
 * a look at each block, and at the checksums of a WHOLE record in its header, would touch memory
 * that nothing else needs. In a large cache, that cost a fifth of the CPU time of 128 KiB.
 *
 * Each reader has a lease. A locked extent first refuses new leases, and is unlocked after the last
 * one has ended. Threads: any, under a reference to the extent.
 *
 * An open extent may be locked, too: an append starts at a new page, so no page that was verified
 * changes any more. */
#include <sys/mman.h>
#include <sys/vfs.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/metric.h"
#include "store/extent_inside.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

static void show_to_locker(const struct extent *extent)
{
    _Atomic uint32_t *row = &extent->all->locker.lately[extent->number % EXTENTS_LATELY];
    if (atomic_load_explicit(row, memory_order_relaxed) != extent->number)
        atomic_store_explicit(row, extent->number, memory_order_relaxed);
}

void extent_count_read(struct extent *extent, uint32_t bytes)
{
    /* By bytes, because one read of lent bytes may be as much as four other reads. */
    atomic_fetch_add_explicit(&extent->lock.reads, 1 + bytes / BLOCK_BYTES, memory_order_relaxed);
    show_to_locker(extent);
}

void extent_note_append(struct extent *extent)
{
    atomic_store_explicit(&extent->lock.appended, true, memory_order_relaxed);
    show_to_locker(extent);
}

/* ---- leases ---- */

const uint8_t *extent_lend(struct extent *extent)
{
    atomic_uint *leases = &extent->lock.leases;
    if (!(atomic_load_explicit(leases, memory_order_relaxed) & LOCK_LENDS))
        return NULL;
    if (atomic_fetch_add(leases, 1) & LOCK_LENDS)
        return atomic_load(&extent->map);
    atomic_fetch_sub(leases, 1);    /* it has just begun to refuse */
    return NULL;
}

bool extent_is_lending(const struct extent *extent)
{
    return atomic_load(&extent->lock.leases) & LOCK_LENDS;
}

void extent_lend_end(struct extent *extent)
{
    check((atomic_fetch_sub(&extent->lock.leases, 1) & ~LOCK_LENDS) > 0);
}

static struct lock_page *page_of(const struct extent *extent, uint64_t at)
{
    return &atomic_load_explicit(&extent->lock.pages, memory_order_relaxed)[at / PAGE_BYTES];
}

bool extent_is_verified(const struct extent *extent, uint64_t at, uint32_t crc)
{
    return crc && atomic_load_explicit(&page_of(extent, at)->verified, memory_order_acquire) == crc;
}

bool extent_was_verified(const struct extent *extent, uint64_t at)
{
    return atomic_load_explicit(&page_of(extent, at)->verified, memory_order_relaxed) != 0;
}

void extent_set_verified(struct extent *extent, uint64_t at, uint32_t crc)
{
    atomic_store_explicit(&page_of(extent, at)->verified, crc, memory_order_release);
}

bool extent_is_resident(const struct extent *extent, uint64_t at, uint64_t len)
{
    struct lock_page *page = page_of(extent, at), *last = page_of(extent, at + len - 1);
    while (page <= last && atomic_load_explicit(&page->touched, memory_order_relaxed))
        page++;
    return page > last;
}

bool extent_plan_is_verified(const struct extent *extent, uint64_t at, uint32_t mark)
{
    return atomic_load_explicit(&page_of(extent, at)->touched, memory_order_acquire) ==
           MAX(mark, PAGE_TOUCHED + 1);
}

void extent_set_plan_verified(struct extent *extent, uint64_t at, uint32_t mark)
{
    atomic_store_explicit(&page_of(extent, at)->touched, MAX(mark, PAGE_TOUCHED + 1),
                          memory_order_release);
}

void extent_forget_verified(struct extent *extent)
{
    for (uint64_t at = 0; at < extent->lock.bytes; at += PAGE_BYTES) {
        struct lock_page *page = page_of(extent, at);
        atomic_store_explicit(&page->verified, 0, memory_order_relaxed);
        if (atomic_load_explicit(&page->touched, memory_order_relaxed))
            atomic_store_explicit(&page->touched, PAGE_TOUCHED, memory_order_relaxed);
    }
}

void extent_set_resident(struct extent *extent, uint64_t at, uint64_t len)
{
    struct lock_page *last = page_of(extent, at + len - 1);
    for (struct lock_page *page = page_of(extent, at); page <= last; page++)
        if (!atomic_load_explicit(&page->touched, memory_order_relaxed))
            atomic_store_explicit(&page->touched, PAGE_TOUCHED, memory_order_relaxed);
}

/* ---- locking: one thread ---- */

/* On these file systems, nothing but this machine changes a page in memory. */
static bool file_system_keeps_pages(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 &&
           (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC);
}

uint64_t extent_lock_bytes(const struct extent *extent)
{
    if (!atomic_load(&extent->sealed))
        return extent->map_bytes;
    return MIN(round_up(extent_size(extent), PAGE_BYTES), extent->map_bytes);
}

/* A map is as large as extents are now. This one may be from a time when they were larger. */
bool extent_can_lock(const struct extent *extent)
{
    return file_system_keeps_pages(extent->fd) && extent_size(extent) <= extent->map_bytes;
}

enum err extent_lock(struct extent *extent)
{
    uint64_t bytes = extent_lock_bytes(extent);
    check(extent_can_lock(extent) && !atomic_load(&extent->lock.pages));
    const uint8_t *map = extent_map(extent);
    /* Pages are locked when they are first touched, so the bytes count, but take no memory yet. */
    if (!map)
        return ERR_BUSY;
    if (mlock2((void *)(uintptr_t)map, bytes, MLOCK_ONFAULT) != 0)
        return ERR_LIMIT;
    struct lock_page *pages = must_alloc(bytes / PAGE_BYTES * sizeof(*pages));
    /* A first store into this memory costs a fault, which a loop must not pay. */
    for (size_t at = 0; at < bytes / PAGE_BYTES; at += PAGE_BYTES / sizeof(*pages))
        atomic_store_explicit(&pages[at].touched, 0, memory_order_relaxed);
    extent->lock.bytes = bytes;
    atomic_store(&extent->lock.pages, pages);
    atomic_fetch_or(&extent->lock.leases, LOCK_LENDS);
    metric_gauge_add(M_STORE_LOCKED_BYTES, (int64_t)bytes);
    return OK;
}

void extent_lend_no_more(struct extent *extent)
{
    atomic_fetch_and(&extent->lock.leases, ~LOCK_LENDS);
}

void extent_empty_file(struct extent *extent)
{
    if (ftruncate(extent->fd, 0) == 0)
        atomic_fetch_sub(&extent->all->held_bytes, atomic_exchange(&extent->held_bytes, 0));
}

bool extent_unlock(struct extent *extent)
{
    uint64_t bytes = extent->lock.bytes;
    if (atomic_load(&extent->lock.leases) > 0)
        return false;
    free(atomic_exchange(&extent->lock.pages, NULL));
    check(munlock((void *)(uintptr_t)atomic_load(&extent->map), bytes) == 0);
    metric_gauge_add(M_STORE_LOCKED_BYTES, -(int64_t)bytes);
    return true;
}
