/* test_s3_chunked.c - aws-chunked bodies, and what a head says of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>

#include "base/arena.h"
#include "s3/chunked.h"
#include "s3/encode.h"
#include "s3/integrity.h"

#define BODY_BYTES_MAX (4u << 20)

static const struct s3_request no_query;    /* a request without headers in its query */
static char data[BODY_BYTES_MAX], wire[BODY_BYTES_MAX], place[BODY_BYTES_MAX];

/* Decodes into `place`, cut behind the first `cut` bytes; or, with cut of SIZE_MAX, at every byte. */
static enum err decode(const struct chunked_form *form, slice body, size_t cut, slice *ret_data,
                       slice *ret_trailer)
{
    static char trailer[2048];
    struct chunked *chunked = chunked_new(form);
    size_t len = 0, more = 0;
    slice why;
    enum err err = OK;
    while (!err && body.len) {
        slice in = slice_sub(body, 0, cut == SIZE_MAX ? 1 : cut ? cut : body.len);
        err = chunked_feed(chunked, in, place + len, &more);
        body = slice_from(body, in.len);
        len += more;
        cut = cut == SIZE_MAX ? cut : 0;
    }
    if (!err)
        err = chunked_end(chunked, &why);
    slice value = chunked_trailer(chunked);
    *ret_data = (slice){ place, len };
    *ret_trailer = (slice){ trailer, slice_put(trailer, value) };
    chunked_free(&chunked);
    return err;
}

static enum err verdict(slice trailer, uint64_t length, const char *body)
{
    slice got, value;
    struct chunked_form form = { .trailer = trailer, .length = length };
    enum err err = decode(&form, slice_of(body), 0, &got, &value);
    for (size_t cut = 1; cut < strlen(body); cut++)
        ok(decode(&form, slice_of(body), cut, &got, &value) == err);
    ok(decode(&form, slice_of(body), SIZE_MAX, &got, &value) == err);
    return err;
}

#define NVME S("x-amz-checksum-crc64nvme")
#define SUM "x-amz-checksum-crc64nvme:M3eFcAZSQlc=\r\n"

TEST(unsigned_chunks_are_decoded)
{
    ok(verdict(S(""), 5, "5\r\nhello\r\n0\r\n\r\n") == OK);
    same(((slice){ place, 5 }), S("hello"));
    ok(verdict(NVME, 5, "5\r\nhello\r\n0\r\n" SUM "\r\n") == OK);
    ok(verdict(NVME, 0, "0\r\n" SUM "\r\n") == OK);
    ok(verdict(S(""), 10, "A\r\nhellohello\r\n000\r\n\r\n") == OK);
    ok(verdict(NVME, 5, "5\r\nhello\r\n0\r\nX-Amz-Checksum-Crc64nvme: M3eFcAZSQlc=\r\n\r\n") == OK);
}

TEST(framing_that_is_wrong_is_an_incomplete_body)
{
    static const char *const bodies[] = {
        "A\ndummy data\r\n0\r\n\r\n", "A\r\ndummy data0\r\n\r\n",
        "A\r\nXYZ\r\ndummy data\r\n0\r\n\r\n", "B\r\ndummy data\r\n0\r\n\r\n",
        "A\r\ndummy data\r\n0\r\n", "A\r\ndummy data\r\n0\r\n" SUM, "A\r\n", "",
        "A\r\nA\r\ndummy data\r\n0\r\n\r\n", "invalid\r\ndummy data\r\n0\r\n" SUM "\r\n",
        "A\r\ndummy data\r\nJ\r\n" SUM "\r\n", "0xA\r\ndummy data\r\n0\r\n" SUM "\r\n",
        " A\r\ndummy data\r\n0\r\n" SUM "\r\n", "A \r\ndummy data\r\n0\r\n" SUM "\r\n",
        "A;x=y\r\ndummy data\r\n0\r\n" SUM "\r\n", "+A\r\ndummy data\r\n0\r\n" SUM "\r\n",
        "-A\r\ndummy data\r\n0\r\n" SUM "\r\n", "1000000000000000A\r\ndummy data\r\n0\r\n" SUM "\r\n",
        "FFFFFFFFFFFFFFFF\r\ndummy data\r\n0\r\n" SUM "\r\n",
        "A\r\ndummy data\r\n0\r\n" SUM "\r\n\r\n", "A\r\ndummy data\r\n0\r\n" SUM "x:y\r\n\r\n",
        "A\r\r\ndummy data\r\n0\r\n" SUM "\r\n", "A\r\ndummy data\n0\r\n" SUM "\r\n",
    };
    for (size_t i = 0; i < countof(bodies); i++)
        if (verdict(NVME, 10, bodies[i]) != ERR_INCOMPLETE)
            fail_msg("%s", bodies[i]);
}

