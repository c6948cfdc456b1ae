/* extent_inside.h - what the files behind extent.h share. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_EXTENT_INSIDE_H
#define STORE_EXTENT_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include "base/list.h"
#include "store/extent.h"

#define CHAINS 4096u
#define TIMES_A_CHUNK 4096u
#define TIME_CHUNKS 128u

enum mark { MARK_TIME, MARK_GRANTED, MARK_COUNT };    /* what is kept of a record in RAM */
#define GATHER_MAX 128u               /* records in one append */
#define EXTENT_NUMBER_MAX 0xF0000000u /* of 4 MiB each: 16 PB written */

struct extent {
    struct extent *next;              /* in its chain, under the lock */
    struct list open;                 /* in extents.open, under the lock */
    struct extents *all;
    uint32_t number;
    /* -1: closed. Changes under the lock, never while it is read */
    int fd;
    /* -1: closed; set while it is read, closed only with fd */
    atomic_int direct_fd;
    struct list mapped;               /* in extents.mapped, under the lock */
    /* NULL: it is not mapped; set while it is held */
    _Atomic(uint8_t *) map;
    uint64_t map_bytes;
    bool sealed;                      /* the committer's */
    atomic_uint refs;
    _Atomic uint64_t bytes;           /* of the file */
    _Atomic(_Atomic uint32_t *) times[MARK_COUNT][TIME_CHUNKS];
};

/* The newest extent, while it takes more, and what is gathered for its next append. */
struct open_extent {
    struct extent *extent;            /* NULL: none takes more */
    bool broken;                      /* a write failed: nothing more goes in */
    uint64_t end;                     /* of what is written, on a page */
    struct toc_entry *entries;        /* of all that is written, then of what is gathered */
    uint32_t count, capacity;
    uint32_t gathered;
    uint64_t gathered_end;
    /* padding, header, metadata, padding, data; and the last padding */
    struct iovec parts[5 * GATHER_MAX + 1];
    int part_count;
    uint8_t headers[GATHER_MAX][RECORD_HEADER_MAX];
};

struct extents {
    pthread_mutex_t lock;
    struct extent *chains[CHAINS];
    /* in the order they were held, the last one behind: those with a descriptor, with a map */
    struct list open, mapped;
    uint64_t mapped_bytes_max;
    _Atomic uint64_t mapped_bytes;
    uint32_t fds_max;
    atomic_bool direct_refused;
    /* descriptors open or being opened, those of dropped extents included */
    atomic_uint fds;
    /* held by who opens a file, taken whole by who closes the folder */
    pthread_rwlock_t folder_lock;
    int folder_fd;
    uint32_t extent_bytes;
    atomic_uint highest;              /* of all files there are; 0 with none */
    _Atomic uint64_t bytes;
    atomic_uint count;
    struct open_extent open_extent;
};

/* under the lock, or the committer */
struct extent *extent_find(struct extents *all, uint32_t number);
/* Nobody but the table holds it; under the lock. */
static inline bool extent_is_idle(struct extent *extent)
{
    return atomic_load_explicit(&extent->refs, memory_order_acquire) <= 1;
}
/* Takes the descriptor. A reference. */
struct extent *extent_add(struct extents *all, uint32_t number, int fd, uint64_t bytes) MUST_USE;
void extent_grew(struct extent *extent, uint64_t bytes);
/* Writes a table of contents at `at`, which ends the file. */
enum err extent_write_toc(struct extent *extent, uint64_t at, const struct toc_entry *entries,
                          uint32_t count) MUST_USE;

/* ---- contents.c ---- */

/* The footer, if the file ends in one that is this extent's and fits. */
bool extent_read_footer(const struct extent *extent, struct toc_footer *ret) MUST_USE;

/* ---- open_files.c ---- */

/* Where descriptors run out, an idle extent's is given up; ERR_LIMIT if there is none. ERR_FULL,
 * ERR_IO. */
enum err extent_open_file(struct extents *all, uint32_t number, int flags, int *ret) MUST_USE;
/* to be read, at least */
enum err extent_open_old(struct extents *all, uint32_t number, int *ret) MUST_USE;
/* Of one that is held. ERR_LIMIT; ERR_NOT_FOUND: it can't be opened. */
enum err extent_open_held(struct extent *extent) MUST_USE;
/* Of the extents that nobody reads, the one held longest ago. false: all are being read. */
bool extent_close_idle(struct extents *all);
void extent_close_fd(struct extents *all, int fd);

/* ---- maps.c ---- */

uint64_t extent_mapped_allowed(uint64_t memory_bytes);
/* NULL, if there is none; out of the list, under the lock. The caller's to unmap. */
uint8_t *extent_take_map(struct extent *extent) MUST_USE;
void extent_unmap(struct extents *all, uint8_t *map, uint64_t bytes);    /* accepts NULL */

#endif
