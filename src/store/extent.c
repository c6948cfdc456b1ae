/* extent.c - append-only files of records: the table of them. SPDX-License-Identifier: Apache-2.0
 *
 * The table holds one reference to each extent. A reader finds an extent and takes its reference in
 * a read epoch, without a lock (rule H1 in src/README.md). Dropping an extent unlinks the file,
 * takes the extent out of the table, and gives the table's reference back after all read epochs of
 * that time have ended. So no reader adds a reference to an extent that has none. When the last
 * reference goes, the descriptor is closed, and the bytes are no longer counted.
 *
 * A new extent has the highest number of all files + 1. So the file with the highest number is
 * never unlinked before a higher one exists, and an address in a recycled extent finds nothing
 * instead of other bytes. A foreign file far above all extents does not count (note_number). Files
 * may be lost while Penstock does not run. So the index and the file `bans` note numbers, too, and
 * an opening takes the highest of all.
 *
 * open_extent.c writes extents, contents.c reads their tables of contents, and open_files.c chooses
 * the files that are open.
 *
 * All readers of an extent share its counter of references. If two threads on two processors hold
 * and release one extent every 5 us, they take 70 to 160 ns each time; one thread alone takes 31
 * ns. A hit of 4 KiB takes 28 us, so counters per thread would gain less than half a percent.
 *
 * Threads: the chains change under the lock. References, times, and functions that extent.h marks
 * are for any thread. The recycler opens the copy. All else is for the committer. */
#include "store/extent.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/metric.h"
#include "base/raise.h"
#include "store/extent_inside.h"
#include "store/record_set.h"


/* ---- the table ---- */

struct extents *extents_new(uint64_t memory_bytes)
{
    struct extents *all = must_alloc(sizeof(*all));
    pthread_mutex_init(&all->lock, NULL);
    pthread_rwlock_init(&all->folder_lock, NULL);
    pthread_mutex_init(&all->toc_lock, NULL);
    for (size_t i = 0; i < CLOCK_COUNT; i++)
        list_init(&all->clocks[i]);
    list_init(&all->files.staging_list);
    all->epochs = read_epochs_new();
    all->mapped.bytes_max = extent_mapped_allowed(memory_bytes);
    all->fds_max = extent_fds_allowed();
    all->folder_fd = -1;
    for (size_t i = 0; i < OPEN_COUNT; i++)
        all->opens[i] = must_alloc(sizeof(*all->opens[i]));
    return all;
}

void extents_free(struct extents **all)
{
    if (!*all)
        return;
    extents_close(*all);
    read_epochs_free(&(*all)->epochs);
    pthread_rwlock_destroy(&(*all)->folder_lock);
    pthread_mutex_destroy(&(*all)->toc_lock);
    pthread_mutex_destroy(&(*all)->lock);
    for (size_t i = 0; i < OPEN_COUNT; i++)
        free((*all)->opens[i]);
    free(*all);
    *all = NULL;
}

/* Finds the pointer to the extent, or the NULL at the end of its chain. */
static _Atomic(struct extent *) *place_of(struct extents *all, uint32_t number)
{
    _Atomic(struct extent *) *at = &all->chains[number % CHAINS];
    for (struct extent *extent; (extent = atomic_load(at)) && extent->number != number;)
        at = &extent->next;
    return at;
}

struct extent *extent_find(struct extents *all, uint32_t number)
{
    struct extent *at = atomic_load(&all->chains[number % CHAINS]);
    while (at && at->number != number)
        at = atomic_load(&at->next);
    return at;
}

bool extent_is_there(struct extents *all, uint32_t number)
{
    struct read_epoch *epoch = read_epoch_enter(all->epochs);
    bool there = extent_find(all, number) != NULL;
    read_epoch_leave(epoch);
    return there;
}

struct ages *extent_ages(struct extents *all, uint32_t number)
{
    struct extent *extent = extent_find(all, number);
    return extent ? extent->ages : NULL;
}

/* Returns NULL if there is no such extent. The acquire order pairs with the release of REF_OPEN: a
 * holder that sees REF_OPEN sees the descriptor. */
static struct extent *take_ref(struct extents *all, uint32_t number, bool *ret_open)
{
    struct read_epoch *epoch = read_epoch_enter(all->epochs);
    struct extent *extent = extent_find(all, number);
    unsigned before = 0;
    if (extent)
        before = atomic_fetch_add_explicit(&extent->refs, 1, memory_order_acquire);
    read_epoch_leave(epoch);
    *ret_open = before & REF_OPEN;
    return extent;
}

