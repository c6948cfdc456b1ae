/* commit.c - the committer, a thread of each volume. SPDX-License-Identifier: Apache-2.0
 *
 *     queue ── commit ──> CRCs ──> open extent (one append) ──> index (one transaction) ──> done()
 *                                        └─ no room: recycle ─┘
 *
 * A commit closes at 100 entries, at 16 MiB, 100 ms after its first record came, or at once when a
 * removal comes (rule H3 in src/README.md). Records that came while the commit before was written
 * go into one commit, up to 1,000 entries or 64 MiB. Bytes are written before the transaction
 * begins (H2). Inside it, may_publish says whether a record may still be published (H7). If the
 * disk or the map is full, the committer recycles an extent, once, and tries again. If there is
 * still no room, the appends fail, and the removals are made alone (room.h). Any other failure
 * takes the folder out of service. */
#include <assert.h>
#include <stdlib.h>

#include "base/metric.h"
#include "store/account.h"
#include "store/append_task.h"
#include "store/installation.h"
#include "store/leftovers.h"
#include "store/moved.h"
#include "store/pinned.h"
#include "store/relocation.h"
#include "store/publish.h"
#include "store/removal.h"
#include "store/room.h"
#include "store/service.h"
#include "store/stage.h"

#define COMMIT_MS 100u
#define TAKEN_ENTRIES 1000u           /* a commit takes this many that wait: fewer commits */
#define TAKEN_BYTES (64 * MIB)
#define RETRY_MS 5000u
#define ROOM_MS_MAX 5000u             /* the longest time that appends wait for the recycler */
#define ROOM_TRIES 3u                 /* a record that must be stored asks this often */
#define COUNT_MS 5u                   /* between two batches of the count of live records */
#define READER_CHECK_MS 60000u
#define FILES_MS 200u                 /* before the file of purges is tried again */
#define GIVEN_MAX 2u                  /* extents evicted for this file of at most a few MiB */

/* Why the folder goes out of service, as texts for people. */
#define WRITE_FAILED \
    "a write to the folder's disk failed; check that disk (the kernel log says more)"
#define INDEX_FAILED \
    "the folder's index is damaged, or its disk failed; check that disk (the kernel log says more)"
#define BANS_FAILED \
    "the file 'bans' in the folder can't be written; check the free space and the health of the disk"

static_assert(TAKEN_ENTRIES >= COMMIT_ENTRIES && TAKEN_BYTES >= COMMIT_BYTES,
              "the most that a commit takes is not below the numbers at which it begins");

struct commit {
    struct volume *volume;
    struct arena keep;
    struct list appends, updates;
    struct append_task *tasks;
    uint32_t task_count;
    bool has_removals;
    uint64_t first;                   /* the number of the first append */
    bool seals_log;                   /* the log has no room for the next append */
};

/* ---- bytes ---- */

/* Makes room for further items after an open extent is full, or after an error `e` of the disk. A
 * full disk has no room for staged records. */
static enum err next_extent(struct volume *volume, enum open_which which, enum err e)
{
    if (which == OPEN_STAGING)
        return e ? e : stage_next_extent(volume);
    if (e)
        e = pinned_is_known(volume) ? room_recycle(volume) : ERR_FULL;
    return e ? e : room_next_extent(volume);
}

/* Writes items[] in order. *ret_done is the number of items on disk, also after an error. */
static enum err write_items(struct volume *volume, enum open_which which,
                            struct append_item **items, uint32_t count, uint32_t *ret_done)
{
    uint32_t done = 0;
    bool recycled = false;
    enum err e = OK;
    while (done < count) {
        uint32_t next = done;
        while (next < count && open_extent_add(volume->extents, which, items[next]) == OK)
            next++;
        e = open_extent_write(volume->extents, which);
        if (!e && next > done) {
            account_appended(volume, items + done, next - done);
            done = next;
            continue;
        }
        if (e && (e != ERR_FULL || recycled))
            break;
        recycled = recycled || e;
        e = next_extent(volume, which, e);
        if (e)
            break;
    }
    *ret_done = done;
    return e == ERR_LIMIT ? ERR_FULL : e;    /* the kernel has no memory for the write */
}