TEST(a_length_that_is_not_the_announced_one_is_told_as_that)
{
    static const struct { const char *body; uint64_t length; slice trailer; } rows[] = {
        { "b\r\nabcdefghijk\r\n0\r\n\r\n", 5, { "", 0 } },
        { "b\r\nabcdefghijk\r\n0\r\n\r\n", 200, { "", 0 } },
        { "a\r\ndummy data\r\n0\r\nx-amz-checksum-sha256:x\r\n\r\n", 7, { "x-amz-checksum-sha1", 19 } },
        { "0\r\n\r\n", 1, { "", 0 } },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct chunked_form form = { .trailer = rows[i].trailer, .length = rows[i].length };
        struct chunked *chunked = chunked_new(&form);
        size_t len;
        slice why;
        ok(chunked_feed(chunked, slice_of(rows[i].body), place, &len) == OK);
        ok(chunked_end(chunked, &why) == ERR_INCOMPLETE && slice_starts(why, S("You did not")));
        chunked_free(&chunked);
    }
}

TEST(a_trailer_is_the_one_announced_or_malformed)
{
    ok(verdict(NVME, 5, "5\r\nhello\r\n0\r\n\r\n") == ERR_TRAILER);
    ok(verdict(NVME, 5, "5\r\nhello\r\n0\r\n:M3eFcAZSQlc=\r\n\r\n") == ERR_TRAILER);
    ok(verdict(NVME, 5, "5\r\nhello\r\n0\r\nx-amz-checksum-crc64nvme\r\n\r\n") == ERR_TRAILER);
    ok(verdict(S(""), 5, "5\r\nhello\r\n0\r\n" SUM "\r\n") == ERR_TRAILER);
    ok(verdict(NVME, 5, "5\r\nhello\r\n0\r\ninvalid:M3eFcAZSQlc=\r\n\r\n") == ERR_TRAILER);
    char longer[3000] = "5\r\nhello\r\n0\r\nx-amz-checksum-crc64nvme:";
    memset(longer + strlen(longer), 'A', 2000);
    ok(verdict(NVME, 5, longer) == ERR_INCOMPLETE);    /* a line has a limit */
}

#define SUM_LF "x-amz-checksum-crc64nvme:M3eFcAZSQlc=\n\r\n"

TEST(a_trailer_may_have_one_LF_in_front_of_its_CRLF)
{
    slice got, value;
    struct chunked_form form = { .trailer = NVME, .length = 5 };
    slice body = S("5\r\nhello\r\n0\r\n" SUM_LF "\r\n");
    for (size_t cut = 0; cut < body.len; cut++) {
        ok(decode(&form, body, cut, &got, &value) == OK);
        same(got, S("hello"));
        same(value, S("M3eFcAZSQlc="));
    }
    ok(decode(&form, body, SIZE_MAX, &got, &value) == OK);
    static const char *const bodies[] = {
        "5\r\nhello\r\n0\r\n" SUM_LF "\n\r\n", "5\r\nhello\r\n0\r\n\n" SUM "\r\n",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc64nvme:M3eFcAZSQlc=\n\n\r\n\r\n",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc64nvme:M3eFcAZSQlc=\n\r\r\n\r\n",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc64nvme:M3eFcAZSQlc=\r\n\n\r\n",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc64nvme:\nM3eFcAZSQlc=\r\n\r\n",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc64nvme:M3eFcAZSQlc=\nx:y\n\r\n\r\n",
        "5\n\r\nhello\r\n0\r\n" SUM "\r\n", "5\r\nhello\n\r\n0\r\n" SUM "\r\n",
        "5\r\nhello\r\n0\n\r\n" SUM "\r\n",
        "5\r\nhello\r\n0\r\n\n\r\n", ("5\r\nhello\r\n0\r\n" SUM_LF),
    };
    for (size_t i = 0; i < countof(bodies); i++)
        if (verdict(NVME, 5, bodies[i]) != ERR_INCOMPLETE)
            fail_msg("%s", bodies[i]);
    ok(verdict(S(""), 5, "5\r\nhello\r\n0\r\n\n\r\n") == ERR_INCOMPLETE);
    ok(verdict(S(""), 5, "5\r\nhello\r\n0\r\n" SUM_LF "\r\n") == ERR_TRAILER);
}

