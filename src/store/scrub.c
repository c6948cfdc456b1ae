/* scrub.c - reads all records of a volume in the background, and verifies them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pass reads the records of all sealed extents that the index uses, and the tables of contents.
 * The index forgets a bad record, as if a reader had found it. So the damage costs no client time,
 * and an operator learns that a disk fails before the data is needed. A bad table is counted
 * (extents_damaged), and the record headers are read in its place.
 *
 *   pace      A pass takes scrub_ms: each piece has its time, by the share of bytes before it.
 *             After a read that took t, at least 19 t pass before the next one. So the scrub never
 *             takes more than 5 % of a disk's time, whatever scrub_ms is.
 *   readers   Reads bypass the page cache (verify.h), and have the idle class of I/O. A reader
 *             waits for one read of 1.2 MiB at most.
 *   restarts  A pass begins at a random extent. So if no process lives for scrub_ms, all extents
 *             still have the same chance.
 *
 * While it waits, the scrub holds no extent. An extent that is recycled meanwhile is left out. If
 * the folder went out of service, bytes that were read before are not judged, because another
 * folder may have taken its place. Threads: one for each volume. */
#include "store/scrub.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/metric.h"
#include "store/extent_inside.h"
#include "store/verify.h"

#define REST 19u                      /* times as long as a read took */
#define EMPTY_MS 1000u                /* until an empty volume is looked at again */
#define IDLE_CLASS (3 << 13)          /* of ioprio_set, for this thread */

struct pass {
    struct volume *volume;
    struct cold cold;
    uint64_t faults;                  /* of the volume, when the extent was begun */
    uint64_t begun_ns;
    uint64_t all_bytes, done_bytes;   /* of extents */
    uint32_t number;                  /* the extent that is being read */
    struct toc_entry *rows;           /* in keep */
    uint32_t count, at;               /* rows; the next one */
    uint64_t read_ns;                 /* how long the latest piece took */
    struct arena keep;
};

void scrub_init(struct scrub *scrub)
{
    pthread_mutex_init(&scrub->lock, NULL);
    pthread_cond_init(&scrub->more, NULL);
}

void scrub_end(struct scrub *scrub)
{
    pthread_cond_destroy(&scrub->more);
    pthread_mutex_destroy(&scrub->lock);
}

/* ---- waiting ---- */

/* Returns false if the thread must end. */
static bool sleep_until(struct volume *volume, uint64_t until_ns)
{
    struct scrub *scrub = &volume->scrub;
    pthread_mutex_lock(&scrub->lock);
    while (!scrub->stopping && mono_ns() < until_ns)
        cond_wait_until(&scrub->more, &scrub->lock, until_ns);
    bool goes_on = !scrub->stopping;
    pthread_mutex_unlock(&scrub->lock);
    return goes_on;
}

/* Returns the time at which the bytes at this offset of the extent are due. */
static uint64_t due_ns(const struct pass *pass, uint64_t offset)
{
    double share = (double)(pass->done_bytes + offset) / (double)MAX(pass->all_bytes, 1);
    return pass->begun_ns + (uint64_t)(MIN(share, 1.0) * 1e6 *
                                       (double)pass->volume->options.scrub_ms);
}

/* ---- judging ---- */

/* The index forgets the record only if it still names it. */
static void disown(struct volume *volume, uint32_t number, const struct toc_entry *row,
                   uint32_t ordinal)
{
    struct record record = { .kind = row->kind, .data_len = row->data_len };
    struct entry entry = { .extent = number, .ordinal = ordinal };
    metric_add(M_SCRUB_BAD, 1);
    metric_add(M_STORE_CRC_BAD, 1);
    atomic_fetch_add(&volume->service.bad, 1);
    for (uint32_t i = 0; i < record_units(&record); i++)
        volume_update(volume, UPDATE_FORGET, &row->id, row->first_unit + i, &entry);
}

/* Returns false if even the extent's first page can't be read. Then the whole disk may be gone,
 * which says nothing about the records. */
static bool disk_is_there(struct pass *pass, struct extent *held)
{
    bool there = cold_read(&pass->cold, held, 0, PAGE_BYTES) == OK;
    pass->cold.len = 0;
    return there;
}

static bool is_same_folder(const struct pass *pass)
{
    return volume_is_serving(pass->volume) &&
           atomic_load(&pass->volume->service.faults) == pass->faults;
}

/* Judges the next record. For the first record of a piece, reads as many bytes as there is room
 * for. Returns false if the record lies beyond the bytes of the piece. */
