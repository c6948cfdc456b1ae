/* test_peers_wire.c - what peers say to each other. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "peers/frame.h"
#include "peers/question.h"

static const struct rank_place place = {
    { "https://s3.example:443", 22 }, { "bucket", 6 }, { "a/b c\xc3\xa4", 7 }, { "", 0 }, 1,
};

/* ---- questions ---- */

/* Scans the head that a client of this target and these fields would send. */
static enum err send(struct arena *keep, slice target, const struct http_field *fields, size_t count,
                     struct peer_question *ret)
{
    struct request_head head;
    struct text text = text_in(keep);
    text_printf(&text, "GET %.*s HTTP/1.1\r\nHost: peer\r\n", SLICE_ARG(target));
    for (size_t i = 0; i < count; i++)
        text_printf(&text, "%.*s: %.*s\r\n", SLICE_ARG(fields[i].name), SLICE_ARG(fields[i].value));
    text_add(&text, S("\r\n"));
    ok(request_head_scan(text_slice(&text), &head, NULL) == OK);
    return question_read(keep, &head, ret);
}

static const struct peer_question asked = {
    .node = "0123456789abcde", .place = { { "https://s3.example", 18 }, { "bucket", 6 },
                                          { "a/b c%2F?\xc3\xa4&", 11 }, { "v+1", 3 }, 2 },
    .identity = { "AKIA", 4 }, .etag = { "\"e\"", 3 },
    .first = 2 * PEERS_SEGMENT_BYTES, .end = 3 * PEERS_SEGMENT_BYTES,
};

TEST(a_question_is_read_as_it_was_written)
{
    struct arena keep = { 0 };
    struct http_field fields[PEER_FIELDS_MAX];
    struct peer_question got, plain = asked;
    size_t count;
    slice target = question_write(&keep, &asked, fields, &count);
    ok(count < PEER_FIELDS_MAX && send(&keep, target, fields, count, &got) == OK);
    ok(memcmp(got.node, asked.node, NODE_ID_BYTES) == 0 && got.place.segment == 2);
    ok(slice_eq(got.place.endpoint, asked.place.endpoint));
    ok(slice_eq(got.place.bucket, asked.place.bucket) && slice_eq(got.place.key, asked.place.key));
    ok(slice_eq(got.place.version, asked.place.version) && slice_eq(got.etag, asked.etag));
    ok(slice_eq(got.identity, asked.identity));
    ok(got.first == asked.first && got.end == asked.end);
    plain.place.version = plain.etag = plain.identity = S("");
    plain.end = plain.first + 1;
    plain.max_age_ms = 1234567890123;
    plain.all_fields = true;
    target = question_write(&keep, &plain, fields, &count);
    ok(count == PEER_FIELDS_MAX);
    ok(send(&keep, target, fields, count, &got) == OK && !got.etag.len && !got.place.version.len);
    ok(got.max_age_ms == plain.max_age_ms && got.all_fields);
    ok(!got.identity.len && got.end == got.first + 1);
    arena_free(&keep);
}

/* Writes a question, replaces one field (or leaves it out, if the value has no ptr), and reads it. */
static enum err read_with(slice name, slice value)
{
    struct arena keep = { 0 };
    struct http_field fields[PEER_FIELDS_MAX];
    struct peer_question got;
    size_t count, left = 0;
    slice target = question_write(&keep, &asked, fields, &count);
    if (slice_eq(name, S("target")))
        target = value;
    for (size_t i = 0; i < count; i++) {
        bool is_it = slice_eq(fields[i].name, name);
        if (!is_it || value.ptr)
            fields[left++] = (struct http_field){ fields[i].name, is_it ? value : fields[i].value };
    }
    enum err e = send(&keep, target, fields, left, &got);
    arena_free(&keep);
    return e;
}

