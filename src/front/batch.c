/* batch.c - many objects, or pieces of them, in one answer. SPDX-License-Identifier: Apache-2.0
 *
 *   intake of the list ─ item after item: judged ─ get ─ its bytes behind those before ─ end
 *
 * Items are ordinary gets, answered in order. While those in the page cache are read, there is one
 * at a time: a second would only hold memory. Once one had to wait, for the disk or an origin,
 * those behind it are begun, too (look_ahead), so that all wait together: at most batch_gets, and as
 * long as they hold no more than batch_ahead. What two of them lack is fetched once: a get joins
 * what is under way.
 *
 * Small items are copied behind each other, larger ones lent from where they lie, and leave together
 * in a load; one that is more than a piece leaves a piece at a time. One send, then wait for proceed
 * (H5): meanwhile another load is made. An item that fails is told as such while nothing of it is out; then the
 * connection is reset (H10). Threads: the loop's, but for the list, which is read as it is taken
 * in. */
#include "front/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/metric.h"
#include "s3/encode.h"
#include "s3/xml.h"

#define BUFFER_BYTES (256 * KIB)
#define SMALL_BYTES (8 * KIB)         /* costs less to copy than to lend */
#define COPY_BYTES_MAX (64 * KIB)     /* a larger item is not copied */
#define LENT_BYTES_MAX (512 * KIB)    /* two loads of that are what a reader keeps buffers for */
#define LENT_MAX 28u
#define SPARE_MAX 4u                  /* buffers that a loop keeps */
#define TURN_ITEMS 256u               /* then others on this loop have theirs */
#define PIECE_BYTES (256 * KIB)       /* what a get holds at most, about */
#define LOGGED_MAX 16u                /* refusals by policy that are logged */
#define CODE_BYTES 64u
#define NOT_OPEN SIZE_MAX

struct batch_buffer {
    struct batch_buffer *next;
    char bytes[BUFFER_BYTES];
};

/* What leaves in one write. */
struct load {
    struct batch_buffer *buffer;
    size_t len, from;                 /* bytes in it; those from `from` on are in no run yet */
    slice runs[HTTP_RUNS_MAX];
    size_t run_count, items;
    struct get *lent[LENT_MAX + 1];   /* runs lie in these */
    size_t lent_count, lent_bytes;
};
static_assert(2 * LENT_MAX + 3 <= HTTP_RUNS_MAX, "a run before each that is lent, and one more");

/* An item that has been begun. */
struct slot {
    struct batch *batch;
    struct get *get;                  /* NULL: it may not be asked for, or has been let go */
    enum err err;                     /* why */
    const struct get_answer *answer;  /* NULL: not decided */
    bool begun, waiting, waited, early;
    size_t weight;                    /* what it may hold, as far as is known */
};

struct batch {
    struct call *call;                /* NULL: its client went while the list was taken in */
    struct front *front;
    struct arena arena;               /* the list */
    struct intake_list list;
    struct http_body *hold;
    bool in_intake;
    uint64_t began_ns;
    size_t held_bytes;                /* of memory_batches */
    struct http_timer *timer, *rest;
    struct call judge;                /* stands for the request that an item might have been */

    const struct batch_form *form;
    struct batch_end end;
    struct batch_failure *failures;
    size_t failure_room;

    struct slot *slots;               /* of item i: i % window */
    size_t window, next, begun;       /* items [next, begun) have one */
    size_t ahead;                     /* so many are to be under way */
    size_t calm;                      /* items in a row that had to wait for nothing */
    size_t weight;
    size_t weight_last;               /* of the last that is known */
    bool late, full, ending;          /* no further item is begun */
    bool told_ahead, told_narrow;     /* counted once */

    /* the item whose turn it is */
    struct batch_entry entry;
    size_t open_at;                   /* where it begins in the buffer; NOT_OPEN: all that is gone */
    bool open;
    uint64_t left;
    slice piece;                      /* of it, neither copied nor sent yet */
    uint64_t bytes;                   /* of objects, so far */

    struct load loads[2];
    struct load *load;                /* the one that is being made; the other may be on its way */
    bool replying, sending, piece_out, ended;
};

/* ---- memory ---- */

