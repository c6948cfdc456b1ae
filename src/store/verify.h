/* verify.h - reads records from the disk, and verifies all of their bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For code that reads the whole cache once: the scrub and penstock fsck. The recycler uses only
 * record_is_right. Reads through a struct cold neither fill nor empty the page cache. Threads: a
 * struct cold belongs to one thread. The extent must be held. */
#ifndef STORE_VERIFY_H
#define STORE_VERIFY_H

#include "store/extent.h"

/* Returns true if metadata block and data have the checksums that the header names. */
bool record_is_right(const struct record *record, const void *metadata, const void *data) MUST_USE;

/* Some consecutive bytes of an extent, as the disk has them. */
struct cold {
    uint8_t *bytes;
    uint64_t at;                      /* offset in the extent's file, a multiple of a page */
    size_t len, room;
};

#define COLD_ROOM_LEAST (RECORD_BYTES_MAX + METADATA_BLOCK_MAX + 3u * PAGE_BYTES)

/* `room`: at least COLD_ROOM_LEAST, so that any record fits in. */
void cold_init(struct cold *cold, size_t room);
void cold_free(struct cold *cold);
/* Reads `want` bytes from `at` on, or as many of them as there is room for, and the rest of their
 * pages. Returns OK, also if the file is shorter; ERR_IO if they can't be read. */
enum err cold_read(struct cold *cold, struct extent *held, uint64_t at, size_t want) MUST_USE;
bool cold_has(const struct cold *cold, uint64_t at, uint64_t len);

/* The judgement of a record. */
enum verdict {
    VERDICT_RIGHT,
    VERDICT_UNREADABLE,               /* the disk does not give the bytes */
    VERDICT_HEADER,                   /* no header of this record, or not that of the row */
    VERDICT_METADATA,                 /* the metadata block fails its checksum */
    VERDICT_DATA,                     /* a block of data fails its checksum */
};

/* A record by its row of the table of contents, and how many of its bytes are to be judged. */
struct suspect {
    struct extent *held;
    uint32_t number;                  /* of the extent */
    const struct toc_entry *row;
    uint32_t ordinal;
    bool skip_data;                   /* judge header and metadata block alone */
};
/* Returns the bytes from the beginning of the record that a verdict needs. */
uint32_t suspect_bytes(const struct suspect *suspect);
/* `cold` has these bytes. *ret: the header, unless the verdict is VERDICT_HEADER. */
enum verdict suspect_judge(const struct suspect *suspect, const struct cold *cold,
                           struct record *ret) MUST_USE;
/* Reads what `cold` lacks, and judges. If a larger read fails, it reads the record alone, because
 * only a part of the disk may be unreadable. */
enum verdict suspect_read(const struct suspect *suspect, struct cold *cold,
                          struct record *ret) MUST_USE;

#endif
