/* batch_slots.c - items of a batch that have been begun. SPDX-License-Identifier: Apache-2.0
 *
 * Items are ordinary gets, answered in order. While those in the page cache are read, there is one
 * at a time: a second would only hold memory. Once one had to wait, for the disk or an origin,
 * those behind it are begun, too (slots_look_ahead), so that all wait together: at most batch_gets,
 * and as long as they hold no more than batch_ahead. What two of them lack is fetched once: a get
 * joins what is under way. Threads: the loop's. */
#include "front/batching.h"

#include "base/metric.h"

#define PIECE_BYTES (256 * KIB)       /* what a get holds at most, about */
#define LOGGED_MAX 16u                /* refusals by policy that are logged */

struct slot *slot_of(struct batch *batch, size_t index)
{
    return &batch->slots[index % batch->window];
}

void slot_get_end(struct batch *batch, struct get **get)
{
    if (!*get)
        return;
    const struct get_cost *cost = get_cost(*get);
    batch->call->cost.cache_bytes += cost->cache_bytes;
    batch->call->cost.origin_bytes += cost->origin_bytes;
    get_end(get);
}

void slot_let_go(struct slot *slot)
{
    struct batch *batch = slot->batch;
    slot_get_end(batch, &slot->get);
    batch->weight -= slot->weight;
    *slot = (struct slot){ .batch = batch };
}

static void weigh(struct slot *slot, size_t bytes)
{
    slot->batch->weight = slot->batch->weight - slot->weight + bytes;
    slot->weight = bytes;
}

enum err slot_decide(struct slot *slot)
{
    if (slot->answer || slot->err)
        return OK;
    if (slot->waiting)
        return ERR_WAIT;
    enum err err = get_decide(slot->get, &slot->answer);
    slot->waiting = err == ERR_WAIT;
    slot->waited |= slot->waiting;
    if (err == OK) {
        uint64_t length = slot->answer->err ? 0 : slot->answer->end - slot->answer->first;
        slot->batch->weight_last = (size_t)MIN(length, (uint64_t)PIECE_BYTES);
        weigh(slot, slot->batch->weight_last);
    }
    return err;
}

static void changed(void *arg)
{
    struct slot *slot = arg;
    slot->waiting = false;
    (void)slot_decide(slot);
    batch_step(slot->batch);
}

void slot_begin(struct batch *batch, size_t index)
{
    struct slot *slot = slot_of(batch, index);
    const struct item *item = &batch->list.batch.items.list[index];
    struct get_ask ask;
    *slot = (struct slot){ .batch = batch, .begun = true, .early = index > batch->next };
    slot->err = item_ask(&batch->judge, item, &ask);
    ask.party = (uintptr_t)batch;
    batch->judge.quiet |= slot->err && batch->end.failed >= LOGGED_MAX;
    if (slot->err)
        return;
    size_t guess = item->kind == ITEM_SPAN && item->length != ITEM_OPEN
                 ? (size_t)MIN(item->length, (uint64_t)PIECE_BYTES) : batch->weight_last;
    weigh(slot, guess);
    slot->get = get_start(batch->call->loop->cache, &ask, changed, slot);
    (void)slot_decide(slot);
}

/* Those that wait go on: what they wait for may be others', too. */
static void narrow(struct batch *batch)
{
    for (size_t i = batch->next + 1; i < batch->begun; i++)
        if (slot_of(batch, i)->answer)
            slot_let_go(slot_of(batch, i));
    metric_add(M_BATCH_NARROW, !batch->told_narrow);
    batch->told_narrow = true;
}

static bool begins_no_more(const struct batch *batch)
{
    return batch->late || batch->full || batch->ending || batch->ended;
}

/* Many at a time: what they read from the disk is read together. */
void slots_look_ahead(struct batch *batch)
{
    struct cache_loop *cache = batch->call->loop->cache;
    size_t most = batch->front->options.batches.ahead_bytes;
    size_t until = MIN(batch->next + batch->ahead, batch->end.items->count);
    if (batch->begun - batch->next > batch->ahead / 2 || begins_no_more(batch))
        return;
    if (gets_are_scarce(cache)) {
        narrow(batch);
        return;
    }
    cache_loop_plug(cache);
    for (; batch->begun < until && batch->weight + batch->weight_last <= most; batch->begun++)
        slot_begin(batch, batch->begun);
    cache_loop_unplug(cache);
    metric_add(M_BATCH_AHEAD, batch->begun < until && !batch->told_ahead);
    batch->told_ahead |= batch->begun < until;
    bool all = batch->begun == until && batch->ahead == batch->window &&
               until < batch->end.items->count;
    metric_add(M_BATCH_GETS, all && !batch->told_gets);
    batch->told_gets |= all;
}