TEST(a_malformed_question_is_refused)
{
    static const slice none = { NULL, 0 };
    ok(read_with(S("x"), S("")) == OK);
    ok(read_with(S("target"), S("/peer/2/b/k")) == ERR_NOT_FOUND);
    ok(read_with(S("target"), S("/peer/01/b/k")) == OK);
    ok(read_with(S("target"), S("/peer/1")) == ERR_BAD_REQUEST);
    ok(read_with(S("target"), S("/peer/1/b")) == ERR_BAD_REQUEST);
    ok(read_with(S("target"), S("/peer/1/b/")) == ERR_BAD_REQUEST);
    ok(read_with(S("target"), S("/peer/1//k")) == ERR_BAD_REQUEST);
    ok(read_with(S("target"), S("/peer/1/b/k/l")) == ERR_BAD_REQUEST);
    ok(read_with(S("target"), S("/peer/1/b/%zz")) == ERR_BAD_REQUEST);
    ok(read_with(S("target"), S("/peer/1/b/%00")) == ERR_BAD_REQUEST);
    ok(read_with(S("target"), S("/bucket/key")) == ERR_NOT_FOUND);
    ok(read_with(S("x-penstock-node"), S("12")) == ERR_BAD_REQUEST);
    ok(read_with(S("x-penstock-node"), none) == ERR_BAD_REQUEST);
    ok(read_with(S("x-penstock-endpoint"), none) == ERR_BAD_REQUEST);
    ok(read_with(S("x-penstock-endpoint"), S("")) == ERR_BAD_REQUEST);
    ok(read_with(S("x-penstock-identity"), none) == ERR_BAD_REQUEST);
    ok(read_with(S("x-penstock-identity"), S("")) == OK);
    ok(read_with(S("if-match"), S("W/\"e\"")) == ERR_BAD_REQUEST);
    ok(read_with(S("if-match"), S("")) == ERR_BAD_REQUEST);
    ok(read_with(S("if-match"), none) == ERR_BAD_REQUEST);    /* nor has it an age */
    ok(read_with(S("range"), none) == ERR_BAD_REQUEST);
    ok(read_with(S("range"), S("bytes=-5")) == ERR_BAD_REQUEST);
    ok(read_with(S("range"), S("bytes=5-")) == ERR_BAD_REQUEST);
    ok(read_with(S("range"), S("bytes=5-4")) == ERR_BAD_REQUEST);
    ok(read_with(S("range"), S("bytes=0-8388607")) == OK);
    ok(read_with(S("range"), S("bytes=0-8388608")) == ERR_BAD_REQUEST);    /* two segments */
    ok(read_with(S("range"), S("bytes=0-1,3-4")) == ERR_BAD_REQUEST);
    ok(read_with(S("range"), S("bytes=18446744073709551615-18446744073709551615")) ==
       ERR_BAD_REQUEST);
}

/* ---- frames ---- */

static void add_frame(struct text *to, enum frame_kind kind, slice payload, uint32_t seed,
                      uint64_t offset)
{
    uint8_t frame[FRAME_BYTES];
    frame_write(kind, payload, seed, offset, frame);
    text_add(to, (slice){ (const char *)frame, sizeof(frame) });
    text_add(to, payload);
}

#define FIRST PEERS_SEGMENT_BYTES
#define BODY_BYTES 100000u

static struct frame_head head_of(struct http_field fields[2])
{
    fields[0] = (struct http_field){ S("etag"), S("\"e\"") };
    fields[1] = (struct http_field){ S("x-amz-meta-a~b"), S("with spaces: and colons") };
    return (struct frame_head){ .first = FIRST, .end = FIRST + BODY_BYTES,
                                .size = FIRST + 2 * BODY_BYTES, .age_ms = 1234, .fields = fields,
                                .field_count = 2 };
}

static void fill(char *body)
{
    for (size_t i = 0; i < BODY_BYTES; i++)
        body[i] = (char)(i * 7 + i / 251);
}

