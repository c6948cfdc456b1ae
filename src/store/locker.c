/* locker.c - chooses the extents that stay in memory. SPDX-License-Identifier: Apache-2.0
 *
 * Once a second the thread `lock` looks which extents were read most, and locks them (lend.c) as
 * long as the limit has room. Without room, an extent takes the place of the locked one that was
 * read least, if it was itself read twice as often: otherwise two extents that are read equally
 * often would change places for ever. An extent that was appended to is locked before anybody reads
 * it, as clients are likely to read new objects next; without room, it only takes the place of one
 * that nobody reads. Once it is sealed, its records are verified ahead of their readers
 * (verify_ahead.h). If programs wait for memory, locked extents are given up. */
#include "store/locker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/pressure.h"
#include "base/thread.h"
#include "store/change_watch.h"
#include "store/extent_inside.h"
#include "store/io.h"
#include "store/verify_ahead.h"

#define LOOK_MS 1000u
#define LOCKED_MAX 4096u              /* H8 */
#define READS_LEAST 32u               /* between two looks, of an extent that is worth it */
#define LOCKS_A_LOOK 16u
#define REST_LOOKS 60u
#define SLOW_LOOKS 5u                 /* that a client may take to read what it was lent */
#define PRESSURE_MAX 5u               /* per cent of the time, when a thread waits for memory */

struct locked {
    struct extent *extent;            /* a reference */
    struct volume *volume;
    unsigned reads;                   /* since the latest look, and half of those before */
    bool is_sealed;                   /* `written` is known */
    struct timespec written;          /* the file's time after it was sealed */
    bool is_final;                    /* a look found it sealed; see begin_watch */
    bool filled;                      /* this process appended to it lately */
    bool waits;                       /* ... and its records are to be verified ahead */
    bool watched;                     /* by locker->changes */
    bool leaves;                      /* it waits for its last lease to end */
    unsigned looks;                   /* since it leaves */
};

/* Why not more is locked. */
enum why { NOT_READ_OFTEN, LIMIT_REACHED, KERNEL_LIMIT, MEMORY_SHORT };

static const char *const why_texts[] = {
    [NOT_READ_OFTEN] = "no other part of the cache is read often enough",
    [LIMIT_REACHED] = "the limit is reached",
    [KERNEL_LIMIT] = "the kernel allows no more (RLIMIT_MEMLOCK)",
    [MEMORY_SHORT] = "programs wait for memory",
};

#define WANTED_MAX 256u               /* H8: plans that wait to be verified; others are lost */

struct locker {
    struct volume *const *volumes;
    size_t volume_count;
    uint64_t bytes_max, bytes;
    uint64_t room;                    /* bytes_max, or less since the kernel refused more */
    unsigned rests;                   /* looks until room is bytes_max again */
    struct locked *list;
    size_t count;
    bool reported;                    /* the log has that the kernel refused a lock */
    struct change_watch *changes;     /* of sealed extents; NULL: the kernel watches nothing */
    struct verify_ahead ahead;
    _Atomic(enum why) why;
    struct read_plan wanted[WANTED_MAX];    /* under the lock; with references */
    size_t wanted_count;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool dropped, stopping;           /* under the lock; dropped: an extent was */
};

/* ---- the locked extents ---- */

static void unwatch(struct locker *locker, struct locked *locked)
{
    if (locked->watched)
        change_watch_remove(locker->changes, locked->extent);
    locked->watched = false;
}

static void leave(struct locker *locker, struct locked *locked)
{
    extent_lend_no_more(locked->extent);
    unwatch(locker, locked);
    if (locker->ahead.extent == locked->extent)
        verify_ahead_end(&locker->ahead);
    locked->waits = false;
    locked->leaves = true;
}

/* Returns true if it was unlocked, so that another one is in its place in the list. */
static bool try_unlock(struct locker *locker, struct locked *locked)
{
    if (!locked->leaves || !extent_unlock(locked->extent))
        return false;
    locker->bytes -= locked->extent->lock.bytes;
    extent_release(&locked->extent);
    *locked = locker->list[--locker->count];
    return true;
}