/* Writes the records that go to this open extent. A task without one of its records fails. */
static enum err write_tasks(struct commit *commit, enum open_which which)
{
    uint32_t max = 2 * commit->task_count + 1, count = 0, done = 0;
    struct append_item **items = arena_alloc(&commit->keep, max * sizeof(*items));
    struct append_task **tasks = arena_alloc(&commit->keep, max * sizeof(*tasks));
    for (uint32_t i = 0; i < commit->task_count; i++) {
        struct append_task *task = &commit->tasks[i];
        for (uint32_t k = 0; k < task->count && !task->err; k++) {
            if (append_task_extent(task, &task->items[k]) != which)
                continue;
            tasks[count] = task;
            items[count++] = &task->items[k];
        }
    }
    enum err e = write_items(commit->volume, which, items, count, &done);
    for (uint32_t i = done; e && i < count; i++)
        tasks[i]->err = e;
    return e;
}

/* Returns OK, or an error that is not ERR_FULL if there was one. */
static enum err write_records(struct commit *commit)
{
    enum err e = write_tasks(commit, OPEN_LOG);
    if (e && e != ERR_FULL)
        return e;
    enum err staged = write_tasks(commit, OPEN_STAGING);
    return staged ? staged : e;
}

/* ---- the index ---- */

/* In a small folder, a long commit may have evicted the extent that it wrote first. An entry that
 * named this extent would be a miss for good. */
static bool is_gone(struct volume *volume, const struct append_task *task)
{
    for (uint32_t i = 0; i < task->count; i++)
        if (!extent_is_there(volume->extents, task->items[i].record.extent))
            return true;
    return false;
}

/* Finds out whether the metadata replaces that of another version, which may have units. */
static enum err note_replaced(struct volume *volume, struct append_task *task)
{
    const struct metadata *metadata = task->append->metadata;
    struct entry old;
    if (!task->append->with_metadata)
        return OK;
    enum err e = index_find(volume->index, &metadata->id, METADATA_UNIT, &old);
    task->replaces = !e && old.etag_hash != metadata->etag_hash;
    return e == ERR_NOT_FOUND ? OK : e;
}

/* A purge came after the fill had asked the origin. */
static bool is_banned(struct volume *volume, const struct store_append *append)
{
    struct ban_list *list = &volume->options.installation->bans;
    uint64_t since = append->compared;
    if (append->with_metadata)
        since = MIN(since, atomic_load(&append->metadata->compared));
    return ban_list_has(list, append->metadata->name, since);
}

/* A record that a purge forbids is not even written: a scan would find it. */
static void refuse_banned(struct commit *commit)
{
    for (uint32_t i = 0; i < commit->task_count; i++) {
        struct append_task *task = &commit->tasks[i];
        if (task->err || !is_banned(commit->volume, task->append))
            continue;
        task->err = ERR_CHANGED;
        task->count = 0;
    }
}

static enum err publish_task(struct commit *commit, struct append_task *task)
{
    if (is_gone(commit->volume, task)) {
        task->err = ERR_FULL;
        return OK;
    }
    if (is_banned(commit->volume, task->append) ||
        (task->append->may_publish && !task->append->may_publish(task->append))) {
        task->err = ERR_CHANGED;
        return OK;
    }
    enum err e = note_replaced(commit->volume, task);
    bool refused = atomic_load(&task->append->metadata->granted) & GRANTED_REFUSED;
    for (uint32_t i = 0; !e && i < task->count; i++)
        e = publish_record(commit->volume->index, &task->items[i].record, task->items[i].offset,
                           atomic_load(&commit->volume->generation), refused);
    return e;
}

static enum err publish_update(struct volume *volume, const struct update *update)
{
    const struct named_entry *of = &update->of;
    if (update->kind == UPDATE_FORGET)
        return publish_forget(volume->index, of);
    uint32_t now = extent_granted_raise(volume->extents, of->extent, of->ordinal, 0);
    bool granted = now && !(now & GRANTED_REFUSED);
    if (update->kind == UPDATE_GRANTED)
        return granted ? publish_granted(volume->index, of) : OK;    /* or refused since */
    if (update->generation != atomic_load(&volume->generation))
        return OK;    /* the proof is older than the latest unclean opening */
    return publish_proof(volume->index, of, update->generation, granted);
}

