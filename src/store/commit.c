/* commit.c - the committer: one thread a folder that writes. SPDX-License-Identifier: Apache-2.0
 *
 *     queue ── batch ──> CRCs ──> log (one append) ──> index (one transaction) ──> done()
 *                                  └─ no room: recycle ─┘
 *
 * A batch closes at 100 entries, 100 ms after its first record came, at 16 MiB, or at once when a
 * removal comes (H3); what came while the last one was written goes along, up to 1,000 entries or
 * 64 MiB. Bytes are written before the transaction begins (H2); whether a record may still be
 * published is asked inside it (H7). Full disk or full map: recycle an extent, once, and try again.
 * What fails otherwise takes the folder out of service. */
#include <stdlib.h>

#include "base/metric.h"
#include "store/job.h"
#include "store/publish.h"
#include "store/removal.h"
#include "store/room.h"
#include "store/service.h"

#define BATCH_MS 100u
#define TAKEN_ENTRIES 1000u           /* what has come meanwhile goes along: fewer commits */
#define TAKEN_BYTES (64 * MIB)
#define RETRY_MS 5000u
#define READER_CHECK_MS 60000u

struct batch {
    struct store *store;
    struct arena keep;
    struct list appends, updates;
    struct job *jobs;
    uint32_t job_count;
    bool has_removals;
};

/* ---- bytes ---- */

/* Writes items[] in order; *ret_done: how many of them are on disk when it fails. */
static enum err write_items(struct store *store, struct tail_item **items, uint32_t count,
                            uint32_t *ret_done)
{
    uint32_t done = 0;
    bool recycled = false, fresh = false;
    enum err e = OK;
    while (done < count) {
        uint32_t next = done;
        while (next < count && tail_add(store->extents, items[next]) == OK)
            next++;
        e = tail_write(store->extents);
        if (!e && next > done) {
            done = next;
            fresh = false;
            continue;
        }
        if (e && (e != ERR_FULL || recycled))
            break;
        check(e || !fresh);    /* any record fits an empty extent */
        recycled = recycled || e;
        e = e ? room_recycle(store) : OK;
        if (!e)
            e = room_next_extent(store);
        if (e)
            break;
        fresh = true;
    }
    *ret_done = done;
    return e;
}

static enum err write_batch(struct batch *batch)
{
    struct tail_item **items = arena_alloc(&batch->keep,
                                          (2 * batch->job_count + 1) * sizeof(*items));
    uint32_t count = 0, done = 0;
    for (uint32_t i = 0; i < batch->job_count; i++)
        for (uint32_t k = 0; k < batch->jobs[i].count; k++)
            items[count++] = &batch->jobs[i].items[k];
    enum err e = write_items(batch->store, items, count, &done);
    for (uint32_t i = batch->job_count; e && i-- > 0;) {
        count -= batch->jobs[i].count;
        if (count + batch->jobs[i].count > done)
            batch->jobs[i].err = e;
    }
    return e;
}

/* ---- the index ---- */

/* A long batch in a small folder may have recycled what it wrote first: an entry would name what is
 * gone, for good. */
static bool is_gone(struct store *store, const struct job *job)
{
    for (uint32_t i = 0; i < job->count; i++)
        if (!extent_is_there(store->extents, job->items[i].record.extent))
            return true;
    return false;
}

static enum err publish_job(struct batch *batch, struct job *job)
{
    if (is_gone(batch->store, job)) {
        job->err = ERR_FULL;
        return OK;
    }
    if (job->append->may_publish && !job->append->may_publish(job->append)) {
        job->err = ERR_CHANGED;
        return OK;
    }
    enum err e = OK;
    bool refused = atomic_load(&job->append->head->shown) & SHOWN_REFUSED;
    for (uint32_t i = 0; !e && i < job->count; i++)
        e = publish_record(batch->store->index, &job->items[i].record, job->items[i].offset,
                           atomic_load(&batch->store->generation), refused);
    return e;
}

static enum err publish_update(struct store *store, const struct update *update)
{
    if (update->kind == UPDATE_FORGET)
        return publish_forget(store->index, &update->id, update->unit, update->extent,
                              update->ordinal);
    if (update->kind == UPDATE_SHOWN) {
        uint32_t now = extent_shown_raise(store->extents, update->extent, update->ordinal, 0);
        return !now || now & SHOWN_REFUSED    /* refused since */
            ? OK : publish_shown(store->index, &update->id, update->unit, update->extent,
                                 update->ordinal);
    }
    if (update->generation != atomic_load(&store->generation))
        return OK;    /* vouched for before something went by unseen */
    uint32_t now = extent_shown_raise(store->extents, update->extent, update->ordinal, 0);
    return publish_proof(store->index, &update->id, update->unit, update->extent, update->ordinal,
                         update->generation, now && !(now & SHOWN_REFUSED));
}