/* Gives a locked extent up. It stays in the list until its last lease has ended. */
static void give_up(struct locker *locker, struct locked *locked)
{
    leave(locker, locked);
    (void)try_unlock(locker, locked);
}

static bool is_dropped(const struct extent *extent)
{
    struct extent *now = extent_ref(extent->all, extent->number);
    bool dropped = now != extent;
    extent_release(&now);
    return dropped;
}

/* True of a file that another program has written to or truncated, and of one of a folder that went
 * out of service. To an open extent Penstock itself writes, so only its size is judged. The file's
 * time is kept for the next look. */
static bool was_changed(struct locked *locked)
{
    struct extent *extent = locked->extent;
    bool is_sealed = atomic_load(&extent->sealed), was_sealed = locked->is_sealed;
    uint64_t bytes = extent_size(extent);
    struct timespec before = locked->written;
    struct stat file;
    if (fstat(extent_fd(extent), &file) != 0 || (uint64_t)file.st_size < bytes)
        return true;
    locked->is_sealed = is_sealed;
    locked->written = file.st_mtim;
    return was_sealed && (before.tv_sec != file.st_mtim.tv_sec ||
                          before.tv_nsec != file.st_mtim.tv_nsec);
}

/* From now on only other programs change the file. Nobody has noticed whether one did while the
 * extent was open, so its blocks are verified again, once. */
static void begin_watch(struct locker *locker, struct locked *locked)
{
    locked->is_final = true;
    locked->watched = locker->changes && change_watch_add(locker->changes, locked->extent);
    extent_forget_verified(locked->extent);
    locked->waits = locked->filled;
}

/* The look at the file comes after the watch began, so that no change is missed between the two. An
 * extent that the watch stopped from lending leaves, too. Reads that are not lent find out what is
 * wrong. */
static bool must_leave(struct locker *locker, struct locked *locked)
{
    if (locked->is_sealed && !locked->is_final)
        begin_watch(locker, locked);
    return !extent_is_lending(locked->extent) || is_dropped(locked->extent) || was_changed(locked);
}

/* Clients that read slowly may keep leases of dropped extents. If so much space is held that the
 * cache stores nothing more, these clients lose their connections. */
static void cut_slow_clients(struct locked *locked)
{
    if (locked->leaves && locked->looks++ >= SLOW_LOOKS && is_dropped(locked->extent) &&
        volume_holds_too_much(locked->volume))
        extent_empty_file(locked->extent);
}

static void look_at_locked(struct locker *locker)
{
    for (size_t i = 0; i < locker->count;) {
        struct locked *locked = &locker->list[i];
        cut_slow_clients(locked);
        locked->reads = locked->reads / 2 + atomic_exchange(&locked->extent->lock.reads, 0);
        atomic_store(&locked->extent->lock.appended, false);
        if (!locked->leaves && must_leave(locker, locked))
            leave(locker, locked);
        i += !try_unlock(locker, locked);
    }
}

static void unlock_dropped(struct locker *locker)
{
    for (size_t i = 0; i < locker->count;) {
        struct locked *locked = &locker->list[i];
        if (!locked->leaves && is_dropped(locked->extent))
            leave(locker, locked);
        i += !try_unlock(locker, locked);
    }
}

static struct locked *coldest(struct locker *locker)
{
    struct locked *found = NULL;
    for (size_t i = 0; i < locker->count; i++)
        if (!locker->list[i].leaves && (!found || locker->list[i].reads < found->reads))
            found = &locker->list[i];
    return found;
}

/* ---- the other extents ---- */

/* An extent that was read, or appended to, since the latest look. */
struct candidate {
    struct extent *extent;            /* a reference */
    struct volume *volume;
    unsigned reads;
    bool appended;
};

static int by_reads(const void *a, const void *b)
{
    unsigned x = ((const struct candidate *)a)->reads, y = ((const struct candidate *)b)->reads;
    return (x < y) - (x > y);
}

