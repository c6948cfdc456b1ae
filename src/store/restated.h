/* restated.h - buckets of which heads on disk may say what is not so any more.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A call on a bucket may change what its origin says of the objects in it (a lifecycle rule), or the
 * objects themselves. The process that made the call knows when each head was last confirmed, and
 * asks again; the next process does not. So the folder's file `restated` keeps, for each such bucket,
 * the highest extent there was: a head in one up to it counts as restated until the origin has told
 * a HEAD or a GET of this process what it says now. Nothing is appended to an old extent, so one
 * number tells. Where the file can't be read, or more went by than the folder saw, it is all buckets.
 * Any thread. */
#ifndef STORE_RESTATED_H
#define STORE_RESTATED_H

#include "store/extent.h"
#include "store/folder.h"

struct restated;
struct restated *restated_new(void) MUST_USE;
void restated_free(struct restated **restated);
/* The folder has been opened: before anything is read from it. */
enum err restated_open(struct restated *restated, const struct folder *folder) MUST_USE;
/* bucket: the id of the name that has endpoint and bucket alone. OK once it is on disk. */
enum err restated_add(struct restated *restated, const struct folder *folder,
                      const struct object_id *bucket) MUST_USE;
bool restated_has(struct restated *restated, const struct object_id *bucket,
                  uint32_t extent) MUST_USE;
/* The same, of a head that lies there. */
bool restated_is(struct restated *restated, const uint8_t secret[STORE_SECRET_BYTES],
                 const struct head *head, uint32_t extent) MUST_USE;

#endif