TEST(wrong_framing_is_told_with_its_place)
{
    static const struct { const char *body, *what; uint64_t at, chunk; } rows[] = {
        { "A\ndummy data\r\n0\r\n\r\n", "a line ends in LF without CR", 0, 1 },
        { "A\r\r\ndummy data\r\n", "a CR is not followed by LF", 0, 1 },
        { "xA\r\ndummy data\r\n", "the size of a chunk must be 1 to 16 hex digits", 0, 1 },
        { "A\r\ndummy data0\r\n\r\n", "a chunk is longer than its size says", 13, 1 },
        { "A\r\ndummy data\r\nzero\r\n", "the size of a chunk must be 1 to 16 hex digits", 15, 2 },
        { "A\r\ndummy data\r\n0\r\n" SUM "more\r\n", "there is more than one trailer", 57, 2 },
        { "A\r\ndummy data\r\n0\r\n" SUM "\r\nx", "bytes follow the end of the body", 59, 2 },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        for (size_t cut = 0; cut <= strlen(rows[i].body); cut++) {
            struct chunked_form form = { .trailer = NVME, .length = 10 };
            struct chunked *chunked = chunked_new(&form);
            slice body = slice_of(rows[i].body);
            size_t len, more;
            enum err err = chunked_feed(chunked, slice_sub(body, 0, cut), place, &len);
            if (!err)
                err = chunked_feed(chunked, slice_from(body, cut), place + len, &more);
            struct chunked_fault fault = chunked_fault(chunked);
            ok(err == ERR_INCOMPLETE);
            same(slice_of(fault.what), slice_of(rows[i].what));
            ok(fault.at == rows[i].at && fault.chunk == rows[i].chunk);
            chunked_free(&chunked);
        }
    }
    struct chunked_form form = { .trailer = NVME, .length = 10 };
    struct chunked *chunked = chunked_new(&form);
    size_t len;
    ok(chunked_feed(chunked, S("A\r\ndum"), place, &len) == OK && !chunked_fault(chunked).what);
    chunked_free(&chunked);
}

static size_t put_chunks(const size_t *sizes)
{
    size_t at = 0;
    for (; *sizes; sizes++) {
        at += (size_t)sprintf(wire + at, "%zx\r\n", *sizes);
        memset(wire + at, 'x', *sizes);
        at += *sizes;
        at += (size_t)sprintf(wire + at, "\r\n");
    }
    return at + (size_t)sprintf(wire + at, "0\r\n\r\n");
}

TEST(only_the_last_chunk_may_be_small)
{
    static const struct { size_t sizes[8]; enum err want; } rows[] = {
        { { 8192, 8192, 100 }, OK }, { { 100 }, OK }, { { 10000, 9500, 20 }, OK },
        { { 100, 8192, 100 }, ERR_CHUNK_SIZE }, { { 8192, 8191, 1 }, ERR_CHUNK_SIZE },
        { { 10, 10, 10 }, ERR_CHUNK_SIZE }, { { 10000, 10, 8192, 8192 }, ERR_CHUNK_SIZE },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct chunked_form form = { 0 };
        for (size_t k = 0; rows[i].sizes[k]; k++)
            form.length += rows[i].sizes[k];
        slice got, value;
        ok(decode(&form, (slice){ wire, put_chunks(rows[i].sizes) }, 0, &got, &value)
           == rows[i].want);
    }
}

/* ---- signed chunks: the two examples of AWS's documentation ---- */

#define SECRET S("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")

