/* extent.h - append-only files of records. SPDX-License-Identifier: Apache-2.0
 *
 * struct extents is the table of all extents. Bytes are read only under a reference (rule H1 in
 * src/README.md). The number of an extent is never used again. Threads: any thread may hold and
 * release an extent, use its times, and call the functions that say so. All other functions are for
 * the committer. */
#ifndef STORE_EXTENT_H
#define STORE_EXTENT_H

#include "store/ages.h"
#include "store/format_files.h"
#include "store/toc.h"

struct extent;
struct extents;

/* At most memory_bytes of all extents are mapped at a time. */
struct extents *extents_new(uint64_t memory_bytes) MUST_USE;
void extents_free(struct extents **all);

/* Takes a reference for reading. Returns OK; ERR_NOT_FOUND if no extent has this number, or its
 * file can't be opened; ERR_LIMIT if no file descriptor is free now (the extent may be good). After
 * an error *ret is NULL. */
enum err extent_hold(struct extents *all, uint32_t number, struct extent **ret) MUST_USE;
/* As extent_hold, to read one record. ERR_NOT_FOUND, too, if the extent's table has no such record:
 * then the index has a record that no table has, and so no sweep can find it. A power cut may cause
 * that, if it loses the header of a record before this one. */
enum err extent_hold_record(struct extents *all, uint32_t number, uint32_t ordinal,
                            struct extent **ret) MUST_USE;
/* The number of rows in the table of a held extent, as its footer says; ROWS_UNKNOWN if it has
 * none. */
#define ROWS_UNKNOWN UINT32_MAX
uint32_t extent_rows(const struct extent *extent);
/* From now on the extent has at most so many rows. Records behind them are not served. */
void extent_limit_rows(struct extent *extent, uint32_t rows);
void extent_release(struct extent **extent);
int extent_fd(const struct extent *extent);
/* Returns a descriptor whose reads bypass the page cache. It is opened at the first call, and
 * closed together with extent_fd. Returns -1 if the file system refuses such reads, or if no
 * descriptor is free. */
int extent_direct_fd(struct extent *extent);
/* Returns these bytes in the extent's map, valid while the extent is held. Returns NULL if the page
 * cache does not have all of them now, or if they can't be mapped. A page that the kernel drops
 * later is read from the disk at its next use; if the disk fails, that use ends in SIGBUS
 * (trap_read). */
const uint8_t *extent_cached(struct extent *extent, uint64_t at, uint64_t len) MUST_USE;
void extent_refuse_direct(struct extents *all);    /* from now on extent_direct_fd returns -1 */
/* Reads all of these bytes, and waits for the disk. Returns false if they can't be read. */
bool extent_read(const struct extent *extent, void *to, size_t len, uint64_t offset) MUST_USE;
uint64_t extent_size(const struct extent *extent);
/* True if the file is no extent of this volume, or so damaged that it can't be held. False if the disk
 * failed when the file was looked at, because the file may be good. The size of an unusable file is
 * the disk space that it takes: a sparse file may seem larger than the disk. */
bool extent_is_unusable(const struct extent *extent);
/* True if the file has no record and gets none: it was sealed without one, or a crash came before its
 * first page. */
bool extent_is_empty(const struct extent *extent);
/* True if the extent has records that were fetched ahead of their readers (stage.h). Any thread. */
bool extent_is_staging(const struct extent *extent);
/* Notes that a record of a held extent was read. Cheap if the extent is no staging extent. */
void extent_note_read(struct extent *extent, uint32_t ordinal);
/* Returns how many records of a staging extent were read; UINT32_MAX if an earlier opening left the
 * extent behind. */
uint32_t extent_records_read(const struct extent *extent);

/* Two facts about the metadata in record `ordinal`, kept only in RAM: when the origin last
 * confirmed the metadata (ageing_s), and metadata->granted. 0: not known in this process. */
int64_t extent_time(struct extent *extent, uint32_t ordinal);
uint32_t extent_granted(struct extent *extent, uint32_t ordinal);
/* Returns false if there is no such extent. */
bool extent_time_set(struct extents *all, uint32_t number, uint32_t ordinal, int64_t when_s);
/* Raises the value, and returns it: the highest one of all calls. */
uint32_t extent_granted_raise(struct extents *all, uint32_t number, uint32_t ordinal,
                              uint32_t granted);

/* ---- lend.c: bytes that stay in memory. Any thread, for a held extent ---- */

void extent_count_read(struct extent *extent, uint32_t bytes);
void extent_note_append(struct extent *extent);
/* Lends the map of the extent, until extent_lend_end. A page that was touched under a lease stays in
 * memory. Returns NULL if the extent is not locked. */
const uint8_t *extent_lend(struct extent *extent) MUST_USE;
void extent_lend_end(struct extent *extent);
/* For a lent map: true if the block that begins at this offset was verified there, with this
 * checksum. */
