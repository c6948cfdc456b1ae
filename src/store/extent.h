/* extent.h - append-only files of records. SPDX-License-Identifier: Apache-2.0
 *
 * struct extents is the table of them all. Bytes are read only under a reference (H1); a number is
 * never used twice. Holding, releasing, times, and what says so: any thread. Everything else: the
 * committer's. */
#ifndef STORE_EXTENT_H
#define STORE_EXTENT_H

#include "base/arena.h"
#include "store/format.h"
#include "store/policy.h"

struct extent;
struct extents;

/* memory_bytes: no more of them is mapped at once. */
struct extents *extents_new(uint64_t memory_bytes) MUST_USE;
void extents_free(struct extents **all);

/* To read it. ERR_NOT_FOUND: there is none of this number, or its file can't be opened; ERR_LIMIT:
 * no descriptor for it just now, which says nothing about it. Sets *ret to NULL then. */
enum err extent_hold(struct extents *all, uint32_t number, struct extent **ret) MUST_USE;
void extent_release(struct extent **extent);
int extent_fd(const struct extent *extent);
/* One that reads past the page cache, opened when it is first wanted, open as long as the other; -1:
 * there is none, as the file system refuses that or descriptors have run out. */
int extent_direct_fd(struct extent *extent);
/* These bytes of one that is held, where the page cache has them all just now, to be looked at while
 * it is held; NULL: it has not, or they can't be mapped. A page that has gone since is waited for,
 * and fails as the disk does, by SIGBUS (trap_read). */
const uint8_t *extent_cached(struct extent *extent, uint64_t at, uint64_t len) MUST_USE;
void extent_refuse_direct(struct extents *all);    /* from now on there is none, in any extent */
/* All of these bytes, waiting for the disk: the committer's. false: they can't be had. */
bool extent_read(const struct extent *extent, void *to, size_t len, uint64_t offset) MUST_USE;
uint64_t extent_size(const struct extent *extent);

/* What is known of the head in record `ordinal`, in RAM, lost at the end (then 0): when it was last
 * vouched for (wall clock, by whole seconds), and head->shown. */
int64_t extent_time(struct extent *extent, uint32_t ordinal);
uint32_t extent_shown(struct extent *extent, uint32_t ordinal);
/* false: there is no such extent. */
bool extent_time_set(struct extents *all, uint32_t number, uint32_t ordinal, int64_t when_s);
/* What is there from now on: the highest that came. */
uint32_t extent_shown_raise(struct extents *all, uint32_t number, uint32_t ordinal, uint32_t shown);

/* ---- the committer's ---- */

/* Finds what lies in `folder`/extents (made if it is not there). No record is read but those of
 * unsealed extents. */
enum err extents_open(struct extents *all, const char *folder, uint32_t extent_bytes) MUST_USE;
/* The number in a file name that is an extent's. */
bool extent_number_of(const char *name, uint32_t *ret) MUST_USE;
void extents_close(struct extents *all);    /* readers keep what they hold */
/* Bytes on disk, those of recycled extents that are still held included. Any thread. */
uint64_t extents_bytes(const struct extents *all);
uint32_t extents_count(const struct extents *all);    /* any thread */
/* The highest number that a file in the folder has, or had; 0 with none. Any thread. */
uint32_t extents_highest(const struct extents *all);
uint32_t extent_fds_allowed(void);    /* the share of this process's descriptors; any thread */
/* Of all but the newest, oldest first; in keep. */
size_t extents_list(struct extents *all, struct arena *keep, struct policy_extent **ret);

/* Calls `each` for every record, in order, with its whole header; a record that fails is left out,
 * in an unsealed extent with all that follow. Stops at the first error `each` returns. */
typedef enum err extent_visit(void *arg, const struct record *record, uint32_t offset);
enum err extent_each_record(struct extents *all, uint32_t number, extent_visit *each,
                            void *arg) MUST_USE;
/* Its table of contents, from the file or, where it has none, from the record headers; in keep. */
enum err extent_contents(struct extents *all, uint32_t number, struct arena *keep,
                         struct toc_entry **ret, uint32_t *ret_count) MUST_USE;
bool extent_is_there(struct extents *all, uint32_t number);
bool extent_is_sealed(struct extents *all, uint32_t number);
/* Every number, ascending, the newest included; in keep. */
size_t extents_numbers(struct extents *all, struct arena *keep, uint32_t **ret);
/* Writes the table of contents of an extent that an earlier life left without. */
enum err extent_seal_old(struct extents *all, uint32_t number) MUST_USE;
/* Out of the table, and unlinked; whoever holds it reads on. Never the newest. */
void extent_drop(struct extents *all, uint32_t number);

/* ---- the log: records gathered, then written as one append ---- */

struct tail_item {
    struct record record;             /* extent, ordinal: set by tail_add */
    slice head_block, bytes;          /* stay until tail_write */
    uint32_t offset;                  /* set by tail_add */
};
/* ERR_FULL: not in this append or this extent; write what is gathered, tail_roll, add it again. */
enum err tail_add(struct extents *all, struct tail_item *item) MUST_USE;
/* Writes what was gathered. On failure the extent takes no more; none of it may be committed. */
enum err tail_write(struct extents *all) MUST_USE;
/* Seals the newest extent and starts another. ERR_FULL; ERR_LIMIT: no descriptor for it just now;
 * ERR_IO. */
enum err tail_roll(struct extents *all) MUST_USE;
/* Seals the newest, if it holds anything, for a clean stop. */
enum err tail_seal(struct extents *all) MUST_USE;

#endif
