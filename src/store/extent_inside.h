/* extent_inside.h - shared by the files that implement extent.h.
 * SPDX-License-Identifier: Apache-2.0 */
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

enum mark { MARK_TIME, MARK_GRANTED, MARK_COUNT };    /* facts of a record that are kept in RAM */
#define GATHER_MAX 128u               /* the most records in one append */
#define EXTENT_NUMBER_MAX 0xF0000000u /* so many extents of 4 MiB are 16 PB of writes */

struct extent {
    struct extent *next;              /* in its chain, under the lock */
    struct list open;                 /* in extents.open, under the lock */
    struct extents *all;
    uint32_t number;
    /* -1: closed. Changes under the lock, and never while a reader holds the extent. */
    int fd;
    /* -1: closed. Set while a reader holds the extent; closed only together with fd. */
    atomic_int direct_fd;
    struct list mapped;               /* in extents.mapped, under the lock */
    /* NULL: the file is not mapped. Set while a reader holds the extent. */
    _Atomic(uint8_t *) map;
    uint64_t map_bytes;
    bool sealed;                      /* for the committer only */
    atomic_uint refs;
    _Atomic uint64_t bytes;           /* of the file */
    _Atomic(_Atomic uint32_t *) times[MARK_COUNT][TIME_CHUNKS];
};

/* The newest extent, while it takes more records, and the records gathered for its next append. */
struct open_extent {
    struct extent *extent;            /* NULL: no extent takes more records */
    bool broken;                      /* a write failed: the extent takes no more records */
    uint64_t end;                     /* end of the written bytes, a multiple of a page */
    struct toc_entry *entries;        /* of the written records, then of the gathered ones */
    uint32_t count, capacity;
    uint32_t gathered;
    uint64_t gathered_end;
    /* For each record: padding, header, metadata, padding, data. Then the last padding. */
    struct iovec parts[5 * GATHER_MAX + 1];
    int part_count;
    uint8_t headers[GATHER_MAX][RECORD_HEADER_MAX];
};

struct extents {
    pthread_mutex_t lock;
    struct extent *chains[CHAINS];
    /* The extents with an open descriptor, and those with a map. Each list is in the order in which
     * the extents were held, the latest one at the end. */
    struct list open, mapped;
    uint64_t mapped_bytes_max;
    _Atomic uint64_t mapped_bytes;
    uint32_t fds_max;
    atomic_bool direct_refused;
    /* descriptors that are open or being opened, including those of dropped extents */
    atomic_uint fds;
    /* Read-locked while a file is opened; write-locked while the folder is closed. */
    pthread_rwlock_t folder_lock;
    int folder_fd;
    uint32_t extent_bytes;
    atomic_uint highest;              /* the highest number of a file; 0: there is no file */
    _Atomic uint64_t bytes;
    atomic_uint count;
    struct open_extent open_extent;
};

/* To be called under the lock, or by the committer. */
struct extent *extent_find(struct extents *all, uint32_t number);
/* True if only the table holds the extent. To be called under the lock. */
static inline bool extent_is_idle(struct extent *extent)
{
    return atomic_load_explicit(&extent->refs, memory_order_acquire) <= 1;
}
/* Adds an extent, which takes the descriptor. Returns a reference. */
struct extent *extent_add(struct extents *all, uint32_t number, int fd, uint64_t bytes) MUST_USE;
void extent_grew(struct extent *extent, uint64_t bytes);
/* Writes a table of contents at offset `at`. The file ends with it. */
enum err extent_write_toc(struct extent *extent, uint64_t at, const struct toc_entry *entries,
                          uint32_t count) MUST_USE;

/* ---- contents.c ---- */

/* Reads the footer. Returns false if the file does not end in a footer that is right for this
 * extent. */
bool extent_read_footer(const struct extent *extent, struct toc_footer *ret) MUST_USE;

/* ---- open_files.c ---- */

/* Opens the file of an extent. If file descriptors run out, it first closes the file of an idle
 * extent. Returns OK, ERR_LIMIT if there is no idle extent, ERR_FULL or ERR_IO. */
enum err extent_open_file(struct extents *all, uint32_t number, int flags, int *ret) MUST_USE;
/* Opens an existing file to read and write, or only to read if writing is refused. */
enum err extent_open_old(struct extents *all, uint32_t number, int *ret) MUST_USE;
/* Opens the file of an extent that the caller holds. Returns OK, ERR_LIMIT, or ERR_NOT_FOUND if the
 * file can't be opened. */
enum err extent_open_held(struct extent *extent) MUST_USE;
/* Of the extents that nobody reads, closes the file of the one that was held longest ago. Returns
 * false if all extents are being read. */
bool extent_close_idle(struct extents *all);
void extent_close_fd(struct extents *all, int fd);

/* ---- maps.c ---- */

uint64_t extent_mapped_allowed(uint64_t memory_bytes);
/* Takes the map from the extent, and the extent out of the list. Returns NULL if there is no map.
 * To be called under the lock. The caller must unmap it. */
uint8_t *extent_take_map(struct extent *extent) MUST_USE;
void extent_unmap(struct extents *all, uint8_t *map, uint64_t bytes);    /* accepts NULL */

#endif