/* Finds the extents that are not locked, and counts their reads from nothing again. Returns the
 * number of those that are worth it; these come first, the most read one at their head. */
static size_t find_candidates(struct locker *locker, struct candidate *ret)
{
    size_t count = 0;
    for (size_t v = 0; v < locker->volume_count; v++) {
        struct volume *volume = locker->volumes[v];
        struct extents *all = volume->extents;
        for (size_t i = 0; i < EXTENTS_LATELY; i++) {
            uint32_t number = atomic_exchange(&all->locker.lately[i], 0);
            struct extent *extent = number ? extent_ref(all, number) : NULL;
            unsigned reads = 0;
            bool appended = false;
            if (extent && !atomic_load(&extent->lock.pages)) {
                reads = atomic_exchange(&extent->lock.reads, 0);
                appended = atomic_exchange(&extent->lock.appended, false);
            }
            if (reads >= READS_LEAST || appended)
                ret[count++] = (struct candidate){ extent, volume, reads, appended };
            else
                extent_release(&extent);
        }
    }
    qsort(ret, count, sizeof(*ret), by_reads);
    return count;
}

static void report_limit(struct locker *locker)
{
    if (!locker->reported)
        log_warn("store_lock_limit", "locked_bytes=%" PRIu64 " wanted_bytes=%" PRIu64 " why=\"the "
                 "kernel does not let Penstock lock more memory, so reads from the cache cost more "
                 "CPU time: raise the limit (LimitMEMLOCK in the unit, ulimit -l, or memlock of "
                 "the container), or lower memory_locked\"", locker->bytes, locker->bytes_max);
    locker->reported = true;
}

/* Takes the reference, which is to the candidate's extent. */
static void lock_extent(struct locker *locker, const struct candidate *candidate,
                        struct extent *take_held)
{
    struct locked locked = { .extent = take_held, .volume = candidate->volume,
                             .reads = 2 * candidate->reads, .filled = candidate->appended };
    enum err err = was_changed(&locked) ? ERR_BUSY : extent_lock(take_held);
    if (!err) {
        struct locked *placed = &locker->list[locker->count++];
        *placed = locked;
        locker->bytes += take_held->lock.bytes;
        if (must_leave(locker, placed))
            leave(locker, placed);
        return;
    }
    if (err == ERR_LIMIT) {
        report_limit(locker);
        locker->room = locker->bytes;
        locker->rests = REST_LOOKS;
    }
    extent_release(&take_held);
}

/* Locks the extent. Returns ERR_NOT_FOUND if it can't be locked, or ERR_LIMIT if there is no room.
 * If a locked extent is read less than half as often, or not at all, there will be room at the next
 * look. */
static enum err place(struct locker *locker, const struct candidate *candidate)
{
    struct extent *held;
    if (extent_hold(candidate->extent->all, candidate->extent->number, &held) != OK)
        return ERR_NOT_FOUND;
    uint64_t bytes = extent_lock_bytes(held);
    bool can = held == candidate->extent && extent_can_lock(held);
    if (can && locker->bytes + bytes <= locker->room && locker->count < LOCKED_MAX) {
        lock_extent(locker, candidate, held);
        return OK;
    }
    extent_release(&held);
    if (!can)
        return ERR_NOT_FOUND;
    struct locked *cold = coldest(locker);
    if (cold && (!cold->reads || candidate->reads > cold->reads) && bytes <= locker->room)
        give_up(locker, cold);
    return ERR_LIMIT;
}

/* ---- blocks to verify ---- */

/* True if nothing is locked, or if all blocks were verified: a reader by TLS is lent nothing. */
static bool needs_nothing(const struct read_plan *plan)
{
    if (!extent_lend(plan->extent))
        return true;
    uint64_t at = plan->spans[0].at + plan->blocks.at;
    uint32_t i = 0, count = read_plan_is_inside(plan) ? plan->blocks.count : 0;
    while (i < count && extent_was_verified(plan->extent, at + i * BLOCK_BYTES))
        i++;
    extent_lend_end(plan->extent);
    return i == count;
}