static enum err publish_all(struct commit *commit)
{
    struct index *index = commit->volume->index;
    size_t again = 0;
    removals_take(commit->volume);
    enum err e = index_begin(index);
    for (uint32_t i = 0; !e && i < commit->task_count; i++) {
        e = removals_publish_before(commit->volume, commit->first + i, &again);
        if (!e && commit->tasks[i].err == OK)
            e = publish_task(commit, &commit->tasks[i]);
    }
    list_each(struct update, update, &commit->updates, link)
        e = e ? e : publish_update(commit->volume, update);
    if (!e)
        e = removals_publish(commit->volume, again);
    account_publishes(commit->volume, true);
    if (!e)
        e = account_commit(commit->volume);
    if (e)
        account_publishes(commit->volume, false);
    index_abort(index);
    return e;
}

static enum err publish_and_commit(struct commit *commit)
{
    enum err e = publish_all(commit);
    if ((e == ERR_FULL || e == ERR_LIMIT) && room_recycle(commit->volume) == OK)
        e = publish_all(commit);
    if (!e)
        metric_add(M_STORE_COMMITS, 1);
    return e == ERR_LIMIT ? ERR_FULL : e;
}

/* ---- what follows from a commit ---- */

/* Marks the records as read: clients got the bytes from memory. */
static void settle_read(struct volume *volume, const struct append_task *task)
{
    for (uint32_t i = 0; i < task->count; i++) {
        struct extent *extent = extent_ref(volume->extents, task->items[i].record.extent);
        if (extent)
            extent_note_read(extent, task->items[i].record.ordinal);
        extent_release(&extent);
    }
}

static void settle_task(struct volume *volume, const struct append_task *task)
{
    struct metadata *metadata = task->append->metadata;
    if (task->err || !task->append->with_metadata)
        return;
    /* the record with the metadata comes first */
    const struct record *record = &task->items[0].record;
    extent_time_set(volume->extents, record->extent, record->ordinal,
                    atomic_load(&metadata->validated_s));
    extent_granted_raise(volume->extents, record->extent, record->ordinal,
                         atomic_load(&metadata->granted));
    atomic_store(&metadata->unproved, false);
    if (task->replaces)
        leftovers_add(volume, &metadata->id);
    volume_changed(volume, &metadata->id);
    metadata_cache_put(volume->known.cache, metadata);
}

static void settle_update(struct volume *volume, const struct update *update)
{
    if (update->kind != UPDATE_PROVE || update->generation != atomic_load(&volume->generation))
        return;
    /* a read in progress may have seen the old entry, with unproved metadata */
    volume_changed(volume, &update->of.id);
    struct metadata *metadata = metadata_cache_get(volume->known.cache, &update->of.id);
    if (metadata)
        atomic_store(&metadata->unproved, false);
    metadata_unref(&metadata);
}

static void settle_pins(struct volume *volume, const struct append_task *task)
{
    for (uint32_t i = 0; i < task->count; i++)
        if (task->items[i].pinned)
            pinned_settled(volume, &task->items[i].record);
}

static void settle(struct commit *commit)
{
    struct volume *volume = commit->volume;
    for (uint32_t i = 0; i < commit->task_count; i++) {
        settle_task(volume, &commit->tasks[i]);
        if (commit->tasks[i].append->read && !commit->tasks[i].err)
            settle_read(volume, &commit->tasks[i]);
        settle_pins(volume, &commit->tasks[i]);
    }
    list_each(struct update, update, &commit->updates, link)
        settle_update(volume, update);
    removals_settle(volume);
}

static void answer_append(struct volume *volume, struct store_append *append, enum err e)
{
    if (append->with_metadata)
        check(atomic_fetch_sub(coming_counter(volume, &append->metadata->id), 1) > 0);
    if (e)
        events_note(volume->events, &append->metadata->id, append->first_unit,
                    e == ERR_FULL ? EVENT_NO_ROOM
                                  : e == ERR_CHANGED ? EVENT_CHANGED : EVENT_OUT_OF_SERVICE);
    tallies_give(volume_tallies(volume), append->tally, append->bytes.len);
    list_del(&append->link);
    append->done(append, e);    /* may free the append */
}

/* Answers all appends and removals of the commit. `e` is for appends that had no error before. */
static void answer_all(struct commit *commit, enum err e)
{
    for (uint32_t i = 0; i < commit->task_count; i++)
        answer_append(commit->volume, commit->tasks[i].append,
                      commit->tasks[i].err ? commit->tasks[i].err : e);
    removals_answer(commit->volume, e ? ERR_IO : OK);
    removals_end(commit->volume);
    list_each_safe(struct update, update, &commit->updates, link) {
        list_del(&update->link);
        free(update);
    }
}

