/* frame.c - the answer of a peer, as frames. SPDX-License-Identifier: Apache-2.0 */
#include "peers/frame.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/crc.h"
#include "base/guard.h"

#define FRAME_MAGIC 0x31505350u       /* "PSP1" */
#define SIZE_MAX_BYTES ((uint64_t)1 << 62)

struct frame {
    uint32_t magic;
    uint8_t kind, zero[3];
    uint32_t len, crc;
};
static_assert(sizeof(struct frame) == FRAME_BYTES, "the size of a frame is fixed");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a frame is sent as it lies in memory");
static_assert(FRAME_HEAD_MAX <= FRAME_DATA_MAX, "one buffer holds any payload");

/* ---- writing ---- */

/* A length precedes each text, so a byte that moves to the next text changes the result. */
uint32_t frame_seed(const struct rank_place *place, slice etag)
{
    const slice texts[] = { place->endpoint, place->bucket, place->key, place->version, etag };
    uint32_t seed = 0;
    for (size_t i = 0; i < countof(texts); i++) {
        uint64_t len = texts[i].len;
        seed = crc32c(seed, &len, sizeof(len));
        seed = crc32c(seed, texts[i].ptr, texts[i].len);
    }
    return seed;
}

static uint32_t crc_of(enum frame_kind kind, slice payload, uint32_t seed, uint64_t offset)
{
    uint32_t crc = kind == FRAME_DATA ? crc32c(seed, &offset, sizeof(offset)) : (uint32_t)kind;
    return crc32c(crc, payload.ptr, payload.len);
}

void frame_write(enum frame_kind kind, slice payload, uint32_t seed, uint64_t offset,
                 uint8_t ret[FRAME_BYTES])
{
    check(payload.len <= FRAME_DATA_MAX);
    struct frame frame = { .magic = FRAME_MAGIC, .kind = (uint8_t)kind,
                           .len = (uint32_t)payload.len,
                           .crc = crc_of(kind, payload, seed, offset) };
    memcpy(ret, &frame, sizeof(frame));
}

static void add_number(struct text *to, const char *name, uint64_t number)
{
    text_printf(to, "x-penstock-%s: %" PRIu64 "\r\n", name, number);
}

enum err frame_open(enum frame_kind kind, slice bytes, slice *ret)
{
    struct frame frame;
    static const uint8_t zero[3];
    check(kind != FRAME_DATA);
    if (bytes.len < sizeof(frame))
        return ERR_BAD_REQUEST;
    memcpy(&frame, bytes.ptr, sizeof(frame));
    *ret = slice_from(bytes, sizeof(frame));
    if (frame.magic != FRAME_MAGIC || memcmp(frame.zero, zero, sizeof(zero)) != 0 ||
        frame.kind != kind || frame.len != ret->len || frame.len > FRAME_DATA_MAX)
        return ERR_BAD_REQUEST;
    return guard_on(GUARD_CRC) && crc_of(kind, *ret, 0, 0) != frame.crc ? ERR_BAD_DIGEST : OK;
}

#define OWN_FIELD S("x-penstock-")

/* Names come in lower case, as the origin's answers give them to the cache. */
static bool is_field(const struct http_field *field)
{
    bool upper = false;
    for (size_t i = 0; i < field->name.len && !upper; i++)
        upper = char_lower(field->name.ptr[i]) != field->name.ptr[i];
    return !upper && http_name_is_valid(field->name) && !slice_has_control(field->value);
}

enum err frame_head_write(struct arena *keep, const struct frame_head *head, slice *ret)
{
    struct text text = text_in(keep);
    check(head->first <= head->end && head->end <= head->size);
    if (head->field_count > HTTP_FIELDS_MAX)
        return ERR_TOO_LARGE;
    add_number(&text, "first", head->first);
    add_number(&text, "end", head->end);
    add_number(&text, "size", head->size);
    add_number(&text, "age", head->age_ms);
    add_number(&text, "full", head->full);
    for (size_t i = 0; i < head->field_count; i++) {
        const struct http_field *field = &head->fields[i];
        if (!is_field(field) || slice_starts(field->name, OWN_FIELD))
            return ERR_TOO_LARGE;
        text_printf(&text, "%.*s: %.*s\r\n", SLICE_ARG(field->name), SLICE_ARG(field->value));
        if (text.len > FRAME_HEAD_MAX)
            return ERR_TOO_LARGE;
    }
    *ret = text_slice(&text);
    return OK;
}

/* ---- reading a HEAD ---- */

/* The numbers must come first, in this order. */
static bool read_number(slice *rest, slice name, uint64_t *ret)
{
    slice line = slice_cut(rest, '\n'), value = slice_cut(&line, '\r');
    slice field = slice_cut(&value, ':');
    return rest->ptr && line.ptr && !line.len && slice_eq(field, name) &&
           slice_u64(slice_trim(value), ret);
}

static bool read_field(slice *rest, struct http_field *ret)
{
    slice line = slice_cut(rest, '\n'), value = slice_cut(&line, '\r');
    bool whole = rest->ptr && line.ptr && !line.len;
    ret->name = slice_cut(&value, ':');
    ret->value = slice_trim(value);
    return whole && value.ptr && is_field(ret);
}

