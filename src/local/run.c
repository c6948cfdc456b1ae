/* run.c - reads the items of a share. SPDX-License-Identifier: Apache-2.0
 *
 * A share is a part of a client's list of items. Each item is an ordinary get (cache/get.h), with
 * the rights, the checks and the shared fetches of a GET: a missing item is fetched once, however
 * many clients want it. A worker begins the items of a share one after the other, and does not
 * wait for an item before it begins the next. A short item that is a hit in the page cache ends
 * before the next item begins. After some mebibytes, a long item lets other items go first. Bytes
 * go to the item's place in the buffer. The owner of that memory may write to it at the same time,
 * or take it away; only the owner's own fill is harmed then.
 * Threads: the worker's thread calls these functions. */
#include <stdlib.h>

#include "local/inside.h"

/* A worker is full when it has about SESSIONS_FULL * gets_max items in progress (gets_max: the
 * limit of one session; local.h). */
#define SESSIONS_FULL 8u
#define LOGGED_MAX 16u    /* refusals of one fill that are logged; the rest are only counted */
#define TURN_BYTES (4 * MIB)    /* bytes of one item before other items have a turn */

struct run {
    struct list link;
    struct worker *worker;
    struct share *share;
    const struct item *item;
    struct result *result;
    struct get *get;
    bool decided;
    char *to;                         /* where its bytes go; NULL: a prefetch, or a large item */
    struct large *large;              /* of an item larger than a slab (large.c); else NULL */
    uint64_t at, want;
};

/* ---- bytes ---- */

/* Returns ERR_FAULT if the buffer's memory was removed, or as get_run_copy. */
static enum err put(struct run *run, slice bytes)
{
    char *to = run->to + run->at;
    if (!run->to || bytes.ptr == to)    /* the store has read them to this place */
        return OK;
    return get_run_copy(run->get, bytes, to, run->share->fill->use);
}

/* ---- an item ---- */

/* Counts an item that was read. */
static void count(const struct run *run)
{
    const struct fill *fill = run->share->fill;
    const struct get_cost *cost = get_cost(run->get);
    uint64_t cache_bytes = fill->buffer ? cost->cache_bytes : 0;
    uint32_t number = metric_bucket(fill->message->bucket);
    metric_add(M_FILL_FROM_CACHE, cache_bytes);
    metric_add(M_FILL_FROM_PEERS, cost->peers_bytes);
    metric_bucket_add(number, BUCKET_READS, 1);
    metric_bucket_add(number, BUCKET_HITS, run->result->hit);
    metric_bucket_add(number, BUCKET_BYTES, run->at);
    metric_bucket_add(number, BUCKET_CACHE_BYTES, cache_bytes);
    metric_bucket_add(number, BUCKET_PEERS_BYTES, cost->peers_bytes);
}

static void finish(struct run *run, enum err err)
{
    struct share *share = run->share;
    struct fill *fill = share->fill;
    check(err != ERR_WAIT && share->left > 0);
    run->result->err = err;
    run->result->bytes = err ? 0 : run->at;
    const struct get_cost *cost = run->get ? get_cost(run->get) : NULL;
    run->result->hit = cost && !cost->peers_bytes && !cost->origin_bytes;
    if (run->get && !err)
        count(run);
    if (err && !fill->message->skip)
        atomic_store(&fill->failed, true);
    get_end(&run->get);
    large_free(&run->large);
    list_del(&run->link);
    check(run->worker->run_count-- > 0);
    check(atomic_fetch_sub(&fill->session->running, 1) > 0);
    free(run);
    if (--share->left == 0)
        share_settle(share);
}

/* Sets the item's result from the decision of the get, and run->want to the number of bytes that
 * follow. */
static enum err judge(struct run *run, const struct get_answer *answer)
{
    const struct item *item = run->item;
    if (answer->err) {
        run->result->status = answer->refusal ? answer->refusal->status : 0;
        return answer->err;
    }
    if (!item->length)
        return item->first <= answer->metadata->size ? OK : ERR_BAD_RANGE;
    run->want = answer->end - answer->first;
    return item->length == ITEM_OPEN || run->want == item->length ? OK : ERR_BAD_RANGE;
}

/* Returns true if no bytes are to be copied: the item is empty, or it is a prefetch of bytes that
 * the cache holds. */
static bool is_done(const struct run *run, const struct get_answer *answer)
{
    bool here = answer->source != GET_MISS && answer->source != GET_PARTIAL;
    return !run->want || (!run->share->fill->buffer && here);
}

static enum err move(struct run *run)
{
    if (run->large) {
        enum err err = large_move(run->large, run->get, run->want);
        run->at = err ? 0 : run->want;
        return err;
    }
    for (uint64_t until = run->at + TURN_BYTES; run->at < run->want;) {
        slice bytes;
        if (run->at >= until) {
            list_del(&run->link);
            list_add(&run->worker->ready, &run->link);
            return ERR_WAIT;
        }
        enum err err = get_next(run->get, &bytes);
        if (err)
            return err;
        check(bytes.len <= run->want - run->at);  /* else they would end beyond the item's place */
        err = put(run, bytes);
        if (err)
            return err;
        run->at += bytes.len;
    }
    return OK;
}

