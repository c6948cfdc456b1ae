/* batch_frames.c - the answer to a batch as frames. SPDX-License-Identifier: Apache-2.0
 *
 * A frame precedes each item, and one more frame ends the answer. A frame has 64 bytes,
 * little-endian:
 *   0 u32 "PSB1"    4 u32 index; 0xFFFFFFFF: the end    8 u16 status    10 u16 length of the ETag
 *  12 u32 length of the error's code    16 u64 length of the bytes    24 u64 offset of the bytes
 *  32 u64 size of the object    40 u64 Last-Modified, in unix seconds    48 zero
 * ETag, code and bytes follow the frame without padding. In the last frame, size is the number of
 * items answered, and length the number of items that failed. An answer without the last frame is
 * not complete. Pure. */
#include <string.h>

#include "front/batch.h"

#define FRAME_BYTES 64u
#define FRAME_MAGIC 0x31425350u
#define FRAME_END UINT32_MAX

struct frame {
    uint32_t magic, index;
    uint16_t status, etag_len;
    uint32_t code_len;
    uint64_t length, first, size, modified_s, zero[2];
};
static_assert(sizeof(struct frame) == FRAME_BYTES, "the size of a frame is fixed");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a frame is sent as it lies in memory");
static_assert(FRAME_BYTES <= BATCH_FIXED_ROOM && FRAME_BYTES <= BATCH_END_ROOM,
              "a frame fits into the room for an entry, and into the room for the end");

static size_t head(char *to, const struct batch_entry *entry)
{
    const struct frame frame = {
        .magic = FRAME_MAGIC,
        .index = (uint32_t)entry->index,
        .status = (uint16_t)entry->status,
        .etag_len = (uint16_t)MIN(entry->etag.len, UINT16_MAX),
        .code_len = (uint32_t)entry->code.len,
        .length = entry->length,
        .first = entry->first,
        .size = entry->size,
        .modified_s = (uint64_t)MAX(entry->modified_s, 0),
    };
    memcpy(to, &frame, sizeof(frame));
    size_t len = sizeof(frame);
    len += slice_put(to + len, slice_sub(entry->etag, 0, frame.etag_len));
    return len + slice_put(to + len, entry->code);
}

static size_t fail(struct batch_end *end, char *to, const struct batch_entry *entry)
{
    return head(to, entry);
}

static size_t end(struct batch_end *end, char *to)
{
    const struct frame frame = { .magic = FRAME_MAGIC, .index = FRAME_END, .length = end->failed,
                                 .size = end->answered };
    memcpy(to, &frame, sizeof(frame));
    end->over = true;
    return sizeof(frame);
}

const struct batch_form batch_frames = {
    { "application/vnd.penstock.frames", 31 }, head, NULL, fail, end,
};