static enum err publish_all(struct batch *batch)
{
    struct index *index = batch->store->index;
    removals_take(batch->store);
    enum err e = index_begin(index);
    for (uint32_t i = 0; !e && i < batch->job_count; i++)
        if (batch->jobs[i].err == OK)
            e = publish_job(batch, &batch->jobs[i]);
    list_each(struct update, update, &batch->updates, link)
        e = e ? e : publish_update(batch->store, update);
    if (!e)
        e = removals_publish(batch->store, true);
    if (!e)
        e = index_commit(index);
    index_abort(index);
    return e;
}

static enum err commit_batch(struct batch *batch)
{
    enum err e = publish_all(batch);
    if ((e == ERR_FULL || e == ERR_LIMIT) && room_recycle(batch->store) == OK)
        e = publish_all(batch);
    if (!e)
        metric_add(M_STORE_COMMITS, 1);
    return e == ERR_LIMIT ? ERR_FULL : e;
}

/* ---- what follows from a commit ---- */

static void settle_job(struct store *store, const struct job *job)
{
    struct head *head = job->append->head;
    if (job->err || !job->append->with_head)
        return;
    const struct record *record = &job->items[0].record;    /* the one with the head comes first */
    extent_time_set(store->extents, record->extent, record->ordinal,
                    atomic_load(&head->validated_s));
    extent_shown_raise(store->extents, record->extent, record->ordinal, atomic_load(&head->shown));
    atomic_store(&head->unproved, false);
    store_changed(store, &head->id);
    heads_put(store->heads, head);
}

static void settle_update(struct store *store, const struct update *update)
{
    if (update->kind != UPDATE_PROVE || update->generation != atomic_load(&store->generation))
        return;
    store_changed(store, &update->id);    /* who reads it from the disk just now saw it unproved */
    struct head *head = heads_get(store->heads, &update->id);
    if (head)
        atomic_store(&head->unproved, false);
    head_unref(&head);
}

static void settle(struct batch *batch)
{
    struct store *store = batch->store;
    for (uint32_t i = 0; i < batch->job_count; i++)
        settle_job(store, &batch->jobs[i]);
    list_each(struct update, update, &batch->updates, link)
        settle_update(store, update);
    removals_settle(store);
}

static void answer_append(struct store *store, struct store_append *append, enum err e)
{
    if (append->with_head)
        atomic_fetch_sub(coming_counter(store, &append->head->id), 1);
    list_del(&append->link);
    append->done(append, e);    /* gone, perhaps */
}

/* Every one of the batch hears how it went; e: of those that were fine so far. */
static void answer_all(struct batch *batch, enum err e)
{
    for (uint32_t i = 0; i < batch->job_count; i++)
        answer_append(batch->store, batch->jobs[i].append,
                      batch->jobs[i].err ? batch->jobs[i].err : e);
    removals_answer(batch->store, e ? ERR_IO : OK);
    removals_end(batch->store);
    list_each_safe(struct update, update, &batch->updates, link) {
        list_del(&update->link);
        free(update);
    }
}

/* ---- the thread ---- */

static void run_batch(struct batch *batch)
{
    struct store *store = batch->store;
    enum err written = write_batch(batch);
    enum err e = commit_batch(batch);
    if (!e)
        settle(batch);
    bool disk_failed = written && written != ERR_FULL;
    bool index_failed = (e && e != ERR_FULL) || removals_are_due(store) ||
                        index_is_bad(store->index);
    if (disk_failed || index_failed)
        service_end(store, disk_failed ? "writing to it failed" : "its index failed");
    else if (atomic_load(&store->unproved))    /* the watch gave up on a removal */
        service_end(store, "a commit took too long");
    answer_all(batch, e);
}

static void refuse_batch(struct batch *batch)
{
    removals_take(batch->store);
    if (removals_are_due(batch->store))
        atomic_store(&batch->store->unproved, true);
    service_note_doubt(batch->store);
    for (uint32_t i = 0; i < batch->job_count; i++)
        batch->jobs[i].err = ERR_IO;
    answer_all(batch, ERR_IO);
}

