/* forget.h - removes stored metadata that the origin has contradicted.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Both functions look in the index, and leave the rest to the committer. Any thread. */
#ifndef CACHE_FORGET_H
#define CACHE_FORGET_H

#include "cache/epoch.h"
#include "store/store.h"

/* Removes the metadata of an object. */
void forget_object(struct store *store, const struct object_id *id);

/* To be called if the newest version of an object is not stored. Removes the metadata of another
 * version: later readers would get that version again. */
void forget_other_version(struct store *store, const struct metadata *newest);

/* To be called if the fill's record is not published. After ERR_CHANGED, or if the fill may no
 * longer be published, nothing is removed: a write or a newer answer came, or a purge. */
void forget_after_fill(struct store *store, const struct epoch_fill *fill, enum err err);

#endif
