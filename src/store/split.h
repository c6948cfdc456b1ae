/* split.h - removals and appends that concern several volumes, each answered once.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SPLIT_H
#define STORE_SPLIT_H

#include "store/inside.h"

/* Hands each id of the removal to the volume that has its metadata. */
void split_removal(struct store *store, struct store_removal *removal);
/* Hands the removal to all volumes, each of which may have objects of the bucket. */
void split_restate(struct store *store, struct store_removal *removal);
/* Hands the metadata of an append to the volume `home`, and the bytes to the volume `of_bytes`. The
 * errors are those of store_append. If it fails, the bytes may be stored all the same. Without the
 * metadata, no request finds them. */
enum err split_append(struct volume *home, struct volume *of_bytes,
                      struct store_append *append) MUST_USE;

#endif