/* ---- the thread ---- */

static void run_commit(struct commit *commit)
{
    struct volume *volume = commit->volume;
    refuse_banned(commit);
    enum err written = write_records(commit);
    enum err e = publish_and_commit(commit);
    if (!e)
        settle(commit);
    bool disk_failed = written && written != ERR_FULL;
    bool index_failed = (e && e != ERR_FULL) || room_commit_removals(volume) ||
                        index_is_bad(volume->index);
    if (disk_failed || index_failed)
        service_end(volume, disk_failed ? WRITE_FAILED : INDEX_FAILED);
    else if (atomic_load(&volume->service.unproved))    /* the watch gave up on a removal */
        service_end(volume, DISK_SLOW);
    account_published(volume);
    answer_all(commit, e);
}

static void refuse_commit(struct commit *commit)
{
    removals_take(commit->volume);
    if (removals_are_due(commit->volume))
        atomic_store(&commit->volume->service.unproved, true);
    service_note_doubt(commit->volume);
    for (uint32_t i = 0; i < commit->task_count; i++)
        commit->tasks[i].err = ERR_IO;
    answer_all(commit, ERR_IO);
}

/* The places that the next appends fill, one after the other. */
struct places {
    uint64_t left[ROOM_PLACES];
    size_t count, at;
};

/* Returns true if the next append fits, and takes its place. */
static bool find_place(struct places *places, const struct store_append *append)
{
    uint64_t need = room_of_append(append);
    size_t at = places->at;
    while (need && at < places->count && places->left[at] < need)
        at++;
    if (need && at == places->count)
        return false;
    if (need)
        places->left[at] -= need;
    places->at = at;
    return true;
}

/* Under the lock, when the next append finds no room. Returns true if the append must not wait for
 * room: the commit takes it, and it fails. A record that must be stored may find the refusal of
 * another record, so it asks again. */
static bool takes_without_room(struct volume *volume, const struct store_append *append)
{
    struct queue *queue = &volume->queue;
    bool must = append->must || append->staged || pinned_wants(volume, append->metadata->name);
    if (must && queue->room == ROOM_REFUSED && queue->room_tries < ROOM_TRIES)
        queue->room = ROOM_UNKNOWN;
    bool late = queue->room == ROOM_COMES && mono_ms() > queue->room_since_ms + ROOM_MS_MAX;
    bool refused = queue->room == ROOM_REFUSED || late || queue->stopping;
    if (!refused && queue->room == ROOM_UNKNOWN) {
        refused = !rule_waits_for_room(&volume->rule, must);
        queue->room = ROOM_COMES;
        queue->room_tries++;
        queue->room_since_ms = mono_ms();
    }
    if (refused)
        queue->room = ROOM_UNKNOWN;
    return refused;
}

/* The appends of a commit, while it takes them from the queue. */
struct taking {
    struct commit *commit;
    struct places places;
    size_t entries, bytes, count, staged_bytes;
    bool refused;                     /* the latest append found no room, and none comes */
    bool stages;                      /* an earlier one was staged for that reason */
};

/* Under the lock, for an append that finds no room in the log. Returns true if the commit takes it.
 * An append that was fetched ahead of its reader is then staged; any other fails. False: it waits. */
static bool takes_refused(struct volume *volume, struct taking *taking, struct store_append *append)
{
    struct commit *commit = taking->commit;
    bool first = !taking->count;
    commit->seals_log = first && (open_extent_is_open(volume->extents, OPEN_LOG) ||
                                  atomic_load(&volume->recycler.ready));
    taking->refused = first && !commit->seals_log && takes_without_room(volume, append);
    bool may_stage = append->ahead && append->bytes.len && !append->staged;
    if (!may_stage || !(taking->refused || taking->stages) || !stage_takes(volume))
        return taking->refused;
    append->staged = taking->stages = true;
    volume->space.staging.queued += append->bytes.len;
    taking->refused = false;
    return find_place(&taking->places, append);    /* or it waits for the room of its metadata */
}

