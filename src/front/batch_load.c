/* batch_load.c - the bytes that one write of a batch sends. SPDX-License-Identifier: Apache-2.0
 *
 *   load    run: heads and small items, copied | run: lent | run: copied ...
 *
 * A load is a scatter list: each run is a piece of memory to be sent. Items of at most 8 KiB are
 * copied into the load's buffer, and so are items of at most 64 KiB that come in several pieces.
 * Any other item is lent: its run points at the memory of its get (cache/get.h), the read that
 * brought the item. If a lent item comes in several pieces, one piece at a time is sent
 * (batch_turn.c). A batch has two loads. While one is being sent (rule H5 in src/README.md), the
 * other is filled. Each loop keeps a few buffers for the next batch. Threads: the loop. */
#include "front/batching.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define LENT_BYTES_MAX (512 * KIB)    /* a load with so many lent bytes is full */
#define SPARE_MAX 4u                  /* buffers that a loop keeps */
#define TURN_ITEMS 256u               /* after so many, other requests of the loop may run */

/* ---- buffers ---- */

static struct batch_buffer *take_buffer(struct front_loop *loop)
{
    struct batch_buffer *buffer = loop->spare;
    if (!buffer)
        return must_alloc(sizeof(*buffer));
    loop->spare = buffer->next;
    loop->spare_count--;
    return buffer;
}

static void give_buffer(struct front_loop *loop, struct batch_buffer *buffer)
{
    check(loop->spare_count <= SPARE_MAX);
    if (loop->spare_count == SPARE_MAX) {
        free(buffer);
        return;
    }
    buffer->next = loop->spare;
    loop->spare = buffer;
    loop->spare_count++;
}

void batch_buffers_free(struct front_loop *loop)
{
    while (loop->spare)
        free(take_buffer(loop));
}

void loads_begin(struct loads *loads, struct front_loop *loop)
{
    for (size_t i = 0; i < countof(loads->pair); i++)
        loads->pair[i].buffer = take_buffer(loop);
    loads->filling = &loads->pair[0];
}

void loads_end(struct loads *loads, struct call *call)
{
    for (size_t i = 0; i < countof(loads->pair); i++) {
        load_empty(&loads->pair[i], call);
        if (loads->pair[i].buffer)
            give_buffer(call->loop, loads->pair[i].buffer);
    }
}

/* ---- a load ---- */

struct load *load_other(struct loads *loads)
{
    return &loads->pair[loads->filling == &loads->pair[0]];
}

char *load_room(const struct load *load)
{
    return load->buffer->bytes + load->len;
}

static bool is_empty(const struct load *load)
{
    return load->len == 0 && load->run_count == 0;
}

static bool is_full(const struct load *load)
{
    return load->items >= TURN_ITEMS || load->lent_count == LENT_MAX ||
           load->lent_bytes >= LENT_BYTES_MAX;
}

static void add_run(struct load *load, slice run)
{
    check(run.len > 0 && load->run_count < countof(load->runs));
    load->runs[load->run_count++] = run;
}

static void end_run(struct load *load)
{
    check(load->from <= load->len && load->len <= BATCH_BUFFER_BYTES);
    if (load->len > load->from)
        add_run(load, (slice){ load->buffer->bytes + load->from, load->len - load->from });
    load->from = load->len;
}

void load_lend(struct load *load, slice bytes)
{
    end_run(load);
    add_run(load, bytes);
    load->lent_bytes += bytes.len;
}

void load_take_get(struct load *load, struct get **take_get)
{
    check(*take_get && load->lent_count < countof(load->lent));
    load->lent[load->lent_count++] = *take_get;
    *take_get = NULL;
}

void load_empty(struct load *load, struct call *call)
{
    for (size_t i = 0; i < load->lent_count; i++)
        slot_get_end(call, &load->lent[i]);
    *load = (struct load){ .buffer = load->buffer };
}

/* ---- sending a load ---- */

static void start_reply(struct batch *batch)
{
    struct call *call = batch->call;
    struct fields fields = { .keep = call->keep };
    fields_add(&fields, S("content-type"), batch->form->content_type);
    fields_add(&fields, S("x-amz-request-id"), call->id);
    batch->loads.replying = true;
    call->access.cost.first_ns = mono_ns() - batch->began_ns;
    http_reply_start(call->http, 200, fields.list, fields.count, HTTP_OPEN, &batch_source, batch);
}

void load_send(struct batch *batch, bool last)
{
    struct loads *loads = &batch->loads;
    struct load *load = loads->filling;
    check(!loads->sending);
    if (!loads->replying)
        start_reply(batch);
    end_run(load);
    loads->sending = true;
    batch->current.open_at = PART_SENT;
    loads->filling = load_other(loads);
    http_reply_send_runs(batch->call->http, load->runs, load->run_count, last);
}

void load_flush(struct batch *batch)
{
    struct current_item *current = &batch->current;
    struct load *load = batch->loads.filling;
    bool unsent = current->open && current->open_at != PART_SENT;
    size_t rest = unsent ? load->len - current->open_at : 0;
    check(rest <= load->len);
    load->len -= rest;
    if (batch->loads.sending || is_empty(load)) {
        load->len += rest;
        return;
    }
    load_send(batch, false);
    if (!rest)
        return;
    memcpy(load_room(batch->loads.filling), load->buffer->bytes + load->len, rest);
    batch->loads.filling->len = rest;
    current->open_at = 0;
}

static void on_rested(void *arg)
{
    struct batch *batch = arg;
    http_timer_stop(&batch->loads.rest);
    batch->loads.filling->items = 0;
    batch_step(batch);
}

enum err load_make_room(struct batch *batch, size_t bytes)
{
    struct loads *loads = &batch->loads;
    struct load *load = loads->filling;
    check(bytes <= BATCH_BUFFER_BYTES);
    if (BATCH_BUFFER_BYTES - load->len >= bytes && !is_full(load))
        return OK;
    if (!is_empty(load) && !loads->sending) {
        load_send(batch, false);
        return OK;
    }
    if (is_empty(load) && !loads->rest)
        loads->rest = http_timer_start(http_request_loop(batch->call->http), 1, on_rested, batch);
    return ERR_BUSY;
}
