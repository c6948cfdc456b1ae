/* format_files.c - encodes and decodes the files in ages/, and the files `bans` and `pins`.
 * SPDX-License-Identifier: Apache-2.0
 *
 * penstock-format(5) has the layouts. A file of bans or pins is a header, rows of different length,
 * and a CRC of all that. Decoding verifies the CRC first, and then that each field has a possible
 * value. Pure; any thread. */
#include "store/format_files.h"

#include <assert.h>
#include <string.h>

#define FILES_VERSION 2u              /* they came with format version 2 */
#define BANS_VERSION 3u               /* ... and version 2 of this file lacked two members */
#define AGES_MAGIC 0x41545350u        /* "PSTA" */
#define RULE_MAGIC 0x4c545350u        /* "PSTL" */
#define BANS_MAGIC 0x42545350u        /* "PSTB" */
#define PINS_MAGIC 0x50545350u        /* "PSTP" */

struct ages_header {
    uint32_t magic, version;
    uint32_t extent, count;
    uint64_t tick, live_bytes;
    uint32_t stop;
    uint32_t crc;                     /* of all members before, and of the bytes behind */
};
struct rule_row {
    uint32_t magic, version;
    double m1, m2;
    uint64_t tick;
    uint8_t known, moved, zero[6];
    uint32_t pad, crc;                /* of all members before */
};
struct rows_header {
    uint32_t magic, version;
    uint32_t count, zero;
    uint64_t serial;
};
struct ban_row {
    uint32_t len, highest;
    uint64_t serial;
    struct ban_end open[BAN_OPEN_MAX];
    uint32_t swept, zero;
};
struct pin_row {
    uint32_t len;
    uint8_t pinned, zero[3];
    uint64_t serial;
};
static_assert(sizeof(struct ages_header) == 40, "on disk");
static_assert(offsetof(struct ages_header, crc) == 36, "on disk");
static_assert(sizeof(struct rule_row) == RULE_FILE_BYTES, "on disk");
static_assert(offsetof(struct rule_row, crc) == 44, "on disk");
static_assert(sizeof(struct rows_header) == 24, "on disk");
static_assert(sizeof(struct ban_row) == 56, "on disk");
static_assert(sizeof(struct pin_row) == 16, "on disk");

/* ---- ages ---- */

size_t ages_file_bytes(uint32_t count)
{
    return sizeof(struct ages_header) + 2 * (size_t)count;
}

static uint32_t ages_crc(const struct ages_header *header, const uint8_t *body)
{
    uint32_t crc = crc32c(0, header, offsetof(struct ages_header, crc));
    return crc32c(crc, body, 2 * (size_t)header->count);
}

void ages_file_encode(const struct ages_file *ages, uint8_t *ret)
{
    struct ages_header header = { .magic = AGES_MAGIC, .version = FILES_VERSION,
                                  .extent = ages->extent, .count = ages->count,
                                  .tick = ages->tick, .live_bytes = ages->live_bytes,
                                  .stop = ages->stop };
    uint8_t *body = ret + sizeof(header);
    check(ages->count <= AGES_RECORDS_MAX);
    if (ages->count) {
        memmove(body, ages->stamps, ages->count);
        memmove(body + ages->count, ages->live, ages->count);
    }
    header.crc = ages_crc(&header, body);
    memcpy(ret, &header, sizeof(header));
}

static bool are_possible(const uint8_t *live, uint32_t count)
{
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < count; i++)
        wrong += (live[i] & AGES_UNITS) > RECORD_UNITS ||
                 (live[i] & ~(AGES_UNITS | AGES_HEAD | AGES_PINNED));
    return wrong == 0;
}

enum err ages_file_decode(slice bytes, uint32_t extent, struct ages_file *ret)
{
    struct ages_header header;
    if (bytes.len < sizeof(header))
        return ERR_GONE;
    memcpy(&header, bytes.ptr, sizeof(header));
    const uint8_t *body = (const uint8_t *)bytes.ptr + sizeof(header);
    if (header.magic != AGES_MAGIC || header.version != FILES_VERSION || header.extent != extent ||
        header.count > AGES_RECORDS_MAX || bytes.len != ages_file_bytes(header.count) ||
        header.crc != ages_crc(&header, body))
        return ERR_GONE;
    *ret = (struct ages_file){ .extent = extent, .count = header.count, .tick = header.tick,
                               .live_bytes = header.live_bytes, .stop = header.stop,
                               .stamps = body, .live = body + header.count };
    return are_possible(ret->live, ret->count) ? OK : ERR_GONE;
}