static bool hold_memory(struct batch *batch, size_t bytes)
{
    size_t most = batch->front->options.batches.memory_bytes;
    size_t before = atomic_fetch_add(&batch->front->batch_bytes, bytes);
    if (before + bytes > most && before > 0) {    /* one alone is as large as its limits let it */
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
    atomic_fetch_sub(&batch->front->batch_bytes, batch->held_bytes);
    metric_gauge_add(M_BATCH_BYTES_HELD, -(int64_t)batch->held_bytes);
    batch->held_bytes = 0;
}

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
    if (!buffer || loop->spare_count == SPARE_MAX) {
        free(buffer);
        return;
    }
    buffer->next = loop->spare;
    loop->spare = buffer;
    loop->spare_count++;
}

void batch_buffers_free(struct front_loop *loop)
{
    while (loop->spare) {
        struct batch_buffer *next = loop->spare->next;
        free(loop->spare);
        loop->spare = next;
    }
}

/* ---- its gets ---- */

static struct slot *slot_of(struct batch *batch, size_t index)
{
    return &batch->slots[index % batch->window];
}

static void end_get(struct batch *batch, struct get **get)
{
    if (!*get)
        return;
    const struct get_cost *cost = get_cost(*get);
    batch->call->cost.cache_bytes += cost->cache_bytes;
    batch->call->cost.origin_bytes += cost->origin_bytes;
    get_end(get);
}

static void let_slot_go(struct slot *slot)
{
    struct batch *batch = slot->batch;
    end_get(batch, &slot->get);
    batch->weight -= slot->weight;
    *slot = (struct slot){ .batch = batch };
}

static void weigh(struct slot *slot, size_t bytes)
{
    slot->batch->weight = slot->batch->weight - slot->weight + bytes;
    slot->weight = bytes;
}

static enum err decide(struct slot *slot)
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

static void step(struct batch *batch);

static void changed(void *arg)
{
    struct slot *slot = arg;
    slot->waiting = false;
    (void)decide(slot);
    step(slot->batch);
}

static void begin(struct batch *batch, size_t index)
{
    struct slot *slot = slot_of(batch, index);
    const struct item *item = &batch->list.batch.items.list[index];
    struct get_ask ask;
    *slot = (struct slot){ .batch = batch, .begun = true, .early = index > batch->next };
    slot->err = item_ask(&batch->judge, item, &ask);
    batch->judge.quiet |= slot->err && batch->end.failed >= LOGGED_MAX;
    if (slot->err)
        return;
    size_t guess = item->kind == ITEM_SPAN && item->length != ITEM_OPEN
                 ? (size_t)MIN(item->length, (uint64_t)PIECE_BYTES) : batch->weight_last;
    weigh(slot, guess);
    slot->get = get_start(batch->call->loop->cache, &ask, changed, slot);
    (void)decide(slot);
}

/* Those that wait go on: what they wait for may be others', too. */
static void narrow(struct batch *batch)
{
    for (size_t i = batch->next + 1; i < batch->begun; i++)
        if (slot_of(batch, i)->answer)
            let_slot_go(slot_of(batch, i));
    metric_add(M_BATCH_NARROW, !batch->told_narrow);
    batch->told_narrow = true;
}

static bool begins_no_more(const struct batch *batch)
{
    return batch->late || batch->full || batch->ending || batch->ended;
}

/* Many at a time: what they read from the disk is read together. */
static void look_ahead(struct batch *batch)
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
        begin(batch, batch->begun);
    cache_loop_unplug(cache);
    metric_add(M_BATCH_AHEAD, batch->begun < until && !batch->told_ahead);
    batch->told_ahead |= batch->begun < until;
}

/* ---- what is sent ---- */

