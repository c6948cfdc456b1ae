/* extent.h - append-only files of records. SPDX-License-Identifier: Apache-2.0
 *
 * struct extents is the table of all extents. Bytes are read only under a reference (H1). A number
 * is never used twice. Threads: holding, releasing and times on any thread, and functions that say
 * so; all others on the committer's. */
#ifndef STORE_EXTENT_H
#define STORE_EXTENT_H

#include "base/arena.h"
#include "store/format.h"

struct extent;
struct extents;

/* memory_bytes: the most bytes of extents that are mapped at once. */
struct extents *extents_new(uint64_t memory_bytes) MUST_USE;
void extents_free(struct extents **all);

/* A reference for reading. ERR_NOT_FOUND: no extent has this number, or its file can't be opened.
 * ERR_LIMIT: no descriptor is free now; the extent may be fine. *ret is then NULL. */
enum err extent_hold(struct extents *all, uint32_t number, struct extent **ret) MUST_USE;
void extent_release(struct extent **extent);
int extent_fd(const struct extent *extent);
/* A descriptor that reads past the page cache. It is opened at the first call, and closed with the
 * other. -1: the file system refuses such reads, or descriptors have run out. */
int extent_direct_fd(struct extent *extent);
/* These bytes in the extent's map, if the page cache has all of them now; valid while the extent is
 * held. NULL: it has not, or they can't be mapped. A page that is evicted later is read from the
 * disk at its next use; if the disk fails, that use ends in SIGBUS (trap_read). */
const uint8_t *extent_cached(struct extent *extent, uint64_t at, uint64_t len) MUST_USE;
void extent_refuse_direct(struct extents *all);    /* from now on extent_direct_fd returns -1 */
/* Reads all of these bytes, and waits for the disk. The committer's. False: they can't be read. */
bool extent_read(const struct extent *extent, void *to, size_t len, uint64_t offset) MUST_USE;
uint64_t extent_size(const struct extent *extent);

/* Two facts about the metadata in record `ordinal`, in RAM alone: when the origin last confirmed it
 * (wall clock, whole seconds), and metadata->granted. 0: not known in this process. */
int64_t extent_time(struct extent *extent, uint32_t ordinal);
uint32_t extent_granted(struct extent *extent, uint32_t ordinal);
/* False: there is no such extent. */
bool extent_time_set(struct extents *all, uint32_t number, uint32_t ordinal, int64_t when_s);
/* Returns the value from now on: the highest of all calls. */
uint32_t extent_granted_raise(struct extents *all, uint32_t number, uint32_t ordinal,
                              uint32_t granted);

/* ---- the committer's ---- */

/* Finds the extents in `folder`/extents, which is made if it is missing. Reads only records of
 * unsealed extents. */
enum err extents_open(struct extents *all, const char *folder, uint32_t extent_bytes) MUST_USE;
/* The number in the name of an extent's file. False: it is another file. */
bool extent_number_of(const char *name, uint32_t *ret) MUST_USE;
void extents_close(struct extents *all);    /* readers keep what they hold */
/* Bytes on disk, with those of recycled extents that are still held. Any thread. */
uint64_t extents_bytes(const struct extents *all);
uint32_t extents_count(const struct extents *all);    /* any thread */
/* The highest number that a file in the folder has, or had; 0: there was none. Any thread. */
uint32_t extents_highest(const struct extents *all);
uint32_t extent_fds_allowed(void);    /* extents' share of the process's descriptors; any thread */

/* Calls `each` for every record, in order, with its whole header. A record that fails its check is
 * left out; in an unsealed extent all records after it are, too. Stops at the first error that
 * `each` returns. */
typedef enum err extent_visit(void *arg, const struct record *record, uint32_t offset);
enum err extent_each_record(struct extents *all, uint32_t number, extent_visit *each,
                            void *arg) MUST_USE;
/* The extent's table of contents, in keep. It comes from the file, or from the record headers if
 * the file has none. */
enum err extent_contents(struct extents *all, uint32_t number, struct arena *keep,
                         struct toc_entry **ret, uint32_t *ret_count) MUST_USE;
bool extent_is_there(struct extents *all, uint32_t number);
bool extent_is_sealed(struct extents *all, uint32_t number);
/* The numbers of all extents, ascending, with the newest; in keep. */
size_t extents_numbers(struct extents *all, struct arena *keep, uint32_t **ret);
/* Writes the table of contents of an extent that an earlier process left without one. */
enum err extent_seal_old(struct extents *all, uint32_t number) MUST_USE;
/* Takes an extent out of the table and unlinks its file; its holders read on. Never the newest. */
void extent_drop(struct extents *all, uint32_t number);

/* ---- the open extent: records are gathered, then written as one append ---- */

struct append_item {
    struct record record;             /* extent, ordinal: set by open_extent_add */
    slice metadata_block, bytes;      /* stay until open_extent_write */
    uint32_t offset;                  /* set by open_extent_add */
};
/* ERR_FULL: this append or this extent has no room. Call open_extent_write, open_extent_roll, and
 * add the item again. */
enum err open_extent_add(struct extents *all, struct append_item *item) MUST_USE;
/* Writes the gathered records. On failure none of them may be committed, and the extent takes no
 * more. */
enum err open_extent_write(struct extents *all) MUST_USE;
/* Seals the newest extent and starts another. ERR_FULL; ERR_LIMIT: no descriptor is free now;
 * ERR_IO. */
enum err open_extent_roll(struct extents *all) MUST_USE;
/* Seals the newest extent, if it has records, for a clean stop. */
enum err open_extent_seal(struct extents *all) MUST_USE;

#endif
