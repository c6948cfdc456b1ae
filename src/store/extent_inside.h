/* extent_inside.h - shared by the files that implement extent.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_EXTENT_INSIDE_H
#define STORE_EXTENT_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include "base/list.h"
#include "base/read_epoch.h"
#include "store/ages.h"
#include "store/extent.h"

#define CHAINS 4096u
#define EXTENTS_LATELY 1024u
#define TIMES_A_CHUNK 64u             /* in the first chunk; each further one has twice as many */
#define TIME_CHUNKS 14u

enum mark { MARK_TIME, MARK_GRANTED, MARK_COUNT };    /* facts of a record that are kept in RAM */
#define GATHER_MAX 128u               /* the most records in one append */
/* No extent is longer. Its records and its table take at most 64 MiB together (sizing.h); fsck may
 * write a second table behind a damaged one. */
#define EXTENT_FILE_MAX (128 * MIB)
#define EXTENT_NUMBER_MAX 0xF0000000u /* so many extents of 4 MiB are 16 PB of writes */

/* Resources that run out. They are taken from an idle extent that was not held recently (CLOCK). */
enum clock { CLOCK_FILES, CLOCK_MAPS, CLOCK_COUNT };

/* The place of an extent in a clock. */
struct turn {
    struct list link;                 /* in extents.clocks, under the lock */
    struct extent *extent;
    atomic_bool used;                 /* the extent was held since its last turn */
};

#define LOCK_LENDS 0x80000000u        /* in leases: the extent is locked, and gives new leases */

/* Of an extent that may be locked (lend.c). */
struct extent_lock {
    atomic_uint reads;                /* since the latest look of locker.c */
    atomic_bool appended;             /* likewise: an append came */
    atomic_uint leases;               /* readers that use lent bytes, and LOCK_LENDS */
    _Atomic(struct lock_page *) pages;    /* of the file; NULL: not locked. Readers have a lease */
    uint64_t bytes;                   /* that are locked; for the thread that locks */
};

#define PAGE_TOUCHED 1u
/* A page of a locked extent. */
struct lock_page {
    _Atomic uint32_t verified;        /* checksum of the block that begins here; 0: none */
    /* 0; PAGE_TOUCHED; or the mark of a plan whose first block begins here, all of it verified */
    _Atomic uint32_t touched;
};

struct extent {
    _Atomic(struct extent *) next;    /* in its chain; changes under the lock */
    struct extents *all;
    uint32_t number;
    /* -1: closed. Changes under the lock, and only while REF_OPEN is not set. */
    int fd;
    /* -1: closed. Set while a reader holds the extent; closed only together with fd. */
    atomic_int direct_fd;
    /* NULL: the file is not mapped. Set while a reader holds the extent. */
    _Atomic(uint8_t *) map;
    uint64_t map_bytes;
    struct turn turns[CLOCK_COUNT];
    /* Of the format. 0: the file is not one of this volume, and can't be held. */
    atomic_uchar version;
    atomic_uchar kind;                /* enum extent_kind */
    atomic_bool sealed;               /* the file ends with its table of contents */
    struct extent_faults {
        atomic_bool unread;           /* the disk failed when the extent was recognized */
        atomic_bool unusable;         /* extent_is_unusable */
        atomic_bool damaged;          /* it counts in extents_damaged */
    } faults;
    atomic_uint rows;                 /* of its table; ROWS_UNKNOWN: not sealed, or not read */
    struct ages *ages;
    struct extent_staged {
        /* the records that were read; NULL: it is not kept */
        _Atomic(_Atomic uint64_t *) set;
        atomic_uint count;            /* of the set */
        struct list link;             /* in files.staging_list */
    } staged;
    _Atomic uint64_t bytes;           /* of the file */
    _Atomic uint64_t held_bytes;      /* of the file, after it was unlinked */
    _Atomic(_Atomic uint32_t *) times[MARK_COUNT][TIME_CHUNKS];
    /* The number of references, and REF_OPEN. In a cache line of its own, because each read
     * writes it. */
    _Alignas(64) atomic_uint refs;
    struct extent_lock lock;
};
/* The file is open, and a new holder may use it. The last holder to leave keeps the bit. A thread
 * that closes the file first takes the bit from an extent that no reader holds (extent_claim). */
#define REF_OPEN 0x80000000u