/* Under the lock. Appends beyond the commit's size, or without room, stay for the next one. */
static void take_appends(struct volume *volume, struct taking *taking)
{
    struct queue *queue = &volume->queue;
    bool open = atomic_load(&volume->service.open);
    taking->places.count = open ? room_places(volume, taking->places.left) : 0;
    while (!list_empty(&queue->appends) && taking->entries < TAKEN_ENTRIES &&
           taking->bytes < TAKEN_BYTES && !taking->refused) {
        struct list *first = queue->appends.next;
        struct store_append *append = list_of(first, struct store_append, link);
        if (open && !find_place(&taking->places, append) &&
            !takes_refused(volume, taking, append))
            break;
        queue->room_tries = 0;
        list_del(first);
        list_add(&taking->commit->appends, first);
        taking->entries += 1 + append->bytes.len / UNIT_BYTES;
        taking->bytes += append->bytes.len;
        taking->staged_bytes += append->staged ? append->bytes.len : 0;
        taking->count++;
    }
}

/* Under the lock. */
static void take_commit(struct volume *volume, struct commit *commit)
{
    struct queue *queue = &volume->queue;
    struct taking taking = { .commit = commit };
    list_init(&commit->appends);
    list_init(&commit->updates);
    take_appends(volume, &taking);
    check(queue->bytes >= taking.bytes && queue->entries >= taking.entries);
    queue->bytes -= taking.bytes;
    volume->space.staging.queued -= taking.staged_bytes;
    queue->taken = taking.bytes;
    queue->entries -= taking.entries;
    /* The appends that stay open a new commit. If they wait for room, they have waited enough. */
    if (queue->room == ROOM_UNKNOWN && !commit->seals_log)
        queue->oldest_ms = mono_ms();
    commit->first = volume->removed.next;
    volume->removed.next += taking.count;
    commit->has_removals = !list_empty(&queue->removals);
    list_move(&commit->updates, &queue->updates);
    volume->queue.update_count = 0;
    commit->tasks = arena_alloc(&commit->keep, (taking.count + 1) * sizeof(*commit->tasks));
}

static bool has_new_bans(const struct volume *volume)
{
    const struct bans *bans = volume->bans;
    return atomic_load_explicit(&volume->service.open, memory_order_relaxed) &&
           atomic_load(&bans->written) != ban_list_version(&volume->options.installation->bans) &&
           mono_ms() >= bans->again_ms;
}

/* Under the lock: returns how long the commit may still stay open. */
static uint64_t wait_ms(const struct volume *volume)
{
    bool waits = volume->queue.room == ROOM_COMES &&
                 mono_ms() <= volume->queue.room_since_ms + ROOM_MS_MAX;
    if (volume->queue.stopping || !list_empty(&volume->queue.removals) ||
        !list_empty(&volume->queue.relocations) || volume->queue.turn_wanted || has_new_bans(volume))
        return 0;
    if (waits)
        return ROOM_MS_MAX;
    if (volume->queue.entries >= COMMIT_ENTRIES || volume->queue.bytes >= COMMIT_BYTES)
        return 0;
    if (list_empty(&volume->queue.appends) && list_empty(&volume->queue.updates))
        return 500;
    if (!atomic_load(&volume->service.open))
        return 0;
    uint64_t age = mono_ms() - volume->queue.oldest_ms;
    return age < COMMIT_MS ? COMMIT_MS - age : 0;
}

static bool is_empty(const struct commit *commit)
{
    return list_empty(&commit->appends) && list_empty(&commit->updates) && !commit->has_removals;
}

/* Sleeps until a commit is closed, for half a second at most. Returns false if the store stops and
 * nothing is left to commit. */
static bool next_commit(struct volume *volume, struct commit *commit)
{
    *commit = (struct commit){ .volume = volume };
    pthread_mutex_lock(&volume->queue.lock);
    const struct upkeep *upkeep = &volume->upkeep;
    bool more = upkeep->counting.more || upkeep->moved.active || leftovers_wait(volume);
    uint64_t until = mono_ms() + (more ? COUNT_MS : 500);
    for (uint64_t ms, now; (ms = wait_ms(volume)) > 0 && (now = mono_ms()) < until;)
        cond_wait_until(&volume->queue.more, &volume->queue.lock,
                        mono_ns() + MIN(ms, until - now) * 1000000u);
    take_commit(volume, commit);
    volume->queue.turn_wanted = false;
    bool left = !is_empty(commit) || !volume->queue.stopping;
    pthread_mutex_unlock(&volume->queue.lock);
    return left;
}

