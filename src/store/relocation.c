/* relocation.c - batches of index changes for the committer. SPDX-License-Identifier: Apache-2.0
 *
 * A batch has a transaction of its own (beside.h). A copy of metadata lies in an extent with a
 * higher number than before. Two facts depend on that number: whether the metadata was learned
 * under another name of the shared identity (names.h), and whether its bucket was restated
 * (restated.h). So the committer looks both up for the old number when it publishes the copy, and
 * marks the entry as refused or as unproved. */
#include "store/relocation.h"

#include "base/failpoint.h"
#include "base/metric.h"
#include "store/account.h"
#include "store/beside.h"
#include "store/pinned.h"

enum err relocation_send(struct volume *volume, struct relocation *relocation)
{
    struct queue *queue = &volume->queue;
    relocation->answered = false;
    list_init(&relocation->link);
    pthread_mutex_lock(&queue->lock);
    list_add(&queue->relocations, &relocation->link);
    pthread_cond_signal(&queue->more);
    while (!relocation->answered)
        pthread_cond_wait(&queue->answered, &queue->lock);
    pthread_mutex_unlock(&queue->lock);
    return relocation->err;
}

static void answer(struct volume *volume, struct relocation *relocation, enum err e)
{
    struct queue *queue = &volume->queue;
    pthread_mutex_lock(&queue->lock);
    relocation->err = e;
    relocation->answered = true;
    pthread_cond_broadcast(&queue->answered);
    pthread_mutex_unlock(&queue->lock);
}

static struct relocation *take(struct volume *volume)
{
    struct queue *queue = &volume->queue;
    struct relocation *relocation = NULL;
    pthread_mutex_lock(&queue->lock);
    if (!list_empty(&queue->relocations))
        relocation = list_of(list_take(&queue->relocations), struct relocation, link);
    pthread_mutex_unlock(&queue->lock);
    return relocation;
}

void relocations_refuse(struct volume *volume)
{
    for (struct relocation *relocation; (relocation = take(volume));)
        answer(volume, relocation, ERR_IO);
}

/* ---- publishing ---- */

/* A purge came after the record was copied. If the name of a record of units is not known, all
 * units of the bucket count. */
static bool is_purged(struct volume *volume, const struct relocation_move *move)
{
    const struct copied *copied = &move->copied;
    struct ban_set *bans = ban_set_ref(&volume->bans->place);
    slice name = move->metadata ? move->metadata->name : move->name;
    bool purged = ban_set_may_cover(bans, name, copied->record.mark, copied->old_extent,
                                    copied->old_ordinal);
    ban_set_unref(&bans);
    return purged;
}

static enum err forget(struct volume *volume, const struct copied *copied)
{
    const struct record *record = &copied->record;
    struct toc_entry row = { .kind = record->kind, .data_len = record->data_len,
                             .first_unit = record->first_unit, .id = record->id };
    return publish_recycled(volume->index, &row, copied->old_extent, copied->old_ordinal);
}

static enum err publish_move(struct volume *volume, struct relocation_move *move)
{
    struct copied *copied = &move->copied;
    uint32_t old = copied->old_extent;
    if (move->metadata) {
        const struct known *known = &volume->known;
        copied->refused = names_are_others(known->names, volume->secret, move->metadata, old);
        copied->doubted = restated_is(known->restated, volume->secret, move->metadata, old);
    }
    if (is_purged(volume, move))
        return forget(volume, copied);
    return publish_copied(volume->index, copied, atomic_load(&volume->generation));
}

static enum err publish(struct volume *volume, void *arg)
{
    struct relocation *relocation = arg;
    enum err e = OK;
    for (size_t i = 0; !e && i < relocation->move_count; i++)
        e = publish_move(volume, &relocation->moves[i]);
    for (size_t i = 0; !e && i < relocation->row_count; i++) {
        index_set_evicting(volume->index, relocation->rows[i].evicted);
        e = publish_recycled(volume->index, &relocation->rows[i].row, relocation->extent,
                             relocation->rows[i].ordinal);
    }
    index_set_evicting(volume->index, false);
    return e;
}

