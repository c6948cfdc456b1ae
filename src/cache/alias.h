/* alias.h - several names for one object. SPDX-License-Identifier: Apache-2.0
 *
 * In S3, two names are two objects. At some origins they can be one object. radosgw reads
 * "tenant:bucket" and ":bucket" as the bucket that its own users call "bucket", and removes the
 * blanks at the ends of a form's key. An origin that keeps objects as files reads "a//b" and
 * "./a/b" as "a/b". If an object is written under one of its names, a copy that was cached under
 * another name is old. So a write also counts for the plain name (write.c): "bucket" and "a/b" in
 * these examples. An object that is cached under a key that is not plain is revalidated at each
 * read. Nothing is cached under a bucket name that is not plain. Pure. */
#ifndef CACHE_ALIAS_H
#define CACHE_ALIAS_H

#include "base/arena.h"

/* Returns the plain name of the bucket: the text after the last ':'. */
slice alias_bucket(slice bucket);
/* True if no segment of the key is "." or "..", and no segment except the last one is empty. */
bool alias_is_plain(slice key);
/* Returns the key as an origin with files reads it. The result is `key` itself if it is plain. */
slice alias_key(struct arena *keep, slice key);
slice alias_trimmed(slice key);    /* the key without blanks and line ends at its two ends */

#endif
