/* io.h - a reader's own: buffers, and what it waits for. SPDX-License-Identifier: Apache-2.0
 *
 * A read is planned first: spans of one extent, a reference to it, a buffer, and what must be found
 * there. What the page cache has is read at once; else the plan goes into an op, which waits for
 * the disk. Threads: a store_io and all that hangs on it is its owner's. */
#ifndef STORE_IO_H
#define STORE_IO_H

#include <assert.h>

#include "store/inside.h"

#define LARGE_BYTES (READ_BYTES_MAX + 16u * 1024u)
#define TINY_BYTES PAGE_BYTES         /* what lies before a small object, which goes straight */
#define SMALL_BYTES (20u * 1024u)
#define MERGED_BUFFER_BYTES (MERGED_BYTES_MAX + 128u * 1024u)
#define MERGED_BYTES_MAX (1024u * 1024u)
#define WARY_READS 64u                /* so many are looked up before they are tried, after a miss */
#define BLOCKS_MAX (READ_BYTES_MAX / BLOCK_BYTES)

static_assert(LARGE_BYTES - READ_BYTES_MAX >= RECORD_HEADER_MAX, "a header fits behind the bytes");
static_assert(LARGE_BYTES >= RECORD_HEADER_MAX + METADATA_BLOCK_MAX, "and a head into a buffer");

enum buffer_kind { TINY, SMALL, LARGE, MERGED, BUFFER_KINDS };
struct read_buffer {
    struct store_io *io;
    struct read_buffer *next;         /* while it is kept */
    enum buffer_kind kind;
    uint8_t *bytes;
    struct huge_page *page;                /* which `bytes` is cut from; NULL: from none */
};

struct span {
    uint64_t at;                      /* in the extent's file */
    uint32_t len, to;                 /* in the buffer */
};

/* What is read, and what it must be. Where whole blocks go straight to the caller's memory, the
 * rest of their span, the first one, lies in the buffer without a hole. */
struct plan {
    struct extent *extent;
    struct read_buffer *buffer;       /* NULL: nothing goes there */
    const struct metadata *metadata;    /* of a read of bytes; not owned */
    struct object_id id;
    uint32_t generation, changes;     /* metadata: as they were before the index was asked */
    struct span spans[2];
    uint32_t span_count;
    uint32_t unit, unit_count;
    uint32_t header_at;               /* in the buffer: WHOLE and metadata */
    uint32_t blocks_at;               /* in the first span */
    uint32_t first_block, block_count, blocks_len;    /* blocks: counted in the object */
    uint32_t skip, give;              /* of the blocks' bytes */
    uint8_t *to;                      /* the caller's memory for what is given */
    uint32_t straight_at, straight_len;    /* of the first span: what goes there straight */
    const uint8_t *mapped;            /* NULL, or where that lies already: it is copied, not read */
    /* of units from `unit` on; or one WHOLE, or of metadata */
    struct entry entries[RECORD_UNITS];
};

struct op_read {
    struct disk_read read;            /* if it goes by itself */
    struct store_op *op;
    uint32_t span;                    /* of the op's plan */
    bool straight;                    /* the disk itself writes to the caller's memory */
    struct list link;                 /* among what is gathered, then in a bulk */
};
struct store_op {
    struct store_op *next;            /* while it is kept */
    struct store_io *io;
    struct plan plan;
    struct op_read reads[2];
    uint32_t pending;
    enum err err;
    bool dropped;
    void (*finish)(struct store_op *op);    /* all has been read, or failed: err */
    metadata_done *metadata_done;
    object_bytes_done *object_bytes_done;
    void *arg;
    struct metadata *metadata;        /* a reference, while bytes are read */
    slice name;                       /* owned: metadata's, to be compared */
};

struct store_io {
    struct store *store;
    struct disk *disk;
    struct read_buffer *kept[BUFFER_KINDS];
    uint32_t kept_count[BUFFER_KINDS];
    struct list huge_pages;           /* read_buffer.c */
    struct store_op *ops;
    uint32_t op_count;
    bool plugged;                     /* reads are gathered */
    uint32_t wary;                    /* so many more are not tried before they are looked up */
    struct list gathered;
    uint32_t gathered_count;
};

/* NULL: as many as may be are in use. */
struct read_buffer *read_buffer_take(struct store_io *io, size_t bytes) MUST_USE;
void read_buffer_give(struct read_buffer *buffer);    /* accepts NULL */
void read_buffers_free(struct store_io *io);    /* with none in use */

/* H1, and a buffer for it, unless bytes is 0. ERR_NOT_FOUND, a miss: with the extent gone, the index
 * forgets the entries. */
enum err plan_hold(struct store_io *io, struct plan *plan, size_t bytes) MUST_USE;
void plan_end(struct plan *plan);
/* What the plan was made from is no good: counted, and the index forgets it. */
void plan_disown(struct store_io *io, const struct plan *plan);
/* The memory a span goes to; how many parts. */
unsigned span_parts(const struct plan *plan, uint32_t i, struct iovec parts[DISK_PARTS]) MUST_USE;
/* Where the byte of the first span lies, once it is read. */
uint8_t *plan_place(const struct plan *plan, uint32_t at) MUST_USE;
/* Where it was found: there, or in the extent's map. */
const uint8_t *plan_found(const struct plan *plan, uint32_t at) MUST_USE;
/* Reads from the page cache alone; sets plan->mapped. ERR_WAIT: the disk must be asked; ERR_IO,
 * ERR_FAULT. */
enum err plan_read_cached(struct store_io *io, struct plan *plan) MUST_USE;
/* The header that was read, if it is that of the record the index named, for this object. */
bool plan_header(const struct plan *plan, uint32_t len, struct record *ret) MUST_USE;

/* Takes what the plan holds. */
struct store_op *op_new(struct store_io *io, const struct plan *plan,
                        void (*finish)(struct store_op *op)) MUST_USE;
void op_start(struct store_op *op);   /* reads what the plan says; then finish() */
void op_end(struct store_op *op);
void op_read_ended(struct op_read *read, enum err err);    /* OK: all of its bytes are there */

/* ---- gather.c ---- */
/* Does what the page cache lacks go past it, now? */
bool store_reads_direct(const struct store *store) MUST_USE;
void gather_read(struct store_io *io, struct op_read *read);    /* now, or when the plug goes */
void gather_drop(struct store_io *io);    /* what was gathered, and dropped since, ends */

#endif