/* A whole answer: two WAITs, HEAD, DATA in two frames, a WAIT between them, END. */
static slice answer_of(struct arena *keep, const char *body)
{
    struct http_field fields[2];
    struct frame_head head = head_of(fields);
    struct text text = text_in(keep);
    slice payload;
    uint32_t seed = frame_seed(&place, S("\"e\""));
    ok(frame_head_write(keep, &head, &payload) == OK);
    add_frame(&text, FRAME_WAIT, S(""), 0, 0);
    add_frame(&text, FRAME_WAIT, S(""), 0, 0);
    add_frame(&text, FRAME_HEAD, payload, 0, 0);
    add_frame(&text, FRAME_DATA, (slice){ body, FRAME_DATA_MAX }, seed, FIRST);
    add_frame(&text, FRAME_WAIT, S(""), 0, 0);
    add_frame(&text, FRAME_DATA, (slice){ body + FRAME_DATA_MAX, BODY_BYTES - FRAME_DATA_MAX }, seed,
              FIRST + FRAME_DATA_MAX);
    add_frame(&text, FRAME_END, S(""), 0, 0);
    return text_slice(&text);
}

struct seen {
    const char *body;               /* NULL: the answer is not that of answer_of */
    uint64_t got;
    unsigned waits;
};

/* Verifies what was found in the answer of answer_of. */
static void verify(const struct frame_reader *reader, enum frame_found found, slice bytes,
                   struct seen *seen)
{
    seen->waits += found == FRAME_FOUND_WAIT;
    if (found == FRAME_FOUND_HEAD)
        ok(reader->head.size == FIRST + 2 * BODY_BYTES && reader->head.age_ms == 1234 &&
           reader->head.field_count == 2 && slice_eq(reader->head.etag, S("\"e\"")) &&
           slice_eq(reader->head.fields[1].name, S("x-amz-meta-a~b")) &&
           slice_eq(reader->head.fields[1].value, S("with spaces: and colons")));
    if (found != FRAME_FOUND_DATA)
        return;
    ok(memcmp(bytes.ptr, seen->body + seen->got, bytes.len) == 0);
    seen->got += bytes.len;
    ok(reader->next == FIRST + seen->got);
}

/* Reads frames in pieces, to the first that ends an answer. Returns what was found last; *ret_bytes
 * are its bytes. All pieces must be used up then, unless a frame is bad. */
static enum frame_found read_frames(struct arena *keep, slice frames, size_t piece_bytes,
                                    struct seen *seen, slice *ret_bytes)
{
    struct frame_reader reader;
    enum frame_found found = FRAME_FOUND_NOTHING;
    bool ends = false;
    slice piece = S(""), bytes = S("");
    frame_reader_init(&reader, &place);
    while (!ends && frames.len) {
        piece = slice_sub(frames, 0, piece_bytes);
        frames = slice_from(frames, piece.len);
        do {
            found = frame_read(&reader, &piece, &bytes);
            ends = found == FRAME_FOUND_END || found == FRAME_FOUND_BAD || found == FRAME_FOUND_NO;
            if (seen->body)
                verify(&reader, found, bytes, seen);
        } while (!ends && found != FRAME_FOUND_NOTHING);
    }
    ok(found == FRAME_FOUND_BAD || (!frames.len && !piece.len));
    *ret_bytes = arena_copy(keep, bytes);
    frame_reader_end(&reader);
    return found;
}

static enum frame_found read_answer(slice answer, size_t piece_bytes, const char *body)
{
    struct arena keep = { 0 };
    struct seen seen = { .body = body };
    slice bytes;
    enum frame_found found = read_frames(&keep, answer, piece_bytes, &seen, &bytes);
    ok(found != FRAME_FOUND_END || (seen.got == BODY_BYTES && seen.waits == 3));
    arena_free(&keep);
    return found;
}

