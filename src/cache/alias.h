/* alias.h - other names that an origin may know one object by. SPDX-License-Identifier: Apache-2.0
 *
 * To S3 two names are two objects. radosgw takes "tenant:bucket" and ":bucket" for a bucket that
 * its own users name "bucket", and takes the blanks off the ends of a form's key; an origin that
 * keeps objects as files takes "a//b" and "./a/b" for "a/b". What is written under one name is then
 * old under another. So a write touches the plain name, too (write.c); what is cached under another
 * key is validated at each read, and nothing is cached under another bucket. Pure. */
#ifndef CACHE_ALIAS_H
#define CACHE_ALIAS_H

#include "base/arena.h"

/* The bucket by its plain name: what follows the last ':'. */
slice alias_bucket(slice bucket);
/* No segment is empty but a last one, none is "." or "..". */
bool alias_is_plain(slice key);
/* The key as a path would read it; the same key (ptr and len) if it is plain. */
slice alias_key(struct arena *keep, slice key);
slice alias_trimmed(slice key);    /* without blanks and ends of lines at its ends */

#endif
