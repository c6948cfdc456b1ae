/* answer.c - the answer of one node to a question, as its bytes come.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The next FRAME_DATA_MAX bytes must come within FRAME_MS, in however many frames, and so must the
 * end of the answer. A node may say that it waits for its origin: for PATIENCE_MS at most before each
 * of these. The time of a pause does not count. */
#include "peers/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "s3/conditions.h"

#define FRAME_MS 1000u                /* 64 KiB/s */
#define DECLINE_BYTES_MAX 4096u       /* of the body of a decline: it is read, so that the connection
                                       * can be reused */
#define PATIENCE_MS 30000u            /* more than an origin may be silent (origin_progress_time) */

void answer_begin(struct answer *answer, const struct peer_question *asked,
                  struct origin_call *call, const atomic_bool *canceled)
{
    *answer = (struct answer){ .asked = asked, .call = call, .canceled = canceled };
    frame_reader_init(&answer->reader, &asked->place);
}

void answer_end(struct answer *answer)
{
    frame_reader_end(&answer->reader);
}

bool answer_is_whole(const struct answer *answer)
{
    return answer->declined || answer->reader.ended;
}

bool answer_is_of_origin(const struct answer *answer)
{
    static const char *const words[] = { "not_found", "refused", "range", "headers" };
    slice word = slice_of(answer->word);
    for (size_t i = 0; i < countof(words) && answer->declined; i++)
        if (slice_eq(word, slice_of(words[i])))
            return true;
    return false;
}

bool answer_is_complete(const struct answer *answer)
{
    return answer->reader.ended && !answer->declined;
}

static enum exchange_take wrong(struct answer *answer, const char *why)
{
    answer->why = why;
    return EXCHANGE_END;
}

/* Gives the call the head that the origin would give: 200 for all bytes of an object, otherwise
 * 206. Returns false if the answer is not what was asked for. */
static bool give_head(struct answer *answer)
{
    const struct frame_head *head = &answer->reader.head;
    struct arena *keep = &answer->reader.keep;
    const struct peer_question *asked = answer->asked;
    if ((asked->etag.len && (!slice_eq(head->etag, asked->etag) || head->size != asked->size)) ||
        head->first != asked->first || head->end != MIN(asked->end, head->size) ||
        head->first >= head->end)
        return false;
    struct http_field *fields = arena_alloc(keep, (head->field_count + 1) * sizeof(*fields));
    if (head->field_count)
        memcpy(fields, head->fields, head->field_count * sizeof(*fields));
    fields[head->field_count] = (struct http_field){
        S("content-range"), arena_printf(keep, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
                                         head->first, head->end - 1, head->size) };
    struct origin_reply reply = {
        .status = head->full && head->end - head->first == head->size ? 200 : 206,
        .has_length = true, .length = head->end - head->first,
        .fields = fields, .field_count = head->field_count + 1, .tries = 1,
        .from_peer = true, .age_ms = head->age_ms, .all_fields = head->full,
    };
    answer->given = true;
    answer->call->events->head(answer->call, &reply);
    return true;
}

static enum exchange_take give_bytes(struct answer *answer, slice bytes)
{
    if (answer->call->events->body(answer->call, bytes) != ORIGIN_TAKEN)
        return EXCHANGE_PAUSE;
    answer->bytes += bytes.len;
    return EXCHANGE_TAKEN;
}

/* True if the head says that the origin gave its answer too long ago for this question, or that it
 * does not name a version. */
static bool is_too_old(const struct answer *answer)
{
    const struct frame_head *head = &answer->reader.head;
    return !answer->asked->etag.len && (head->age_ms > answer->asked->max_age_ms ||
                                        !s3_etag_is_strong(head->etag));
}

/* Keeps the word: the first line. If it comes in several pieces, it is not known. */
static void hear(struct answer *answer, slice bytes)
{
    slice word = slice_cut(&bytes, '\n');
    snprintf(answer->word, sizeof(answer->word), "%.*s", SLICE_ARG(word));
}