TEST(an_answer_is_read_in_any_pieces)
{
    static const size_t pieces[] = { 1, 7, 16, 17, 4096, 65536, 1000000 };
    struct arena keep = { 0 };
    char *body = arena_alloc(&keep, BODY_BYTES);
    fill(body);
    slice answer = answer_of(&keep, body);
    for (size_t i = 0; i < countof(pieces); i++)
        ok(read_answer(answer, pieces[i], body) == FRAME_FOUND_END);
    arena_free(&keep);
}

/* Each flipped bit is noticed, but for those that change no bytes of the object: none. */
TEST(a_flipped_bit_is_noticed)
{
    struct arena keep = { 0 };
    char *body = arena_alloc(&keep, BODY_BYTES);
    fill(body);
    slice answer = answer_of(&keep, body);
    char *bytes = (char *)(uintptr_t)answer.ptr;
    for (size_t at = 0; at < answer.len; at += at < 600 ? 1 : 997) {
        bytes[at] ^= (char)(1 << at % 8);
        enum frame_found found = read_answer(answer, 65536, body);
        ok(found == FRAME_FOUND_BAD || found == FRAME_FOUND_NOTHING);
        bytes[at] ^= (char)(1 << at % 8);
    }
    arena_free(&keep);
}

/* The bytes of another place have another checksum. */
TEST(bytes_of_another_place_are_noticed)
{
    struct rank_place others[] = { place, place, place, place };
    others[0].endpoint = S("https://s3.example:44");
    others[1].bucket = S("bucket2");
    others[2].key = S("a/b");
    others[3].version = S("1");
    uint32_t seed = frame_seed(&place, S("\"e\""));
    ok(frame_seed(&place, S("\"f\"")) != seed);
    for (size_t i = 0; i < countof(others); i++)
        ok(frame_seed(&others[i], S("\"e\"")) != seed);
    struct rank_place moved = place;
    moved.bucket = S("bucketa");
    moved.key = S("/b c\xc3\xa4");
    ok(frame_seed(&moved, S("\"e\"")) != seed);
    uint8_t here[FRAME_BYTES], there[FRAME_BYTES];
    frame_write(FRAME_DATA, S("bytes"), seed, 0, here);
    frame_write(FRAME_DATA, S("bytes"), seed, 65536, there);
    ok(memcmp(here, there, FRAME_BYTES) != 0);
}

/* Reads frames in this order; the HEAD announces 5 bytes. */
static enum frame_found read_order(const enum frame_kind *kinds, size_t count, slice data)
{
    struct arena keep = { 0 };
    struct text text = text_in(&keep);
    struct frame_head head = { .first = 0, .end = 5, .size = 5 };
    struct seen seen = { .body = NULL };
    slice payload, bytes;
    uint64_t offset = 0;
    ok(frame_head_write(&keep, &head, &payload) == OK);
    for (size_t i = 0; i < count; i++) {
        bool has_data = kinds[i] == FRAME_DATA || kinds[i] == FRAME_NO;
        slice part = kinds[i] == FRAME_HEAD ? payload : has_data ? data : S("");
        add_frame(&text, kinds[i], part, frame_seed(&place, S("")), offset);
        offset += kinds[i] == FRAME_DATA ? data.len : 0;
    }
    enum frame_found found = read_frames(&keep, text_slice(&text), SIZE_MAX, &seen, &bytes);
    arena_free(&keep);
    return found;
}
#define ORDER(data, ...)                                                                           \
    read_order((enum frame_kind[]){ __VA_ARGS__ },                                                 \
               sizeof((enum frame_kind[]){ __VA_ARGS__ }) / sizeof(enum frame_kind), data)

