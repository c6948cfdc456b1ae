/* fuzz_value.c - an entry of the index: any bytes are decoded safely, and what decodes encodes to
 * itself. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "store/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Corrects the checksum, the last word of a value. With a wrong one, nothing would be decoded. */
static void mend(const uint8_t *key, uint8_t *value)
{
    uint32_t crc = crc32c(crc32c(0, key, ENTRY_KEY_BYTES), value, ENTRY_BYTES - 4);
    memcpy(value + ENTRY_BYTES - 4, &crc, 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct entry entry;
    uint8_t value[ENTRY_BYTES], again[ENTRY_BYTES];
    if (size < ENTRY_KEY_BYTES)
        return 0;
    slice bytes = { (const char *)data + ENTRY_KEY_BYTES, size - ENTRY_KEY_BYTES };
    enum err e = entry_decode(data, bytes, &entry);
    check(e == OK || e == ERR_GONE);
    if (size < ENTRY_KEY_BYTES + ENTRY_BYTES)
        return 0;
    memcpy(value, data + ENTRY_KEY_BYTES, ENTRY_BYTES);
    mend(data, value);
    uint32_t unit = entry_key_unit(data);
    bool possible = unit < UNITS_MAX || unit == METADATA_UNIT;    /* no object has another unit */
    e = entry_decode(data, (slice){ (char *)value, ENTRY_BYTES }, &entry);
    check(e == (possible ? OK : ERR_GONE));
    if (e)
        return 0;
    entry_encode(&entry, data, again);
    check(memcmp(value, again, ENTRY_BYTES) == 0);
    return 0;
}