/* Under the lock. Appends beyond the batch's size stay for the next one. */
static void take_batch(struct store *store, struct batch *batch)
{
    size_t entries = 0, bytes = 0, count = 0;
    list_init(&batch->appends);
    list_init(&batch->updates);
    /* never so many that the last would recycle the first */
    size_t bytes_max = MIN(TAKEN_BYTES, atomic_load(&store->size_bytes) / 4);
    while (!list_empty(&store->appends) && entries < TAKEN_ENTRIES &&
           (bytes == 0 || bytes < bytes_max)) {
        struct store_append *append = list_of(store->appends.next, struct store_append, link);
        list_del(&append->link);
        list_add(&batch->appends, &append->link);
        entries += 1 + append->bytes.len / UNIT_BYTES;
        bytes += append->bytes.len;
        count++;
    }
    store->queued_bytes -= bytes;
    store->queued_entries -= entries;
    store->oldest_ms = mono_ms();
    batch->has_removals = !list_empty(&store->removals);
    list_move(&batch->updates, &store->updates);
    store->update_count = 0;
    batch->jobs = arena_alloc(&batch->keep, (count + 1) * sizeof(*batch->jobs));
}

/* Under the lock: how long the batch may still stay open. */
static uint64_t wait_ms(const struct store *store)
{
    if (store->stopping || !list_empty(&store->removals) ||
        store->queued_entries >= BATCH_ENTRIES || store->queued_bytes >= BATCH_BYTES)
        return 0;
    if (list_empty(&store->appends) && list_empty(&store->updates))
        return 500;
    if (!atomic_load(&store->open))
        return 0;
    uint64_t age = mono_ms() - store->oldest_ms;
    return age < BATCH_MS ? BATCH_MS - age : 0;
}

static bool is_empty(const struct batch *batch)
{
    return list_empty(&batch->appends) && list_empty(&batch->updates) && !batch->has_removals;
}

/* Sleeps until a batch is closed, for half a second at most. False: stopping, nothing is left. */
static bool next_batch(struct store *store, struct batch *batch)
{
    *batch = (struct batch){ .store = store };
    pthread_mutex_lock(&store->lock);
    uint64_t until = mono_ms() + 500;
    for (uint64_t ms; (ms = wait_ms(store)) > 0 && mono_ms() < until;) {
        uint64_t at = clock_ns(CLOCK_MONOTONIC) + ms * 1000000u;
        struct timespec ts = { (time_t)(at / 1000000000u), (long)(at % 1000000000u) };
        pthread_cond_timedwait(&store->more, &store->lock, &ts);
    }
    take_batch(store, batch);
    bool left = !is_empty(batch) || !store->stopping;
    pthread_mutex_unlock(&store->lock);
    return left;
}

/* Nobody has to write for it. */
static void shrink(struct store *store)
{
    enum err e = room_shrink(store);
    atomic_store(&store->busy_since_ms, 0);
    if ((e && e != ERR_FULL) || removals_are_due(store))
        service_end(store, "its index failed");
    removals_answer(store, ERR_IO);    /* those that are due; the others have heard */
    removals_end(store);
    service_metrics(store);
}

static void tend(struct store *store, uint64_t *retried_ms, uint64_t *checked_ms)
{
    const char *why;
    uint64_t now = mono_ms();
    if (!atomic_load(&store->open)) {
        service_note_doubt(store);
        if (now - *retried_ms < RETRY_MS)
            return;
        enum err ignored = service_begin(store, &why);    /* store_status says why */
        (void)ignored;
        *retried_ms = mono_ms();
    } else if (index_is_bad(store->index)) {    /* a reader found out */
        service_end(store, "its index failed");
    } else if (atomic_load(&store->unproved)) {
        service_end(store, "a commit took too long");
    } else if ((why = folder_why_lost(&store->folder))) {
        service_end(store, why);
    } else if (extents_bytes(store->extents) > atomic_load(&store->size_bytes)) {
        shrink(store);
    } else if (now - *checked_ms >= READER_CHECK_MS) {
        index_check_readers(store->index);
        *checked_ms = now;
    }
}

void *commit_run(void *arg)
{
    struct store *store = arg;
    uint64_t retried_ms = mono_ms(), checked_ms = mono_ms();
    struct batch batch;
    while (next_batch(store, &batch)) {
        bool was_open = atomic_load(&store->open);
        list_each(struct store_append, append, &batch.appends, link)
            job_make(store, &batch.jobs[batch.job_count++], append, &batch.keep);
        if (!is_empty(&batch)) {
            store_still_alive(store);
            if (was_open)
                run_batch(&batch);
            else
                refuse_batch(&batch);
            atomic_store(&store->busy_since_ms, 0);
            if (atomic_load(&store->open))
                service_metrics(store);
        }
        arena_free(&batch.keep);
        tend(store, &retried_ms, &checked_ms);
        atomic_store(&store->busy_since_ms, mono_ms());    /* it may hang as a commit may (H3) */
        service_measure(store);
        atomic_store(&store->busy_since_ms, 0);
    }
    arena_free(&batch.keep);
    return NULL;
}
