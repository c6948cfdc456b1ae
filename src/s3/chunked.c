/* chunked.c - aws-chunked bodies, decoded. SPDX-License-Identifier: Apache-2.0
 *
 *     SIZE ──> DATA ──> DATA_END ──> SIZE ...      SIZE (0) ──> TRAILER ──> SEAL ──> LAST ──> OVER
 *
 * With an empty trailer, TRAILER leads to OVER. If chunks have no signatures, TRAILER leads to LAST,
 * because SEAL is the signature of the trailer.
 *
 * Every state from SIZE to LAST, except DATA, takes one line. SKIP drops the rest of a body whose
 * data has the wrong length. Lines are short, and are collected up to their CRLF. So the input
 * may be cut at any byte. The signature of a chunk stands before the data of the chunk, and is
 * verified after the data. Data is hashed right after the move to its new place, while the CPU
 * cache still has the data. */
#include "s3/chunked.h"

#include <stdlib.h>
#include <string.h>

#include "s3/checksum.h"

#define LINE_BYTES_MAX 1024
#define CHUNK_BYTES_LEAST 8192

enum state { SIZE, DATA, DATA_END, TRAILER, SEAL, LAST, OVER, SKIP };

struct chunked {
    struct chunked_form form;
    enum state state;
    char line[LINE_BYTES_MAX + 2];
    size_t line_len;
    uint64_t left, got;           /* bytes left in this chunk; bytes of data so far */
    uint64_t fed;                 /* bytes of the body so far, with framing */
    struct chunked_fault fault;   /* fault.at is the offset of the current line */
    bool small;                   /* the latest chunk is so small that no other may follow */
    char signature[SIGNATURE_CHARS];
    struct checksum_run *sha256;
    char *trailer;
    size_t trailer_len;
};

struct chunked *chunked_new(const struct chunked_form *form)
{
    struct chunked *chunked = must_alloc(sizeof(*chunked));
    chunked->form = *form;
    chunked->fault.chunk = 1;
    if (form->chain)
        chunked->sha256 = checksum_begin(CHECKSUM_SHA256);
    return chunked;
}

void chunked_free(struct chunked **chunked)
{
    if (!*chunked)
        return;
    checksum_free(&(*chunked)->sha256);
    free((*chunked)->trailer);
    free(*chunked);
    *chunked = NULL;
}

slice chunked_trailer(const struct chunked *chunked)
{
    return (slice){ chunked->trailer, chunked->trailer_len };
}

struct chunked_fault chunked_fault(const struct chunked *chunked)
{
    return chunked->fault;
}

/* ---- lines ---- */

static enum err wrong(struct chunked *chunked, const char *what)
{
    chunked->fault.what = what;
    return ERR_INCOMPLETE;
}

static bool hex_size(slice digits, uint64_t *ret)
{
    uint64_t value = 0;
    if (!digits.len || digits.len > 16)
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        int digit = hex_digit(digits.ptr[i]);
        if (digit < 0)
            return false;
        value = value << 4 | (uint64_t)digit;
    }
    *ret = value;
    return value <= INT64_MAX;
}

/* Verifies the latest signature. Unsigned chunks have none. */
static enum err prove(struct chunked *chunked, enum sigv4_link link)
{
    uint8_t sum[CHECKSUM_BYTES_MAX];
    if (!chunked->form.chain)
        return OK;
    checksum_get(chunked->sha256, sum);
    checksum_again(chunked->sha256);
    return sigv4_chain_next(chunked->form.chain, link, sum,
                            (slice){ chunked->signature, SIGNATURE_CHARS });
}

static enum err wrong_behind(struct chunked *chunked)
{
    chunked->fault.at = chunked->fed;
    return wrong(chunked, "bytes follow the end of the body");
}

static enum err take_size(struct chunked *chunked, slice line)
{
    static const slice mark = { "chunk-signature=", 16 };
    uint64_t size;
    slice digits = chunked->form.chain ? slice_cut(&line, ';') : line;
    if (!hex_size(digits, &size))
        return wrong(chunked, "the size of a chunk must be 1 to 16 hex digits");
    if (chunked->form.chain) {
        if (!slice_starts(line, mark) || line.len != mark.len + SIGNATURE_CHARS)
            return wrong(chunked, "a chunk has no chunk-signature of 64 characters");
        memcpy(chunked->signature, line.ptr + mark.len, SIGNATURE_CHARS);
    }
    if (size && chunked->small)
        return ERR_CHUNK_SIZE;
    chunked->small = size < CHUNK_BYTES_LEAST;
    chunked->left = size;
    chunked->state = size ? DATA : TRAILER;
    return OK;
}

static enum err take_data_end(struct chunked *chunked, slice line)
{
    if (line.len)
        return wrong(chunked, "a chunk is longer than its size says");
    chunked->state = SIZE;
    chunked->fault.chunk++;
    return prove(chunked, LINK_CHUNK);
}

/* Takes the first line after the last chunk: an empty line, or the announced trailer. */
static enum err take_trailer(struct chunked *chunked, slice line)
{
    const struct chunked_form *form = &chunked->form;
    slice value = line, name = slice_cut(&value, ':');
    bool announced = form->trailer.len > 0;
    if (!form->chain && chunked->got != form->length) {
        chunked->state = SKIP;    /* so that chunked_end reports the wrong length */
        return OK;
    }
    chunked->state = OVER;
    if (line.len ? !announced || !value.ptr || !slice_eq_nocase(name, form->trailer)
                 : announced || form->trailer_must)
        return ERR_TRAILER;
    enum err err = prove(chunked, LINK_CHUNK);
    if (err || !line.len)
        return err;
    value = slice_trim(value);
    chunked->trailer = must_strndup(value.ptr, value.len);
    chunked->trailer_len = value.len;
    chunked->state = form->chain ? SEAL : LAST;
    return OK;
}