bool extent_is_verified(const struct extent *extent, uint64_t at, uint32_t crc) MUST_USE;
/* The same for any checksum. */
bool extent_was_verified(const struct extent *extent, uint64_t at) MUST_USE;
void extent_set_verified(struct extent *extent, uint64_t at, uint32_t crc);
/* Likewise for all blocks of a plan whose first one begins at this offset. `mark` stands for all that
 * their index entries say. */
bool extent_plan_is_verified(const struct extent *extent, uint64_t at, uint32_t mark) MUST_USE;
void extent_set_plan_verified(struct extent *extent, uint64_t at, uint32_t mark);
/* For a lent map: true if all of these bytes are known to have been touched. */
bool extent_is_resident(const struct extent *extent, uint64_t at, uint64_t len) MUST_USE;
void extent_set_resident(struct extent *extent, uint64_t at, uint64_t len);

/* ---- for the committer only, unless a comment says "any thread" ---- */

/* Finds the extents in the folder `extents` of the cache folder, whose descriptor is `folder`. It is
 * made if it is missing. Reads records only of
 * unsealed extents. An extent that has no right footer or head page of this volume is counted, but
 * can't be held. */
enum err extents_open(struct extents *all, int folder,
                      const struct format *format) MUST_USE;
/* A file with this number or a higher one that can't be used is foreign, unless own extents have come
 * as far. It does not count for the number of the next extent. */
#define EXTENT_NUMBER_FAR 0xE0000000u
/* Reads the number in the name of an extent's file. Returns false for the name of another file. */
bool extent_number_of(const char *name, uint32_t *ret) MUST_USE;
void extents_close(struct extents *all);    /* readers keep the extents that they hold */
/* Bytes on disk, including those of recycled extents that are still held. Any thread. */
uint64_t extents_bytes(const struct extents *all);
/* Bytes of dropped extents alone, which readers still hold. Any thread. */
uint64_t extents_held_bytes(const struct extents *all);
/* Bytes of the extents in the table alone. Any thread. */
uint64_t extents_linked_bytes(struct extents *all);
/* Bytes of data that the index names, of all extents in the table. Any thread. */
uint64_t extents_live_bytes(struct extents *all);
/* Bytes that were appended since the process began. Any thread. */
uint64_t extents_appended(const struct extents *all);
uint32_t extents_count(const struct extents *all);    /* any thread */
/* The number of files that are not in the table. Such a file could not be opened when the folder
 * was opened, or could not be unlinked later. The index may name the records of such files, now or
 * after the next opening, but nobody can read their tables of contents. Any thread. */
uint32_t extents_unopened(const struct extents *all);
/* The number of extents whose table of contents was found damaged or unreadable since the process
 * began. Sets *ret_last to the latest of them. Any thread. */
uint32_t extents_damaged(const struct extents *all, uint32_t *ret_last);
/* The number of unusable files (extent_is_unusable). Any thread. */
uint32_t extents_unusable(const struct extents *all);
/* True if the file with this number is unusable. Any thread. */
bool extents_is_unusable(struct extents *all, uint32_t number);
uint32_t extents_staging(const struct extents *all);    /* the number of staging extents; any thread */
uint64_t extents_staging_bytes(const struct extents *all);    /* any thread */
/* As extents_numbers, but finds the staging extents alone. */
size_t extents_staging_numbers(struct extents *all, struct arena *keep, uint32_t **ret);
/* True if the extent with this number is a staging extent. Any thread. */
bool extents_is_staging(struct extents *all, uint32_t number);
/* The highest number that a file in the folder has, or had; 0: there was none. The numbers of foreign
 * files far above all extents do not count. Any thread. */
uint32_t extents_highest(const struct extents *all);
/* Notes that a lost file had this number, so that no other extent gets it. For the opening. */
void extents_raise_highest(struct extents *all, uint32_t number);
/* The number of the process's file descriptors that extents may use. Any thread. */
uint32_t extent_fds_allowed(void);

/* Calls `each` for every record, in order, with the whole header of the record. A record that fails
 * its check is skipped; in an unsealed extent all records after it are skipped, too. Stops at the
 * first error that `each` returns. */
typedef enum err extent_visit(void *arg, const struct record *record, uint32_t offset);
enum err extent_each_record(struct extents *all, uint32_t number, extent_visit *each,
                            void *arg) MUST_USE;
/* Calls `visit` for every row of the extent's table of contents, in order, with the name of the
 * object for WHOLE and HEAD. Of the open extent, these are the records that are written. In an
 * extent of format version 1, names are empty and bucket hashes 0. Reads the whole table first;
 * waits for the disk. Stops at the first error that `visit` returns. Returns ERR_IO if the disk failed,
 * so that rows may be missing. Any thread. */
typedef enum err extent_row_visit(void *arg, const struct toc_row *row);
enum err extent_each_row(struct extents *all, uint32_t number, extent_row_visit *visit,
                         void *arg) MUST_USE;
/* Reads the footer of a sealed extent: its kind and its totals at sealing. Returns ERR_GONE if the
 * extent is not sealed. Any thread. */