/* Writes only what changes, so that the holders of one extent keep the line in their caches. */
static void note_use(struct extent *extent)
{
    for (size_t i = 0; i < CLOCK_COUNT; i++)
        if (!atomic_load_explicit(&extent->turns[i].used, memory_order_relaxed))
            atomic_store_explicit(&extent->turns[i].used, true, memory_order_relaxed);
}

struct extent *extent_ref(struct extents *all, uint32_t number)
{
    bool open;
    return take_ref(all, number, &open);
}

struct ages *extent_ages_of(const struct extent *extent)
{
    return extent->ages;
}

void extent_touch(const struct extent *extent, uint32_t ordinal, uint8_t stamp)
{
    ages_touch(extent->ages, ordinal, stamp);
}

enum err extent_hold(struct extents *all, uint32_t number, struct extent **ret)
{
    bool open;
    struct extent *extent = take_ref(all, number, &open);
    if (extent)
        note_use(extent);
    bool usable = extent && atomic_load_explicit(&extent->version, memory_order_acquire);
    enum err e = !usable ? ERR_NOT_FOUND : open ? OK : extent_open_held(extent);
    if (e == ERR_LIMIT)
        metric_add(M_STORE_NO_FD, 1);
    if (e)
        extent_release(&extent);
    *ret = extent;
    return e;
}

enum err extent_hold_record(struct extents *all, uint32_t number, uint32_t ordinal,
                            struct extent **ret)
{
    enum err e = extent_hold(all, number, ret);
    if (e || ordinal < extent_rows(*ret))
        return e;
    extent_release(ret);
    return ERR_NOT_FOUND;
}

uint32_t extent_rows(const struct extent *extent)
{
    return atomic_load_explicit(&extent->rows, memory_order_acquire);
}

void extent_limit_rows(struct extent *extent, uint32_t rows)
{
    uint32_t before = extent_rows(extent);
    while (before > rows && !atomic_compare_exchange_weak(&extent->rows, &before, rows))
        ;
}

void extent_release(struct extent **held)
{
    struct extent *extent = *held;
    *held = NULL;
    if (!extent)
        return;
    unsigned before = atomic_fetch_sub_explicit(&extent->refs, 1, memory_order_acq_rel);
    check((before & ~REF_OPEN) > 0);
    if ((before & ~REF_OPEN) > 1)
        return;
    extent_unmap(extent->all, atomic_load(&extent->map), extent->map_bytes);
    if (extent->fd >= 0)
        extent_close_fd(extent->all, extent->fd);
    if (atomic_load(&extent->direct_fd) >= 0)
        extent_close_fd(extent->all, atomic_load(&extent->direct_fd));
    atomic_fetch_sub(&extent->all->bytes, atomic_load(&extent->bytes));
    atomic_fetch_sub(&extent->all->held_bytes, atomic_load(&extent->held_bytes));
    for (size_t i = 0; i < MARK_COUNT * TIME_CHUNKS; i++)
        free(atomic_load_explicit(&extent->times[i / TIME_CHUNKS][i % TIME_CHUNKS],
                                  memory_order_relaxed));
    ages_free(&extent->ages);
    free((void *)(uintptr_t)atomic_load(&extent->staged.set));
    free(extent);
}

bool extent_is_staging(const struct extent *extent)
{
    return atomic_load_explicit(&extent->kind, memory_order_relaxed) == EXTENT_STAGING &&
           atomic_load_explicit(&extent->version, memory_order_relaxed);
}

void extent_keep_reads(struct extent *extent)
{
    check(!atomic_load(&extent->staged.set));
    atomic_store(&extent->staged.set, must_alloc(record_set_bytes(ages_limit(extent->ages))));
}

void extent_note_read(struct extent *extent, uint32_t ordinal)
{
    struct extent_staged *staged = &extent->staged;
    _Atomic uint64_t *set = atomic_load_explicit(&staged->set, memory_order_acquire);
    if (!set || ordinal >= ages_limit(extent->ages) || record_set_has(set, ordinal))
        return;
    if (record_set_put(set, ordinal))    /* several readers may come at once */
        atomic_fetch_add_explicit(&staged->count, 1, memory_order_relaxed);
}