static slice example(const char *seed, struct sigv4_claim *ret)
{
    *ret = (struct sigv4_claim){ .access_key = S("AKIAIOSFODNN7EXAMPLE"), .date = S("20130524"), .region = S("us-east-1"),
                                 .service = S("s3"), .signature = slice_of(seed),
                                 .signed_at_s = 1369353600 };
    bool trailer = seed[0] == '1';
    size_t at = (size_t)sprintf(wire, "10000;chunk-signature=%s\r\n", trailer
        ? "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2"
        : "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648");
    memset(wire + at, 'a', 65536);
    at += 65536;
    at += (size_t)sprintf(wire + at, "\r\n400;chunk-signature=%s\r\n", trailer
        ? "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7"
        : "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497");
    memset(wire + at, 'a', 1024);
    at += 1024;
    at += (size_t)sprintf(wire + at, "\r\n0;chunk-signature=%s\r\n", trailer
        ? "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992"
        : "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9");
    if (trailer)
        at += (size_t)sprintf(wire + at, "x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:"
                              "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n");
    return (slice){ wire, at + (size_t)sprintf(wire + at, "\r\n") };
}

static enum err decode_example(const char *seed, slice body, const struct sigv4_claim *claim,
                               size_t cut, slice *ret_trailer)
{
    struct sigv4 *sigv4 = sigv4_new();
    struct sigv4_chain *chain = sigv4_chain_new(sigv4, claim, SECRET);
    bool trailer = seed[0] == '1';
    struct chunked_form form = { trailer ? S("x-amz-checksum-crc32c") : S(""), 66560, chain,
                                 trailer };
    slice got;
    enum err err = decode(&form, body, cut, &got, ret_trailer);
    for (size_t i = 0; !err && i < got.len; i++)
        ok(got.ptr[i] == 'a');
    sigv4_chain_free(&chain);
    sigv4_free(&sigv4);
    return err;
}

static const char *const seeds[] = {
    "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
    "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
};

TEST(signed_chunks_verify_and_any_changed_byte_is_refused)
{
    for (size_t i = 0; i < countof(seeds); i++) {
        struct sigv4_claim claim;
        slice trailer, body = example(seeds[i], &claim);
        ok(decode_example(seeds[i], body, &claim, 0, &trailer) == OK);
        same(trailer, i ? S("sOO8/Q==") : S(""));
        ok(decode_example(seeds[i], body, &claim, SIZE_MAX, &trailer) == OK);
        for (size_t at = 0; at < body.len; at += at > 70000 || at % 1024 < 80 ? 7 : 211) {
            wire[at] ^= 1;
            enum err err = decode_example(seeds[i], body, &claim, at, &trailer);
            ok(err == ERR_SIGNATURE || err == ERR_INCOMPLETE || err == ERR_TRAILER);
            wire[at] ^= 1;
        }
        ok(decode_example(seeds[i], slice_sub(body, 0, body.len - 1), &claim, 0, &trailer)
           == ERR_INCOMPLETE);
    }
}

TEST(a_signed_trailer_may_have_one_LF_in_front_of_its_CRLF)
{
    struct sigv4_claim claim;
    slice trailer, body = example(seeds[1], &claim);
    static char plain[70000];
    size_t lf = body.len - 2 - 90 - 2;    /* in front of the CRLF before the trailer's signature */
    memcpy(plain, body.ptr, body.len);
    ok(memcmp(plain + lf, "\r\nx-amz-trailer-signature:", 26) == 0);
    memmove(plain + lf + 1, plain + lf, body.len - lf);
    plain[lf] = '\n';
    slice with = { plain, body.len + 1 };
    ok(decode_example(seeds[1], with, &claim, 0, &trailer) == OK);
    same(trailer, S("sOO8/Q=="));
    for (size_t cut = with.len - 200; cut < with.len; cut++)
        ok(decode_example(seeds[1], with, &claim, cut, &trailer) == OK);
    memmove(plain + with.len - 2, "\n\r\n", 3);    /* behind the signature it is none of ours */
    ok(decode_example(seeds[1], (slice){ plain, with.len + 1 }, &claim, 0, &trailer)
       == ERR_INCOMPLETE);
}

TEST(a_chunk_that_is_left_out_breaks_the_chain)
{
    struct sigv4_claim claim;
    slice trailer, body = example(seeds[0], &claim);
    size_t second = 88 + 65536 + 2;
    memmove(wire, wire + second, body.len - second);
    ok(decode_example(seeds[0], (slice){ wire, body.len - second }, &claim, 0, &trailer)
       == ERR_SIGNATURE);
}