/* Because of the index, between two commits. Answers the removals that are due. */
static void end_service(struct volume *volume)
{
    service_end(volume, INDEX_FAILED);
    removals_answer(volume, ERR_IO);
    removals_end(volume);
}

/* Commits what is left after extents were evicted for which no append asked; `e` is their result. */
static void end_evictions(struct volume *volume, enum err e)
{
    if ((e && e != ERR_FULL) || room_commit_removals(volume))
        end_service(volume);
    else
        removals_end(volume);
}

/* Evicts extents beyond the size or the reserve, although no append asks for room. */
static void shrink(struct volume *volume)
{
    end_evictions(volume, room_shrink(volume));
    service_metrics(volume);
}

/* Writes to the format file which folders share the present run. */
static enum err write_runs(struct volume *volume)
{
    struct format next = volume->folder.format;
    if (!runs_note(volume->options.installation, &next))
        return OK;
    volume_still_alive(volume);
    enum err e = folder_set_format(&volume->folder, &next);
    volume->service.serial = volume->folder.format.serial;
    return e;
}

/* Writes to the format file what has changed in the installation. Returns false if the folder must
 * go out of service. */
static bool follow_installation(struct volume *volume)
{
    enum err e = write_runs(volume);
    if (!e && volume->upkeep.moved.active) {
        volume_still_alive(volume);
        e = moved_step(volume);
    }
    return !e || e == ERR_FULL || e == ERR_LIMIT;
}

/* Returns false if the folder must go out of service. */
static bool delete_leftovers(struct volume *volume)
{
    if (!leftovers_are_due(volume))
        return true;
    volume_still_alive(volume);
    return !leftovers_step(volume) && !room_commit_removals(volume);
}

/* Evicts an extent, as shrink does. Returns ERR_FULL if no extent may be evicted now. */
static enum err make_room_for_bans(struct volume *volume)
{
    struct bans *bans = volume->bans;
    if (bans->full.given == GIVEN_MAX || !pinned_is_known(volume))
        return ERR_FULL;
    bans->full.given++;
    enum err e = room_recycle(volume);
    if (room_commit_removals(volume))
        return ERR_IO;
    removals_end(volume);
    return e ? e : bans_follow(bans, &volume->options.installation->bans, &volume->folder);
}

/* Returns true if the disk has been full for so long that the purges must not wait any longer. */
static bool is_full_for_long(struct volume *volume)
{
    struct bans *bans = volume->bans;
    if (!bans->full.since_ms)
        bans->full.since_ms = mono_ms();
    return mono_ms() >= bans->full.since_ms + volume->options.commit_ms_max;
}

/* Takes new purges. They wait until the file is written (H3). If the disk is full, an extent is
 * evicted to make room for the file. In two cases, the file is written later, and the purges wait:
 * no extent may be evicted, because a pass over the pins runs; or the eviction did not make enough
 * room. If no file descriptor is left, the purges fail, and the file is written later. */
static void follow_bans(struct volume *volume)
{
    struct ban_list *list = &volume->options.installation->bans;
    struct bans *bans = volume->bans;
    if (!atomic_load(&volume->service.open) || mono_ms() < bans->again_ms)
        return;
    volume_still_alive(volume);
    enum err e = bans_follow(bans, list, &volume->folder);
    if (e == ERR_FULL)
        e = make_room_for_bans(volume);
    bool later = e == ERR_LIMIT || (e == ERR_FULL && !is_full_for_long(volume));
    bans->again_ms = later ? mono_ms() + FILES_MS : 0;
    if (e != ERR_FULL || !later)
        bans->full = (struct bans_full){ 0 };
    if (!e || later)
        return;
    service_end(volume, BANS_FAILED);
    removals_answer(volume, ERR_IO);    /* removals that are due; the others were answered */
    removals_end(volume);
}

/* The count goes on even if the folder stays too large: quotas wait for it. */
static void shrink_and_count(struct volume *volume)
{
    shrink(volume);
    if (atomic_load(&volume->service.open))
        volume->upkeep.counting.more = account_count(volume);
}