TEST(frames_in_a_wrong_order_are_refused)
{
    ok(ORDER(S("12345"), FRAME_HEAD, FRAME_DATA, FRAME_END) == FRAME_FOUND_END);
    ok(ORDER(S("12345"), FRAME_HEAD, FRAME_DATA) == FRAME_FOUND_NOTHING);    /* no END: a cut */
    ok(ORDER(S("12345"), FRAME_END) == FRAME_FOUND_BAD);
    ok(ORDER(S("12345"), FRAME_DATA) == FRAME_FOUND_BAD);
    ok(ORDER(S("12345"), FRAME_HEAD, FRAME_HEAD) == FRAME_FOUND_BAD);
    ok(ORDER(S("12345"), FRAME_HEAD, FRAME_END) == FRAME_FOUND_BAD);         /* too early */
    ok(ORDER(S("1234"), FRAME_HEAD, FRAME_DATA, FRAME_END) == FRAME_FOUND_BAD);
    ok(ORDER(S("123456"), FRAME_HEAD, FRAME_DATA) == FRAME_FOUND_BAD);
    ok(ORDER(S(""), FRAME_HEAD, FRAME_DATA) == FRAME_FOUND_BAD);
    ok(ORDER(S("12345"), FRAME_HEAD, FRAME_DATA, FRAME_DATA) == FRAME_FOUND_BAD);
    ok(ORDER(S(""), (enum frame_kind)9) == FRAME_FOUND_BAD);
    ok(ORDER(S(""), (enum frame_kind)0) == FRAME_FOUND_BAD);
}

TEST(a_no_is_read_before_a_head_and_nowhere_else)
{
    char text[FRAME_NO_MAX + 1];
    memset(text, 'x', sizeof(text));
    ok(ORDER(S("refused"), FRAME_NO) == FRAME_FOUND_NO);
    ok(ORDER(S("refused"), FRAME_WAIT, FRAME_WAIT, FRAME_NO) == FRAME_FOUND_NO);
    ok(ORDER(((slice){ text, FRAME_NO_MAX }), FRAME_NO) == FRAME_FOUND_NO);
    ok(ORDER(((slice){ text, FRAME_NO_MAX + 1 }), FRAME_NO) == FRAME_FOUND_BAD);
    ok(ORDER(S(""), FRAME_NO) == FRAME_FOUND_BAD);
    ok(ORDER(S("a\nb"), FRAME_NO) == FRAME_FOUND_BAD && ORDER(S("\xe4"), FRAME_NO) == FRAME_FOUND_BAD);
    ok(ORDER(S("refused"), FRAME_HEAD, FRAME_NO) == FRAME_FOUND_BAD);
    ok(ORDER(S("12345"), FRAME_HEAD, FRAME_DATA, FRAME_NO) == FRAME_FOUND_BAD);
}

TEST(the_text_of_a_no_arrives_in_any_pieces)
{
    struct arena keep = { 0 };
    struct text text = text_in(&keep);
    struct seen seen = { .body = NULL };
    slice got;
    add_frame(&text, FRAME_NO, S("not_found"), 0, 0);
    ok(read_frames(&keep, text_slice(&text), 1, &seen, &got) == FRAME_FOUND_NO);
    same(got, S("not_found"));
    arena_free(&keep);
}

static enum err read_head(const char *text)
{
    struct arena keep = { 0 };
    struct frame_head head;
    enum err e = frame_head_read(&keep, slice_of(text), &head);
    arena_free(&keep);
    return e;
}

#define AGE "x-penstock-age: 1\r\nx-penstock-full: 1\r\n"
#define NUMBERS "x-penstock-first: 0\r\nx-penstock-end: 5\r\nx-penstock-size: 9\r\n" AGE