/* ---- what boto3 sends: tests/vectors/bodies.txt ---- */

struct recorded {
    char name[500], lines[16][500];
    struct request_head head;
    size_t size, body_len;
};

/* Each line begins with what it is; "\r\n" in it is written \r\n, @N is the next N bytes of data. */
static void take_body_line(struct recorded *ret, char *text, size_t *data_at)
{
    if (text[0] == '@') {
        size_t len = strtoul(text + 1, NULL, 10);
        memcpy(wire + ret->body_len, data + *data_at, len);
        ret->body_len += len;
        *data_at += len;
        return;
    }
    char *end = strstr(text, "\\r\\n");
    ok(end != NULL);
    if (!end)
        return;
    memcpy(wire + ret->body_len, text, (size_t)(end - text));
    ret->body_len += (size_t)(end - text);
    ret->body_len += slice_put(wire + ret->body_len, S("\r\n"));
}

static void take_head_line(struct recorded *ret, const char *text)
{
    char *line = ret->lines[ret->head.field_count];
    snprintf(line, sizeof(ret->lines[0]), "%s", text);
    slice value = slice_of(line), name = slice_cut(&value, ':');
    ret->head.fields[ret->head.field_count++] = (struct http_field){ name, slice_trim(value) };
}

static bool recorded_next(FILE *file, struct recorded *ret)
{
    char line[500];
    size_t data_at = 0;
    memset(ret, 0, sizeof(*ret));
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = 0;
        if (!line[0] && ret->name[0])
            return true;
        if (strncmp(line, "name ", 5) == 0)
            snprintf(ret->name, sizeof(ret->name), "%s", line + 5);
        else if (strncmp(line, "size ", 5) == 0)
            ret->size = strtoul(line + 5, NULL, 10);
        else if (strncmp(line, "head ", 5) == 0)
            take_head_line(ret, line + 5);
        else if (strncmp(line, "body ", 5) == 0)
            take_body_line(ret, line + 5, &data_at);
    }
    return ret->name[0] != 0;
}

static FILE *recorded_open(void)
{
    char path[4096];
    const char *srcdir = getenv("srcdir");
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)((uint32_t)(i * 2654435761u) >> 24);
    snprintf(path, sizeof(path), "%s/tests/vectors/bodies.txt", srcdir ? srcdir : ".");
    FILE *file = fopen(path, "r");
    ok(file != NULL);
    return file;
}

static void sum_is(enum checksum which, slice bytes, slice base64)
{
    uint8_t sum[CHECKSUM_BYTES_MAX], want[CHECKSUM_BYTES_MAX];
    checksum_of(which, bytes, sum);
    ok(base64_read(base64, want, checksum_bytes(which)));
    ok(memcmp(sum, want, checksum_bytes(which)) == 0);
}

/* Cut at each place of a small body; of a large one at those around its framing, and some: all of
 * them take half an hour (set EVERY_CUT to have them). Under a sanitizer, at every 131st place of a
 * small body, and at the framing of the first chunks of a large one: later ones are framed alike. */
static void cut_everywhere(const struct chunked_form *form, slice body, slice want)
{
    slice got, trailer;
    ok(decode(form, body, SIZE_MAX, &got, &trailer) == OK && slice_eq(got, want));
    size_t step = getenv("EVERY_CUT") ? 1 : body.len < 70000 ? rounds_of(1, 131) : 9973;
    for (size_t cut = 1; cut < body.len; cut++) {
        bool framing = cut < 64 || body.len - cut < 128 ||
                       ((cut + 32) % 65536 < 96 && cut < rounds_of(SIZE_MAX, 4u << 16));
        if (!framing && cut % step)
            continue;
        ok(decode(form, body, cut, &got, &trailer) == OK && got.len == want.len);
        ok(!framing || slice_eq(got, want));
    }
    memcpy(place, body.ptr, body.len);    /* and in place */
    struct chunked *chunked = chunked_new(form);
    size_t len = 0;
    ok(chunked_feed(chunked, (slice){ place, body.len }, place, &len) == OK);
    ok(slice_eq((slice){ place, len }, want));
    chunked_free(&chunked);
}

