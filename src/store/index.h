/* index.h - the index: (object, unit) -> entry. SPDX-License-Identifier: Apache-2.0
 *
 * This interface hides LMDB from its callers. A struct index lives as long as the store, and may be
 * opened and closed many times. Any thread may read: entries are copied out, and the transaction
 * ends before the call returns (rule H3 in src/README.md). Only the committer opens, closes and
 * writes. Any function may return ERR_IO: the index is not open, or it failed; see index_is_bad. */
#ifndef STORE_INDEX_H
#define STORE_INDEX_H

#include "store/format.h"
#include "store/index_memo.h"
#include "store/metas.h"

struct index;
struct index *index_new(void) MUST_USE;
void index_free(struct index **index);

/* `path` is a folder, which is made if it is missing. */
enum err index_open(struct index *index, const char *path, uint64_t map_bytes) MUST_USE;
/* Opens an index that is there, and changes nothing on disk; all calls that write fail. No process
 * may have it open to write. */
enum err index_open_to_read(struct index *index, const char *path) MUST_USE;
/* Waits for readers on other threads. */
void index_close(struct index *index);
/* A file with this name in the folder of the index: the last process that used it died of a fault
 * or abort(), perhaps because the index is damaged. */
#define INDEX_SUSPECT "suspect"
/* True if the entries can't be trusted: there was a fault in the map, a broken page, or an entry
 * that failed its checksum. The caller must set the index aside and build another. */
bool index_is_bad(const struct index *index);
/* Returns how many entries failed their checksum since the index was made. Any thread. */
uint64_t index_damaged(const struct index *index);

/* Finds the entry of the metadata: that of the WHOLE record (unit 0), or that of a metadata record
 * (METADATA_UNIT). */
enum err index_get_metadata(struct index *index, const struct object_id *id, uint32_t *ret_unit,
                            struct entry *ret) MUST_USE;
/* Finds the entries of consecutive units from `first` on, at most `count`. A WHOLE entry stands for
 * the whole object, and comes alone. Returns the number of entries. */
uint32_t index_get_run(struct index *index, const struct object_id *id, uint32_t first,
                       uint32_t count, struct entry *ret);

/* As index_get_run, but a WHOLE entry that was found is kept in the memo, which is of this object.
 * It comes from there as long as no transaction has changed the object's entries. */
uint32_t index_recall_run(struct index *index, const struct object_id *id, uint32_t first,
                          uint32_t count, struct entry *ret, struct index_memo *memo);

/* Finds the first entry of this object at or after `unit`. */
enum err index_get_next(struct index *index, const struct object_id *id, uint32_t unit,
                        uint32_t *ret_unit, struct entry *ret) MUST_USE;

/* Copies the entries of all objects from this key on, in the order of keys; at most `max`. Returns
 * OK with at least one entry, or ERR_NOT_FOUND after the last one. */
struct index_row {
    struct object_id id;
    uint32_t unit;
    struct entry entry;
};
enum err index_get_rows(struct index *index, const struct object_id *id, uint32_t unit,
                        uint32_t max, struct index_row *ret, uint32_t *ret_count) MUST_USE;
/* Does the same as index_opening, without a write transaction. */
enum err index_get_opening(struct index *index, uint64_t *ret) MUST_USE;

/* Reads the meta pages as the latest commit left them. Returns false if they have changed since, or
 * if that is not known. Committer only. */
bool index_metas(struct index *index, struct metas *ret) MUST_USE;

/* The size of the index after the latest commit. All members are 0 if it can't be read. */
struct index_size {
    uint64_t entries, bytes;
};
struct index_size index_size(struct index *index);
/* Frees the reader slots of killed processes. To be called each minute. */
void index_check_readers(struct index *index);

/* Begins the write transaction; there is only one at a time. After any error except ERR_NOT_FOUND
 * the caller must call index_abort. */
enum err index_begin(struct index *index) MUST_USE;
enum err index_find(struct index *index, const struct object_id *id, uint32_t unit,
                    struct entry *ret) MUST_USE;
/* Finds the first entry of the object at or after `unit`. */
enum err index_find_next(struct index *index, const struct object_id *id, uint32_t unit,
                         uint32_t *ret_unit, struct entry *ret) MUST_USE;
/* Finds the first entry of any object at or after this key. */
enum err index_find_from(struct index *index, const struct object_id *id, uint32_t unit,
                         struct object_id *ret_id, uint32_t *ret_unit,
                         struct entry *ret) MUST_USE;
enum err index_put(struct index *index, const struct object_id *id, uint32_t unit,
                   const struct entry *entry) MUST_USE;
enum err index_delete(struct index *index, const struct object_id *id, uint32_t unit) MUST_USE;
/* Reads the number of the opening of the folder that this index belongs to; 0: the index is new. */
enum err index_opening(struct index *index, uint64_t *ret) MUST_USE;
enum err index_set_opening(struct index *index, uint64_t opening) MUST_USE;
/* Returns the highest number of an extent that an entry may name, as the latest commit left it. No
 * later extent may have a number up to this one, even if the file is lost. 0: the index does not
 * know it, because it is new, or an earlier build wrote it. Any thread. */
uint32_t index_highest(const struct index *index);
/* Notes that entries may name extents up to this number. index_put does so by itself. */
enum err index_raise_highest(struct index *index, uint32_t extent) MUST_USE;
/* Says whether the next changes of this transaction evict records. At first they do not. */
void index_set_evicting(struct index *index, bool evicting);
/* An entry that a transaction put, replaced or deleted, by the record that it names. */
struct index_change {
    uint32_t extent, ordinal, len;    /* as in struct entry */
    bool added;                       /* true: the entry names the record from now on */
    bool metadata, data;              /* it is an entry of metadata, of bytes, or of both (WHOLE) */
    bool evicted;                     /* see index_set_evicting */
};
/* Returns the changes of the latest transaction, in order. They count only if index_commit returned
 * OK. Valid until the next index_begin. */
size_t index_changes(const struct index *index, const struct index_change **ret);
/* Returns OK, ERR_LIMIT if the map of the index is full, or ERR_FULL if the disk is full. */
enum err index_commit(struct index *index) MUST_USE;
void index_abort(struct index *index);

#endif