/* ---- the rule ---- */

void rule_file_encode(const struct rule_file *rule, uint8_t ret[RULE_FILE_BYTES])
{
    struct rule_row row = { .magic = RULE_MAGIC, .version = FILES_VERSION, .m1 = rule->m1,
                            .m2 = rule->m2, .tick = rule->tick, .known = rule->known,
                            .moved = rule->moved };
    row.crc = crc32c(0, &row, offsetof(struct rule_row, crc));
    memcpy(ret, &row, sizeof(row));
}

enum err rule_file_decode(slice bytes, struct rule_file *ret)
{
    struct rule_row row;
    if (bytes.len != sizeof(row))
        return ERR_GONE;
    memcpy(&row, bytes.ptr, sizeof(row));
    if (row.magic != RULE_MAGIC || row.version != FILES_VERSION ||
        row.crc != crc32c(0, &row, offsetof(struct rule_row, crc)) || row.known > 1 ||
        row.moved > 1)
        return ERR_GONE;
    *ret = (struct rule_file){ row.m1, row.m2, row.tick, row.known, row.moved };
    return OK;
}

/* ---- what bans and pins share ---- */

/* The place of a writer or a reader of rows. */
struct rows {
    uint8_t *at;
    slice rest;
};

static struct rows rows_begin(uint32_t magic, uint32_t version, size_t count, uint64_t serial,
                              uint8_t *to)
{
    struct rows_header header = { .magic = magic, .version = version, .count = (uint32_t)count,
                                  .serial = serial };
    check(count <= PREFIX_ROWS_MAX);
    memcpy(to, &header, sizeof(header));
    return (struct rows){ .at = to + sizeof(header) };
}

static void rows_put(struct rows *rows, const void *row, size_t row_bytes, slice prefix)
{
    check(prefix.len <= PREFIX_BYTES_MAX);
    memcpy(rows->at, row, row_bytes);
    rows->at += row_bytes;
    rows->at += slice_put((char *)rows->at, prefix);
}

static void rows_end(struct rows *rows, const uint8_t *start)
{
    uint32_t crc = crc32c(0, start, (size_t)(rows->at - start));
    memcpy(rows->at, &crc, sizeof(crc));
}

/* Verifies CRC and header. `row_bytes` is the size of the fixed part of a row. */
static enum err rows_open(slice bytes, uint32_t magic, uint32_t version, size_t row_bytes,
                          struct rows *ret, size_t *ret_count, uint64_t *ret_serial)
{
    struct rows_header header;
    uint32_t crc;
    if (bytes.len < sizeof(header) + sizeof(crc))
        return ERR_GONE;
    size_t len = bytes.len - sizeof(crc);
    memcpy(&header, bytes.ptr, sizeof(header));
    memcpy(&crc, bytes.ptr + len, sizeof(crc));
    ret->rest = slice_sub(bytes, sizeof(header), len - sizeof(header));
    if (header.magic != magic || header.version != version ||
        crc != crc32c(0, bytes.ptr, len) || header.count > PREFIX_ROWS_MAX ||
        header.serial > INT64_MAX ||    /* none was written: the next ones would wrap */
        ret->rest.len < header.count * row_bytes)
        return ERR_GONE;
    *ret_count = header.count;
    *ret_serial = header.serial;
    return OK;
}

/* Takes the fixed part of the next row, which begins with the length of the prefix, and the
 * prefix. */
static bool rows_take(struct rows *rows, void *row, size_t row_bytes, slice *ret_prefix)
{
    uint32_t len;
    if (rows->rest.len < row_bytes)
        return false;
    memcpy(row, rows->rest.ptr, row_bytes);
    memcpy(&len, row, sizeof(len));
    rows->rest = slice_from(rows->rest, row_bytes);
    if (len > PREFIX_BYTES_MAX || len > rows->rest.len)
        return false;
    *ret_prefix = slice_sub(rows->rest, 0, len);
    rows->rest = slice_from(rows->rest, len);
    return true;
}

/* ---- bans ---- */

bool ban_covers(const struct ban *ban, uint32_t extent, uint32_t ordinal)
{
    for (size_t i = 0; i < BAN_OPEN_MAX; i++)
        if (ban->open[i].extent == extent)
            return ordinal < ban->open[i].ordinal;
    return extent <= ban->highest;
}

