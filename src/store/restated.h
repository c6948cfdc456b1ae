/* restated.h - buckets whose metadata on disk may be wrong. SPDX-License-Identifier: Apache-2.0
 *
 * A call on a bucket may change the metadata of its objects (a lifecycle rule does), or the objects
 * themselves. The process that made the call revalidates each object: it knows when the metadata
 * was last confirmed. The next process does not know. So the folder's file `restated` keeps, for
 * each such bucket, the highest extent number at that time. Metadata in an extent up to it is
 * restated until this process has an answer to a HEAD or a GET of the object. One number is enough,
 * because nothing is appended to an old extent. If the file can't be read, or such a call came
 * while the folder was out of service, all buckets are restated. Any thread. */
#ifndef STORE_RESTATED_H
#define STORE_RESTATED_H

#include "store/folder.h"

struct restated;
struct restated *restated_new(void) MUST_USE;
void restated_free(struct restated **restated);
/* To be called when the folder has been opened, before any read of metadata. */
enum err restated_open(struct restated *restated, const struct folder *folder) MUST_USE;
/* Returns OK, ERR_NOT_FOUND, ERR_GONE or ERR_IO, as folder_read_rows does for the file. */
enum err restated_look(int folder) MUST_USE;
/* `bucket` is the id of the name with endpoint and bucket alone. Returns OK when the row is on
 * disk. After an error, this process has the row, and the file lacks it. */
enum err restated_add(struct restated *restated, const struct folder *folder,
                      const struct object_id *bucket) MUST_USE;
/* Writes the rows that the file lacks. Returns OK if there are none. */
enum err restated_save(struct restated *restated, const struct folder *folder) MUST_USE;
bool restated_has(struct restated *restated, const struct object_id *bucket,
                  uint32_t extent) MUST_USE;
/* Returns true if metadata in this extent is restated, because its bucket is. */
bool restated_is(struct restated *restated, const uint8_t secret[STORE_SECRET_BYTES],
                 const struct metadata *metadata, uint32_t extent) MUST_USE;

#endif
