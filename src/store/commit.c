/* commit.c - the committer: one thread a folder that writes. SPDX-License-Identifier: Apache-2.0
 *
 *     queue ── batch ──> CRCs ──> log (one append) ──> index (one transaction) ──> done()
 *                                  └─ no room: recycle ─┘
 *
 * A batch closes at 100 entries, 100 ms after its first record came, at 16 MiB, or at once when a removal
 * comes (H3); what came while the last one was written goes along, up to 1,000 entries or 64 MiB. Bytes are written before the transaction begins (H2); whether a record may still be
 * published is asked inside it (H7). Full disk or full map: recycle an extent, once, and try again.
 *
 * What fails otherwise takes the folder out of service: it is closed as after a crash, so that the next
 * opening, tried every 5 s, raises the generation, and nothing that a lost removal should have removed
 * is believed. Until then appends and removals are answered with ERR_IO at once.
 * A second thread, the watch, answers removals when a commit or an opening hangs (H3).
 * Recycling: index entries first, then the file; a few thousand entries a transaction. */
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/metric.h"
#include "store/inside.h"
#include "store/policy.h"
#include "store/publish.h"
#include "store/rewrite.h"

#define BATCH_ENTRIES 100u
#define BATCH_MS 100u
#define BATCH_BYTES (16 * MIB)
#define TAKEN_ENTRIES 1000u           /* what has come meanwhile goes along: fewer commits when it matters */
#define TAKEN_BYTES (64 * MIB)
#define RETRY_MS 5000u
#define WATCH_MS 500u
#define READER_CHECK_MS 60000u
#define RECYCLE_BATCH 2000u           /* records of an extent that goes, in one transaction */
#define SHRINK_MS 200u
#define RESERVE_MAX (8 * GIB)

struct job {
    struct store_append *append;
    struct log_item items[2];         /* the head by itself, and units; or one WHOLE */
    uint32_t count;
    enum err err;
};

struct batch {
    struct store *store;
    struct arena keep;
    struct list appends, tweaks;
    struct job *jobs;
    uint32_t job_count;
    struct object_id *removed;        /* copies: the watch may have answered for their owner */
    size_t removed_count;
    bool has_removals;
};

/* ---- records out of what was handed in ---- */

static void fill_crcs(struct record *record, slice bytes)
{
    for (uint32_t i = 0; i < record_blocks(record); i++) {
        slice block = slice_sub(bytes, (size_t)i * BLOCK_BYTES, BLOCK_BYTES);
        record->crc[i] = block_crc(&record->id, record->etag_hash, record->first_unit + i / 2,
                                   block.ptr, block.len);
    }
}

static void fill_head(struct log_item *item, const struct head *head, struct arena *keep)
{
    struct record *record = &item->record;
    size_t len = head_block_bytes(head);
    uint8_t *bytes = arena_alloc(keep, len);
    head_block_encode(head, bytes);
    item->head_block = (slice){ (char *)bytes, len };
    record->head_len = (uint32_t)len;
    record->head_crc = block_crc(&record->id, record->etag_hash, HEAD_UNIT, bytes, len);
    record->mark = head_mark(head->size, head->modified_s);
}

static struct log_item *add_item(struct job *job, enum record_kind kind, uint32_t first_unit)
{
    const struct head *head = job->append->head;
    struct log_item *item = &job->items[job->count++];
    item->record = (struct record){ .kind = kind, .id = head->id, .first_unit = first_unit,
                                    .etag_hash = head->etag_hash };
    return item;
}

static void add_bytes(struct log_item *item, slice bytes)
{
    item->bytes = bytes;
    item->record.data_len = (uint32_t)bytes.len;
    fill_crcs(&item->record, bytes);
}

/* All bytes of a small object, handed in with its head or lying here already. ERR_LIMIT: can't tell. */
static enum err find_whole(struct store *store, const struct store_append *append, struct arena *keep,
                           slice *ret)
{
    *ret = append->bytes;
    if (!append->with_head || append->first_unit != 0)
        return ERR_NOT_FOUND;
    if (!append->bytes.len && append->head->size)
        return rewrite_bytes(store, append->head, keep, ret);
    bool whole = append->bytes.len == append->head->size && append->head->size <= WHOLE_BYTES_MAX;
    return whole ? OK : ERR_NOT_FOUND;
}

