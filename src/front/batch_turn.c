/* batch_turn.c - the current item of a batch. SPDX-License-Identifier: Apache-2.0
 *
 * An item is read by a get (cache/get.h). When the get has answered, the item becomes one of these
 * in the answer to the client:
 *
 *   head ─ bytes, copied or lent ─ tail          or: the entry of a failure
 *
 * Lent bytes are sent from the memory of the get, without a copy.
 * If an item fails before a byte of it was sent, the answer has a failure in place of the item. If
 * it fails later, the connection is reset (rule H10 in src/README.md). The end of the answer
 * follows the last item. A batch has two loads (batch_load.c): one is filled while the other is
 * sent. The load with the end is sent last. Threads: the loop. */
#include "front/batching.h"

#include "base/metric.h"
#include "s3/xml.h"

#define SMALL_BYTES (8 * KIB)         /* up to this size, bytes cost less to copy than to lend */
#define COPY_BYTES_MAX (64 * KIB)     /* a larger item is not copied */
#define CODE_BYTES 64u

static_assert(BATCH_FIXED_ROOM + 3 * S3_KEY_BYTES_MAX + COPY_BYTES_MAX <= BATCH_BUFFER_BYTES &&
              BATCH_END_ROOM <= BATCH_BUFFER_BYTES, "an empty load has room for a copied item");

static void next_item(struct batch *batch)
{
    struct window *window = &batch->window;
    struct slot *slot = slot_of(window, window->next);
    if (slot->begun) {
        window->calm = slot->waited ? 0 : window->calm + 1;
        slot_let_go(slot);
    }
    batch->current.open = false;
    window->next++;
    window->begun = MAX(window->begun, window->next);
    batch->end.answered++;
    batch->loads.filling->items++;
    if (window->calm > window->size)
        window->ahead = 1;
}

/* ---- an item that fails ---- */

static void fail(struct batch *batch, int status, slice code)
{
    struct batch_end *end = &batch->end;
    struct load *load = batch->loads.filling;
    struct batch_entry *entry = &batch->current.entry;
    size_t index = batch->window.next;
    check(end->failed <= index && index < end->items->count);
    *entry = (struct batch_entry){
        .index = index, .key = end->items->list[index].key, .status = status, .code = code,
    };
    load->len += batch->form->failure(end, load_room(load), entry);
    if (!end->failures)
        end->failures = arena_alloc(&batch->arena, end->items->count * sizeof(*end->failures));
    end->failures[end->failed++] = (struct batch_failure){ index, status, code };
    metric_add(M_BATCH_FAILED, 1);
    next_item(batch);
    batch->ending |= batch->intake.list.batch.end_on_error;
}

static void fail_by(struct batch *batch, enum err err)
{
    const struct s3_error *error = s3_error_of(err);
    fail(batch, error->status, slice_of(error->code));
}

/* Writes a failure with the code of the origin's own error document, if the origin sent one. */
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
        object_count(batch->call->s3.bucket, GET_NEGATIVE);
    if (refusal->status && refusal->body.len &&
        xml_read_error(&batch->arena, refusal->body, &code, &message) == OK && code.len)
        code = arena_copy(&batch->arena, slice_sub(code, 0, CODE_BYTES));
    fail(batch, refusal->status ? refusal->status : error->status,
         code.len ? code : slice_of(error->code));
}

/* ---- the answer of the item's get ---- */

/* True if Penstock's own limit refused an item that began early. The item then begins again as the
 * current item, when there may be room. */
static bool may_retry(const struct slot *slot)
{
    const struct refusal *refusal = slot->answer->refusal;
    return slot->early && refusal && !refusal->status &&
           (refusal->err == ERR_SLOW_DOWN || refusal->err == ERR_LIMIT);
}

/* Begins the current item's part of the answer. Its get has metadata, and no refusal. */
static enum err open_item(struct batch *batch, const struct slot *slot)
{
    const struct get_answer *answer = slot->answer;
    const struct item *item = &batch->end.items->list[batch->window.next];
    struct current_item *current = &batch->current;
    struct batch_entry *entry = &current->entry;
    *entry = (struct batch_entry){
        .index = batch->window.next, .key = item->key, .etag = answer->metadata->etag,
        .size = answer->metadata->size, .modified_s = answer->metadata->modified_s,
    };
    enum err err = item_span(item, answer, &entry->first, &entry->length);
    bool whole = entry->length == entry->size && !answer->partial;
    entry->status = whole ? 200 : 206;
    if (err) {
        fail_by(batch, err);
        return OK;
    }
    uint64_t most = batch->front->options.batches.bytes;
    check(batch->bytes <= most);
    if (entry->length > most - batch->bytes) {
        metric_add(M_BATCH_BYTES, 1);
        batch->full = true;
        return OK;
    }
    size_t bytes = entry->length <= COPY_BYTES_MAX ? (size_t)entry->length : 0;
    err = load_make_room(batch, BATCH_ROOM(entry) + bytes);
    if (err)
        return err;
    struct load *load = batch->loads.filling;
    current->open = true;
    current->open_at = load->len;
    current->left = entry->length;
    load->len += batch->form->head(load_room(load), entry);
    return OK;
}