/* The extent is held before the lock is taken: on_dropped takes it under other locks. */
void locker_wants(struct locker *locker, const struct read_plan *plan)
{
    struct extent *held;
    if (needs_nothing(plan) || extent_hold(plan->extent->all, plan->extent->number, &held) != OK)
        return;
    if (pthread_mutex_trylock(&locker->lock) == 0) {
        if (locker->wanted_count < WANTED_MAX) {
            struct read_plan *wanted = &locker->wanted[locker->wanted_count++];
            *wanted = *plan;
            wanted->extent = held;
            wanted->buffer = NULL;
            wanted->metadata = metadata_ref((struct metadata *)(uintptr_t)plan->metadata);
            held = NULL;
            pthread_cond_signal(&locker->wake);
        }
        pthread_mutex_unlock(&locker->lock);
    }
    extent_release(&held);
}

static void end_wanted(struct read_plan *plan)
{
    struct metadata *metadata = (struct metadata *)(uintptr_t)plan->metadata;
    extent_release(&plan->extent);
    metadata_unref(&metadata);
}

/* Called with the lock, which it gives up while it works. */
static void verify_wanted(struct locker *locker, uint64_t until_ms)
{
    while (locker->wanted_count && !locker->stopping && !locker->dropped &&
           mono_ms() < until_ms) {
        struct read_plan plan = locker->wanted[--locker->wanted_count];
        pthread_mutex_unlock(&locker->lock);
        (void)read_plan_verify(&plan);
        end_wanted(&plan);
        pthread_mutex_lock(&locker->lock);
    }
}

/* ---- records to verify ahead ---- */

static struct locked *next_ahead(const struct locker *locker)
{
    size_t i = 0;
    while (i < locker->count && !locker->list[i].waits)
        i++;
    return i < locker->count ? &locker->list[i] : NULL;
}

/* Verifies one record, if one is due. Returns when the next one is. */
static uint64_t verify_one_ahead(struct locker *locker)
{
    struct verify_ahead *ahead = &locker->ahead;
    struct locked *next = ahead->extent ? NULL : next_ahead(locker);
    if (next) {
        next->waits = false;
        verify_ahead_begin(ahead, next->extent);
    }
    if (ahead->extent && mono_ns() >= ahead->due_ns && !verify_ahead_step(ahead))
        verify_ahead_end(ahead);
    return ahead->extent ? ahead->due_ns : next_ahead(locker) ? 0 : UINT64_MAX;
}

/* ---- the thread ---- */

/* Why not more is locked, after a look. Without a candidate a look can't try to lock one more
 * extent, so a limit that was reached before it still counts as reached. */
static enum why why_not_more(const struct locker *locker, bool short_of_memory, enum err err,
                             size_t candidate_count)
{
    if (short_of_memory)
        return MEMORY_SHORT;
    if (locker->room < locker->bytes_max)
        return KERNEL_LIMIT;
    if (err == ERR_LIMIT)
        return LIMIT_REACHED;
    if (!candidate_count && atomic_load(&locker->why) == LIMIT_REACHED)
        return LIMIT_REACHED;
    return NOT_READ_OFTEN;
}

static void give_up_some(struct locker *locker)
{
    for (size_t n = locker->count / 8 + 1; n > 0; n--) {
        struct locked *cold = coldest(locker);
        if (!cold)
            return;
        give_up(locker, cold);
    }
}

static void look(struct locker *locker, struct candidate *candidates)
{
    look_at_locked(locker);
    size_t count = find_candidates(locker, candidates);
    bool short_of_memory = (locker->count || count) && memory_pressure("") > PRESSURE_MAX;
    if (locker->rests && --locker->rests == 0)
        locker->room = locker->bytes_max;
    if (short_of_memory)
        give_up_some(locker);
    enum err err = short_of_memory ? ERR_LIMIT : OK;
    for (size_t i = 0, placed = 0; i < count && err != ERR_LIMIT && placed < LOCKS_A_LOOK; i++) {
        err = place(locker, &candidates[i]);
        placed += err == OK;
    }
    for (size_t i = 0; i < count; i++)
        extent_release(&candidates[i].extent);
    atomic_store(&locker->why, why_not_more(locker, short_of_memory, err, count));
}