TEST(a_malformed_head_is_refused)
{
    ok(read_head(NUMBERS) == OK && read_head(NUMBERS "etag: \"e\"\r\n") == OK);
    ok(read_head(NUMBERS "x-penstock-later: 1\r\netag: \"e\"\r\n") == OK);
    ok(read_head("") == ERR_ORIGIN_REPLY && read_head("etag: \"e\"\r\n") == ERR_ORIGIN_REPLY);
    ok(read_head(NUMBERS "etag: \"e\"\n") == ERR_ORIGIN_REPLY);
    ok(read_head(NUMBERS "etag: \"e\"") == ERR_ORIGIN_REPLY);
    ok(read_head(NUMBERS "etag\r\n") == ERR_ORIGIN_REPLY);
    ok(read_head(NUMBERS ": x\r\n") == ERR_ORIGIN_REPLY);
    ok(read_head(NUMBERS "ETag: x\r\n") == ERR_ORIGIN_REPLY);
    ok(read_head(NUMBERS "e tag: x\r\n") == ERR_ORIGIN_REPLY);
    ok(read_head(NUMBERS "etag: a\x01\r\n") == ERR_ORIGIN_REPLY);
    ok(read_head(NUMBERS "content-range: bytes 0-9/10\r\n") == ERR_ORIGIN_REPLY);
    ok(read_head("x-penstock-first: 6\r\nx-penstock-end: 5\r\nx-penstock-size: 9\r\n"
                 AGE) == ERR_ORIGIN_REPLY);
    ok(read_head("x-penstock-first: 0\r\nx-penstock-end: 10\r\nx-penstock-size: 9\r\n"
                 AGE) == ERR_ORIGIN_REPLY);
    ok(read_head("x-penstock-first: -1\r\nx-penstock-end: 5\r\nx-penstock-size: 9\r\n"
                 AGE) == ERR_ORIGIN_REPLY);
    ok(read_head("x-penstock-first: 0\r\nx-penstock-end: 5\r\nx-penstock-size: "
                 "9223372036854775807\r\n" AGE) == ERR_ORIGIN_REPLY);
    ok(read_head("x-penstock-first: 0\r\nx-penstock-end: 5\r\nx-penstock-size: 9\r\n"
                 "x-penstock-age: 1\r\nx-penstock-full: 2\r\n") == ERR_ORIGIN_REPLY);
}

TEST(a_head_that_could_not_be_read_back_is_not_written)
{
    static const struct http_field bad[] = {
        { { "Upper", 5 }, { "x", 1 } }, { { "", 0 }, { "x", 1 } }, { { "a b", 3 }, { "x", 1 } },
        { { "a", 1 }, { "x\r\ny: z", 7 } }, { { "x-penstock-age", 14 }, { "0", 1 } },
    };
    struct arena keep = { 0 };
    slice payload;
    for (size_t i = 0; i < countof(bad); i++) {
        struct http_field field = bad[i];
        struct frame_head head = { .size = 5, .fields = &field, .field_count = 1 };
        ok(frame_head_write(&keep, &head, &payload) == ERR_TOO_LARGE);
    }
    struct http_field *many = arena_alloc(&keep, (HTTP_FIELDS_MAX + 1) * sizeof(*many));
    for (size_t i = 0; i <= HTTP_FIELDS_MAX; i++)
        many[i] = (struct http_field){ S("a"), S("x") };
    struct frame_head head = { .size = 5, .fields = many, .field_count = HTTP_FIELDS_MAX };
    ok(frame_head_write(&keep, &head, &payload) == OK);
    struct frame_head back;
    ok(frame_head_read(&keep, payload, &back) == OK && back.field_count == HTTP_FIELDS_MAX);
    head.field_count++;
    ok(frame_head_write(&keep, &head, &payload) == ERR_TOO_LARGE);
    arena_free(&keep);
}

RUN(cmocka_unit_test(a_question_is_read_as_it_was_written),
    cmocka_unit_test(a_malformed_question_is_refused),
    cmocka_unit_test(an_answer_is_read_in_any_pieces),
    cmocka_unit_test(a_flipped_bit_is_noticed),
    cmocka_unit_test(bytes_of_another_place_are_noticed),
    cmocka_unit_test(frames_in_a_wrong_order_are_refused),
    cmocka_unit_test(a_no_is_read_before_a_head_and_nowhere_else),
    cmocka_unit_test(the_text_of_a_no_arrives_in_any_pieces),
    cmocka_unit_test(a_malformed_head_is_refused),
    cmocka_unit_test(a_head_that_could_not_be_read_back_is_not_written))