uint32_t extent_records_read(const struct extent *extent)
{
    const struct extent_staged *staged = &extent->staged;
    return atomic_load(&staged->set) ? atomic_load_explicit(&staged->count, memory_order_relaxed)
                                     : UINT32_MAX;
}

int extent_fd(const struct extent *extent)
{
    return extent->fd;
}

uint64_t extent_size(const struct extent *extent)
{
    return atomic_load_explicit(&extent->bytes, memory_order_acquire);
}

uint64_t extents_bytes(const struct extents *all)
{
    return atomic_load_explicit(&all->bytes, memory_order_relaxed);
}

uint64_t extents_held_bytes(const struct extents *all)
{
    return atomic_load_explicit(&all->held_bytes, memory_order_relaxed);
}

uint64_t extents_linked_bytes(struct extents *all)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < CHAINS; i++)
        for (struct extent *at = atomic_load(&all->chains[i]); at; at = atomic_load(&at->next))
            bytes += extent_size(at);
    pthread_mutex_unlock(&all->lock);
    return bytes;
}

uint64_t extents_live_bytes(struct extents *all)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < CHAINS; i++)
        for (struct extent *at = atomic_load(&all->chains[i]); at; at = atomic_load(&at->next))
            bytes += ages_live_bytes(at->ages);
    pthread_mutex_unlock(&all->lock);
    return bytes;
}

uint64_t extents_appended(const struct extents *all)
{
    return atomic_load_explicit(&all->appended, memory_order_relaxed);
}

uint32_t extents_count(const struct extents *all)
{
    return atomic_load_explicit(&all->files.count, memory_order_relaxed);
}

uint32_t extents_unopened(const struct extents *all)
{
    return atomic_load(&all->files.unopened);
}

uint32_t extents_damaged(const struct extents *all, uint32_t *ret_last)
{
    uint32_t count = atomic_load(&all->files.damaged);
    *ret_last = atomic_load(&all->files.damaged_last);
    return count;
}

uint32_t extents_unusable(const struct extents *all)
{
    return atomic_load(&all->files.unusable);
}

bool extents_is_unusable(struct extents *all, uint32_t number)
{
    if (!extents_unusable(all))
        return false;
    struct extent *extent = extent_ref(all, number);
    bool unusable = extent && extent_is_unusable(extent);
    extent_release(&extent);
    return unusable;
}

uint32_t extents_staging(const struct extents *all)
{
    return atomic_load(&all->files.staging);
}

uint64_t extents_staging_bytes(const struct extents *all)
{
    return atomic_load(&all->files.staging_bytes);
}

void extents_note_staging(struct extent *extent)
{
    struct extent_files *files = &extent->all->files;
    if (!extent_is_staging(extent))
        return;
    pthread_mutex_lock(&extent->all->lock);
    list_add(&files->staging_list, &extent->staged.link);
    atomic_fetch_add(&files->staging, 1);
    atomic_fetch_add(&files->staging_bytes, extent_size(extent));
    pthread_mutex_unlock(&extent->all->lock);
}

bool extents_is_staging(struct extents *all, uint32_t number)
{
    struct extent *extent = extent_ref(all, number);
    bool staging = extent && extent_is_staging(extent);
    extent_release(&extent);
    return staging;
}

uint32_t extents_highest(const struct extents *all)
{
    return atomic_load(&all->files.highest);
}

void extents_raise_highest(struct extents *all, uint32_t number)
{
    raise_32(&all->files.highest, number);
    if (extents_highest(all) >= EXTENT_NUMBER_FAR)
        raise_32(&all->files.highest, all->files.far);
}

bool extents_take_number(struct extents *all, uint32_t *ret)
{
    unsigned highest = atomic_load(&all->files.highest);
    do
        if (highest >= EXTENT_NUMBER_MAX)
            return false;
    while (!atomic_compare_exchange_weak(&all->files.highest, &highest, highest + 1));
    *ret = highest + 1;
    return true;
}

void extents_give_number(struct extents *all, uint32_t number)
{
    unsigned highest = number;
    (void)atomic_compare_exchange_strong(&all->files.highest, &highest, number - 1);
}

