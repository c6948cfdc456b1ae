/* index.h - the index: (object, unit) -> entry. SPDX-License-Identifier: Apache-2.0
 *
 * An interface to LMDB that does not show LMDB. A struct index lives as long as the store, and may
 * be opened and closed many times. Any thread may read: entries are copied out, and the transaction
 * ends before the call returns (H3). Opening, closing and writing are the committer's. ERR_IO: the
 * index is not open, or it failed; see index_is_bad. */
#ifndef STORE_INDEX_H
#define STORE_INDEX_H

#include "store/format.h"
#include "store/metas.h"

struct index;
struct index *index_new(void) MUST_USE;
void index_free(struct index **index);

/* `path` is a folder; it is made if it is missing. */
enum err index_open(struct index *index, const char *path, uint64_t map_bytes) MUST_USE;
/* Waits for readers on other threads. */
void index_close(struct index *index);
/* True if the last process that used the index died of a fault or abort(), perhaps because of
 * it. */
bool index_is_suspect(const char *path) MUST_USE;
#define INDEX_SUSPECT "suspect"       /* the file in its folder that tells so */
/* True if its entries can't be trusted: a fault in its map, a broken page, or an entry that failed
 * its checksum. Set it aside and build another. */
bool index_is_bad(const struct index *index);

/* The entry of the metadata: of the WHOLE record (unit 0), else of its own (METADATA_UNIT). */
enum err index_get_metadata(struct index *index, const struct object_id *id, uint32_t *ret_unit,
                            struct entry *ret) MUST_USE;
/* Entries of consecutive units from `first` on, at most `count`. A WHOLE entry stands for all of
 * its object, and comes alone. Returns the number of entries. */
uint32_t index_get_run(struct index *index, const struct object_id *id, uint32_t first,
                       uint32_t count, struct entry *ret);

/* The first entry of this object from unit `unit` on. */
enum err index_get_next(struct index *index, const struct object_id *id, uint32_t unit,
                        uint32_t *ret_unit, struct entry *ret) MUST_USE;

/* The meta pages as they were last committed. False: they have changed since, or that is not known.
 * The committer's. */
bool index_metas(struct index *index, struct metas *ret) MUST_USE;

/* Of what was last committed; all 0: it can't be read. */
struct index_size {
    uint64_t entries, bytes;
};
struct index_size index_size(struct index *index);
/* Frees the reader slots of killed processes. Called each minute. */
void index_check_readers(struct index *index);

/* One write transaction at a time. After any error but ERR_NOT_FOUND: index_abort. */
enum err index_begin(struct index *index) MUST_USE;
enum err index_find(struct index *index, const struct object_id *id, uint32_t unit,
                    struct entry *ret) MUST_USE;
/* The first entry of the object at or after `unit`. */
enum err index_find_next(struct index *index, const struct object_id *id, uint32_t unit,
                         uint32_t *ret_unit, struct entry *ret) MUST_USE;
enum err index_put(struct index *index, const struct object_id *id, uint32_t unit,
                   const struct entry *entry) MUST_USE;
enum err index_delete(struct index *index, const struct object_id *id, uint32_t unit) MUST_USE;
/* The opening of the folder that this index belongs to; 0: the index is new. */
enum err index_opening(struct index *index, uint64_t *ret) MUST_USE;
enum err index_set_opening(struct index *index, uint64_t opening) MUST_USE;
/* ERR_LIMIT: its map is full; ERR_FULL: the disk is. */
enum err index_commit(struct index *index) MUST_USE;
void index_abort(struct index *index);

#endif