enum err frame_head_read(struct arena *keep, slice payload, struct frame_head *ret)
{
    slice rest = payload;
    uint64_t full;
    *ret = (struct frame_head){ .fields = arena_alloc(keep, HTTP_FIELDS_MAX * sizeof(*ret->fields)) };
    if (!read_number(&rest, S("x-penstock-first"), &ret->first) ||
        !read_number(&rest, S("x-penstock-end"), &ret->end) ||
        !read_number(&rest, S("x-penstock-size"), &ret->size) ||
        !read_number(&rest, S("x-penstock-age"), &ret->age_ms) ||
        !read_number(&rest, S("x-penstock-full"), &full) || full > 1 || ret->first > ret->end ||
        ret->end > ret->size || ret->size > SIZE_MAX_BYTES)
        return ERR_ORIGIN_REPLY;
    ret->full = full;
    while (rest.len) {
        struct http_field field;
        if (ret->field_count == HTTP_FIELDS_MAX || !read_field(&rest, &field) ||
            slice_eq(field.name, S("content-range")))    /* the numbers say it */
            return ERR_ORIGIN_REPLY;
        if (!slice_starts(field.name, OWN_FIELD))
            ret->fields[ret->field_count++] = field;
    }
    ret->etag = http_field_get(ret->fields, ret->field_count, S("etag"));
    return OK;
}

/* ---- reading an answer ---- */

void frame_reader_init(struct frame_reader *reader, const struct rank_place *place)
{
    *reader = (struct frame_reader){ .place = *place };
}

void frame_reader_end(struct frame_reader *reader)
{
    arena_free(&reader->keep);
    *reader = (struct frame_reader){ 0 };
}

static enum frame_found bad(slice *ret, slice why)
{
    *ret = why;
    return FRAME_FOUND_BAD;
}

/* Says what a payload of this length may not be, or NULL. */
static const char *why_not(const struct frame_reader *reader, const struct frame *frame)
{
    static const uint8_t zero[3];
    if (frame->magic != FRAME_MAGIC || memcmp(frame->zero, zero, sizeof(zero)) != 0)
        return "its answer has no frame where one must begin";
    switch (frame->kind) {
    case FRAME_WAIT:
        return frame->len ? "its answer has a WAIT with a payload" : NULL;
    case FRAME_HEAD:
        return reader->headed                  ? "its answer has two HEADs"
             : frame->len > FRAME_HEAD_MAX     ? "its answer has a HEAD that is too long" : NULL;
    case FRAME_DATA:
        return !reader->headed                                 ? "its answer has no HEAD"
             : !frame->len || frame->len > FRAME_DATA_MAX      ? "its answer has DATA of a wrong length"
             : frame->len > reader->head.end - reader->next    ? "its answer has too many bytes" : NULL;
    case FRAME_END:
        return frame->len                              ? "its answer has an END with a payload"
             : !reader->headed                         ? "its answer has no HEAD"
             : reader->next != reader->head.end        ? "its answer ended too early" : NULL;
    case FRAME_NO:
        return reader->headed                             ? "its answer has a NO after a HEAD"
             : !frame->len || frame->len > FRAME_NO_MAX ? "its answer has a NO of a wrong length"
                                                          : NULL;
    default:
        return "its answer has a frame of a kind that this version does not know";
    }
}

static enum frame_found take_head(struct frame_reader *reader, slice payload, slice *ret)
{
    slice copy = arena_copy(&reader->keep, payload);
    if (frame_head_read(&reader->keep, copy, &reader->head) != OK)
        return bad(ret, S("its answer has a HEAD that can't be read"));
    reader->headed = true;
    reader->next = reader->head.first;
    reader->seed = frame_seed(&reader->place, reader->head.etag);
    return FRAME_FOUND_HEAD;
}

/* The text goes into logs: a peer that sends anything but printable ASCII is faulty. */
static enum frame_found take_no(struct frame_reader *reader, slice payload, slice *ret)
{
    for (size_t i = 0; i < payload.len; i++)
        if (payload.ptr[i] < ' ' || payload.ptr[i] > '~')
            return bad(ret, S("its answer has a NO whose text can't be read"));
    reader->ended = true;
    *ret = payload;
    return FRAME_FOUND_NO;
}

static enum frame_found take(struct frame_reader *reader, const struct frame *frame, slice *ret)
{
    slice payload = { (const char *)reader->payload, frame->len };
    if (guard_on(GUARD_CRC) &&
        crc_of(frame->kind, payload, reader->seed, reader->next) != frame->crc)
        return bad(ret, S("its bytes fail their checksum"));
    switch (frame->kind) {
    case FRAME_HEAD:
        return take_head(reader, payload, ret);
    case FRAME_DATA:
        reader->next += payload.len;
        *ret = payload;
        return FRAME_FOUND_DATA;
    case FRAME_END:
        reader->ended = true;
        return FRAME_FOUND_END;
    case FRAME_NO:
        return take_no(reader, payload, ret);
    default:
        return FRAME_FOUND_WAIT;
    }
}

/* Moves bytes from *rest to `to`, until `want` are there. Returns true if they are. */
static bool gather(slice *rest, uint8_t *to, uint32_t *have, uint32_t want)
{
    size_t len = MIN(rest->len, (size_t)(want - *have));
    if (len)
        memcpy(to + *have, rest->ptr, len);
    *have += (uint32_t)len;
    *rest = slice_from(*rest, len);
    return *have == want;
}

enum frame_found frame_read(struct frame_reader *reader, slice *rest, slice *ret)
{
    struct frame frame;
    check(!reader->ended);
    if (!gather(rest, reader->frame, &reader->frame_have, FRAME_BYTES))
        return FRAME_FOUND_NOTHING;
    memcpy(&frame, reader->frame, sizeof(frame));
    const char *why = why_not(reader, &frame);
    if (why)
        return bad(ret, slice_of(why));
    if (!reader->payload)
        reader->payload = arena_alloc(&reader->keep, FRAME_DATA_MAX);
    if (!gather(rest, reader->payload, &reader->payload_have, frame.len))
        return FRAME_FOUND_NOTHING;
    reader->frame_have = reader->payload_have = 0;
    return take(reader, &frame, ret);
}