static struct extent *new_extent(struct extents *all, uint32_t number, int fd, uint64_t bytes)
{
    struct extent *extent = aligned_alloc(_Alignof(struct extent), sizeof(*extent));
    check(extent != NULL);
    memset(extent, 0, sizeof(*extent));
    extent->all = all;
    extent->number = number;
    extent->fd = fd;
    atomic_init(&extent->direct_fd, -1);
    for (size_t i = 0; i < CLOCK_COUNT; i++) {
        list_init(&extent->turns[i].link);
        extent->turns[i].extent = extent;
    }
    list_init(&extent->staged.link);
    extent->map_bytes = all->extent_bytes;
    atomic_init(&extent->rows, ROWS_UNKNOWN);
    atomic_init(&extent->refs, REF_OPEN | 2);    /* one of the table, one of the caller */
    atomic_init(&extent->bytes, bytes);
    return extent;
}

/* Returns the number of records that the extent has, if its footer says it, or else the largest
 * number that it can get. An unusable extent has none. */
static uint32_t most_records(const struct extent *extent)
{
    uint64_t bytes = MIN(MAX(extent_size(extent), extent->all->extent_bytes), EXTENT_FILE_MAX);
    uint32_t most = (uint32_t)(bytes / RECORD_BYTES_MIN);
    static_assert(EXTENT_FILE_MAX / RECORD_BYTES_MIN <= AGES_RECORDS_MAX,
                  "struct ages has room for all records of the largest extent");
    return extent_is_unusable(extent) ? 0 : MIN(most, extent_rows(extent));
}

struct extent *extent_add(struct extents *all, uint32_t number, int fd, uint64_t bytes, bool old)
{
    static_assert(ROWS_UNKNOWN == UINT32_MAX, "ROWS_UNKNOWN is more rows than any extent has");
    struct extent *extent = new_extent(all, number, fd, bytes);
    if (old)
        extent_recognize(extent);
    extent->ages = ages_new(most_records(extent));
    atomic_fetch_add(&all->bytes, bytes);
    atomic_fetch_add(&all->files.count, 1);
    pthread_mutex_lock(&all->lock);
    _Atomic(struct extent *) *at = place_of(all, number);
    check(atomic_load(at) == NULL && number > 0 && number <= EXTENT_NUMBER_MAX);
    atomic_store(at, extent);
    list_add(&all->clocks[CLOCK_FILES], &extent->turns[CLOCK_FILES].link);
    pthread_mutex_unlock(&all->lock);
    if (atomic_fetch_add(&all->fds, 1) >= all->fds_max)
        extent_close_idle(all);
    return extent;
}

void extent_grew(struct extent *extent, uint64_t bytes)
{
    atomic_fetch_add(&extent->all->bytes, bytes);
    atomic_fetch_add_explicit(&extent->bytes, bytes, memory_order_release);
    if (extent_is_staging(extent))
        atomic_fetch_add(&extent->all->files.staging_bytes, bytes);
}

static void unlist(struct extents *all, uint32_t number)
{
    pthread_mutex_lock(&all->lock);
    _Atomic(struct extent *) *at = place_of(all, number);
    struct extent *extent = atomic_load(at);
    if (extent) {
        atomic_store(at, atomic_load(&extent->next));
        for (size_t i = 0; i < CLOCK_COUNT; i++)
            list_del(&extent->turns[i].link);
        list_del(&extent->staged.link);
    }
    pthread_mutex_unlock(&all->lock);
    if (!extent)
        return;
    atomic_fetch_sub(&all->files.count, 1);
    atomic_fetch_sub(&all->files.unusable, extent_is_unusable(extent));
    if (extent_is_staging(extent)) {
        atomic_fetch_sub(&all->files.staging, 1);
        atomic_fetch_sub(&all->files.staging_bytes, extent_size(extent));
    }
    atomic_store(&extent->held_bytes, extent_size(extent));
    atomic_fetch_add(&all->held_bytes, extent_size(extent));
    read_epochs_wait(all->epochs);    /* H1: a reader may have found it before */
    extent_release(&extent);
    if (all->locker.dropped)
        all->locker.dropped(all->locker.arg);
}

bool extent_remove_file(struct extents *all, uint32_t number)
{
    char name[24];
    snprintf(name, sizeof(name), "%08x", number);
    bool gone = unlinkat(all->folder_fd, name, 0) == 0 || errno == ENOENT;
    snprintf(name, sizeof(name), "../ages/%08x", number);
    (void)!unlinkat(all->folder_fd, name, 0);    /* the next opening removes it */
    return gone;
}