/* Opens the current item, or writes its failure. */
static enum err take_item(struct batch *batch)
{
    struct window *window = &batch->window;
    struct slot *slot = slot_of(window, window->next);
    batch->current.entry =
        (struct batch_entry){ .key = batch->end.items->list[window->next].key };
    enum err err = load_make_room(batch, BATCH_ROOM(&batch->current.entry) + CODE_BYTES);
    if (err)
        return err;
    if (batch->full || (batch->late && !(slot->begun && slot->answer))) {
        fail(batch, batch->full ? 413 : 503,
             batch->full ? S("EntityTooLarge") : S("RequestTimeout"));
        return OK;
    }
    if (!slot->begun)
        slot_begin(batch, window->next);
    window->begun = MAX(window->begun, window->next + 1);
    err = slot_decide(slot);
    if (err)
        return err;
    if (slot->err) {
        fail_by(batch, slot->err);
    } else if (!slot->answer->err) {
        return open_item(batch, slot);
    } else if (may_retry(slot)) {
        slot_let_go(slot);
        window->ahead = 1;
    } else {
        refuse(batch, slot->answer);
    }
    return OK;
}

/* ---- the item's bytes ---- */

/* A piece that is a whole item of more than SMALL_BYTES is lent. Otherwise, a piece of an item of
 * at most COPY_BYTES_MAX is copied. Any other piece is sent as soon as no write is in progress, and
 * the piece after it waits until the client has taken it. */
static enum err put_piece(struct batch *batch, struct slot *slot)
{
    struct current_item *current = &batch->current;
    struct load *load = batch->loads.filling;
    slice piece = current->piece;
    size_t length = (size_t)MIN(current->entry.length, (uint64_t)SIZE_MAX);
    bool whole = piece.len == length;
    check(piece.len <= current->left);
    if (whole && length > SMALL_BYTES) {
        load_lend(load, piece);
        load_take_get(load, &slot->get);
    } else if (length <= COPY_BYTES_MAX) {
        enum err err = get_run_copy(slot->get, piece, load_room(load), COPY_READ_SOON);
        if (err)
            return err;
        load->len += piece.len;
    } else if (batch->loads.sending) {
        return ERR_BUSY;
    } else {
        load_lend(load, piece);
        batch->loads.piece_out = true;
        load_send(batch, false);
    }
    current->left -= piece.len;
    current->piece = S("");
    return OK;
}

/* Moves bytes of the item until the batch has to wait. */
static enum err take_bytes(struct batch *batch)
{
    struct slot *slot = slot_of(&batch->window, batch->window.next);
    struct current_item *current = &batch->current;
    while (current->left) {
        if (slot->waiting)
            return ERR_WAIT;
        if (batch->loads.piece_out)
            return ERR_BUSY;
        enum err err = current->piece.len ? OK : get_next(slot->get, &current->piece);
        slot->waiting = err == ERR_WAIT;
        slot->waited |= slot->waiting;
        if (!err)
            err = put_piece(batch, slot);
        if (err)
            return err;
    }
    return OK;
}

/* Ends the current item: all its bytes are in a load. If a write still sends the last piece from
 * the get's memory, the load of that write keeps the get. */
static void close_item(struct batch *batch)
{
    struct slot *slot = slot_of(&batch->window, batch->window.next);
    struct loads *loads = &batch->loads;
    struct load *load = loads->filling;
    if (batch->form->tail)
        load->len += batch->form->tail(load_room(load), &batch->current.entry);
    batch->bytes += batch->current.entry.length;
    object_count(batch->call->s3.bucket, slot->answer->source);
    metric_add(M_BATCH_SENT, 1);
    if (loads->piece_out)
        load_take_get(load_other(loads), &slot->get);
    loads->piece_out = false;
    next_item(batch);
}

/* Handles an item whose bytes ended early. If none of them was sent, the item becomes a failure. */
static enum err cut_item(struct batch *batch, enum err err)
{
    if (batch->current.open_at == PART_SENT)
        return err;
    batch->loads.filling->len = batch->current.open_at;
    fail_by(batch, err);
    return OK;
}

/* ---- one turn ---- */

static enum err take_end(struct batch *batch)
{
    while (!batch->end.over) {
        enum err err = load_make_room(batch, BATCH_END_ROOM);
        if (err)
            return err;
        struct load *load = batch->loads.filling;
        load->len += batch->form->end(&batch->end, load_room(load));
    }
    if (batch->loads.sending)
        return ERR_BUSY;
    batch->loads.ended = true;
    load_send(batch, true);
    return ERR_BUSY;
}

enum err turn_go_on(struct batch *batch)
{
    enum err err;
    if (batch->loads.ended)
        return ERR_BUSY;
    if (!batch->current.open && (batch->window.next == batch->end.items->count || batch->ending))
        return take_end(batch);
    if (!batch->current.open)
        return take_item(batch);
    err = take_bytes(batch);
    if (err == OK)
        close_item(batch);
    return err && err != ERR_WAIT && err != ERR_BUSY ? cut_item(batch, err) : err;
}