static void tend(struct volume *volume, uint64_t *retried_ms, uint64_t *checked_ms)
{
    const char *why;
    uint64_t now = mono_ms();
    if (!atomic_load(&volume->service.open)) {
        service_note_doubt(volume);
        if (now - *retried_ms < RETRY_MS)
            return;
        atomic_store(&volume->service.busy_since_ms, 0);    /* an opening may take minutes */
        atomic_store(&volume->service.opening_since_ms, now);
        (void)!service_begin(volume, &why);    /* store_status says why */
        atomic_store(&volume->service.opening_since_ms, 0);
        volume_still_alive(volume);
        *retried_ms = mono_ms();
    } else if (index_is_bad(volume->index)) {    /* a reader found damage */
        service_end(volume, INDEX_FAILED);
    } else if (atomic_load(&volume->service.unproved)) {
        service_end(volume, DISK_SLOW);
    } else if ((why = folder_why_lost(&volume->folder))) {
        service_end(volume, why);
    } else if (room_is_exceeded(volume)) {
        shrink_and_count(volume);
    } else if (stage_is_due(volume)) {
        end_evictions(volume, stage_step(volume));
        if (atomic_load(&volume->service.open))    /* quotas wait for the count */
            volume->upkeep.counting.more = account_count(volume);
    } else if (!follow_installation(volume) || !delete_leftovers(volume)) {
        end_service(volume);
    } else if (now - *checked_ms >= READER_CHECK_MS) {
        index_check_readers(volume->index);
        *checked_ms = now;
    } else {
        volume->upkeep.counting.more = account_count(volume);
    }
}

/* One batch between two commits. */
static void serve_recycler(struct volume *volume)
{
    enum err e;
    if (!atomic_load(&volume->service.open)) {
        relocations_refuse(volume);
        return;
    }
    volume_still_alive(volume);
    if (relocation_take(volume, &e) &&
        ((e && e != ERR_FULL && e != ERR_LIMIT) || room_commit_removals(volume)))
        end_service(volume);
    if (atomic_load(&volume->service.open))
        room_note(volume);
}

/* Follows changes of the pins. This may hang as a commit may (H3). */
static void turn(struct volume *volume)
{
    volume_still_alive(volume);
    if (!pinned_turn(volume))
        service_end(volume, WRITE_FAILED);
}

/* The steps of a turn that come after its commit. */
static void end_turn(struct volume *volume, bool seals_log, uint64_t *retried_ms,
                     uint64_t *checked_ms)
{
    volume_still_alive(volume);
    if (seals_log)
        room_seal_log(volume);
    serve_recycler(volume);
    follow_bans(volume);
    volume_still_alive(volume);
    tend(volume, retried_ms, checked_ms);
    turn(volume);
    volume_still_alive(volume);
    service_measure(volume);
    atomic_store(&volume->service.busy_since_ms, 0);
}

/* To be called when the appends of the commit are answered. */
static void end_commit(struct volume *volume)
{
    pthread_mutex_lock(&volume->queue.lock);
    volume->queue.taken = 0;
    pthread_mutex_unlock(&volume->queue.lock);
}

/* Any step of a turn may hang with the disk. So the committer is busy for the whole turn, and the
 * begin of each step counts as progress (H3). */
void *commit_run(void *arg)
{
    struct volume *volume = arg;
    uint64_t retried_ms = 0, checked_ms = mono_ms();
    struct commit commit;
    while (next_commit(volume, &commit)) {
        bool was_open = atomic_load(&volume->service.open);
        volume_still_alive(volume);
        list_each(struct store_append, append, &commit.appends, link)
            append_task_make(volume, &commit.tasks[commit.task_count++], append, &commit.keep);
        if (!is_empty(&commit)) {
            volume_still_alive(volume);
            if (was_open)
                run_commit(&commit);
            else
                refuse_commit(&commit);
            end_commit(volume);
            if (atomic_load(&volume->service.open))
                service_metrics(volume);
        }
        arena_free(&commit.keep);
        end_turn(volume, commit.seals_log, &retried_ms, &checked_ms);
    }
    if (!atomic_load(&volume->service.open))    /* the watch may have answered a removal since */
        service_note_doubt(volume);
    else    /* after a failure, the next start doubts folders that missed nothing */
        (void)!write_runs(volume);
    arena_free(&commit.keep);
    return NULL;
}