void extent_drop(struct extents *all, uint32_t number)
{
    (void)failpoint(FAIL_DROP);
    bool gone = extent_remove_file(all, number);
    (void)failpoint(FAIL_DROPPED);
    if (!gone)    /* purges stay in force for it (sweep.c), so it counts before it leaves the table */
        atomic_fetch_add(&all->files.unopened, 1);
    unlist(all, number);
}

/* ---- times and grants ---- */

/* Returns the number of the chunk that has the record, and changes *ordinal to the record's ordinal
 * in this chunk. Chunk k has TIMES_A_CHUNK << k records, so an extent of few records needs little
 * memory. */
static uint32_t chunk_of(uint32_t *ordinal)
{
    uint32_t chunk = 31 - (uint32_t)__builtin_clz(*ordinal / TIMES_A_CHUNK + 1);
    *ordinal -= ((1u << chunk) - 1) * TIMES_A_CHUNK;
    return chunk;
}

/* If `make`, the place is made if it is missing. */
static _Atomic uint32_t *mark_place(struct extent *extent, enum mark which, uint32_t ordinal,
                                    bool make)
{
    uint32_t number = chunk_of(&ordinal);
    if (number >= TIME_CHUNKS)
        return NULL;    /* the fact stays unknown, so the origin is asked again */
    _Atomic(_Atomic uint32_t *) *place = &extent->times[which][number];
    _Atomic uint32_t *chunk = atomic_load_explicit(place, memory_order_acquire);
    if (!chunk && make) {
        _Atomic uint32_t *fresh = must_alloc(((size_t)TIMES_A_CHUNK << number) * sizeof(*fresh));
        if (atomic_compare_exchange_strong(place, &chunk, fresh))
            chunk = fresh;
        else
            free(fresh);
    }
    return chunk ? &chunk[ordinal] : NULL;
}

static uint32_t mark_get(struct extent *extent, enum mark which, uint32_t ordinal)
{
    const _Atomic uint32_t *place = mark_place(extent, which, ordinal, false);
    return place ? atomic_load_explicit(place, memory_order_relaxed) : 0;
}

/* Sets *mark to the value that the extent has afterwards. */
static bool mark_set(struct extents *all, uint32_t number, enum mark which, uint32_t ordinal,
                     uint32_t *mark)
{
    bool open;
    struct extent *extent = take_ref(all, number, &open);
    bool there = extent != NULL;
    _Atomic uint32_t *place = there ? mark_place(extent, which, ordinal, true) : NULL;
    if (place && which == MARK_GRANTED)
        *mark = raise_32(place, *mark);
    else if (place)
        atomic_store_explicit(place, *mark, memory_order_relaxed);
    extent_release(&extent);
    return there;
}

int64_t extent_time(struct extent *extent, uint32_t ordinal)
{
    return mark_get(extent, MARK_TIME, ordinal);
}

bool extent_time_set(struct extents *all, uint32_t number, uint32_t ordinal, int64_t when_s)
{
    bool fits = when_s > 0 && when_s <= UINT32_MAX;    /* otherwise the time stays unknown */
    uint32_t mark = fits ? (uint32_t)when_s : 0;
    return mark_set(all, number, MARK_TIME, ordinal, &mark);
}

uint32_t extent_granted(struct extent *extent, uint32_t ordinal)
{
    return mark_get(extent, MARK_GRANTED, ordinal);
}

uint32_t extent_granted_raise(struct extents *all, uint32_t number, uint32_t ordinal,
                              uint32_t granted)
{
    mark_set(all, number, MARK_GRANTED, ordinal, &granted);
    return granted;
}

/* ---- opening ---- */

static void count_blocks(struct extent *extent, const struct stat *st)
{
    uint64_t bytes = extent_size(extent), taken = MIN(bytes, (uint64_t)st->st_blocks * 512);
    atomic_fetch_sub(&extent->all->bytes, bytes - taken);
    atomic_store(&extent->bytes, taken);
}

/* A file that can't be used may be a damaged extent, so its number is not used again. But a foreign
 * file that is far above all extents would leave no numbers for them. */
static void note_number(struct extents *all, uint32_t number, bool usable)
{
    if (usable || number < EXTENT_NUMBER_FAR)
        raise_32(&all->files.highest, number);
    else
        all->files.far = MAX(all->files.far, number);
}

/* Adds the file of an extent. A file that can't be opened is a miss for readers (H1), and its
 * number stays in use. The next opening may open it, so purges stay in force for it (sweep.c). But
 * if descriptors run out, the result is ERR_LIMIT: the file may be good. */