static void make_job(struct store *store, struct job *job, struct store_append *append, struct arena *keep)
{
    slice bytes;
    job->append = append;
    enum err found = find_whole(store, append, keep, &bytes);
    job->err = found == ERR_LIMIT ? ERR_FULL : OK;    /* a head by itself would cost us the bytes */
    if (job->err)
        return;
    if (!found) {
        struct log_item *item = add_item(job, KIND_WHOLE, 0);
        fill_head(item, append->head, keep);
        add_bytes(item, bytes);
        return;
    }
    if (append->with_head)
        fill_head(add_item(job, KIND_HEAD, HEAD_UNIT), append->head, keep);
    if (append->bytes.len)
        add_bytes(add_item(job, KIND_UNITS, append->first_unit), append->bytes);
}

/* ---- room ---- */

static void still_alive(struct store *store)
{
    atomic_store(&store->busy_since_ms, mono_ms());
}

static enum err forget_extent(struct store *store, uint32_t number, const struct toc_entry *entries,
                              uint32_t count)
{
    enum err e = OK;
    for (uint32_t i = 0; !e && i < count;) {
        e = index_begin(store->index);
        for (uint32_t end = MIN(count, i + RECYCLE_BATCH); !e && i < end; i++)
            e = publish_recycled(store->index, &entries[i], number, i);
        if (!e)
            e = index_commit(store->index);
        index_abort(store->index);
        still_alive(store);
    }
    return e;
}

/* ERR_FULL: there is none that may go. */
static enum err recycle_one(struct store *store)
{
    struct arena keep = { 0 };
    struct policy_extent *extents;
    struct toc_entry *entries = NULL;
    uint32_t count = 0;
    size_t extent_count = extents_list(store->extents, &keep, &extents);
    size_t victim = policy_victim(extents, extent_count);
    enum err e = victim < extent_count ? OK : ERR_FULL;
    if (!e) {
        uint32_t number = extents[victim].number;
        e = extent_contents(store->extents, number, &keep, &entries, &count);
        if (e == ERR_LIMIT) {    /* no descriptor to read it with: it may go later */
            arena_free(&keep);
            return ERR_FULL;
        }
        if (!e)
            e = forget_extent(store, number, entries, count);
        bool full = e == ERR_FULL || e == ERR_LIMIT;
        if (!e || full || e == ERR_NOT_FOUND) {
            /* A full disk has no room for the deletions: the file goes first. A number that is not there
             * is a miss (H1), and the number is not used again. */
            extent_drop(store->extents, number);
            metric_add(M_STORE_RECYCLED, 1);
            e = full ? forget_extent(store, number, entries, count) : OK;
        }
    }
    arena_free(&keep);
    return e;
}