const char *locker_why(const struct locker *locker)
{
    return why_texts[atomic_load(&locker->why)];
}

static void *run(void *arg)
{
    struct locker *locker = arg;
    struct candidate *candidates =
        must_alloc(locker->volume_count * EXTENTS_LATELY * sizeof(*candidates));
    uint64_t looks_ms = mono_ms() + LOOK_MS;
    pthread_mutex_lock(&locker->lock);
    while (!locker->stopping) {
        if (locker->dropped) {
            locker->dropped = false;
            pthread_mutex_unlock(&locker->lock);
            unlock_dropped(locker);
            pthread_mutex_lock(&locker->lock);
        }
        verify_wanted(locker, looks_ms);
        if (mono_ms() >= looks_ms) {
            pthread_mutex_unlock(&locker->lock);
            look(locker, candidates);
            looks_ms = mono_ms() + LOOK_MS;
            pthread_mutex_lock(&locker->lock);
        }
        pthread_mutex_unlock(&locker->lock);
        uint64_t due_ns = MIN(verify_one_ahead(locker), looks_ms * 1000000u);
        pthread_mutex_lock(&locker->lock);
        if (!locker->wanted_count && !locker->dropped && !locker->stopping && due_ns > mono_ns())
            cond_wait_until(&locker->wake, &locker->lock, due_ns);
    }
    pthread_mutex_unlock(&locker->lock);
    free(candidates);
    return NULL;
}

/* A dropped extent takes space until it is unlocked, and the recycler waits for that
 * (recycle.c). */
static void on_dropped(void *arg)
{
    struct locker *locker = arg;
    pthread_mutex_lock(&locker->lock);
    locker->dropped = true;
    pthread_cond_signal(&locker->wake);
    pthread_mutex_unlock(&locker->lock);
}

struct locker *locker_new(struct volume *const *volumes, size_t count, uint64_t bytes_max)
{
    struct locker *locker = must_alloc(sizeof(*locker));
    locker->volumes = volumes;
    locker->volume_count = count;
    locker->bytes_max = locker->room = bytes_max;
    atomic_store(&locker->why, NOT_READ_OFTEN);
    locker->list = must_alloc(LOCKED_MAX * sizeof(*locker->list));
    pthread_mutex_init(&locker->lock, NULL);
    pthread_cond_init(&locker->wake, NULL);
    for (size_t v = 0; v < count; v++) {
        volumes[v]->extents->locker.dropped = on_dropped;
        volumes[v]->extents->locker.arg = locker;
    }
    return locker;
}

void locker_start(struct locker *locker)
{
    locker->changes = change_watch_new();
    check(thread_start(&locker->thread, run, locker, "lock"));
}

void locker_stop(struct locker *locker)
{
    if (!locker || !locker->thread)
        return;
    pthread_mutex_lock(&locker->lock);
    locker->stopping = true;
    pthread_cond_signal(&locker->wake);
    pthread_mutex_unlock(&locker->lock);
    pthread_join(locker->thread, NULL);
    locker->thread = 0;
    while (locker->wanted_count)
        end_wanted(&locker->wanted[--locker->wanted_count]);
    while (locker->count) {
        leave(locker, &locker->list[0]);
        check(try_unlock(locker, &locker->list[0]));
    }
    change_watch_free(&locker->changes);
}

void locker_free(struct locker **locker)
{
    struct locker *mine = *locker;
    *locker = NULL;
    if (!mine)
        return;
    check(!mine->count && !mine->wanted_count);
    pthread_cond_destroy(&mine->wake);
    pthread_mutex_destroy(&mine->lock);
    free(mine->list);
    free(mine);
}
