/* room.h - room for appends. SPDX-License-Identifier: Apache-2.0
 *
 * Committer only. */
#ifndef STORE_ROOM_H
#define STORE_ROOM_H

#include "store/volume_inside.h"

/* To be called when the log is full. Returns OK if there is another log; ERR_FULL if the recycler
 * must make room first, ERR_IO. */
enum err room_next_extent(struct volume *volume) MUST_USE;
/* To be called when neither the log nor a ready copy has room for the next append. Seals the log,
 * so that it may be recycled. A ready copy takes its place. */
void room_seal_log(struct volume *volume);
/* Notes how many bytes the log can take, for the next admissions. */
void room_note(struct volume *volume);
/* Finds the bytes that each of the next extents of the log can take, from the present one on.
 * Returns the number of these extents. */
#define ROOM_PLACES 8u
size_t room_places(const struct volume *volume, uint64_t ret[ROOM_PLACES]);
/* The bytes that the records of an append take in the log, at most, with their rows in the table of
 * contents. 0 if all of it goes to the staging extent. */
uint64_t room_of_append(const struct store_append *append);

/* Returns how many more files may be begun for new records when the open extents are full. */
uint64_t room_free_extents(const struct volume *volume);
/* Evicts an extent with all its records. Its entries are deleted first, in transactions beside the
 * commits. Returns OK; ERR_FULL if it must stay, because it has the highest number or can't be read
 * now; or an error of the index. */
enum err room_evict(struct volume *volume, uint32_t number, enum event_why why) MUST_USE;
/* Begins a log, if none is open, although the size may have no room for it: its file takes one page
 * until records come. */
void room_begin_log(struct volume *volume);
/* Evicts the oldest extent with all its records: for a full disk, which has no room for copies.
 * Returns OK, or ERR_FULL if no extent may go. */
enum err room_recycle(struct volume *volume) MUST_USE;
/* Commits the removals that a transaction without room has left behind, without other changes.
 * Evicts extents if even this finds no room. Returns OK if none is left: otherwise the folder must
 * go out of service, because it could still serve what was removed. */
enum err room_commit_removals(struct volume *volume) MUST_USE;
/* True if the extents have more bytes than they may: the size was lowered, or other files take the
 * reserve. */
bool room_is_exceeded(struct volume *volume);
/* Evicts extents then. Ends after a moment, so that a commit need not wait. */
enum err room_shrink(struct volume *volume) MUST_USE;

#endif