static enum err add_file(struct extents *all, uint32_t number)
{
    struct stat st;
    int fd;
    enum err e = extent_open_old(all, number, &fd);
    if (e) {
        note_number(all, number, false);
        atomic_fetch_add(&all->files.unopened, 1);
        return e == ERR_LIMIT ? e : OK;
    }
    if (fstat(fd, &st) != 0) {
        close(fd);
        return ERR_IO;
    }
    struct extent *extent = extent_add(all, number, fd, (uint64_t)st.st_size, true);
    note_number(all, number, !extent_is_unusable(extent));
    extents_note_staging(extent);
    if (extent_is_unusable(extent)) {
        atomic_fetch_add(&all->files.unusable, 1);
        count_blocks(extent, &st);
    }
    extent_release(&extent);
    return OK;
}

/* Accepts only names that Penstock gives. "0000002A" is foreign, and so is a too high number. */
bool extent_number_of(const char *name, uint32_t *ret)
{
    uint8_t bytes[4];
    char ours[16];
    if (!slice_unhex(slice_of(name), bytes, sizeof(bytes)))
        return false;
    *ret = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    snprintf(ours, sizeof(ours), "%08x", *ret);
    return *ret > 0 && *ret <= EXTENT_NUMBER_MAX && strcmp(name, ours) == 0;
}

enum err extents_open(struct extents *all, int folder, const struct format *format)
{
    if (mkdirat(folder, "extents", 0700) != 0 && errno != EEXIST)
        return file_err(errno);
    all->folder_fd = openat(folder, "extents", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int fd = openat(folder, "extents", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);    /* closedir closes it */
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    all->extent_bytes = format->extent_bytes;
    memcpy(all->volume, format->volume, sizeof(all->volume));
    if (memcmp(all->secret, format->secret, sizeof(all->secret)) != 0)    /* others read it */
        memcpy(all->secret, format->secret, sizeof(all->secret));
    enum err e = all->folder_fd >= 0 && dir ? OK : file_err(errno);
    struct dirent *item;
    uint32_t number;
    /* After an error, purges would not cover a file that is missing in the list. */
    while (!e && (item = file_next(dir, &e)))
        if (extent_number_of(item->d_name, &number))
            e = add_file(all, number);
    extents_raise_highest(all, 0);
    if (dir)
        closedir(dir);
    if (e)
        extents_close(all);
    return e;
}

void extents_close(struct extents *all)
{
    pthread_rwlock_wrlock(&all->folder_lock);
    for (size_t i = 0; i < CHAINS; i++)
        for (struct extent *at; (at = atomic_load(&all->chains[i]));)
            unlist(all, at->number);
    if (all->folder_fd >= 0)
        close(all->folder_fd);
    all->folder_fd = -1;
    pthread_rwlock_unlock(&all->folder_lock);
    atomic_store(&all->files.highest, 0);
    atomic_store(&all->files.unopened, 0);
    all->files.far = 0;
    for (size_t i = 0; i < OPEN_COUNT; i++)
        open_extent_close(all, (enum open_which)i);
}

static int by_number(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

size_t extents_numbers(struct extents *all, struct arena *keep, uint32_t **ret)
{
    size_t count = 0;
    pthread_mutex_lock(&all->lock);
    *ret = arena_alloc(keep, (extents_count(all) + 1) * sizeof(**ret));
    for (size_t i = 0; i < CHAINS; i++)
        for (struct extent *at = atomic_load(&all->chains[i]); at; at = atomic_load(&at->next))
            (*ret)[count++] = at->number;
    pthread_mutex_unlock(&all->lock);
    qsort(*ret, count, sizeof(**ret), by_number);
    return count;
}

size_t extents_staging_numbers(struct extents *all, struct arena *keep, uint32_t **ret)
{
    size_t count = 0;
    pthread_mutex_lock(&all->lock);
    *ret = arena_alloc(keep, (extents_staging(all) + 1) * sizeof(**ret));
    list_each(struct extent, extent, &all->files.staging_list, staged.link)
        (*ret)[count++] = extent->number;
    pthread_mutex_unlock(&all->lock);
    qsort(*ret, count, sizeof(**ret), by_number);
    return count;
}

bool extent_is_sealed(struct extents *all, uint32_t number)
{
    struct extent *extent = extent_find(all, number);
    return extent && atomic_load(&extent->sealed);
}