enum err extent_footer(struct extents *all, uint32_t number, struct toc_footer *ret) MUST_USE;
/* Reads the table of contents with its names, into *ret, which the caller frees. The table of
 * an open extent has the records that are written. Any thread; waits for the disk. */
enum err extent_table(struct extents *all, uint32_t number, struct toc *ret) MUST_USE;
/* Finds the table of contents of an extent that is not open, in keep. It comes from the file, or,
 * if the file has none, from the record headers. Any thread. */
enum err extent_contents(struct extents *all, uint32_t number, struct arena *keep,
                         struct toc_entry **ret, uint32_t *ret_count) MUST_USE;
bool extent_is_there(struct extents *all, uint32_t number);    /* any thread */
/* Returns how the extent was recognized when the folder was opened: OK; ERR_GONE if it has no right
 * footer or head page of this volume; ERR_IO if the disk failed, so that it may be good;
 * ERR_NOT_FOUND if there is none. Any thread. */
enum err extent_state(struct extents *all, uint32_t number) MUST_USE;
/* True if another program has removed the file of the extent. False if that can't be found out. Any
 * thread; waits for the disk. */
bool extent_is_lost(struct extents *all, uint32_t number) MUST_USE;
/* Returns the ages of an extent's records, valid until the extent is dropped; NULL if there is no
 * such extent. Committer only: another thread takes a reference with extent_ref, and calls
 * extent_ages_of. */
struct ages *extent_ages(struct extents *all, uint32_t number);
/* Committer only, or while no other thread uses the table. */
bool extent_is_sealed(struct extents *all, uint32_t number);
/* Takes a reference that does not open the file. Returns NULL if there is no such extent. Any
 * thread. */
struct extent *extent_ref(struct extents *all, uint32_t number) MUST_USE;
/* For a held extent; any thread. */
struct ages *extent_ages_of(const struct extent *extent);
void extent_touch(const struct extent *extent, uint32_t ordinal, uint8_t stamp);
/* Finds the numbers of all extents, in ascending order, including the open ones; in keep. Any
 * thread. */
size_t extents_numbers(struct extents *all, struct arena *keep, uint32_t **ret);
/* Writes the table of contents of an extent that an earlier process left without one. Returns ERR_IO,
 * and writes nothing, if the disk does not give all record headers. */
enum err extent_seal_old(struct extents *all, uint32_t number) MUST_USE;
/* Takes an extent out of the table and unlinks its file. Readers that hold it can still read it. A
 * file that can't be unlinked counts in extents_unopened. The caller looks first that the extent
 * has not the highest number: an opening would use that number again. (If the highest number is
 * given back after the look, a later record may get the place of one that an entry still names. The
 * reader finds the wrong id in it, and that is a miss.) */
void extent_drop(struct extents *all, uint32_t number);

/* ---- open extents: records are gathered, then written as one append ----
 *
 * The log and the staging extent are for the committer, the copy for the recycler. */

enum open_which { OPEN_LOG, OPEN_COPY, OPEN_STAGING, OPEN_COUNT };

struct append_item {
    struct record record;             /* open_extent_add sets the members extent and ordinal */
    uint64_t bucket;                  /* its hash */
    uint16_t tally;
    slice name;                       /* of its object; not set for the copy */
    bool pinned;                      /* set by account_appended: the name is pinned (pinned.h) */
    slice metadata_block, bytes;      /* must stay until open_extent_write */
    uint32_t offset;                  /* set by open_extent_add */
};
/* Makes a file with the next number. None may be open. Returns OK, ERR_FULL, ERR_IO, or ERR_LIMIT
 * if no file descriptor is free now. */
enum err open_extent_begin(struct extents *all, enum open_which which) MUST_USE;
/* Returns OK, or ERR_FULL if this append or this extent has no room. The caller must then call
 * open_extent_write, begin another extent, and add the item again. */
enum err open_extent_add(struct extents *all, enum open_which which,
                         struct append_item *item) MUST_USE;
/* Writes the gathered records. After a failure none of them may be committed, and the extent takes
 * no more records. */
enum err open_extent_write(struct extents *all, enum open_which which) MUST_USE;
/* Seals the open extent, if there is one. A file that another program has truncated is not written
 * to any more: the extent then has no table of contents. */
enum err open_extent_seal(struct extents *all, enum open_which which) MUST_USE;
/* Seals the log and begins another one. */
enum err open_extent_roll(struct extents *all) MUST_USE;
/* Seals the log; from now on the copy is the log. No thread may be writing to the copy. */
void open_extent_adopt(struct extents *all);
/* Returns the bytes that are left for records and their rows; 0 if no extent is open. */
uint64_t open_extent_left(struct extents *all, enum open_which which);
/* True if this extent is open. Any thread. */
bool extent_is_open(struct extents *all, uint32_t number);
bool open_extent_is_open(struct extents *all, enum open_which which);    /* any thread */
/* Finds the open extents and the ordinals that their next records get. Sets the first OPEN_COUNT
 * places; 0: not open. No thread may be adding records. */
void open_extents_ends(struct extents *all, struct ban_end *ret);

#endif
