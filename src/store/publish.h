/* publish.h - changes of the index: by records, removals, recycled extents.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All run inside a write transaction of the committer. The metadata of an object has one entry: at
 * (id, 0) for a WHOLE record, or at (id, METADATA_UNIT); never both. */
#ifndef STORE_PUBLISH_H
#define STORE_PUBLISH_H

#include "store/index.h"

/* All changes for a committed record. refused: the shared identity was refused its metadata. */
enum err publish_record(struct index *index, const struct record *record, uint32_t offset,
                        uint32_t generation, bool refused) MUST_USE;
/* The same for a record that a scan found, and that perhaps never was committed: adds only entries
 * that the index lacks. Refusals are not known any more, so its metadata counts as refused. */
enum err publish_found(struct index *index, const struct record *record, uint32_t offset,
                       uint32_t generation) MUST_USE;
enum err publish_removal(struct index *index, const struct object_id *id) MUST_USE;
/* The shared identity was refused the object: marks its metadata, if there is any. */
enum err publish_refusal(struct index *index, const struct object_id *id) MUST_USE;
/* An entry of the index, and the record that it named when it was looked up. */
struct named_entry {
    struct object_id id;
    uint32_t unit, extent, ordinal;
};
/* Three changes of an entry, made only if it still names that record. forget: deletes it. proof:
 * the origin has confirmed it. granted: the shared identity was granted it after a refusal. */
enum err publish_forget(struct index *index, const struct named_entry *named) MUST_USE;
/* Unproved metadata counts as refused. When it is proved, it stays refused unless it was `granted`
 * to the shared identity: an answer to another identity proves metadata, too. */
enum err publish_proof(struct index *index, const struct named_entry *named, uint32_t generation,
                       bool granted) MUST_USE;
enum err publish_granted(struct index *index, const struct named_entry *named) MUST_USE;
/* Deletes the entries that still name this record of an extent that is recycled. */
enum err publish_recycled(struct index *index, const struct toc_entry *entry, uint32_t extent,
                          uint32_t ordinal) MUST_USE;

#endif
