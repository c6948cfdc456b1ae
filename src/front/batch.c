/* batch.c - many objects, or ranges of them, in one answer. SPDX-License-Identifier: Apache-2.0
 *
 *   intake of the list ─ each item in turn: judged ─ get ─ its bytes added to the answer ─ end
 *
 * A batch is a POST whose body lists items: objects, or ranges of objects. The intake (intake.h)
 * verifies this body, and reads the list. Each item is read by a get (cache/get.h): one read of an
 * object from the cache or the origin.
 * This file has the beginning, the steps and the end of a batch. A step follows each event: a get
 * can go on (batch_slots.c), a write to the client is over, a pause for other requests is over
 * (batch_load.c), or the time for new items is up. The work of a step is in batch_turn.c, the
 * writes to the client are in batch_load.c. If an item fails after some of its bytes were sent, the
 * connection is reset (rule H10 in src/README.md). Threads: the loop; a long list is read on a
 * thread of the intake. */
#include "front/batching.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/metric.h"

/* ---- memory ---- */

static bool hold_memory(struct batch *batch, size_t bytes)
{
    size_t most = batch->front->options.batches.memory_bytes;
    check(batch->held_bytes == 0);
    size_t before = atomic_fetch_add(&batch->front->batch_bytes, bytes);
    if (before + bytes > most && before > 0) {    /* a batch that is alone always gets memory */
        atomic_fetch_sub(&batch->front->batch_bytes, bytes);
        metric_add(M_BATCH_MEMORY, 1);
        return false;
    }
    metric_gauge_add(M_BATCH_BYTES_HELD, (int64_t)bytes);
    batch->held_bytes = bytes;
    return true;
}

static void let_memory_go(struct batch *batch)
{
    check(atomic_fetch_sub(&batch->front->batch_bytes, batch->held_bytes) >= batch->held_bytes);
    metric_gauge_add(M_BATCH_BYTES_HELD, -(int64_t)batch->held_bytes);
    batch->held_bytes = 0;
}

/* ---- steps ---- */

static void batch_free(struct batch *batch)
{
    struct window *window = &batch->window;
    for (size_t i = window->next; i < window->begun; i++)
        slot_let_go(slot_of(window, i));
    http_timer_stop(&batch->timer);
    http_timer_stop(&batch->loads.rest);
    http_body_release(&batch->intake.hold);
    loads_end(&batch->loads, batch->call);
    if (batch->call) {
        batch->call->gone = NULL;
        batch->call->access.items = batch->end.answered;
        batch->call->access.failed = batch->end.failed;
    }
    let_memory_go(batch);
    arena_free(&batch->arena);
    free(batch);
}

void batch_step(struct batch *batch)
{
    struct call *call = batch->call;
    enum err err;
    check(call && !batch->intake.running && batch->window.slots);
    do
        err = turn_go_on(batch);
    while (err == OK);
    if (err == ERR_WAIT) {
        batch->window.ahead = batch->window.size;
        load_flush(batch);
    } else if (err != ERR_BUSY) {    /* no item may end early and look whole (H10) */
        call->err = err;
        batch_free(batch);
        http_reply_abort(call->http);
        return;
    }
    slots_look_ahead(batch);
}

static void proceed(void *arg)
{
    struct batch *batch = arg;
    batch->loads.sending = batch->loads.piece_out = false;
    load_empty(load_other(&batch->loads), batch->call);
    if (batch->loads.ended)
        batch_free(batch);
    else
        batch_step(batch);
}

/* Called when the client has gone. */
static void gone(void *arg)
{
    struct batch *batch = arg;
    if (batch->intake.running)
        batch->call = NULL;    /* the intake still reads the list; taken_in frees the batch */
    else
        batch_free(batch);
}

const struct http_source batch_source = { proceed, gone };

static void on_time(void *arg)
{
    struct batch *batch = arg;
    metric_add(M_BATCH_TIME, 1);
    batch->late = true;
    batch_step(batch);
}

/* ---- the beginning ---- */

static void refuse_all(struct batch *batch, enum err err, const struct s3_fault *fault)
{
    struct call *call = batch->call;
    struct s3_fault copy = *fault;
    copy.message = arena_copy(call->keep, fault->message);
    batch_free(batch);
    reply_fault(call, err, &copy);
}

static void start(struct batch *batch)
{
    const struct front_batches *limits = &batch->front->options.batches;
    struct call *call = batch->call;
    const struct items *items = &batch->intake.list.batch.items;
    struct window *window = &batch->window;
    window->size = MAX(MIN(limits->gets, items->count), 1);
    size_t bytes = batch->arena.used_bytes + window->size * sizeof(*window->slots) +
                   countof(batch->loads.pair) * sizeof(struct batch_buffer);
    if (!hold_memory(batch, bytes)) {
        refuse_all(batch, ERR_LIMIT, &(struct s3_fault){ .more_count = 0 });
        return;
    }
    window->slots = arena_alloc(&batch->arena, window->size * sizeof(*window->slots));
    for (size_t i = 0; i < window->size; i++)
        window->slots[i].batch = batch;
    window->ahead = 1;
    loads_begin(&batch->loads, call->loop);
    item_call(&batch->judge, batch->front, call->client, call->s3.bucket, &batch->arena);
    batch->judge.id = call->id;
    batch->form = batch->intake.list.batch.form == BATCH_FRAMES ? &batch_frames : &batch_tar;
    batch->end.items = items;
    batch->current.open_at = PART_SENT;
    batch->timer = http_timer_start(http_request_loop(call->http), limits->time_ms, on_time, batch);
    batch_step(batch);
}

static void taken_in(void *arg, const struct intake_outcome *outcome)
{
    struct batch *batch = arg;
    batch->intake.running = false;
    http_body_release(&batch->intake.hold);
    if (outcome->err)
        metric_add(M_BATCH_ITEMS, batch->intake.list.too_many);
    if (!batch->call)
        batch_free(batch);
    else if (outcome->err)
        refuse_all(batch, outcome->err, &outcome->fault);
    else
        start(batch);
}

/* Called when the loop is gone, and the request with it. */
static void lost(void *arg)
{
    struct batch *batch = arg;
    batch->call = NULL;
    batch_free(batch);
}

void batch_read(struct call *call)
{
    const struct judged *judged = http_request_judged(call->http);
    /* Refuses a header that might change the answer to a GetObject, because a batch would ignore
     * the header. The headers x-amz-checksum-* are allowed: they describe the list itself. */
    slice unknown = form_find_header(call, S("x-amz-checksum-"));
    if (unknown.len || call->s3.pass) {
        reply_error(call, ERR_NOT_IMPLEMENTED, unknown.len
                    ? arena_printf(call->keep, "A batch does not support the header %.*s: leave it "
                                   "out.", SLICE_ARG(unknown)) : S(""));
        return;
    }
    struct batch *batch = must_alloc(sizeof(*batch));
    batch->call = call;
    batch->began_ns = mono_ns();
    batch->front = call->front;
    batch->intake.list.items_max = call->front->options.batches.items;
    batch->intake.hold = http_body_take(call->http);
    batch->intake.running = true;
    call->gone = gone;
    call->gone_arg = batch;
    intake_start(call->front->intakes, &(struct intake_ask){
        http_loop_mailbox(http_request_loop(call->http)), batch->intake.hold, call->head, &call->s3,
        &judged->claim, call->loop->sigv4, judged->secret, .keep = &batch->arena,
        .list = &batch->intake.list, .done = taken_in, .lost = lost, .arg = batch });
}
