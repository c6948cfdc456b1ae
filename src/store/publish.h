/* publish.h - what a record, a removal or a recycled extent does to the index.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All inside a write transaction of the committer's. An object has a head in one of two places,
 * (id, 0) WHOLE or (id, HEAD_UNIT), never in both. */
#ifndef STORE_PUBLISH_H
#define STORE_PUBLISH_H

#include "store/index.h"

/* Everything a committed record changes. refused: its head has been, to the shared identity. */
enum err publish_record(struct index *index, const struct record *record, uint32_t offset,
                        uint32_t generation, bool refused) MUST_USE;
/* The same for a record found on disk that perhaps never was committed: adds only what the index
 * lacks. Who was refused what, nobody knows any more: its head counts as refused. */
enum err publish_found(struct index *index, const struct record *record, uint32_t offset,
                       uint32_t generation) MUST_USE;
enum err publish_removal(struct index *index, const struct object_id *id) MUST_USE;
/* Its head, if there is one, has been refused to the shared identity. */
enum err publish_refusal(struct index *index, const struct object_id *id) MUST_USE;
/* Deletes the entry, or says that it is vouched for, or that the shared identity has been shown it
 * since it was refused, if it still names this record. */
enum err publish_forget(struct index *index, const struct object_id *id, uint32_t unit,
                        uint32_t extent, uint32_t ordinal) MUST_USE;
/* An unproved head counts as refused; proved, it stays so unless it was `shown` to the shared
 * identity: others prove heads, too. */
enum err publish_proof(struct index *index, const struct object_id *id, uint32_t unit,
                       uint32_t extent, uint32_t ordinal, uint32_t generation, bool shown) MUST_USE;
enum err publish_shown(struct index *index, const struct object_id *id, uint32_t unit,
                       uint32_t extent, uint32_t ordinal) MUST_USE;
/* Deletes what still names this record of an extent that goes. */
enum err publish_recycled(struct index *index, const struct toc_entry *entry, uint32_t extent,
                          uint32_t ordinal) MUST_USE;

#endif
