/* fuzz_chunked.c - any bytes as an aws-chunked body, beside a slow reference.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The reference gets the whole body, and reads it by the grammar. The decoder gets the body cut in
 * two places, decodes it in place, and must come to the same end and the same data. */
#include <stdlib.h>
#include <string.h>

#include "s3/chunked.h"

#define TRAILER S("x-amz-checksum-crc32")

/* The line in front of the first CRLF. False if there is no CRLF, if the line has a bare CR or LF,
 * or if it is too long. */
static bool line_of(slice *rest, slice *ret)
{
    size_t at = 0;
    while (at < rest->len && rest->ptr[at] != '\r' && rest->ptr[at] != '\n')
        at++;
    if (at > 1024 || at + 1 >= rest->len || rest->ptr[at] != '\r' || rest->ptr[at + 1] != '\n')
        return false;
    *ret = slice_sub(*rest, 0, at);
    *rest = slice_from(*rest, at + 2);
    return true;
}

/* The same, but the CRLF may have one LF in front of it, unless the line is empty. */
static bool trailer_of(slice *rest, slice *ret)
{
    slice before = *rest;
    if (line_of(rest, ret))
        return true;
    size_t at = 0;
    *rest = before;
    while (at < rest->len && rest->ptr[at] != '\r' && rest->ptr[at] != '\n')
        at++;
    if (!at || at > 1023 || !slice_starts(slice_from(*rest, at), S("\n\r\n")))
        return false;
    *ret = slice_sub(*rest, 0, at);
    *rest = slice_from(*rest, at + 3);
    return true;
}

static enum err end_of(slice rest, slice trailer)
{
    slice line, none;
    if (!trailer_of(&rest, &line))
        return ERR_INCOMPLETE;
    bool named = line.len > trailer.len && line.ptr[trailer.len] == ':' &&
                 slice_eq_nocase(slice_sub(line, 0, trailer.len), trailer);
    if (trailer.len ? !named : line.len > 0)
        return ERR_TRAILER;
    if (trailer.len && (!line_of(&rest, &none) || none.len))
        return ERR_INCOMPLETE;
    return rest.len ? ERR_INCOMPLETE : OK;
}

static enum err reference(slice rest, slice trailer, uint64_t length, char *to, size_t *ret_len)
{
    uint64_t before = 8192;
    for (*ret_len = 0;;) {
        slice line, after;
        char digits[17] = "";
        if (!line_of(&rest, &line) || !line.len || line.len > 16)
            return ERR_INCOMPLETE;
        memcpy(digits, line.ptr, line.len);
        if (strspn(digits, "0123456789abcdefABCDEF") != line.len)
            return ERR_INCOMPLETE;
        uint64_t size = strtoull(digits, NULL, 16);
        if (size > INT64_MAX)
            return ERR_INCOMPLETE;
        if (size && before < 8192)
            return ERR_CHUNK_SIZE;
        if (!size)
            return *ret_len == length ? end_of(rest, trailer) : ERR_INCOMPLETE;
        before = size;
        if (size > rest.len)
            return ERR_INCOMPLETE;
        memcpy(to + *ret_len, rest.ptr, size);
        *ret_len += size;
        rest = slice_from(rest, size);
        if (!line_of(&rest, &after) || after.len)
            return ERR_INCOMPLETE;
    }
}

static enum err decode(char *bytes, size_t len, size_t cut, const struct chunked_form *form,
                       size_t *ret_len)
{
    struct chunked *chunked = chunked_new(form);
    size_t first = 0, second = 0;
    slice why;
    enum err err = chunked_feed(chunked, (slice){ bytes, cut }, bytes, &first);
    if (!err)
        err = chunked_feed(chunked, (slice){ bytes + cut, len - cut }, bytes + first, &second);
    struct chunked_fault fault = chunked_fault(chunked);
    check(!fault.what == (err != ERR_INCOMPLETE));
    check(fault.at <= len);
    if (!err)
        err = chunked_end(chunked, &why);
    *ret_len = first + second;
    chunked_free(&chunked);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *raw, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *raw, size_t size)
{
    if (size < 4)
        return 0;
    struct chunked_form form = { .trailer = raw[0] & 1 ? TRAILER : S(""), .length = raw[1] };
    size_t len = size - 4, cut = ((size_t)raw[2] << 8 | raw[3]) % (len + 1), want_len, got_len;
    char *want = malloc(len + 1), *bytes = malloc(len + 1);
    check(want && bytes);
    memcpy(bytes, raw + 4, len);
    enum err wanted = reference((slice){ bytes, len }, form.trailer, form.length, want, &want_len);
    enum err err = decode(bytes, len, cut, &form, &got_len);
    check(err == wanted);
    check(err || (got_len == want_len && memcmp(bytes, want, want_len) == 0));

    static struct sigv4 *sigv4;
    if (!sigv4)
        sigv4 = sigv4_new();
    struct sigv4_claim claim = { .access_key = S("k"), .date = S("20130524"), .region = S("r"), .service = S("s3"),
                                 .signature = S("4f232c4386841ef735655705268965c44a0e4690baa4adea15"
                                                "3f7db9fa80a0a9") };
    form.chain = sigv4_chain_new(sigv4, &claim, S("secret"));
    form.trailer_must = raw[0] & 2;
    memcpy(bytes, raw + 4, len);
    check(decode(bytes, len, cut, &form, &got_len) != OK);    /* no input has a valid signature */
    sigv4_chain_free(&form.chain);
    free(want);
    free(bytes);
    return 0;
}