/* An extent that takes more records, and the records gathered for its next append. */
struct open_extent {
    struct extent *extent;            /* NULL: no extent takes more records */
    atomic_bool broken;               /* a write failed: the extent takes no more records */
    uint64_t end;                     /* end of the written bytes, a multiple of a page */
    struct toc toc;                   /* of the written records, then of the gathered ones */
    uint32_t written;                 /* records */
    size_t written_names;             /* bytes of their names */
    uint32_t gathered;
    _Atomic uint64_t gathered_end;
    /* For each record: padding, header, metadata, padding, data. Then the last padding. */
    struct iovec parts[5 * GATHER_MAX + 1];
    int part_count;
    uint8_t headers[GATHER_MAX][RECORD_HEADER_MAX];
};

/* The files of extents of one folder. They are together because a drop or a closing changes
 * the table, the descriptors, the maps and the sums at once. */
struct extents {
    pthread_mutex_t lock;
    struct read_epochs *epochs;       /* of the readers of the chains */
    _Atomic(struct extent *) chains[CHAINS];    /* change under the lock */
    /* The extents with an open descriptor, and those with a map, in the order of their turns. */
    struct list clocks[CLOCK_COUNT];
    struct extents_mapped {
        uint64_t bytes_max;
        _Atomic uint64_t bytes;
    } mapped;
    struct extents_locker {           /* for locker.c */
        /* Numbers of extents that were read; of two with the same place, one may be missing. */
        _Atomic uint32_t lately[EXTENTS_LATELY];
        /* Called after each drop. Set before there are threads; NULL: nobody wants to know. */
        void (*dropped)(void *arg);
        void *arg;
    } locker;
    uint32_t fds_max;
    atomic_bool direct_refused;
    /* descriptors that are open or being opened, including those of dropped extents */
    atomic_uint fds;
    /* Read-locked while a file is opened; write-locked while the folder is closed. */
    pthread_rwlock_t folder_lock;
    int folder_fd;
    uint32_t extent_bytes;
    uint8_t volume[VOLUME_ID_BYTES];
    uint8_t secret[STORE_SECRET_BYTES];
    _Atomic uint64_t bytes, held_bytes;
    _Atomic uint64_t appended;        /* bytes, since the process began */
    struct extent_files {
        atomic_uint highest;          /* the highest number that counts; 0: there is none */
        unsigned far;                 /* the highest number that does not; for the opening */
        atomic_uint count;            /* in the table */
        atomic_uint unusable;         /* in the table, and can't be used (extent_is_unusable) */
        atomic_uint staging;          /* in the table, staging extents */
        _Atomic uint64_t staging_bytes;    /* of these */
        struct list staging_list;     /* of these; under the lock */
        atomic_uint unopened;         /* not in the table (extents_unopened) */
        atomic_uint damaged, damaged_last;    /* extents_damaged; the latest of them */
    } files;
    /* The log is for the committer, the copy for the recycler, until the log takes its place. */
    struct open_extent *opens[OPEN_COUNT];
    /* Guards extent, toc and the written_ members of open_extent. The thread that appends to it
     * writes them under the lock, and reads them without it. */
    pthread_mutex_t toc_lock;
};

/* To be called under the lock, in a read epoch, or by the committer. */
struct extent *extent_find(struct extents *all, uint32_t number);
/* Adds an extent, which takes the descriptor. Returns a reference. `old`: the file was there when
 * the folder was opened, so the extent is recognized first (extent_recognize). If it is sealed, its
 * ages have room for its records alone. */
struct extent *extent_add(struct extents *all, uint32_t number, int fd, uint64_t bytes,
                          bool old) MUST_USE;
/* Unlinks the file, and the file of its ages. Returns false if the file stays: the next opening
 * finds it again. */
bool extent_remove_file(struct extents *all, uint32_t number);
void extent_grew(struct extent *extent, uint64_t bytes);
/* From now on, extent_note_read keeps the records that were read. No reader may have found the
 * extent yet. */
void extent_keep_reads(struct extent *extent);
/* Counts the extent in extents_staging, if it is a staging extent. When it joins the table. */
void extents_note_staging(struct extent *extent);

/* Takes the next number that no file has, for a new file. Returns false if there is none. If the
 * file can't be made, the number is given back. Any thread. */
