/* io.h - the buffers and the reads in progress of one reader. SPDX-License-Identifier: Apache-2.0
 *
 * A read begins with a plan: spans of one extent, a reference to the extent, a buffer, and the
 * entries that the bytes must match. If the page cache has all bytes, they are read at once.
 * Otherwise the plan goes into an op, which waits for the disk. Threads: a store_io, its buffers
 * and its ops belong to one thread; only io_wake_all is for others. */
#ifndef STORE_IO_H
#define STORE_IO_H

#include <assert.h>

#include "store/inside.h"

#define LARGE_BYTES (READ_BYTES_MAX + 16u * 1024u)
#define TINY_BYTES PAGE_BYTES         /* for a header, if the bytes go to the caller's memory */
#define SMALL_BYTES (20u * 1024u)
#define MERGED_BUFFER_BYTES (MERGED_BYTES_MAX + 128u * 1024u)
#define MERGED_BYTES_MAX (1024u * 1024u)
/* After a miss in the page cache, so many reads first ask whether the page cache has the bytes. */
#define WARY_READS 64u
#define BLOCKS_MAX (READ_BYTES_MAX / BLOCK_BYTES)

static_assert(LARGE_BYTES - READ_BYTES_MAX >= RECORD_HEADER_MAX,
              "a large buffer has room for bytes and a header");
static_assert(LARGE_BYTES >= RECORD_HEADER_MAX + METADATA_BLOCK_MAX,
              "a large buffer has room for a metadata record");

enum buffer_kind { TINY, SMALL, LARGE, MERGED, BUFFER_KINDS, LENT };
struct read_buffer {
    struct store_io *io;
    struct read_buffer *next;         /* in the list of kept buffers */
    enum buffer_kind kind;
    uint8_t *bytes;                   /* of LENT: the map */
    struct huge_page *page;           /* the page that has `bytes`; NULL: `bytes` was allocated */
    struct extent *lender;            /* of LENT; a reference, and a lease */
};

struct span {
    uint64_t at;                      /* offset in the extent's file */
    uint32_t len, to;                 /* length; offset in the buffer */
};

/* The blocks of the object that hold the bytes of a read. The reader's thread writes it when it
 * makes the plan. */
struct read_plan_blocks {
    uint32_t at;                      /* offset in the first span */
    uint32_t first, count, len;       /* block numbers count in the object; len: of all, in bytes */
    bool ahead;                       /* as in struct store_to */
    enum store_records among;         /* likewise */
};

/* The part of the first span that goes directly to the caller's memory. The reader's thread writes
 * it when it makes the plan, and sets `mapped` when it finds the bytes in the page cache. */
struct read_plan_straight {
    uint32_t at, len;
    const uint8_t *mapped;            /* that part in the extent's map, to be copied; or NULL */
};

/* The bytes to read, and the entries that they must match. If whole blocks of the first span go
 * directly to the caller's memory, the rest of that span lies in the buffer without a hole. */
struct read_plan {
    struct volume *volume;
    struct extent *extent;
    struct read_buffer *buffer;       /* NULL: no bytes go to a buffer */
    const struct metadata *metadata;  /* for a read of bytes; not owned */
    struct object_id id;
    uint32_t generation, changes;     /* for metadata: their values before the index was read */
    uint64_t compared;                /* the same: the newest purge */
    struct span spans[2];
    uint32_t span_count;
    uint32_t unit, unit_count;
    uint32_t header_at;               /* offset in the buffer, for WHOLE and metadata */
    struct read_plan_blocks blocks;
    uint32_t skip, give;              /* bytes of the blocks to skip, and then to give */
    uint8_t *to;                      /* the caller's memory for the bytes given */
    const uint8_t *lent;              /* the map of the locked extent, under a lease; or NULL */
    struct read_plan_straight straight;
    /* the entries of the units from `unit` on, or one WHOLE entry, or one of metadata */
    struct entry entries[RECORD_UNITS];
};

struct op_read {
    struct disk_read read;            /* used if the read is not part of a bulk */
    struct store_op *op;
    uint32_t span;                    /* index of the span in the op's plan */
    bool straight;                    /* the disk itself writes to the caller's memory */
    struct list link;                 /* in the list of gathered reads, then in a bulk */
};
struct store_op {
    struct store_op *next;            /* in the list of kept ops */
    struct store_io *io;
    struct read_plan plan;
    struct op_read reads[2];
    uint32_t pending;
    enum err err;
    bool dropped;
    bool answered;                    /* the disk was asked, and has answered */
    void (*finish)(struct store_op *op);    /* called when all reads ended; `err` says how */
    metadata_done *metadata_done;
    object_bytes_done *object_bytes_done;
    void *arg;
    struct metadata *metadata;        /* a reference, while bytes are read */
    slice name;                       /* owned: the name that the metadata must have */
    struct list link;                 /* in io->waiting */
    uint64_t began_ms;                /* since when it waits for the disk */
};

