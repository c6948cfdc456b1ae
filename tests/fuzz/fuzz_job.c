/* fuzz_job.c - state files and lists of jobs, and bodies of requests for jobs: any bytes, safely.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "jobs/job_body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_state(slice bytes)
{
    struct arena keep = { 0 };
    struct job_file file;
    if (job_file_decode(bytes, &keep, &file) == OK) {
        slice again = job_file_encode(&file, &keep);
        check(slice_eq(again, bytes));
    }
    arena_free(&keep);
}

static void try_block(slice bytes)
{
    static struct job_block block;
    struct arena keep = { 0 };
    struct items items;
    size_t len;
    if (job_block_decode(bytes, &keep, &items, &len) == OK) {
        check(len <= bytes.len);
        job_block_begin(&block);
        bool room = true;
        for (size_t i = 0; i < items.count && room; i++)
            room = job_block_add(&block, &items.list[i]);
        check(!room || slice_eq(job_block_end(&block), slice_sub(bytes, 0, len)));
    }
    arena_free(&keep);
}

static void try_body(slice bytes)
{
    struct arena keep = { 0 };
    struct job_spec spec = { .range_count = 0 };
    struct items items;
    struct item item;
    size_t len;
    slice why;
    if (job_body_read(&keep, bytes, &spec, &items, &len, &why) == OK)
        check(len <= bytes.len && spec.range_count <= JOB_RANGES_MAX &&
              (spec.mode == JOB_FOLLOW) == (spec.window > 0));
    if (bytes.len && job_body_read_line(&keep, bytes, &item, &why) == OK)
        check(item.key.len > 0);
    arena_free(&keep);
}

/* With magic, version and checksum corrected. */
static void mend(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size);
    memcpy(copy, data, size);
    memcpy(copy, "PSTJ\1\0\0", 8);
    copy[4] = 1 + (data[4] & 1);    /* version 2 is that of mode follow */
    uint32_t crc = crc32c(0, copy, size - 4);
    memcpy(copy + size - 4, &crc, 4);
    try_state((slice){ (char *)copy, size });
    memcpy(copy, data, size);
    uint32_t bytes = (uint32_t)size - 16;
    crc = crc32c(0, copy + 16, bytes);
    memcpy(copy, "PSTK", 4);
    memcpy(copy + 4, &bytes, 4);
    memcpy(copy + 12, &crc, 4);
    try_block((slice){ (char *)copy, size });
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    slice bytes = { (const char *)data, size };
    try_state(bytes);
    try_block(bytes);
    try_body(bytes);
    if (size >= 20)
        mend(data, size);
    return 0;
}