static enum exchange_take take_frame(struct answer *answer, enum frame_found found, slice bytes)
{
    switch (found) {
    case FRAME_FOUND_HEAD:
        answer->declined = is_too_old(answer);
        if (answer->declined)
            return EXCHANGE_END;
        return give_head(answer) ? EXCHANGE_TAKEN
                                 : wrong(answer, "it answered with other bytes than asked for");
    case FRAME_FOUND_DATA:
        return give_bytes(answer, bytes);
    case FRAME_FOUND_NO:
        answer->declined = true;
        hear(answer, bytes);
        return EXCHANGE_TAKEN;
    case FRAME_FOUND_BAD:
        return wrong(answer, bytes.ptr);
    default:
        return EXCHANGE_TAKEN;
    }
}

/* The answer moves now: FRAME_MS and PATIENCE_MS begin anew. */
static void moves(struct answer *answer, uint64_t now_ms)
{
    answer->frame_ms = answer->moved_ms = now_ms;
    answer->since = 0;
}

/* Small frames move the answer when they have the bytes of a large one. */
static void frame_came(struct answer *answer, enum frame_found found, size_t bytes, uint64_t now_ms)
{
    answer->since += found == FRAME_FOUND_DATA ? bytes : 0;
    if (found == FRAME_FOUND_WAIT)
        answer->frame_ms = now_ms;
    else if (found != FRAME_FOUND_DATA || answer->since >= FRAME_DATA_MAX)
        moves(answer, now_ms);
}

/* Returns NULL, or why the node is too slow. */
static const char *too_slow(const struct answer *answer, uint64_t now_ms)
{
    return now_ms > answer->frame_ms + FRAME_MS    ? "its bytes come too slowly"
         : now_ms > answer->moved_ms + PATIENCE_MS ? "it waits too long for its origin" : NULL;
}

bool answer_is_late(struct answer *answer, uint64_t now_ms)
{
    bool paused = answer->held.len;
    const char *slow = paused ? NULL : too_slow(answer, now_ms);
    if (slow)
        answer->slow = slow;
    return slow != NULL;
}

static enum exchange_take read_frames(struct answer *answer, slice bytes, slice rest)
{
    slice payload = { 0 };
    for (;;) {
        uint64_t now_ms = mono_ms();
        if (atomic_load(answer->canceled))
            return EXCHANGE_END;
        if (answer->reader.ended)    /* no byte may follow */
            return rest.len ? EXCHANGE_END : EXCHANGE_TAKEN;
        enum frame_found found = rest.len ? frame_read(&answer->reader, &rest, &payload)
                                          : FRAME_FOUND_NOTHING;
        if (found != FRAME_FOUND_NOTHING)
            frame_came(answer, found, payload.len, now_ms);
        answer->slow = too_slow(answer, now_ms);
        if (answer->slow)
            return EXCHANGE_END;
        if (found == FRAME_FOUND_NOTHING)
            return EXCHANGE_TAKEN;
        enum exchange_take take = take_frame(answer, found, payload);
        if (take == EXCHANGE_PAUSE) {
            answer->held = payload;
            answer->taken = bytes.len - rest.len;
        }
        if (take != EXCHANGE_TAKEN)
            return take;
    }
}

static enum exchange_take skip_decline(struct answer *answer, slice bytes)
{
    if (!answer->taken)
        hear(answer, bytes);
    answer->taken += bytes.len;
    return answer->taken > DECLINE_BYTES_MAX || too_slow(answer, mono_ms()) ? EXCHANGE_END
                                                                            : EXCHANGE_TAKEN;
}

/* When bytes come again after a pause, the frame reader has them already, up to the end of the frame
 * whose payload the call did not take. */
enum exchange_take answer_take(struct answer *answer, slice bytes)
{
    if (!answer->acknowledged)
        return skip_decline(answer, bytes);
    slice rest = slice_from(bytes, answer->taken);
    if (answer->held.len) {
        if (give_bytes(answer, answer->held) != EXCHANGE_TAKEN)
            return EXCHANGE_PAUSE;
        moves(answer, mono_ms());
    }
    answer->held.len = 0;
    answer->taken -= bytes.len - rest.len;
    return read_frames(answer, bytes, rest);
}

void answer_take_status(struct answer *answer, int status)
{
    answer->acknowledged = status == 200;
    answer->declined = status != 200;
    moves(answer, mono_ms());
}
