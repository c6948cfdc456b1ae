/* maps.c - the maps of extents. SPDX-License-Identifier: Apache-2.0
 *
 * When a large read first finds an extent's bytes in the page cache, the whole extent is mapped, up
 * to the largest size that its file can get. The map is removed when the descriptor is closed.
 * Until then, each page that was touched takes eight bytes of page table, which the kernel cannot
 * reclaim. So mapped bytes have a limit: the volume's share of the process's memory. Beyond the
 * limit, the map of an extent that no reader holds is removed; the maps take turns as open files
 * do. If address space is limited (ulimit -v), no extent is mapped, because maps would take the
 * address space that other memory needs. Without a map, bytes are read.
 *
 * Touching a page that is not in memory would wait for the disk. So the kernel is asked first
 * whether all pages are there. mincore is not enough, because a page in the page cache may still be
 * on its way from the disk.
 *
 * Threads: any. A map is made and used under a reference to the extent. It is taken from the extent
 * with the last reference, or under the table's lock, from an extent that was claimed. */
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/metric.h"
#include "store/disk.h"
#include "store/extent_inside.h"

uint64_t extent_mapped_allowed(uint64_t memory_bytes)
{
    struct rlimit space;
    bool limited = getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur != RLIM_INFINITY;
    return limited ? 0 : memory_bytes;
}

static void let_go(struct extents *all, uint64_t bytes)
{
    atomic_fetch_sub(&all->mapped.bytes, bytes);
    metric_gauge_add(M_STORE_MAPPED_BYTES, -(int64_t)bytes);
}

void extent_unmap(struct extents *all, uint8_t *map, uint64_t bytes)
{
    if (!map)
        return;
    check(munmap(map, bytes) == 0);
    let_go(all, bytes);
}

uint8_t *extent_take_map(struct extent *extent)
{
    list_del(&extent->turns[CLOCK_MAPS].link);
    return atomic_exchange(&extent->map, NULL);
}

static bool unmap_idle(struct extents *all)
{
    uint8_t *map = NULL;
    uint64_t bytes = 0;
    pthread_mutex_lock(&all->lock);
    struct extent *extent = extent_claim(all, CLOCK_MAPS);
    if (extent) {
        bytes = extent->map_bytes;
        map = extent_take_map(extent);
        extent_unclaim(extent);    /* its file stays open */
    }
    pthread_mutex_unlock(&all->lock);
    extent_unmap(all, map, bytes);
    return map != NULL;
}

static bool reserve(struct extents *all, uint64_t bytes)
{
    do {
        metric_gauge_add(M_STORE_MAPPED_BYTES, (int64_t)bytes);
        if (atomic_fetch_add(&all->mapped.bytes, bytes) + bytes <= all->mapped.bytes_max)
            return true;
        let_go(all, bytes);
    } while (unmap_idle(all));
    return false;
}

/* Gives the extent a map, unless another thread has mapped it meanwhile. An extent that has left
 * the table does not join the clock: its last reference removes the map. */
static void set_map(struct extent *extent, uint8_t *map)
{
    struct extents *all = extent->all;
    pthread_mutex_lock(&all->lock);
    bool first = !atomic_load(&extent->map);
    if (first)
        atomic_store(&extent->map, map);
    if (first && extent_find(all, extent->number) == extent)
        list_add(&all->clocks[CLOCK_MAPS], &extent->turns[CLOCK_MAPS].link);
    pthread_mutex_unlock(&all->lock);
    if (!first)
        extent_unmap(all, map, extent->map_bytes);
}

const uint8_t *extent_map(struct extent *extent)
{
    const uint8_t *map = atomic_load(&extent->map);
    if (map || !reserve(extent->all, extent->map_bytes))
        return map;
    uint8_t *fresh = mmap(NULL, extent->map_bytes, PROT_READ, MAP_SHARED, extent->fd, 0);
    if (fresh == MAP_FAILED) {
        let_go(extent->all, extent->map_bytes);
        return NULL;
    }
    set_map(extent, fresh);
    return atomic_load(&extent->map);
}

static bool is_in_memory(const uint8_t *at, uint64_t len)
{
    unsigned char pages[256];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)at % page;
    at -= before;
    for (uint64_t left = round_up(len + before, page); left > 0;) {
        uint64_t part = MIN(left, sizeof(pages) * page);
        if (mincore((void *)(uintptr_t)at, part, pages) != 0)
            return false;
        for (uint64_t i = 0; i < part / page; i++)
            if (!(pages[i] & 1))
                return false;
        at += part;
        left -= part;
    }
    return true;
}

const uint8_t *extent_cached(struct extent *extent, uint64_t at, uint64_t len)
{
    if (at > extent->map_bytes || len > extent->map_bytes - at)
        return NULL;
    if (!atomic_load(&extent->map) && !disk_is_cached(extent->fd, at, len))
        return NULL;    /* a map would be of no use yet */
    const uint8_t *map = extent_map(extent);
    metric_add(M_STORE_NO_MAP, map == NULL);
    return map && is_in_memory(map + at, len) ? map + at : NULL;
}
