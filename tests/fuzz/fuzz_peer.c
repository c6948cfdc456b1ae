/* fuzz_peer.c - any bytes as the answer of a peer or its hints, and any head as its question.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The answer is read whole, and again in two pieces, which must find the same. Most random frames
 * fail their checksum, so the payload is read as a HEAD, too. */
#include <string.h>

#include "peers/frame.h"
#include "peers/hint.h"
#include "peers/question.h"

struct outcome {
    enum frame_found last;
    uint64_t bytes;
    unsigned count;
};

static bool is_printable(slice text)
{
    bool is = true;
    for (size_t i = 0; i < text.len; i++)
        is = is && text.ptr[i] >= ' ' && text.ptr[i] <= '~';
    return is;
}

static void note(struct outcome *outcome, const struct frame_reader *reader, enum frame_found found,
                 slice bytes)
{
    outcome->last = found;
    outcome->count++;
    check(!reader->headed || reader->head.end <= reader->head.size);
    check(found != FRAME_FOUND_BAD || bytes.len);
    check(found != FRAME_FOUND_NO || (!reader->headed && bytes.len && bytes.len <= FRAME_NO_MAX &&
                                      is_printable(bytes)));
    if (found != FRAME_FOUND_DATA)
        return;
    check(bytes.len && bytes.len <= FRAME_DATA_MAX && reader->next <= reader->head.end);
    outcome->bytes += bytes.len;
}

static struct outcome read_pieces(slice answer, size_t cut)
{
    const struct rank_place place = { S("e"), S("b"), S("k"), S(""), 0 };
    slice pieces[] = { slice_sub(answer, 0, cut), slice_from(answer, cut) };
    struct outcome outcome = { .last = FRAME_FOUND_NOTHING };
    struct frame_reader reader;
    enum frame_found found = FRAME_FOUND_NOTHING;
    frame_reader_init(&reader, &place);
    for (size_t i = 0; i < countof(pieces) && found == FRAME_FOUND_NOTHING; i++) {
        slice bytes;
        while ((found = frame_read(&reader, &pieces[i], &bytes)) != FRAME_FOUND_NOTHING) {
            note(&outcome, &reader, found, bytes);
            if (found == FRAME_FOUND_END || found == FRAME_FOUND_NO ||
                found == FRAME_FOUND_BAD)
                break;
        }
    }
    frame_reader_end(&reader);
    return outcome;
}

static void read_head(slice payload)
{
    struct arena keep = { 0 };
    struct frame_head head, again;
    slice written;
    if (frame_head_read(&keep, payload, &head) == OK &&
        frame_head_write(&keep, &head, &written) == OK) {
        check(frame_head_read(&keep, written, &again) == OK);
        check(again.first == head.first && again.end == head.end && again.size == head.size);
        check(again.age_ms == head.age_ms && again.full == head.full);
        check(again.field_count == head.field_count && slice_eq(again.etag, head.etag));
    }
    arena_free(&keep);
}

static void read_question(slice bytes)
{
    struct arena keep = { 0 };
    struct request_head head;
    struct peer_question question, again;
    struct http_field fields[PEER_FIELDS_MAX];
    size_t count;
    slice text = arena_printf(&keep, "GET /peer/1/%.*s\r\n\r\n", SLICE_ARG(bytes));
    if (request_head_scan(text, &head, NULL) == OK &&
        question_read(&keep, &head, &question) == OK) {
        check(question.first < question.end && question.place.key.len);
        slice target = question_write(&keep, &question, fields, &count);
        struct text sent = text_in(&keep);
        text_printf(&sent, "GET %.*s HTTP/1.1\r\nhost: h\r\n", SLICE_ARG(target));
        for (size_t i = 0; i < count; i++)
            text_printf(&sent, "%.*s: %.*s\r\n", SLICE_ARG(fields[i].name),
                        SLICE_ARG(fields[i].value));
        text_add(&sent, S("\r\n"));
        enum err e = request_head_scan(text_slice(&sent), &head, NULL);
        if (!e) {    /* it may be too long now: each byte of the key is escaped */
            check(question_read(&keep, &head, &again) == OK);
            check(slice_eq(again.place.key, question.place.key) && again.end == question.end);
            check(again.max_age_ms == question.max_age_ms);
        }
    }
    arena_free(&keep);
}

/* A batch that can be read can be written, and the written one is read as the same batch. */
static void read_hints(slice payload)
{
    struct arena keep = { 0 };
    struct hint_batch batch;
    if (hint_batch_read(&keep, payload, &batch) == OK) {
        struct text text = text_in(&keep);
        text_add(&text, slice_sub(payload, 0, sizeof(uint64_t)));
        for (size_t i = 0; i < batch.count; i++) {
            uint8_t written[HINT_BYTES_MAX];
            check(hint_is_valid(&batch.hints[i]));
            text_add(&text, (slice){ (char *)written, hint_write(&batch.hints[i], written) });
        }
        check(slice_eq(text_slice(&text), payload));
    }
    arena_free(&keep);
}

static void open_frame(slice bytes)
{
    slice payload;
    if (frame_open(FRAME_HINTS, bytes, &payload) == OK)
        check(payload.len + FRAME_BYTES == bytes.len && payload.len <= FRAME_DATA_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    slice bytes = { (const char *)data, size };
    if (size && data[0] == 'Q') {
        read_question(slice_from(bytes, 1));
    } else if (size && data[0] == 'H') {
        read_head(slice_from(bytes, 1));
    } else if (size && data[0] == 'B') {
        read_hints(slice_from(bytes, 1));
        open_frame(slice_from(bytes, 1));
    } else {
        struct outcome whole = read_pieces(bytes, size);
        struct outcome cut = read_pieces(bytes, size ? data[size - 1] % size : 0);
        check(whole.last == cut.last && whole.bytes == cut.bytes && whole.count == cut.count);
    }
    return 0;
}
