/* unlisted.h - entries of the index that name records which no table of contents lists.
 * SPDX-License-Identifier: Apache-2.0
 *
 * If the table of an extent is damaged, the headers of the records tell the rows, up to the first
 * header that is damaged, too (contents.c). The index may name records behind it, and readers find
 * these by the index. But the recycler can't copy them, and a sweep does not know whether they are
 * purged. So that both come to an end, the entries of such records are deleted. */
#ifndef STORE_UNLISTED_H
#define STORE_UNLISTED_H

#include "store/volume_inside.h"

/* Returns false if the caller must stop. */
typedef bool unlisted_goes_on(void *arg);

/* Deletes each entry of the index that names a record of this extent with the ordinal `from` or a
 * higher one. Reads the whole index, which takes seconds if it has millions of entries, and asks
 * `goes_on` now and then. Returns OK, ERR_STOPPING, or the error of the index. Any thread but the
 * committer. */
enum err unlisted_forget(struct volume *volume, uint32_t extent, uint32_t from,
                         unlisted_goes_on *goes_on, void *arg) MUST_USE;

#endif