static char *room(const struct batch *batch)
{
    return batch->load->buffer->bytes + batch->load->len;
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

static void end_run(struct load *load)
{
    if (load->len > load->from)
        load->runs[load->run_count++] =
            (slice){ load->buffer->bytes + load->from, load->len - load->from };
    load->from = load->len;
}

static void add_run(struct load *load, slice bytes)
{
    end_run(load);
    load->runs[load->run_count++] = bytes;
    load->lent_bytes += bytes.len;
}

static void empty_load(struct batch *batch, struct load *load)
{
    for (size_t i = 0; i < load->lent_count; i++)
        end_get(batch, &load->lent[i]);
    *load = (struct load){ .buffer = load->buffer };
}

static const struct http_source source;

static void start_reply(struct batch *batch)
{
    struct call *call = batch->call;
    struct fields fields = fields_in(call->keep);
    fields_add(&fields, S("content-type"), batch->form->content_type);
    fields_add(&fields, S("x-amz-request-id"), call->id);
    batch->replying = true;
    call->cost.first_ns = mono_ns() - batch->began_ns;
    http_reply_start(call->http, 200, fields.list, fields.count, HTTP_OPEN, &source, batch);
}

static void send(struct batch *batch, bool last)
{
    struct load *load = batch->load;
    if (!batch->replying)
        start_reply(batch);
    end_run(load);
    batch->sending = true;
    batch->open_at = NOT_OPEN;
    batch->load = &batch->loads[load == &batch->loads[0]];
    http_reply_send_runs(batch->call->http, load->runs, load->run_count, last);
}

/* Nothing comes for a while: what is there goes, but for an item that may still fail. */
static void flush(struct batch *batch)
{
    struct load *load = batch->load;
    size_t rest = batch->open && batch->open_at != NOT_OPEN ? load->len - batch->open_at : 0;
    load->len -= rest;
    if (batch->sending || is_empty(load)) {
        load->len += rest;
        return;
    }
    send(batch, false);
    if (!rest)
        return;
    memcpy(room(batch), load->buffer->bytes + load->len, rest);
    batch->load->len = rest;
    batch->open_at = 0;
}

static void on_rested(void *arg)
{
    struct batch *batch = arg;
    http_timer_stop(&batch->rest);
    batch->load->items = 0;
    step(batch);
}

/* Is there so much room? Else what is there goes first; or, of items that left nothing (in tar,
 * those that fail), others have a turn. */
static enum err make_room(struct batch *batch, size_t bytes)
{
    struct load *load = batch->load;
    check(bytes <= BUFFER_BYTES);
    if (BUFFER_BYTES - load->len >= bytes && !is_full(load))
        return OK;
    if (!is_empty(load) && !batch->sending) {
        send(batch, false);
        return OK;
    }
    if (is_empty(load) && !batch->rest)
        batch->rest = http_timer_start(http_request_loop(batch->call->http), 1, on_rested, batch);
    return ERR_BUSY;
}

/* ---- an item's turn ---- */

static void next_item(struct batch *batch)
{
    struct slot *slot = slot_of(batch, batch->next);
    if (slot->begun) {
        batch->calm = slot->waited ? 0 : batch->calm + 1;
        let_slot_go(slot);
    }
    batch->open = false;
    batch->next++;
    batch->begun = MAX(batch->begun, batch->next);
    batch->end.answered++;
    batch->load->items++;
    if (batch->calm > batch->window)
        batch->ahead = 1;
}

static void keep_failure(struct batch *batch)
{
    size_t count = batch->end.failed;
    if (count == batch->failure_room) {
        batch->failure_room = MAX(2 * count, 16);
        struct batch_failure *grown =
            arena_alloc(&batch->arena, batch->failure_room * sizeof(*grown));
        if (count)
            memcpy(grown, batch->failures, count * sizeof(*grown));
        batch->failures = grown;
    }
    batch->failures[count] = (struct batch_failure){ batch->entry.index, batch->entry.status,
                                                     batch->entry.code };
    batch->end.failures = batch->failures;
}

static void fail(struct batch *batch, int status, slice code)
{
    batch->entry = (struct batch_entry){
        .index = batch->next, .key = batch->end.items->list[batch->next].key,
        .status = status, .code = code,
    };
    batch->load->len += batch->form->failure(&batch->end, room(batch), &batch->entry);
    keep_failure(batch);
    batch->end.failed++;
    metric_add(M_BATCH_FAILED, 1);
    next_item(batch);
    batch->ending |= batch->list.batch.end_on_error;
}

static void fail_by(struct batch *batch, enum err err)
{
    const struct s3_error *error = s3_error_of(err);
    fail(batch, error->status, slice_of(error->code));
}

/* As the origin said it, where it did. */
static void refuse(struct batch *batch, const struct get_answer *answer)
{
    const struct refusal *refusal = answer->refusal;
    if (!refusal) {
        fail_by(batch, answer->err);
        return;
    }
    const struct s3_error *error = s3_error_of(refusal->err);
    slice code = S(""), message;
    if (answer->source == GET_NEGATIVE)
        object_count(GET_NEGATIVE);
    if (refusal->status && refusal->body.len &&
        xml_read_error(&batch->arena, refusal->body, &code, &message) == OK && code.len)
        code = arena_copy(&batch->arena, slice_sub(code, 0, CODE_BYTES));
    fail(batch, refusal->status ? refusal->status : error->status,
         code.len ? code : slice_of(error->code));
}

/* It was one too many of ours: now that it is its turn, there may be room. */
static bool may_retry(const struct slot *slot)
{
    const struct refusal *refusal = slot->answer->refusal;
    return slot->early && refusal && !refusal->status &&
           (refusal->err == ERR_SLOW_DOWN || refusal->err == ERR_LIMIT);
}

/* Its head is known, and nothing speaks against it. */
static enum err open_item(struct batch *batch, const struct slot *slot)
{
    const struct get_answer *answer = slot->answer;
    const struct item *item = &batch->end.items->list[batch->next];
    struct batch_entry *entry = &batch->entry;
    *entry = (struct batch_entry){
        .index = batch->next, .key = item->key, .etag = answer->head->etag,
        .size = answer->head->size, .modified_s = answer->head->modified_s,
    };
    enum err err = item_span(item, answer, &entry->first, &entry->length);
    bool whole = entry->length == entry->size && !answer->partial;
    entry->status = whole ? 200 : 206;
    if (err) {
        fail_by(batch, err);
        return OK;
    }
    if (entry->length > batch->front->options.batches.bytes - batch->bytes) {
        metric_add(M_BATCH_BYTES, 1);
        batch->full = true;
        return OK;
    }
    size_t bytes = entry->length <= COPY_BYTES_MAX ? (size_t)entry->length : 0;
    err = make_room(batch, BATCH_ROOM(entry) + bytes);
    if (err)
        return err;
    batch->open = true;
    batch->open_at = batch->load->len;
    batch->left = entry->length;
    batch->load->len += batch->form->head(room(batch), entry);
    return OK;
}

/* As far as an item, perhaps one that fails. */
static enum err take_item(struct batch *batch)
{
    struct slot *slot = slot_of(batch, batch->next);
    batch->entry = (struct batch_entry){ .key = batch->end.items->list[batch->next].key };
    enum err err = make_room(batch, BATCH_ROOM(&batch->entry) + CODE_BYTES);
    if (err)
        return err;
    if (batch->full || (batch->late && !(slot->begun && slot->answer))) {
        fail(batch, batch->full ? 413 : 503,
             batch->full ? S("EntityTooLarge") : S("RequestTimeout"));
        return OK;
    }
    if (!slot->begun)
        begin(batch, batch->next);
    batch->begun = MAX(batch->begun, batch->next + 1);
    err = decide(slot);
    if (err)
        return err;
    if (slot->err) {
        fail_by(batch, slot->err);
    } else if (!slot->answer->err) {
        return open_item(batch, slot);
    } else if (may_retry(slot)) {
        let_slot_go(slot);
        batch->ahead = 1;
    } else {
        refuse(batch, slot->answer);
    }
    return OK;
}

/* A piece of it, where it belongs. All of the item that is not small is lent; else it is copied, if
 * it fits; else it goes, and is waited for. */
static enum err put_piece(struct batch *batch, struct slot *slot)
{
    slice piece = batch->piece;
    size_t length = (size_t)MIN(batch->entry.length, (uint64_t)SIZE_MAX);
    bool whole = piece.len == length;
    if (whole && length > SMALL_BYTES) {
        add_run(batch->load, piece);
        batch->load->lent[batch->load->lent_count++] = slot->get;
        slot->get = NULL;
    } else if (length <= COPY_BYTES_MAX) {
        batch->load->len += slice_put(room(batch), piece);
    } else if (batch->sending) {
        return ERR_BUSY;
    } else {
        add_run(batch->load, piece);
        batch->piece_out = true;
        send(batch, false);
    }
    batch->left -= piece.len;
    batch->piece = S("");
    return OK;
}

/* Bytes of the item, as far as they go now. */
static enum err take_bytes(struct batch *batch)
{
    struct slot *slot = slot_of(batch, batch->next);
    while (batch->left) {
        if (slot->waiting)
            return ERR_WAIT;
        if (batch->piece_out)
            return ERR_BUSY;
        enum err err = batch->piece.len ? OK : get_next(slot->get, &batch->piece);
        slot->waiting = err == ERR_WAIT;
        slot->waited |= slot->waiting;
        if (!err)
            err = put_piece(batch, slot);
        if (err)
            return err;
    }
    return OK;
}

/* It has all of them: the last may be on its way from where it lies. */
static void close_item(struct batch *batch)
{
    struct slot *slot = slot_of(batch, batch->next);
    struct load *sent = &batch->loads[batch->load == &batch->loads[0]];
    batch->load->len += batch->form->tail(room(batch), &batch->entry);
    batch->bytes += batch->entry.length;
    object_count(slot->answer->source);
    metric_add(M_BATCH_SENT, 1);
    if (batch->piece_out) {
        sent->lent[sent->lent_count++] = slot->get;
        slot->get = NULL;
        batch->piece_out = false;
    }
    next_item(batch);
}

/* It broke off. Nothing of it is out: it is an item that failed. */
static enum err cut_item(struct batch *batch, enum err err)
{
    if (batch->open_at == NOT_OPEN)
        return err;
    batch->load->len = batch->open_at;
    fail_by(batch, err);
    return OK;
}

static enum err take_end(struct batch *batch)
{
    while (!batch->end.over) {
        enum err err = make_room(batch, BATCH_END_ROOM);
        if (err)
            return err;
        batch->load->len += batch->form->end(&batch->end, room(batch));
    }
    if (batch->sending)
        return ERR_BUSY;
    batch->ended = true;
    send(batch, true);
    return ERR_BUSY;
}

/* OK: again; ERR_WAIT for its bytes, ERR_BUSY: for the client; any other is its end. */
static enum err go_on(struct batch *batch)
{
    enum err err;
    if (batch->ended)
        return ERR_BUSY;
    if (!batch->open && (batch->next == batch->end.items->count || batch->ending))
        return take_end(batch);
    if (!batch->open)
        return take_item(batch);
    err = take_bytes(batch);
    if (err == OK)
        close_item(batch);
    return err && err != ERR_WAIT && err != ERR_BUSY ? cut_item(batch, err) : err;
}

/* ---- its course ---- */

static void batch_free(struct batch *batch)
{
    for (size_t i = batch->next; i < batch->begun; i++)
        let_slot_go(slot_of(batch, i));
    http_timer_stop(&batch->timer);
    http_timer_stop(&batch->rest);
    http_body_release(&batch->hold);
    for (size_t i = 0; i < countof(batch->loads); i++) {
        empty_load(batch, &batch->loads[i]);
        if (batch->loads[i].buffer)
            give_buffer(batch->call->loop, batch->loads[i].buffer);
    }
    if (batch->call) {
        batch->call->gone = NULL;
        batch->call->items = batch->end.answered;
        batch->call->failed = batch->end.failed;
    }
    let_memory_go(batch);
    arena_free(&batch->arena);
    free(batch);
}

static void step(struct batch *batch)
{
    struct call *call = batch->call;
    enum err err;
    do
        err = go_on(batch);
    while (err == OK);
    if (err == ERR_WAIT) {
        batch->ahead = batch->window;
        flush(batch);
    } else if (err != ERR_BUSY) {    /* H10: never a short item that looks whole */
        call->err = err;
        batch_free(batch);
        http_reply_abort(call->http);
        return;
    }
    look_ahead(batch);
}

static void proceed(void *arg)
{
    struct batch *batch = arg;
    batch->sending = batch->piece_out = false;
    empty_load(batch, &batch->loads[batch->load == &batch->loads[0]]);
    if (batch->ended)
        batch_free(batch);
    else
        step(batch);
}

/* The client has gone. */
static void gone(void *arg)
{
    struct batch *batch = arg;
    if (batch->in_intake)
        batch->call = NULL;    /* the list is still read */
    else
        batch_free(batch);
}

static const struct http_source source = { proceed, gone };

static void on_time(void *arg)
{
    struct batch *batch = arg;
    metric_add(M_BATCH_TIME, 1);
    batch->late = true;
    step(batch);
}

static void refuse_all(struct batch *batch, enum err err, const struct s3_fault *fault)
{
    struct call *call = batch->call;
    struct s3_fault said = *fault;
    said.message = arena_copy(call->keep, said.message);
    batch_free(batch);
    reply_fault(call, err, &said);
}

static void start(struct batch *batch)
{
    const struct front_batches *limits = &batch->front->options.batches;
    struct call *call = batch->call;
    const struct items *items = &batch->list.batch.items;
    batch->window = MAX(MIN(limits->gets, items->count), 1);
    size_t bytes = batch->arena.used_bytes + batch->window * sizeof(*batch->slots) +
                   countof(batch->loads) * sizeof(struct batch_buffer);
    if (!hold_memory(batch, bytes)) {
        refuse_all(batch, ERR_LIMIT, &(struct s3_fault){ .more_count = 0 });
        return;
    }
    batch->slots = arena_alloc(&batch->arena, batch->window * sizeof(*batch->slots));
    for (size_t i = 0; i < batch->window; i++)
        batch->slots[i].batch = batch;
    for (size_t i = 0; i < countof(batch->loads); i++)
        batch->loads[i].buffer = take_buffer(call->loop);
    batch->load = &batch->loads[0];
    item_call(&batch->judge, batch->front, call->client, call->s3.bucket, &batch->arena);
    batch->judge.id = call->id;
    batch->form = batch->list.batch.form == BATCH_FRAMES ? &batch_frames : &batch_tar;
    batch->end.items = items;
    batch->ahead = 1;
    batch->open_at = NOT_OPEN;
    batch->timer = http_timer_start(http_request_loop(call->http), limits->time_ms, on_time, batch);
    step(batch);
}

static void taken_in(void *arg, const struct intake_outcome *outcome)
{
    struct batch *batch = arg;
    batch->in_intake = false;
    http_body_release(&batch->hold);
    if (outcome->err)
        metric_add(M_BATCH_ITEMS, batch->list.too_many);
    if (!batch->call)
        batch_free(batch);
    else if (outcome->err)
        refuse_all(batch, outcome->err, &outcome->fault);
    else
        start(batch);
}

static void lost(void *arg)
{
    struct batch *batch = arg;
    batch->call = NULL;
    batch_free(batch);
}

/* What means something to a GetObject, and would be lost here; of what is left over, the first. */
static slice unknown_header(const struct call *call)
{
    static const char *const known[] = {
        "x-amz-date", "x-amz-content-sha256", "x-amz-security-token", "x-amz-user-agent",
        "x-amz-api-version", "x-amz-te", "x-amz-trailer", "x-amz-decoded-content-length",
    };
    for (size_t i = 0; i < s3_header_count(call->head, &call->s3); i++) {
        slice name = s3_header_at(call->head, &call->s3, i).name;
        if (slice_starts_nocase(name, S("x-amz-")) && !slice_starts_nocase(name, S("x-amz-sdk-")) &&
            !slice_starts_nocase(name, S("x-amz-checksum-")) &&
            !slice_is_one_of_nocase(name, known, countof(known)))
            return name;
    }
    return S("");
}

void batch_read(struct call *call)
{
    const struct judged *judged = http_request_judged(call->http);
    slice unknown = unknown_header(call);
    if (unknown.len || call->s3.pass) {
        reply_error(call, ERR_NOT_IMPLEMENTED, unknown.len
                    ? arena_printf(call->keep, "A batch does not know %.*s: leave it out.",
                                   SLICE_ARG(unknown)) : S(""));
        return;
    }
    struct batch *batch = must_alloc(sizeof(*batch));
    batch->call = call;
    batch->began_ns = mono_ns();
    batch->front = call->front;
    batch->list = (struct intake_list){ .keep = &batch->arena,
                                        .items_max = call->front->options.batches.items };
    slice body = http_request_body(call->http);
    batch->hold = http_body_take(call->http);
    batch->in_intake = true;
    call->gone = gone;
    call->gone_arg = batch;
    intake_start(call->front->intakes, http_loop_mailbox(http_request_loop(call->http)),
                 &(struct intake_ask){ body, call->head, &call->s3, &judged->claim,
                                       call->loop->sigv4, judged->secret, NULL, &batch->list },
                 taken_in, lost, batch);
}