/* Takes the trailer's signature, which covers "name:value\n". */
static enum err take_seal(struct chunked *chunked, slice line)
{
    static const slice mark = { "x-amz-trailer-signature:", 24 };
    if (!slice_starts(line, mark) || line.len != mark.len + SIGNATURE_CHARS)
        return wrong(chunked, "the trailer has no x-amz-trailer-signature of 64 "
                     "characters");
    checksum_add(chunked->sha256, chunked->form.trailer);
    checksum_add(chunked->sha256, S(":"));
    checksum_add(chunked->sha256, chunked_trailer(chunked));
    checksum_add(chunked->sha256, S("\n"));
    memcpy(chunked->signature, line.ptr + mark.len, SIGNATURE_CHARS);
    chunked->state = LAST;
    return OK;
}

/* Takes the last line. The trailer's signature is verified only here, so a body that is cut before
 * its end is reported as incomplete, not as wrongly signed. */
static enum err take_last(struct chunked *chunked, slice line)
{
    chunked->state = OVER;
    if (line.len)
        return wrong(chunked, "there is more than one trailer");
    return prove(chunked, LINK_TRAILER);
}

static enum err take_line(struct chunked *chunked)
{
    slice line = { chunked->line, chunked->line_len };
    chunked->line_len = 0;
    switch (chunked->state) {
    case SIZE: return take_size(chunked, line);
    case DATA_END: return take_data_end(chunked, line);
    case TRAILER: return take_trailer(chunked, line);
    case SEAL: return take_seal(chunked, line);
    case LAST: return take_last(chunked, line);
    case DATA: case OVER: case SKIP: break;
    }
    return ERR_INCOMPLETE;
}

/* ---- input ---- */

static char last_of(const struct chunked *chunked)
{
    return chunked->line_len ? chunked->line[chunked->line_len - 1] : '\0';
}

/* True for the first LF of a trailer that ends in LF CR LF, as minio-go writes it. The signature
 * covers one LF, as with any other client. */
static bool is_trailers_lf(const struct chunked *chunked, char c)
{
    return c == '\n' && chunked->state == TRAILER && chunked->line_len && last_of(chunked) != '\n';
}

/* Judges the next byte of a line. After data, any byte that does not belong to a CRLF is wrong at
 * once. */
static enum err judge_byte(struct chunked *chunked, char c)
{
    char last = last_of(chunked);
    if (last == '\r')
        return c == '\n' ? OK : wrong(chunked, "a CR is not followed by LF");
    if ((c == '\n' && !is_trailers_lf(chunked, c)) || (last == '\n' && c != '\r'))
        return wrong(chunked, "a line ends in LF without CR");
    if (c == '\r')
        return OK;
    if (chunked->state == DATA_END)
        return wrong(chunked, "a chunk is longer than its size says");
    return chunked->line_len < LINE_BYTES_MAX ? OK : wrong(chunked, "a line is too long");
}

/* Collects the bytes of the line from `in`, and handles the line when it is complete. */
static enum err feed_line(struct chunked *chunked, slice *in)
{
    while (in->len) {
        char c = *in->ptr;
        if (!chunked->line_len)
            chunked->fault.at = chunked->fed;
        enum err err = judge_byte(chunked, c);
        if (err)
            return err;
        *in = slice_from(*in, 1);
        chunked->fed++;
        if (last_of(chunked) == '\r') {
            chunked->line_len--;
            chunked->line_len -= last_of(chunked) == '\n';
            return take_line(chunked);
        }
        chunked->line[chunked->line_len++] = c;
    }
    return OK;
}

static void feed_data(struct chunked *chunked, slice *in, char **to)
{
    slice data = slice_sub(*in, 0, (size_t)MIN(in->len, chunked->left));
    if (*to != data.ptr)
        memmove(*to, data.ptr, data.len);
    if (chunked->sha256)
        checksum_add(chunked->sha256, (slice){ *to, data.len });
    *to += data.len;
    *in = slice_from(*in, data.len);
    chunked->got += data.len;
    chunked->fed += data.len;
    chunked->left -= data.len;
    if (!chunked->left)
        chunked->state = DATA_END;
}

enum err chunked_feed(struct chunked *chunked, slice in, char *to, size_t *ret_len)
{
    char *start = to;
    enum err err = OK;
    check(to <= in.ptr || to >= in.ptr + in.len);
    while (in.len && !err) {
        if (chunked->state == SKIP)
            in.len = 0;
        else if (chunked->state == OVER)
            err = wrong_behind(chunked);
        else if (chunked->state == DATA)
            feed_data(chunked, &in, &to);
        else
            err = feed_line(chunked, &in);
    }
    *ret_len = (size_t)(to - start);
    return err;
}

enum err chunked_end(struct chunked *chunked, slice *ret_why)
{
    *ret_why = S("");
    if (chunked->state != OVER && chunked->state != SKIP)
        return ERR_INCOMPLETE;
    if (chunked->got == chunked->form.length)
        return OK;
    *ret_why = S("You did not provide the number of bytes specified by the Content-Length HTTP "
                 "header");
    return ERR_INCOMPLETE;
}
