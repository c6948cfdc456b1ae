/* publish.h - changes of the index: for records, removals, recycled extents.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All functions run inside a write transaction of the committer. The metadata of an object has one
 * entry: at (id, 0) for a WHOLE record, or at (id, METADATA_UNIT); never both. */
#ifndef STORE_PUBLISH_H
#define STORE_PUBLISH_H

#include "store/index.h"

/* Makes all changes for a record. `refused`: the origin refused the object to the shared
 * identity. */
enum err publish_record(struct index *index, const struct record *record, uint32_t offset,
                        uint32_t generation, bool refused) MUST_USE;
/* For a record that a scan found, and that perhaps never was committed: adds only entries that the
 * index lacks. Earlier refusals are not known any more, so the metadata counts as refused. */
enum err publish_found(struct index *index, const struct record *record, uint32_t offset,
                       uint32_t generation) MUST_USE;
enum err publish_removal(struct index *index, const struct object_id *id) MUST_USE;
/* Finds the entry of the object's metadata, or returns ERR_NOT_FOUND. */
enum err publish_find_metadata(struct index *index, const struct object_id *id, uint32_t *ret_unit,
                               struct entry *ret) MUST_USE;
/* Marks the object's metadata, if there is any, as refused to the shared identity. */
enum err publish_refusal(struct index *index, const struct object_id *id) MUST_USE;
/* An entry of the index, and the record that it named when it was looked up. */
struct named_entry {
    struct object_id id;
    uint32_t unit, extent, ordinal;
};
/* The next three change an entry only if it still names that record. publish_forget deletes the
 * entry. publish_proof notes that the origin has confirmed it. publish_granted notes that the
 * origin granted the object to the shared identity after a refusal. */
enum err publish_forget(struct index *index, const struct named_entry *named) MUST_USE;
/* Unproved metadata counts as refused. When it is proved, it stays refused unless it was `granted`
 * to the shared identity: an answer to another identity proves metadata, too. */
enum err publish_proof(struct index *index, const struct named_entry *named, uint32_t generation,
                       bool granted) MUST_USE;
enum err publish_granted(struct index *index, const struct named_entry *named) MUST_USE;
/* A record that the recycler has copied. publish_copied changes the entries that still name it in
 * its old extent: they name the copy from then on. The rest of an entry stays, but `refused` also
 * marks it as refused, and `doubted` makes it unproved. */
struct copied {
    struct record record;             /* header of the copy */
    uint32_t offset;
    uint32_t old_extent, old_ordinal;
    bool refused, doubted;
};
enum err publish_copied(struct index *index, const struct copied *copied,
                       uint32_t generation) MUST_USE;
/* Deletes the entries that still name this record of an extent that is recycled. */
enum err publish_recycled(struct index *index, const struct toc_entry *entry, uint32_t extent,
                          uint32_t ordinal) MUST_USE;

#endif
