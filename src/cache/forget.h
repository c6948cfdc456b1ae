/* forget.h - removes stored metadata that the origin has contradicted.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The functions look in the index, and leave the rest to the committer. Any thread. */
#ifndef CACHE_FORGET_H
#define CACHE_FORGET_H

#include "store/store.h"

/* Removes the metadata of an object. */
void forget_object(struct store *store, const struct object_id *id);

/* To be called if the origin has another version than this. Removes the metadata of this one. */
void forget_version(struct store *store, const struct metadata *older);

/* To be called if the newest version of an object is not stored. Removes the metadata of another
 * version: later readers would get that version again. */
void forget_other_version(struct store *store, const struct metadata *newest);

#endif