bool extents_take_number(struct extents *all, uint32_t *ret) MUST_USE;
void extents_give_number(struct extents *all, uint32_t number);

/* ---- open_extent.c ---- */

/* Writes a table of contents at offset `at`, in the version of the extent. The file ends with
 * it. */
enum err extent_write_toc(struct extent *extent, uint64_t at, const struct toc *toc) MUST_USE;
/* Closes the open extent without a table of contents, if there is an open one. */
void open_extent_close(struct extents *all, enum open_which which);
/* Copies the table of the written records, if this extent is open. Any thread. */
bool open_extent_toc(const struct extent *extent, struct toc *ret) MUST_USE;

/* ---- contents.c ---- */

/* Finds version, kind, and whether the extent is sealed, from its footer or head page. */
void extent_recognize(struct extent *extent);
/* True if a table of contents begins behind the last record, which ends at `end`: the extent was
 * sealed, and lost its footer. `first` is the row of the first record. */
bool extent_lost_footer(const struct extent *extent, const struct toc_entry *first,
                        uint64_t end) MUST_USE;
/* Judges the table at the end of a sealed extent: OK if it can be used, with its names; ERR_GONE if
 * it is damaged; ERR_IO if it can't be read. */
enum err extent_judge_toc(const struct extent *extent) MUST_USE;

/* ---- open_files.c ---- */

/* Claims the next extent of a clock that no reader holds; first one that was not held since its
 * last turn. From then on a new holder waits for the lock before it uses the file. Returns NULL if
 * all extents are held. To be called under the lock, which the caller keeps until the file is
 * closed, or extent_unclaim was called. */
struct extent *extent_claim(struct extents *all, enum clock which) MUST_USE;
void extent_unclaim(struct extent *extent);
/* Opens the file of an extent. If file descriptors run out, it first closes the file of an idle
 * extent. Returns OK, ERR_LIMIT if there is no idle extent, ERR_FULL or ERR_IO. */
enum err extent_open_file(struct extents *all, uint32_t number, int flags, int *ret) MUST_USE;
/* Opens an existing file to read and write, or only to read if writing is refused. */
enum err extent_open_old(struct extents *all, uint32_t number, int *ret) MUST_USE;
/* Opens the file of an extent that the caller holds, if it is closed. Returns OK, ERR_LIMIT, or
 * ERR_NOT_FOUND if the file can't be opened. */
enum err extent_open_held(struct extent *extent) MUST_USE;
/* Closes the file of an extent that no reader holds, if possible of one not held recently.
 * Returns false if all extents are held. */
bool extent_close_idle(struct extents *all);
void extent_close_fd(struct extents *all, int fd);

/* ---- lend.c, for locker.c: one thread, with a reference to a held extent ---- */

/* True if the file system keeps locked pages, and the extent fits into its map. The caller holds
 * it. */
bool extent_can_lock(const struct extent *extent) MUST_USE;
/* Returns OK; ERR_LIMIT if the kernel allows no more locked memory; or ERR_BUSY if there is no room
 * for another map now (maps.c). */
enum err extent_lock(struct extent *extent) MUST_USE;
void extent_lend_no_more(struct extent *extent);    /* for a locked extent: before extent_unlock */
bool extent_is_lending(const struct extent *extent);    /* of a locked extent; false: no more */
/* All blocks of a locked extent are verified again before they are lent. */
void extent_forget_verified(struct extent *extent);
/* Gives the disk space of a dropped extent back. Readers that still use lent bytes then fail. */
void extent_empty_file(struct extent *extent);
/* Returns false while readers still use lent bytes. */
bool extent_unlock(struct extent *extent) MUST_USE;
/* The bytes that extent_lock would lock now: all that an open extent may get. */
uint64_t extent_lock_bytes(const struct extent *extent);

/* ---- maps.c ---- */

uint64_t extent_mapped_allowed(uint64_t memory_bytes);
/* Takes the map from the extent, and the extent out of the clock. Returns NULL if there is no map.
 * To be called under the lock. The caller must unmap it. */
uint8_t *extent_take_map(struct extent *extent) MUST_USE;
/* Returns the map of the extent, which is made if necessary, or NULL if it can't be mapped. */
const uint8_t *extent_map(struct extent *extent);
void extent_unmap(struct extents *all, uint8_t *map, uint64_t bytes);    /* accepts NULL */

#endif