#define PIECE_ENDS 256u               /* pieces that a thread remembers */

struct store_io {
    struct store *store;
    struct disk *disk;
    struct read_buffer *kept[BUFFER_KINDS];
    uint32_t kept_count[BUFFER_KINDS];
    struct list huge_pages;           /* read_buffer.c */
    struct store_op *ops;
    uint32_t op_count;
    bool plugged;                     /* reads are gathered */
    uint32_t wary;                    /* this many more reads first ask the page cache */
    struct list gathered;
    uint32_t gathered_count;
    struct list waiting;              /* ops that wait for the disk; dropped ones, too */
    struct list link;                 /* in store->readers */
    struct ticket *ticket;            /* for io_wake_all */
    uint8_t touches[VOLUMES_MAX];     /* of records of each volume, not counted yet (rule.h) */
    /* The ends of the latest pieces that were read, by the hash of their record. */
    struct piece_end {
        uint64_t hash, end;
    } ends[PIECE_ENDS];
};

/* Returns NULL if the limit of read buffers is reached. */
struct read_buffer *read_buffer_take(struct store_io *io, size_t bytes) MUST_USE;
void read_buffer_give(struct read_buffer *buffer);    /* accepts NULL */
/* Makes an owner for bytes in the plan's lent map. It takes the extent and the lease. */
struct read_buffer *read_buffer_lent(struct store_io *io, struct read_plan *plan) MUST_USE;
void read_buffers_free(struct store_io *io);    /* no buffer may be in use */

/* Takes a reference to the extent (rule H1 in src/README.md). Returns OK, or ERR_NOT_FOUND, which
 * is a miss. If the extent is gone, the index forgets the entries. */
enum err read_plan_hold(struct read_plan *plan) MUST_USE;
/* Takes a buffer unless `bytes` is 0. ERR_NOT_FOUND: there is none; the plan has ended then. */
enum err read_plan_take_buffer(struct store_io *io, struct read_plan *plan, size_t bytes) MUST_USE;
void read_plan_end(struct read_plan *plan);
/* True if all spans lie in the extent. An entry of a damaged index may name other bytes. */
bool read_plan_is_inside(const struct read_plan *plan) MUST_USE;
/* Verifies the blocks of the plan in the map of its locked extent, and forgets the entries if they
 * are wrong. Returns OK; ERR_WAIT if not all of them are in memory; ERR_NOT_FOUND if the extent is
 * not locked; or as the blocks are wrong. Any thread, with a plan of its own. */
enum err read_plan_verify(struct read_plan *plan);
/* To be called if the bytes fail their checks. Counts that, and lets the index forget the entries
 * of the plan. */
void read_plan_disown(const struct read_plan *plan);
/* Finds the memory that a span is read into. Returns the number of parts. */
unsigned span_parts(const struct read_plan *plan, uint32_t i, struct iovec parts[DISK_PARTS]) MUST_USE;
/* Returns the place in memory of byte `at` of the first span, after it was read. */
uint8_t *read_plan_place(const struct read_plan *plan, uint32_t at) MUST_USE;
/* Returns where that byte was found: at read_plan_place, or in the extent's map. */
const uint8_t *read_plan_found(const struct read_plan *plan, uint32_t at) MUST_USE;
/* Reads from the page cache alone, and sets plan->straight.mapped. Returns OK, ERR_WAIT if the disk
 * must be read, ERR_IO or ERR_FAULT. */
enum err read_plan_cached(struct store_io *io, struct read_plan *plan) MUST_USE;
/* Reads the header from the buffer. Returns false if it is not that of the record that the index
 * named, for this object. */
bool read_plan_header(const struct read_plan *plan, uint32_t len, struct record *ret) MUST_USE;

/* Makes an op, which takes the extent and the buffer of the plan. */
struct store_op *op_new(struct store_io *io, const struct read_plan *plan,
                        void (*finish)(struct store_op *op)) MUST_USE;
void op_start(struct store_op *op);   /* reads the spans of the plan, then calls finish() */
void op_end(struct store_op *op);
/* OK: all bytes of the read are there. ERR_CANCELED: the disk was not asked.
 * ERR_LIMIT: the kernel refused the read, or the rest of it. */
void op_read_ended(struct op_read *read, enum err err);
/* Makes all readers give up the ops that wait for a volume out of service: a disk that hangs answers
 * nobody. Any thread. */
void io_wake_all(struct store *store);

/* ---- gather.c ---- */
/* Returns true if reads of the disk bypass the page cache now (O_DIRECT). */
bool store_reads_direct(const struct store *store) MUST_USE;
void gather_read(struct store_io *io, struct op_read *read);    /* starts it now, or at unplug */
void gather_drop(struct store_io *io);    /* ends gathered reads whose op was dropped */

#endif
