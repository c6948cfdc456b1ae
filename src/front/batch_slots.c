/* batch_slots.c - the items of a batch that have begun. SPDX-License-Identifier: Apache-2.0
 *
 * Each item is read by an ordinary get (cache/get.h: one read of an object, from the cache or the
 * origin), and items are answered in order. As long as all bytes are in the page cache, one get
 * runs at a time: a second one would only hold memory. After a get had to wait for the disk or an
 * origin, the items after it begin, too (slots_look_ahead), so that all of them wait together. At
 * most "batch_gets" of them run at a time. A further item begins only if, with this item, the
 * estimated memory of all gets is at most "batch_ahead" bytes. If two gets miss the same bytes, the
 * second one joins the fetch of the first. Only the loop of the batch's request calls these
 * functions. */
#include "front/batching.h"

#include "base/metric.h"

#define PIECE_BYTES (256 * KIB)       /* a get holds about this much memory at most */
#define LOGGED_MAX 16u                /* after so many failed items, no refusal is logged */

struct slot *slot_of(struct window *window, size_t index)
{
    check(index >= window->next && index - window->next < window->size);
    return &window->slots[index % window->size];
}

void slot_get_end(struct call *call, struct get **get)
{
    if (!*get)
        return;
    const struct get_cost *cost = get_cost(*get);
    call->access.cost.cache_bytes += cost->cache_bytes;
    call->access.cost.peers_bytes += cost->peers_bytes;
    call->access.cost.origin_bytes += cost->origin_bytes;
    get_end(get);
}

static void weigh(struct slot *slot, size_t bytes)
{
    struct window *window = &slot->batch->window;
    check(window->weight >= slot->weight);
    window->weight = window->weight - slot->weight + bytes;
    slot->weight = bytes;
}

void slot_let_go(struct slot *slot)
{
    struct batch *batch = slot->batch;
    slot_get_end(batch->call, &slot->get);
    weigh(slot, 0);
    *slot = (struct slot){ .batch = batch };
}

enum err slot_decide(struct slot *slot)
{
    check(slot->begun);
    if (slot->answer || slot->err)
        return OK;
    if (slot->waiting)
        return ERR_WAIT;
    enum err err = get_decide(slot->get, &slot->answer);
    slot->waiting = err == ERR_WAIT;
    slot->waited |= slot->waiting;
    if (err == OK) {
        uint64_t length = slot->answer->err ? 0 : slot->answer->end - slot->answer->first;
        struct window *window = &slot->batch->window;
        window->weight_last = (size_t)MIN(length, (uint64_t)PIECE_BYTES);
        weigh(slot, window->weight_last);
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
    struct slot *slot = slot_of(&batch->window, index);
    const struct item *item = &batch->end.items->list[index];
    struct get_ask ask;
    check(!slot->begun);
    *slot = (struct slot){ .batch = batch, .begun = true, .early = index > batch->window.next };
    slot->err = item_ask(&batch->judge, item, &ask);
    ask.list_id = (uintptr_t)batch;
    ask.to.lends = !http_request_is_tls(batch->call->http);
    ask.trace = call_trace(batch->call);
    batch->judge.quiet |= slot->err && batch->end.failed >= LOGGED_MAX;
    if (slot->err)
        return;
    size_t guess = item->kind == ITEM_SPAN && item->length != ITEM_OPEN
                 ? (size_t)MIN(item->length, (uint64_t)PIECE_BYTES) : batch->window.weight_last;
    weigh(slot, guess);
    slot->get = get_start(batch->call->loop->cache, &ask, changed, slot);
    (void)slot_decide(slot);
}

/* Counts an event when it happens for the first time in a batch. */
static void count_once(bool *reported, enum metric counter, bool happened)
{
    metric_add(counter, happened && !*reported);
    *reported |= happened;
}

/* Frees memory: ends the get of each later item whose answer is known. A get that waits goes on,
 * because other requests may share the fetch that it waits for. */
static void narrow(struct window *window)
{
    for (size_t i = window->next + 1; i < window->begun; i++)
        if (slot_of(window, i)->answer)
            slot_let_go(slot_of(window, i));
    count_once(&window->reported_narrow, M_BATCH_NARROW, true);
}

static bool begins_no_more(const struct batch *batch)
{
    return batch->late || batch->full || batch->ending || batch->loads.ended;
}

/* Starts gets only while at most half of the wanted number run. Several gets then start at once,
 * and their disk reads are submitted together. */
void slots_look_ahead(struct batch *batch)
{
    struct cache_loop *cache = batch->call->loop->cache;
    size_t most = batch->front->options.batches.ahead_bytes;
    struct window *window = &batch->window;
    size_t until = MIN(window->next + window->ahead, batch->end.items->count);
    if (window->begun - window->next > window->ahead / 2 || begins_no_more(batch))
        return;
    if (gets_are_scarce(cache)) {
        narrow(window);
        return;
    }
    cache_loop_plug(cache);
    for (; window->begun < until && window->weight + window->weight_last <= most; window->begun++)
        slot_begin(batch, window->begun);
    cache_loop_unplug(cache);
    count_once(&window->reported_ahead, M_BATCH_AHEAD, window->begun < until);
    bool all = window->begun == until && window->ahead == window->size &&
               until < batch->end.items->count;
    count_once(&window->reported_gets, M_BATCH_GETS, all);
}
