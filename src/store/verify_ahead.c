/* verify_ahead.c - verifies the records of a locked extent before their first readers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/verify_ahead.h"

#include "base/clock.h"
#include "base/guard.h"
#include "base/metric.h"
#include "base/trap.h"
#include "store/extent_inside.h"

#define REST 3u                       /* times as long as a record took */

/* A record in the lent map. */
struct look {
    struct extent *extent;
    const uint8_t *map;
    const struct toc_entry *row;
    uint32_t ordinal;
};

static bool was_verified(const struct look *look)
{
    uint64_t at = toc_entry_data_at(look->row), end = at + look->row->data_len;
    while (at < end && extent_was_verified(look->extent, at))
        at += BLOCK_BYTES;
    return at >= end && extent_is_resident(look->extent, look->row->offset,
                                           record_header_bytes(look->row->data_len));
}

/* Verifies the header, and then the blocks up to the first that is bad. */
static int judge(void *ask)
{
    const struct look *look = ask;
    const struct toc_entry *row = look->row;
    uint32_t header_len = record_header_bytes(row->data_len);
    struct record record;
    slice header = { (const char *)look->map + row->offset, header_len };
    if (toc_entry_record(row, look->extent->number, look->ordinal, header, &record) != OK)
        return ERR_GONE;
    uint64_t at = toc_entry_data_at(row);
    for (uint32_t i = 0; i < record_blocks(&record); i++) {
        uint32_t len = MIN(BLOCK_BYTES, row->data_len - i * BLOCK_BYTES);
        const uint8_t *block = look->map + at + (uint64_t)i * BLOCK_BYTES;
        if (guard_on(GUARD_CRC) && block_crc(&record.id, record.etag_hash, record.first_unit + i / 2,
                                             block, len) != record.crc[i])
            return ERR_GONE;
        extent_set_verified(look->extent, at + (uint64_t)i * BLOCK_BYTES, record.crc[i]);
    }
    return OK;
}

static void verify(struct look *look)
{
    const struct toc_entry *row = look->row;
    uint32_t header_len = record_header_bytes(row->data_len);
    uint64_t at = toc_entry_data_at(row), end = at + row->data_len;
    uint64_t bytes = extent_size(look->extent);
    int e = ERR_GONE;
    if (end > bytes || was_verified(look) ||
        !extent_cached(look->extent, row->offset, end - row->offset))
        return;
    slice map = { (const char *)look->map, bytes };
    if (!trap_read(judge, look, map, &e) || e)
        return;
    extent_set_resident(look->extent, row->offset, header_len);
    extent_set_resident(look->extent, at, row->data_len);
    metric_add(M_STORE_VERIFIED_AHEAD, row->data_len);
}

void verify_ahead_begin(struct verify_ahead *ahead, struct extent *extent)
{
    check(!ahead->extent && atomic_load(&extent->sealed));
    *ahead = (struct verify_ahead){ .extent = extent };
    if (extent_contents(extent->all, extent->number, &ahead->keep, &ahead->rows,
                        &ahead->count) != OK)
        ahead->count = 0;
}

bool verify_ahead_step(struct verify_ahead *ahead)
{
    struct extent *extent = ahead->extent;
    const struct ages *ages = extent_ages_of(extent);
    uint64_t began_ns = mono_ns();
    while (ahead->at < ahead->count) {
        struct look look = { extent, NULL, &ahead->rows[ahead->at], ahead->at };
        ahead->at++;
        if (!toc_entry_is_valid(look.row) || !look.row->data_len ||
            ages_is_dead(ages, look.ordinal))
            continue;
        look.map = extent_lend(extent);
        if (!look.map)
            return false;
        verify(&look);
        extent_lend_end(extent);
        uint64_t now_ns = mono_ns();
        ahead->due_ns = now_ns + REST * (now_ns - began_ns);
        return true;
    }
    return false;
}

void verify_ahead_end(struct verify_ahead *ahead)
{
    arena_free(&ahead->keep);
    *ahead = (struct verify_ahead){ 0 };
}
