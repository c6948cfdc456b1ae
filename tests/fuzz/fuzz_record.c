/* fuzz_record.c - record headers, metadata blocks, tables of contents, format files: any bytes,
 * safely. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "store/format.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct object_id id = { { 1, 2, 3 } };
    slice bytes = { (const char *)data, size };
    try_record(bytes);
    if (size >= 64) {
        uint8_t *copy = malloc(size);
        memcpy(copy, data, size);
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
    return 0;
}