static void recorded_is_right(const struct recorded *recorded)
{
    struct arena arena = { 0 };
    struct integrity is;
    struct sigv4_claim claim = { .payload = PAYLOAD_HEX };
    slice why, hash = request_head_get(&recorded->head, S("x-amz-content-sha256"));
    slice want = { data, recorded->size }, body = { wire, recorded->body_len };
    if (slice_eq(hash, S("STREAMING-UNSIGNED-PAYLOAD-TRAILER")))
        claim.payload = PAYLOAD_CHUNKS_TRAILER;
    ok(integrity_read(&arena, &recorded->head, &no_query, &claim, true, &is, &why) == OK);
    ok(is.sum != CHECKSUM_COUNT && is.framed == slice_starts(slice_of(recorded->name), S("https")));
    if (is.framed) {
        struct chunked_form form = { .trailer = checksum_header(is.sum), .length = is.length };
        slice got, trailer;
        ok(is.sum_in_trailer && is.length == recorded->size && !is.encoding.ptr);
        ok(decode(&form, body, 0, &got, &trailer) == OK);
        ok(slice_eq(got, want));
        sum_is(is.sum, want, trailer);
        cut_everywhere(&form, body, want);
    } else {
        uint8_t sum[CHECKSUM_BYTES_MAX];
        ok(slice_eq(body, want));
        checksum_of(is.sum, want, sum);
        ok(memcmp(sum, is.sum_value, checksum_bytes(is.sum)) == 0);
    }
    arena_free(&arena);
}

TEST(twenty_recorded_bodies_decode_the_same_wherever_they_are_cut)
{
    FILE *file = recorded_open();
    static struct recorded recorded;
    size_t count = 0;
    while (recorded_next(file, &recorded)) {
        recorded_is_right(&recorded);
        count++;
    }
    fclose(file);
    ok(count == 20);
}

/* ---- what a head says ---- */

static enum err read_head(enum sigv4_payload payload, const char *const *fields,
                          struct integrity *ret, slice *ret_why)
{
    static struct arena arena;
    struct request_head head = { 0 };
    struct sigv4_claim claim = { .payload = payload, .payload_hash = S("STREAMING-X") };
    arena_free(&arena);
    for (; *fields; fields += 2)
        head.fields[head.field_count++] =
            (struct http_field){ slice_of(fields[0]), slice_of(fields[1]) };
    return integrity_read(&arena, &head, &no_query, &claim, true, ret, ret_why);
}
#define READ(payload, ...) read_head(payload, (const char *const[]){ __VA_ARGS__ NULL }, &is, &why)

TEST(sums_that_contradict_each_other_are_invalid)
{
    struct integrity is;
    slice why;
    ok(READ(PAYLOAD_HEX, "x-amz-checksum-crc32", "MSpqpg==", "x-amz-checksum-sha1",
            "L7XhNBn8iSRoZeejJPR27GJOh0A=",) == ERR_BAD_REQUEST);
    ok(slice_starts(why, S("Expecting a single")));
    ok(READ(PAYLOAD_CHUNKS_TRAILER, "x-amz-decoded-content-length", "5", "x-amz-trailer",
            "x-amz-checksum-crc32", "x-amz-checksum-crc32", "MSpqpg==",) == ERR_BAD_REQUEST);
    ok(slice_starts(why, S("Expecting a single")));
    ok(READ(PAYLOAD_HEX, "x-amz-checksum-crc32", "invalid",) == ERR_BAD_REQUEST);
    same(why, S("Value for x-amz-checksum-crc32 header is invalid."));
    ok(READ(PAYLOAD_HEX, "x-amz-checksum-crc33", "MSpqpg==",) == ERR_BAD_REQUEST);
    ok(slice_starts(why, S("The algorithm type you specified")));
    ok(READ(PAYLOAD_HEX, "x-amz-checksum-crc32", "MSpqpg==", "x-amz-sdk-checksum-algorithm",
            "CRC32C",) == ERR_BAD_REQUEST);
    same(why, S("Value for x-amz-sdk-checksum-algorithm header is invalid."));
    ok(READ(PAYLOAD_HEX, "x-amz-sdk-checksum-algorithm", "CRC",) == ERR_BAD_REQUEST);
    ok(READ(PAYLOAD_CHUNKS_TRAILER, "x-amz-decoded-content-length", "5", "x-amz-trailer",
            "x-amz-meta-x",) == ERR_BAD_REQUEST);
    ok(slice_starts(why, S("The value specified in the x-amz-trailer")));
    ok(READ(PAYLOAD_HEX, "content-md5", "invalid",) == ERR_BAD_MD5);
    ok(READ(PAYLOAD_UNSIGNED, "x-amz-trailer", "x-amz-checksum-crc32",) == ERR_BAD_REQUEST);
    ok(READ(PAYLOAD_CHUNKS_TRAILER, "x-amz-decoded-content-length", "5",) == OK);
}