/* The copies have ages before the index names them. */
static void add_copies(struct volume *volume, const struct relocation *relocation)
{
    struct extent *old = extent_ref(volume->extents, relocation->extent);
    pthread_mutex_lock(&volume->pinned.lock);
    for (size_t i = 0; old && i < relocation->move_count; i++) {
        const struct relocation_move *move = &relocation->moves[i];
        const struct record *record = &move->copied.record;
        struct ages *ages = extent_ages(volume->extents, record->extent);
        uint16_t before = ages_tally(extent_ages_of(old), move->copied.old_ordinal);
        slice name = move->metadata ? move->metadata->name : (slice){ "", 0 };
        if (ages)
            ages_add(ages, record->ordinal, &(struct ages_record){
                .stamp = move->stamp, .metadata = record->kind == KIND_HEAD,
                .tally = account_tally_of_copy(volume, record, name, before) });
        if (ages)
            ages_set_read(ages, record->ordinal,
                          ages_read(extent_ages_of(old), move->copied.old_ordinal));
        if (ages && move->pinned)
            pinned_copied(volume, ages, record);
    }
    pthread_mutex_unlock(&volume->pinned.lock);
    extent_release(&old);
}

/* A copy of a record that was replaced or removed meanwhile is dead. */
static void settle_copies(struct volume *volume, const struct relocation *relocation)
{
    for (size_t i = 0; i < relocation->move_count; i++)
        if (relocation->moves[i].pinned)
            pinned_settled(volume, &relocation->moves[i].copied.record);
}

/* Copies the times and grants of the metadata, which are kept by extent and ordinal. */
static void move_marks(struct volume *volume, const struct relocation *relocation)
{
    struct extent *extent = extent_ref(volume->extents, relocation->extent);
    for (size_t i = 0; extent && i < relocation->move_count; i++) {
        const struct copied *copied = &relocation->moves[i].copied;
        if (!relocation->moves[i].metadata)
            continue;
        if (!copied->doubted)
            extent_time_set(volume->extents, copied->record.extent, copied->record.ordinal,
                            extent_time(extent, copied->old_ordinal));
        extent_granted_raise(volume->extents, copied->record.extent, copied->record.ordinal,
                             extent_granted(extent, copied->old_ordinal));
        volume_changed(volume, &copied->record.id);
    }
    extent_release(&extent);
}

static void settle(struct volume *volume, void *arg)
{
    move_marks(volume, arg);
    settle_copies(volume, arg);
}

static enum err drop(struct volume *volume, uint32_t number, enum drop how)
{
    struct ages *ages = extent_ages(volume->extents, number);
    if (!ages)
        return OK;
    if (how == DROP && ages_entries(ages))
        return ERR_BUSY;    /* published meanwhile */
    /* A log that could not be made gave its number back since the recycler looked. */
    if (number == extents_highest(volume->extents))
        return ERR_BUSY;
    account_dropped(volume, number, false);    /* unread: lost, not evicted */
    pinned_dropped(volume, number);
    extent_drop(volume->extents, number);
    metric_add(M_STORE_RECYCLED, 1);
    atomic_fetch_add(&volume->recycler.recycled, 1);
    return OK;
}

bool relocation_take(struct volume *volume, enum err *ret)
{
    struct relocation *relocation = take(volume);
    *ret = OK;
    if (!relocation)
        return false;
    recycler_moves(volume);
    add_copies(volume, relocation);
    if (relocation->move_count || relocation->row_count)
        *ret = beside_commit(volume, publish, settle, relocation);
    (void)failpoint(FAIL_RELOCATED);
    enum err e = *ret;
    if (!e && relocation->drop)
        e = drop(volume, relocation->extent, relocation->drop);
    answer(volume, relocation, e);
    return true;
}
