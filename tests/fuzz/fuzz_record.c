/* fuzz_record.c - record headers, metadata blocks, extents' head pages and tables of contents, the
 * files format, ages, bans, pins: any bytes, safely. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "store/format_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Corrects the checksum of a record header, which is its last fixed word. */
static void mend(uint8_t *header, size_t size)
{
    size_t blocks = header[5];
    if (size < 64 + 4 * blocks)
        return;
    uint32_t crc = crc32c(crc32c(0, header, 60), header + 64, 4 * blocks);
    memcpy(header + 60, &crc, 4);
}

static void try_record(slice bytes)
{
    struct record record;
    uint8_t again[RECORD_HEADER_MAX] = { 0 };
    if (record_decode(bytes, &record) != OK)
        return;
    check(record_end(0, &record) <=
          RECORD_HEADER_MAX + METADATA_BLOCK_MAX + PAGE_BYTES + RECORD_BYTES_MAX);
    for (uint32_t i = 0; i < record_units(&record); i++) {
        struct entry entry;
        uint32_t unit;
        record_entry(&record, 0, i, 1, &unit, &entry);
        check(entry.len <= RECORD_BYTES_MAX);
    }
    record_encode(&record, again);
    check(memcmp(again, bytes.ptr, 60) == 0);
}

static void try_toc(slice bytes)
{
    struct extent_head head;
    uint8_t again[EXTENT_HEAD_BYTES];
    if (bytes.len >= EXTENT_HEAD_BYTES &&
        extent_head_decode((const uint8_t *)bytes.ptr, &head) == OK) {
        extent_head_encode(&head, again);
        check(memcmp(again, bytes.ptr, sizeof(again)) == 0);
    }
    struct toc_name name;
    if (toc_name_of(bytes, &name))
        check(name.name.len + 32 <= bytes.len);
    for (slice rest = bytes; toc_name_take(&rest, &name);)
        check(name.name.len <= METADATA_BLOCK_MAX && toc_name_bytes(&name) <= bytes.len);
}

/* As they are, and with the checksum of bans and pins corrected: encoding gives the same bytes. */
static void try_bans(slice bytes)
{
    struct arena keep = { 0 };
    struct bans_file bans;
    if (bans_decode(bytes, &keep, &bans) == OK) {
        size_t len = bans_bytes(&bans);
        uint8_t *again = malloc(len);
        bans_encode(&bans, again);
        check(len == bytes.len);
        free(again);
    }
    arena_free(&keep);
}

static void try_pins(slice bytes)
{
    struct arena keep = { 0 };
    struct pin *pins;
    size_t count;
    uint64_t serial;
    if (pins_decode(bytes, &keep, &pins, &count, &serial) == OK) {
        check(pins_bytes(pins, count) == bytes.len);
        uint8_t *again = malloc(bytes.len);
        pins_encode(pins, count, serial, again);
        free(again);
    }
    arena_free(&keep);
}

static void try_ages(slice bytes)
{
    struct ages_file ages;
    struct rule_file rule;
    uint32_t number = 0;
    (void)!rule_file_decode(bytes, &rule);
    if (bytes.len < 40)
        return;
    memcpy(&number, bytes.ptr + 8, 4);
    if (ages_file_decode(bytes, number, &ages) == OK)
        for (uint32_t i = 0; i < ages.count; i++)
            check((ages.live[i] & AGES_UNITS) <= RECORD_UNITS);
}

/* With magic and checksum corrected, in both versions. */
static void try_format(const uint8_t *data, size_t size)
{
    struct format format;
    const char *why;
    for (uint8_t version = 1; size >= 64 && version <= 2; version++) {
        uint8_t *copy = malloc(size), again[FORMAT_BYTES_MAX];
        memcpy(copy, data, size);
        memcpy(copy, "PENSTOCK", 8);
        memset(copy + 8, 0, 4);
        copy[8] = version;
        uint32_t crc = crc32c(0, copy, size - 4);
        memcpy(copy + size - 4, &crc, 4);
        if (format_decode((slice){ (char *)copy, size }, &format, &why) == OK && version == 2)
            check(format_encode(&format, again) == size && memcmp(again, copy, 84) == 0);
        free(copy);
    }
}

/* A footer with its magic, a version and its checksum corrected. */
static void try_footer(const uint8_t *data)
{
    struct toc_footer footer;
    uint8_t copy[TOC_FOOTER_BYTES], again[TOC_FOOTER_BYTES];
    memcpy(copy, data, sizeof(copy));
    memcpy(copy, "PSTT", 4);
    memset(copy + 4, 0, 4);
    copy[4] = 1 + (copy[8] & 1);
    uint32_t crc = crc32c(0, copy, 60);
    memcpy(copy + 60, &crc, 4);
    if (toc_footer_decode(copy, &footer) == OK && footer.version == 2) {
        toc_footer_encode(&footer, again);
        check(memcmp(again, copy, sizeof(copy)) == 0);
        check(toc_bytes(2, footer.count, footer.names_len) >= TOC_FOOTER_BYTES);
    }
}

static void try_files(const uint8_t *data, size_t size)
{
    static const char *const magics[] = { "PSTB", "PSTP", "PSTA" };
    for (size_t i = 0; size >= 40 && i < countof(magics); i++) {
        uint8_t *copy = malloc(size);
        memcpy(copy, data, size);
        memcpy(copy, magics[i], 4);
        memcpy(copy + 4, "\2\0\0", 4);
        memset(copy + 8 + 2, 0, 2);    /* few enough rows */
        bool ages = i == 2;
        size_t at = ages ? 36 : size - 4;
        uint32_t crc = crc32c(0, copy, at);
        crc = ages ? crc32c(crc, copy + 40, size - 40) : crc;
        memcpy(copy + at, &crc, 4);
        slice mended = { (char *)copy, size };
        try_bans(mended);
        try_pins(mended);
        try_ages(mended);
        free(copy);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct object_id id = { { 1, 2, 3 } };
    slice bytes = { (const char *)data, size };
    try_record(bytes);
    try_toc(bytes);
    try_bans(bytes);
    try_pins(bytes);
    try_ages(bytes);
    try_files(data, size);
    if (size >= 64) {
        uint8_t *copy = malloc(size);
        memcpy(copy, data, size);
        try_footer(data);
        memcpy(copy, "PSTR", 4);
        mend(copy, size);
        try_record((slice){ (char *)copy, size });
        struct toc_footer footer;
        enum err ignored = toc_footer_decode(copy, &footer);
        (void)ignored;
        struct toc_entry entry;
        memcpy(&entry, copy, sizeof(entry));
        if (toc_entry_is_valid(&entry))
            check(entry.data_len <= RECORD_BYTES_MAX && entry.metadata_len <= METADATA_BLOCK_MAX);
        free(copy);
    }
    struct metadata *metadata = metadata_block_decode(&id, bytes);
    if (metadata) {
        check(metadata_block_bytes(metadata) == size);
        uint8_t *again = malloc(size);
        metadata_block_encode(metadata, again);
        check(memcmp(again, data, size) == 0);
        free(again);
    }
    metadata_unref(&metadata);
    struct format format;
    const char *why;
    enum err e = format_decode(bytes, &format, &why);
    check(e == OK || ((e == ERR_FORMAT || e == ERR_GONE) && *why));
    if (e == OK && format.version == FORMAT_VERSION) {
        uint8_t again[FORMAT_BYTES_MAX];
        check(format_encode(&format, again) == size);
    }
    try_format(data, size);
    return 0;
}