static uint64_t free_bytes(const struct store *store)
{
    struct statvfs fs;
    return statvfs(store->folder.path, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;
}

/* Recycles until one more extent fits into the size and leaves the reserve alone. */
static enum err make_room(struct store *store)
{
    uint64_t want = store->folder.format.extent_bytes;
    enum err e = OK;
    while (!e && (extents_bytes(store->extents) + want > atomic_load(&store->size_bytes) ||
                  free_bytes(store) < atomic_load(&store->reserve_bytes) + want))
        e = recycle_one(store);
    return e;
}

/* The newest goes only when a newer one stands: after the size was lowered, over it for a moment. */
static bool is_last_too_big(struct store *store)
{
    return extents_count(store->extents) == 1 &&
           free_bytes(store) >= atomic_load(&store->reserve_bytes) + store->folder.format.extent_bytes;
}

static enum err next_extent(struct store *store)
{
    enum err e = make_room(store);
    if (e == ERR_FULL && is_last_too_big(store))
        e = OK;
    if (!e)
        e = log_roll(store->extents);
    if (e == ERR_FULL && recycle_one(store) == OK)
        e = log_roll(store->extents);
    return e == ERR_LIMIT ? ERR_FULL : e;    /* no descriptor: as good as no room */
}

/* ---- bytes ---- */

/* Writes items[] in order; *ret_done: how many of them are on disk when it fails. */
static enum err write_items(struct store *store, struct log_item **items, uint32_t count, uint32_t *ret_done)
{
    uint32_t done = 0;
    bool recycled = false, fresh = false;
    enum err e = OK;
    while (done < count) {
        uint32_t next = done;
        while (next < count && log_add(store->extents, items[next]) == OK)
            next++;
        e = log_write(store->extents);
        if (!e && next > done) {
            done = next;
            fresh = false;
            continue;
        }
        if (e && (e != ERR_FULL || recycled))
            break;
        check(e || !fresh);    /* any record fits an empty extent */
        recycled = recycled || e;
        e = e ? recycle_one(store) : OK;
        if (!e)
            e = next_extent(store);
        if (e)
            break;
        fresh = true;
    }
    *ret_done = done;
    return e;
}

static enum err write_batch(struct batch *batch)
{
    struct log_item **items = arena_alloc(&batch->keep, (2 * batch->job_count + 1) * sizeof(*items));
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

/* A long batch in a small folder may have recycled what it wrote first: an entry would name what is gone, for
 * good. */
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
    for (uint32_t i = 0; !e && i < job->count; i++)
        e = publish_record(batch->store->index, &job->items[i].record, job->items[i].offset,
                           atomic_load(&batch->store->generation));
    return e;
}

static enum err publish_tweak(struct store *store, const struct tweak *tweak)
{
    if (tweak->kind == TWEAK_FORGET)
        return publish_forget(store->index, &tweak->id, tweak->unit, tweak->extent, tweak->ordinal);
    if (tweak->generation != atomic_load(&store->generation))
        return OK;    /* vouched for before something went by unseen */
    return publish_proof(store->index, &tweak->id, tweak->unit, tweak->extent, tweak->ordinal,
                         tweak->generation);
}

static enum err publish_all(struct batch *batch)
{
    struct index *index = batch->store->index;
    enum err e = index_begin(index);
    for (uint32_t i = 0; !e && i < batch->job_count; i++)
        if (batch->jobs[i].err == OK)
            e = publish_job(batch, &batch->jobs[i]);
    list_each(struct tweak, tweak, &batch->tweaks, link)
        e = e ? e : publish_tweak(batch->store, tweak);
    for (size_t i = 0; !e && i < batch->removed_count; i++)
        e = publish_removal(index, &batch->removed[i]);
    if (!e)
        e = index_commit(index);
    index_abort(index);
    return e;
}

static enum err commit_batch(struct batch *batch)
{
    enum err e = publish_all(batch);
    if ((e == ERR_FULL || e == ERR_LIMIT) && recycle_one(batch->store) == OK)
        e = publish_all(batch);
    if (!e)
        metric_add(M_STORE_COMMITS, 1);
    return e == ERR_LIMIT ? ERR_FULL : e;
}

/* ---- what follows from a commit ---- */

static void changed(struct store *store, const struct object_id *id)
{
    atomic_fetch_add(change_counter(store, id), 1);
}

static void settle_job(struct store *store, const struct job *job)
{
    struct head *head = job->append->head;
    if (job->err || !job->append->with_head)
        return;
    const struct record *record = &job->items[0].record;    /* the one with the head comes first */
    extent_time_set(store->extents, record->extent, record->ordinal, atomic_load(&head->validated_s));
    atomic_store(&head->unproved, false);
    changed(store, &head->id);
    heads_put(store->heads, head);
}

static void settle_tweak(struct store *store, const struct tweak *tweak)
{
    if (tweak->kind != TWEAK_PROVE || tweak->generation != atomic_load(&store->generation))
        return;
    changed(store, &tweak->id);    /* who reads it from the disk just now saw it unproved */
    struct head *head = heads_get(store->heads, &tweak->id);
    if (head)
        atomic_store(&head->unproved, false);
    head_unref(&head);
}

static void settle(struct batch *batch)
{
    struct store *store = batch->store;
    for (uint32_t i = 0; i < batch->job_count; i++)
        settle_job(store, &batch->jobs[i]);
    list_each(struct tweak, tweak, &batch->tweaks, link)
        settle_tweak(store, tweak);
    for (size_t i = 0; i < batch->removed_count; i++) {
        changed(store, &batch->removed[i]);
        heads_drop(store->heads, &batch->removed[i]);
    }
}

static void move_all(struct list *from, struct list *to)
{
    list_init(to);
    while (!list_empty(from)) {
        struct list *link = from->next;
        list_del(link);
        list_add(to, link);
    }
}

static void answer_append(struct store *store, struct store_append *append, enum err e)
{
    if (append->with_head)
        atomic_fetch_sub(coming_counter(store, &append->head->id), 1);
    list_del(&append->link);
    append->done(append, e);    /* gone, perhaps */
}

static void answer_removals(struct list *removals, enum err e)
{
    list_each_safe(struct store_removal, removal, removals, link) {
        list_del(&removal->link);
        removal->done(removal, e);
    }
}

/* Every one of the batch hears how it went; e: of those that were fine so far. */
static void answer_all(struct batch *batch, enum err e)
{
    for (uint32_t i = 0; i < batch->job_count; i++)
        answer_append(batch->store, batch->jobs[i].append,
                      batch->jobs[i].err ? batch->jobs[i].err : e);
    struct list removals;
    pthread_mutex_lock(&batch->store->lock);
    move_all(&batch->store->committing, &removals);
    pthread_mutex_unlock(&batch->store->lock);
    answer_removals(&removals, e ? ERR_IO : OK);
    list_each_safe(struct tweak, tweak, &batch->tweaks, link) {
        list_del(&tweak->link);
        free(tweak);
    }
}

/* ---- in and out of service ---- */

static void set_metrics(struct store *store)
{
    metric_set(M_STORE_BYTES, (int64_t)extents_bytes(store->extents));
    metric_set(M_STORE_ENTRIES, (int64_t)index_entries(store->index));
    metric_set(M_STORE_SERVING, store_is_serving(store));
}

enum err commit_open_folder(struct store *store, const char **ret_why)
{
    struct folder_wish wish = { .size_bytes = store->options.size_bytes,
                                .extent_bytes = store->options.extent_bytes,
                                .unproved = atomic_exchange(&store->unproved, false) };
    enum err e = folder_open(&store->folder, &wish, store->secret, ret_why);
    if (e) {
        if (wish.unproved)
            atomic_store(&store->unproved, true);
        atomic_store(&store->why, *ret_why);
        return e;
    }
    struct statvfs fs;
    uint64_t reserve = store->options.reserve_bytes;
    if (!reserve && statvfs(store->folder.path, &fs) == 0)
        reserve = MIN((uint64_t)fs.f_blocks * fs.f_frsize / 20, RESERVE_MAX);
    atomic_store(&store->reserve_bytes, reserve);
    atomic_store(&store->size_bytes, store->folder.format.size_bytes);
    atomic_store(&store->generation, store->folder.format.generation);
    heads_clear(store->heads);
    store->doubted = false;
    atomic_store(&store->why, "");
    atomic_store(&store->open, true);
    set_metrics(store);
    return OK;
}

static void go_out(struct store *store, const char *why)
{
    atomic_store(&store->why, why);
    atomic_store(&store->open, false);
    metric_add(M_STORE_FAULTS, 1);
    folder_close(&store->folder, false);    /* as after a crash: nothing is believed when it comes back */
    heads_clear(store->heads);
    set_metrics(store);
}

/* ---- the thread ---- */

static void run_batch(struct batch *batch)
{
    struct store *store = batch->store;
    enum err written = write_batch(batch);
    enum err e = commit_batch(batch);
    if (!e)
        settle(batch);
    bool removal_lost = e && batch->has_removals;
    bool out = (written && written != ERR_FULL) || (e && (e != ERR_FULL || removal_lost)) ||
               index_is_bad(store->index);
    if (out)
        go_out(store, written && written != ERR_FULL ? "writing to it failed" : "its index failed");
    else if (atomic_load(&store->unproved))    /* the watch gave up on a removal */
        go_out(store, "a commit took too long");
    answer_all(batch, e);
}

/* Once, while the folder is out: our memory of what it did not see ends with us. */
static void note_doubt(struct store *store)
{
    if (atomic_load(&store->unproved) && !store->doubted)
        folder_doubt(store->folder.path);
    store->doubted = atomic_load(&store->unproved);
}

static void refuse_batch(struct batch *batch)
{
    if (batch->has_removals)
        atomic_store(&batch->store->unproved, true);
    note_doubt(batch->store);
    for (uint32_t i = 0; i < batch->job_count; i++)
        batch->jobs[i].err = ERR_IO;
    answer_all(batch, ERR_IO);
}

static void copy_removals(struct store *store, struct batch *batch)
{
    size_t count = 0;
    list_each(struct store_removal, removal, &store->removals, link)
        count += removal->count;
    batch->removed = arena_alloc(&batch->keep, (count + 1) * sizeof(*batch->removed));
    list_each(struct store_removal, removal, &store->removals, link)
        for (size_t i = 0; i < removal->count; i++)
            batch->removed[batch->removed_count++] = removal->ids[i];
}

/* Under the lock. Appends beyond the batch's size stay for the next one. */
static void take_batch(struct store *store, struct batch *batch)
{
    size_t entries = 0, bytes = 0, count = 0;
    list_init(&batch->appends);
    /* never so many that the last would recycle the first */
    size_t bytes_max = MIN(TAKEN_BYTES, atomic_load(&store->size_bytes) / 4);
    while (!list_empty(&store->appends) && entries < TAKEN_ENTRIES && (bytes == 0 || bytes < bytes_max)) {
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
    copy_removals(store, batch);
    move_all(&store->removals, &store->committing);
    move_all(&store->tweaks, &batch->tweaks);
    store->tweak_count = 0;
    batch->jobs = arena_alloc(&batch->keep, (count + 1) * sizeof(*batch->jobs));
}

/* Under the lock: how long the batch may still stay open. */
static uint64_t wait_ms(const struct store *store)
{
    if (store->stopping || !list_empty(&store->removals) || store->queued_entries >= BATCH_ENTRIES ||
        store->queued_bytes >= BATCH_BYTES)
        return 0;
    if (list_empty(&store->appends) && list_empty(&store->tweaks))
        return 1000;
    if (!atomic_load(&store->open))
        return 0;
    uint64_t age = mono_ms() - store->oldest_ms;
    return age < BATCH_MS ? BATCH_MS - age : 0;
}

static bool is_empty(const struct batch *batch)
{
    return list_empty(&batch->appends) && list_empty(&batch->tweaks) && !batch->has_removals;
}

/* Sleeps until a batch is closed or a second has passed. False: stopping, and nothing is left. */
static bool next_batch(struct store *store, struct batch *batch)
{
    *batch = (struct batch){ .store = store };
    pthread_mutex_lock(&store->lock);
    uint64_t until = mono_ms() + 1000;
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

/* After the size was lowered: a little at a time, and nobody has to write for it. */
static void shrink(struct store *store)
{
    uint64_t until_ms = mono_ms() + SHRINK_MS;
    enum err e = OK;
    while (!e && extents_bytes(store->extents) > atomic_load(&store->size_bytes) && mono_ms() < until_ms)
        e = recycle_one(store);
    atomic_store(&store->busy_since_ms, 0);
    if (e && e != ERR_FULL)
        go_out(store, "its index failed");
    set_metrics(store);
}

static void tend(struct store *store, uint64_t *retried_ms, uint64_t *checked_ms)
{
    const char *why;
    uint64_t now = mono_ms();
    if (!atomic_load(&store->open)) {
        note_doubt(store);
        if (now - *retried_ms < RETRY_MS)
            return;
        enum err ignored = commit_open_folder(store, &why);    /* store_status says why */
        (void)ignored;
        *retried_ms = mono_ms();
    } else if (index_is_bad(store->index)) {    /* a reader found out */
        go_out(store, "its index failed");
    } else if (atomic_load(&store->unproved)) {
        go_out(store, "a commit took too long");
    } else if (!folder_is_there(&store->folder)) {
        go_out(store, "it was removed");
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
            make_job(store, &batch.jobs[batch.job_count++], append, &batch.keep);
        if (!is_empty(&batch)) {
            still_alive(store);
            if (was_open)
                run_batch(&batch);
            else
                refuse_batch(&batch);
            atomic_store(&store->busy_since_ms, 0);
            if (atomic_load(&store->open))
                set_metrics(store);
        }
        arena_free(&batch.keep);
        tend(store, &retried_ms, &checked_ms);
    }
    arena_free(&batch.keep);
    return NULL;
}

/* A disk that hangs holds the committer inside a call. Removals are not to wait for it: they are told that
 * the folder is out, which is true from now on, and it comes back only unproved. */
static void give_up_on_removals(struct store *store)
{
    struct list waiting, committing;
    pthread_mutex_lock(&store->lock);
    move_all(&store->removals, &waiting);
    move_all(&store->committing, &committing);
    if (!list_empty(&waiting) || !list_empty(&committing))
        atomic_store(&store->unproved, true);
    pthread_mutex_unlock(&store->lock);
    answer_removals(&committing, ERR_IO);
    answer_removals(&waiting, ERR_IO);
}

void *commit_watch(void *arg)
{
    struct store *store = arg;
    pthread_mutex_lock(&store->lock);
    while (!store->stopping) {
        uint64_t at = clock_ns(CLOCK_MONOTONIC) + WATCH_MS * 1000000u;
        struct timespec ts = { (time_t)(at / 1000000000u), (long)(at % 1000000000u) };
        pthread_cond_timedwait(&store->stop, &store->lock, &ts);
        pthread_mutex_unlock(&store->lock);
        if (!store_is_serving(store))    /* stuck in a commit, or in opening the folder */
            give_up_on_removals(store);
        pthread_mutex_lock(&store->lock);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}