size_t bans_bytes(const struct bans_file *file)
{
    size_t bytes = sizeof(struct rows_header) + sizeof(file->forgotten) +
                   file->count * sizeof(struct ban_row) + sizeof(uint32_t);
    for (size_t i = 0; i < file->count; i++)
        bytes += file->rows[i].prefix.len;
    return bytes;
}

void bans_encode(const struct bans_file *file, uint8_t *ret)
{
    struct rows rows = rows_begin(BANS_MAGIC, BANS_VERSION, file->count, file->serial, ret);
    memcpy(rows.at, &file->forgotten, sizeof(file->forgotten));
    rows.at += sizeof(file->forgotten);
    for (size_t i = 0; i < file->count; i++) {
        const struct ban *ban = &file->rows[i];
        struct ban_row row = { .len = (uint32_t)ban->prefix.len, .highest = ban->highest,
                               .serial = ban->serial, .swept = ban->swept };
        check(ban->serial <= file->serial && (!i || ban->serial > ban[-1].serial));
        memcpy(row.open, ban->open, sizeof(row.open));
        rows_put(&rows, &row, sizeof(row), ban->prefix);
    }
    rows_end(&rows, ret);
}

static bool take_ban(struct rows *rows, struct ban *ret)
{
    struct ban_row row;
    if (!rows_take(rows, &row, sizeof(row), &ret->prefix) || row.swept > 1)
        return false;
    ret->serial = row.serial;
    ret->highest = row.highest;
    ret->swept = row.swept;
    memcpy(ret->open, row.open, sizeof(ret->open));
    return true;
}

enum err bans_decode(slice bytes, struct arena *keep, struct bans_file *ret)
{
    struct rows rows;
    *ret = (struct bans_file){ .count = 0 };
    enum err e = rows_open(bytes, BANS_MAGIC, BANS_VERSION, sizeof(struct ban_row), &rows,
                           &ret->count, &ret->serial);
    if (e || rows.rest.len < sizeof(ret->forgotten))
        return ERR_GONE;
    memcpy(&ret->forgotten, rows.rest.ptr, sizeof(ret->forgotten));
    rows.rest = slice_from(rows.rest, sizeof(ret->forgotten));
    ret->rows = arena_alloc(keep, (ret->count + 1) * sizeof(*ret->rows));
    for (size_t i = 0; i < ret->count; i++) {
        struct ban *ban = &ret->rows[i];
        if (!take_ban(&rows, ban) || ban->serial > ret->serial ||
            (i && ban->serial <= ban[-1].serial))
            return ERR_GONE;
    }
    return rows.rest.len || ret->forgotten > ret->serial ? ERR_GONE : OK;
}

/* ---- pins ---- */

size_t pins_bytes(const struct pin *pins, size_t count)
{
    size_t bytes = sizeof(struct rows_header) + count * sizeof(struct pin_row) + sizeof(uint32_t);
    for (size_t i = 0; i < count; i++)
        bytes += pins[i].prefix.len;
    return bytes;
}

void pins_encode(const struct pin *pins, size_t count, uint64_t serial, uint8_t *ret)
{
    struct rows rows = rows_begin(PINS_MAGIC, FILES_VERSION, count, serial, ret);
    for (size_t i = 0; i < count; i++) {
        struct pin_row row = { .len = (uint32_t)pins[i].prefix.len, .pinned = pins[i].pinned,
                               .serial = pins[i].serial };
        check(pins[i].serial <= serial);
        rows_put(&rows, &row, sizeof(row), pins[i].prefix);
    }
    rows_end(&rows, ret);
}

enum err pins_decode(slice bytes, struct arena *keep, struct pin **ret, size_t *ret_count,
                     uint64_t *ret_serial)
{
    struct rows rows;
    enum err e = rows_open(bytes, PINS_MAGIC, FILES_VERSION, sizeof(struct pin_row), &rows,
                           ret_count, ret_serial);
    if (e)
        return e;
    *ret = arena_alloc(keep, (*ret_count + 1) * sizeof(**ret));
    for (size_t i = 0; i < *ret_count; i++) {
        struct pin_row row;
        struct pin *pin = &(*ret)[i];
        if (!rows_take(&rows, &row, sizeof(row), &pin->prefix) || row.serial > *ret_serial ||
            row.pinned > 1)
            return ERR_GONE;
        pin->serial = row.serial;
        pin->pinned = row.pinned;
    }
    return rows.rest.len ? ERR_GONE : OK;
}

int serial_order(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}