/* Ends a cancelled item. If the disk or a GPU may still use the item's memory, the function does
 * nothing, and the next step() of the item calls it again. */
static void give_up(struct run *run)
{
    if (!large_copies(run->large) && (!run->get || !get_writes(run->get)))
        finish(run, ERR_CANCELED);
}

static void step(void *arg)
{
    struct run *run = arg;
    const struct get_answer *answer;
    enum err err = OK;
    if (atomic_load(&run->share->fill->canceled)) {
        give_up(run);
        return;
    }
    if (!run->decided) {
        err = get_decide(run->get, &answer);
        if (err == ERR_WAIT)
            return;
        run->decided = true;
        err = judge(run, answer);
        if (err || is_done(run, answer)) {
            run->at = err ? 0 : run->want;
            finish(run, err);
            return;
        }
    }
    err = move(run);
    if (err != ERR_WAIT)
        finish(run, err);
}

static enum err ask_for(struct run *run, struct get_ask *ret)
{
    struct worker *worker = run->worker;
    struct fill *fill = run->share->fill;
    const struct item *item = run->item;
    const struct reader_judge *judge = &worker->local->options.judge;
    struct reader reader = fill->reader;
    reader.quiet = atomic_load(&fill->refused) >= LOGGED_MAX;
    enum err err = judge->may_get(judge->arg, &worker->scratch, &reader, fill->message->bucket,
                                  item, ret);
    ret->list_id = (uintptr_t)fill->session;
    ret->to.lends = true;
    atomic_fetch_add(&fill->refused, err == ERR_POLICY);
    arena_free(&worker->scratch);
    ret->to.at = run->to;
    ret->to.bytes = item->length == ITEM_OPEN ? item->max : item->length;
    return err;
}

static void start(struct worker *worker, struct share *share, size_t index)
{
    struct fill *fill = share->fill;
    struct run *run = must_alloc(sizeof(*run));
    struct get_ask ask = { 0 };
    enum err err = ERR_CANCELED;
    *run = (struct run){ .worker = worker, .share = share,
                         .item = &fill->message->items.list[index],
                         .result = &fill->results[index] };
    list_add(&worker->runs, &run->link);
    worker->run_count++;
    if (share->slab && share->large)
        run->large = large_new(share, run->item, worker->box, step, run);
    else if (share->slab)
        run->to = share->slab->mem + share->offsets[index - share->first];
    else if (fill->buffer && !fill->buffer->device)
        run->to = fill->buffer->base + run->item->to;
    if (!atomic_load(&fill->canceled) && !atomic_load(&fill->failed))
        err = ask_for(run, &ask);
    if (err) {
        finish(run, err);
        return;
    }
    run->get = get_start(worker->cache, &ask, step, run);
    step(run);
}

/* Returns false if the share needs a slab and got none; then it waits for one. */
static bool begin(struct worker *worker, struct share *share)
{
    /* Copied: the end of the last item may free the share. */
    size_t first = share->first, count = share->count;
    if (!share_take_slab(share)) {
        list_add(&worker->starved, &share->link);
        return false;
    }
    cache_loop_plug(worker->cache);    /* so that reads from the disk start together */
    for (size_t i = 0; i < count; i++)
        start(worker, share, first + i);
    cache_loop_unplug(worker->cache);
    return true;
}

/* ---- turns ---- */

bool run_is_full(const struct worker *worker)
{
    return worker->run_count + SHARE_ITEMS > SESSIONS_FULL * worker->local->options.gets_max;
}

bool run_turn(struct worker *worker)
{
    struct list mine;
    list_init(&mine);
    list_move(&mine, &worker->ready);
    while (!list_empty(&mine)) {
        struct run *run = list_of(list_take(&mine), struct run, link);
        list_add(&worker->runs, &run->link);
        step(run);
    }
    struct share *share = queue_take(worker->local, run_is_full(worker));
    if (share)
        (void)begin(worker, share);
    return share || !list_empty(&worker->ready);
}

static void sweep(struct list *runs)
{
    list_each_safe(struct run, run, runs, link)
        if (atomic_load(&run->share->fill->canceled))
            give_up(run);
}

void run_look(struct worker *worker)
{
    struct list starved;
    const struct buffer *without = NULL;    /* no slab was free for a share of this buffer */
    list_init(&starved);
    sweep(&worker->runs);
    sweep(&worker->ready);
    list_move(&starved, &worker->starved);
    while (!list_empty(&starved)) {
        struct share *share = list_of(list_take(&starved), struct share, link);
        struct fill *fill = share->fill;
        if (fill->buffer == without && !atomic_load(&fill->canceled))
            list_add(&worker->starved, &share->link);
        else if (!begin(worker, share))
            without = fill->buffer;
    }
}