static bool judge_next(struct pass *pass, struct extent *held, bool *is_read)
{
    const struct toc_entry *row = &pass->rows[pass->at];
    struct suspect suspect = { held, pass->number, row, pass->at, false };
    struct record record;
    if (!toc_entry_is_valid(row) || ages_is_dead(extent_ages_of(held), pass->at)) {
        pass->at++;
        return true;
    }
    if (*is_read && !cold_has(&pass->cold, row->offset, suspect_bytes(&suspect)))
        return false;
    *is_read = true;
    enum verdict verdict = suspect_read(&suspect, &pass->cold, &record);
    bool bad = verdict && (verdict != VERDICT_UNREADABLE || disk_is_there(pass, held));
    if (bad && is_same_folder(pass))
        disown(pass->volume, pass->number, row, pass->at);
    pass->at++;
    return true;
}

/* Reads one piece of the extent, and judges the records that are in it. Returns false if the extent
 * is gone. */
static bool read_piece(struct pass *pass)
{
    struct extent *held;
    bool is_read = false;
    if (!is_same_folder(pass) ||
        extent_hold(pass->volume->extents, pass->number, &held) != OK)
        return false;
    uint64_t begun_ns = mono_ns();
    pass->cold.len = 0;
    while (pass->at < pass->count && judge_next(pass, held, &is_read))
        ;
    metric_add(M_SCRUB_BYTES, pass->cold.len);
    extent_release(&held);
    pass->read_ns = mono_ns() - begun_ns;
    return true;
}

/* ---- one extent, one pass ---- */

/* The table is then read from the disk. */
static void leave_page_cache(struct volume *volume, struct extent *held)
{
    struct toc_footer footer;
    if (extent_footer(volume->extents, held->number, &footer) == OK)
        (void)posix_fadvise(extent_fd(held), footer.offset, 0, POSIX_FADV_DONTNEED);
}

static bool begin_extent(struct pass *pass, uint32_t number, uint64_t *ret_bytes)
{
    struct extent *held;
    arena_free(&pass->keep);
    pass->number = number;
    pass->count = pass->at = 0;
    pass->faults = atomic_load(&pass->volume->service.faults);
    *ret_bytes = 0;
    if (!is_same_folder(pass) || extent_hold(pass->volume->extents, number, &held) != OK)
        return false;
    *ret_bytes = extent_size(held);
    bool sealed = atomic_load(&held->sealed);
    if (sealed)
        leave_page_cache(pass->volume, held);
    extent_release(&held);
    return sealed && extent_contents(pass->volume->extents, number, &pass->keep, &pass->rows,
                                     &pass->count) == OK;
}

/* Returns false if the thread must end. */
static bool scrub_extent(struct pass *pass, uint32_t number)
{
    uint64_t bytes = 0, rest_ns = 0;
    bool goes_on = sleep_until(pass->volume, due_ns(pass, 0));
    if (goes_on && begin_extent(pass, number, &bytes))
        while (pass->at < pass->count && goes_on) {
            uint64_t due = due_ns(pass, pass->rows[pass->at].offset);
            goes_on = sleep_until(pass->volume, MAX(due, rest_ns));
            if (!goes_on || !read_piece(pass))
                break;
            rest_ns = mono_ns() + REST * pass->read_ns;
        }
    if (goes_on)
        goes_on = sleep_until(pass->volume, rest_ns);
    pass->done_bytes += bytes;
    return goes_on;
}

static bool scrub_all(struct pass *pass)
{
    struct volume *volume = pass->volume;
    struct arena keep = { 0 };
    uint32_t *numbers, from;
    bool goes_on = true;
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    pass->begun_ns = mono_ns();
    pass->all_bytes = extents_linked_bytes(volume->extents);
    pass->done_bytes = 0;
    check(getentropy(&from, sizeof(from)) == 0);
    for (size_t i = 0; i < count && goes_on; i++)
        goes_on = scrub_extent(pass, numbers[(from % count + i) % count]);
    arena_free(&keep);
    if (goes_on && count && volume_is_serving(volume)) {
        atomic_store(&volume->scrub.passed_s, wall_s());
        metric_add(M_SCRUB_PASSES, 1);
    }
    uint64_t end_ns = count ? due_ns(pass, pass->all_bytes) : 0;
    return goes_on && sleep_until(volume, MAX(end_ns, mono_ns() + EMPTY_MS * 1000000u));
}

void *scrub_run(void *arg)
{
    struct pass pass = { .volume = arg };
    (void)!syscall(SYS_ioprio_set, 1, 0, IDLE_CLASS);    /* if refused, only the pace protects */
    cold_init(&pass.cold, COLD_ROOM_LEAST);
    while (scrub_all(&pass))
        ;
    arena_free(&pass.keep);
    cold_free(&pass.cold);
    return NULL;
}

void scrub_stop(struct volume *volume)
{
    struct scrub *scrub = &volume->scrub;
    if (!scrub->thread)
        return;
    pthread_mutex_lock(&scrub->lock);
    scrub->stopping = true;
    pthread_cond_signal(&scrub->more);
    pthread_mutex_unlock(&scrub->lock);
    pthread_join(scrub->thread, NULL);
}
