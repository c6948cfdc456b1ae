/* batch_tar.c - the answer to a batch as a tar archive. SPDX-License-Identifier: Apache-2.0
 *
 * Each item is a ustar member, and its name is the key. If the name or size does not fit into a
 * ustar header, a pax header before the member gives it. If items failed, one more member at the
 * end lists them: __penstock__/errors.json (WebDataset skips names like this). Two blocks of zeroes
 * end the archive; an answer without them is not complete. The functions of this file are pure:
 * they do no I/O, and keep no state. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "front/batch.h"

#define TAR_BLOCK 512u
#define TAR_SIZE_MAX 077777777777u    /* eleven octal digits */
#define NAME_BYTES 100u
#define ERRORS_NAME "__penstock__/errors.json"
#define CODE_BYTES_MAX 64             /* of an error code; a longer one is cut */
#define LINE_BYTES_MAX (6 * (S3_KEY_BYTES_MAX + CODE_BYTES_MAX) + 128)    /* all bytes escaped */

static_assert(LINE_BYTES_MAX <= BATCH_END_ROOM, "the line of a failure fits");
static_assert(4 * TAR_BLOCK + NAME_BYTES <= BATCH_FIXED_ROOM,
              "a pax header and its record, a ustar header, and padding fit");
static_assert(3 * TAR_BLOCK <= BATCH_END_ROOM, "padding and two blocks of zeroes fit");

struct tar_header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, linkname[100],
        magic[6], version[2], uname[32], gname[32], major[8], minor[8], prefix[155], rest[12];
};
static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a tar header is one block");

static size_t padding(uint64_t length)
{
    return (TAR_BLOCK - length % TAR_BLOCK) % TAR_BLOCK;
}

static size_t put_zeroes(char *to, size_t bytes)
{
    memset(to, 0, bytes);
    return bytes;
}

static void put_octal(char *to, size_t bytes, uint64_t number)
{
    for (to[--bytes] = '\0'; bytes; number >>= 3)
        to[--bytes] = (char)('0' + (number & 7));
}

static size_t put_header(char *to, slice name, char type, uint64_t size, int64_t modified_s)
{
    struct tar_header header = { .type = type, .magic = "ustar", .version = { '0', '0' } };
    unsigned sum = 0;
    slice_put(header.name, slice_sub(name, 0, sizeof(header.name)));
    put_octal(header.mode, sizeof(header.mode), 0644);
    put_octal(header.uid, sizeof(header.uid), 0);
    put_octal(header.gid, sizeof(header.gid), 0);
    put_octal(header.size, sizeof(header.size), MIN(size, (uint64_t)TAR_SIZE_MAX));
    put_octal(header.mtime, sizeof(header.mtime),
              (uint64_t)MIN(MAX(modified_s, 0), (int64_t)TAR_SIZE_MAX));
    memset(header.sum, ' ', sizeof(header.sum));
    memcpy(to, &header, sizeof(header));
    for (size_t i = 0; i < sizeof(header); i++)
        sum += (uint8_t)to[i];
    put_octal(to + offsetof(struct tar_header, sum), 7, sum);
    return sizeof(header);
}

/* ---- pax: "LENGTH name=value\n", where LENGTH counts its own digits ---- */

static size_t put_record(char *to, const char *name, slice value)
{
    size_t rest = 1 + strlen(name) + 1 + value.len + 1;
    size_t len = rest + (size_t)snprintf(NULL, 0, "%zu", rest);
    len = rest + (size_t)snprintf(NULL, 0, "%zu", len);
    size_t at = (size_t)sprintf(to, "%zu %s=", len, name);
    at += slice_put(to + at, value);
    to[at++] = '\n';
    return at;
}

static size_t put_pax(char *to, const struct batch_entry *entry)
{
    bool long_name = entry->key.len > NAME_BYTES, large = entry->length > TAR_SIZE_MAX;
    char number[24];
    size_t len = 0;
    if (!long_name && !large)
        return 0;
    snprintf(number, sizeof(number), "%" PRIu64, entry->length);
    if (long_name)
        len += put_record(to + TAR_BLOCK, "path", entry->key);
    if (large)
        len += put_record(to + TAR_BLOCK + len, "size", slice_of(number));
    put_header(to, S("././@PaxHeader"), 'x', len, entry->modified_s);
    return TAR_BLOCK + len + put_zeroes(to + TAR_BLOCK + len, padding(len));
}

static size_t head(char *to, const struct batch_entry *entry)
{
    size_t at = put_pax(to, entry);
    return at + put_header(to + at, entry->key, '0', entry->length, entry->modified_s);
}

static size_t tail(char *to, const struct batch_entry *entry)
{
    return put_zeroes(to, padding(entry->length));
}

/* ---- the list of failures ---- */

static size_t put_json(char *to, slice s)
{
    size_t len = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if ((uint8_t)c < ' ')
            len += (size_t)sprintf(to + len, "\\u%04x", (unsigned)c);
        else if (c == '"' || c == '\\')
            len += (size_t)sprintf(to + len, "\\%c", c);
        else
            to[len++] = c;
    }
    return len;
}

static size_t put_failure(char *to, const struct items *items, const struct batch_failure *failure,
                          bool first)
{
    size_t len = (size_t)sprintf(to, "%s{\"index\":%zu,\"key\":\"", first ? "" : ",",
                                 failure->index);
    len += put_json(to + len, items->list[failure->index].key);
    len += (size_t)sprintf(to + len, "\",\"status\":%d,\"code\":\"", failure->status);
    len += put_json(to + len, slice_sub(failure->code, 0, CODE_BYTES_MAX));
    return len + (size_t)sprintf(to + len, "\"}");
}

static size_t fail(struct batch_end *end, char *to, const struct batch_entry *entry)
{
    char line[LINE_BYTES_MAX];
    const struct batch_failure failure = { entry->index, entry->status, entry->code };
    end->text_bytes += put_failure(line, end->items, &failure, end->text_bytes == 0);
    return 0;
}

/* Each call writes one part of the end: the header of the member errors.json, one failure, or the
 * last text of the member and the blocks of zeroes. */
static size_t end(struct batch_end *end, char *to)
{
    size_t at = end->at++, last = end->failed + 1;
    slice opens = S("{\"errors\":["), closes = S("]}\n");
    uint64_t bytes = opens.len + end->text_bytes + closes.len;
    end->over = !end->failed || at == last;
    if (!end->failed)
        return put_zeroes(to, (size_t)2 * TAR_BLOCK);
    if (at == 0) {
        size_t len = put_header(to, S(ERRORS_NAME), '0', bytes, 0);
        return len + slice_put(to + len, opens);
    }
    if (at < last)
        return put_failure(to, end->items, &end->failures[at - 1], at == 1);
    size_t len = slice_put(to, closes);
    return len + put_zeroes(to + len, padding(bytes) + (size_t)2 * TAR_BLOCK);
}

const struct batch_form batch_tar = { { "application/x-tar", 17 }, head, tail, fail, end };