TEST(the_length_of_the_data_may_be_said_in_the_query)
{
    struct sigv4_claim claim = { .payload = PAYLOAD_CHUNKS_TRAILER };
    struct request_head head = { .query = S("a=1&X-Amz-Decoded-Content-Length=66560"),
                                 .length = 70000 };
    uint64_t length = 0;
    ok(integrity_length(&head, &claim, &length) && length == 66560);
    head.query = S("X-Amz-Decoded-Content-Length=x");
    ok(!integrity_length(&head, &claim, &length));
}

TEST(a_framing_says_its_length_and_is_of_a_kind_we_know)
{
    struct integrity is;
    slice why;
    ok(READ(PAYLOAD_CHUNKS_TRAILER,) == ERR_NO_LENGTH);
    ok(READ(PAYLOAD_SIGNED_CHUNKS, "x-amz-decoded-content-length", "12x",) == ERR_NO_LENGTH);
    ok(READ(PAYLOAD_OTHER_CHUNKS, "x-amz-decoded-content-length", "12",) == ERR_NOT_IMPLEMENTED);
    same(why, S("The chunk encoding algorithm STREAMING-X is not supported."));
    ok(READ(PAYLOAD_SIGNED_CHUNKS_TRAILER, "x-amz-decoded-content-length", "12",
            "content-encoding", "aws-chunked, gzip",) == OK);
    ok(is.framed && is.chunks_signed && is.trailer_must && is.length == 12);
    same(is.encoding, S("gzip"));
    ok(READ(PAYLOAD_CHUNKS_TRAILER, "x-amz-decoded-content-length", "12", "content-encoding", "gzip",
            "content-encoding", "aws-chunked", "content-encoding", "br",) == OK);
    same(is.encoding, S("gzip,br"));
    ok(READ(PAYLOAD_UNSIGNED, "content-encoding", "gzip, br",) == OK);
    same(is.encoding, S("gzip, br"));
    ok(READ(PAYLOAD_HEX, "content-md5", "esZsDxSN6VGbi9JkMSxNZA==", "x-amz-checksum-mode",
            "ENABLED",) == OK);
    ok(!is.framed && is.has_md5 && is.has_sha256 && is.sum == CHECKSUM_COUNT && !is.encoding.ptr);
}

RUN(cmocka_unit_test(unsigned_chunks_are_decoded),
    cmocka_unit_test(framing_that_is_wrong_is_an_incomplete_body),
    cmocka_unit_test(a_length_that_is_not_the_announced_one_is_told_as_that),
    cmocka_unit_test(a_trailer_is_the_one_announced_or_malformed),
    cmocka_unit_test(a_trailer_may_have_one_LF_in_front_of_its_CRLF),
    cmocka_unit_test(a_signed_trailer_may_have_one_LF_in_front_of_its_CRLF),
    cmocka_unit_test(wrong_framing_is_told_with_its_place),
    cmocka_unit_test(only_the_last_chunk_may_be_small),
    cmocka_unit_test(signed_chunks_verify_and_any_changed_byte_is_refused),
    cmocka_unit_test(a_chunk_that_is_left_out_breaks_the_chain),
    cmocka_unit_test(twenty_recorded_bodies_decode_the_same_wherever_they_are_cut),
    cmocka_unit_test(sums_that_contradict_each_other_are_invalid),
    cmocka_unit_test(the_length_of_the_data_may_be_said_in_the_query),
    cmocka_unit_test(a_framing_says_its_length_and_is_of_a_kind_we_know))
