/* names.h - in whose name metadata was learnt. SPDX-License-Identifier: Apache-2.0
 *
 * Each endpoint has a name in which all is asked there that is not a client's own. When it is
 * another than the folder remembers, what lies in the folder was shown to somebody else: all
 * metadata in the extents that are there at that moment counts as unshared from then on. Nothing is
 * appended to an old extent, so one number tells. The same for all that lay in a folder while a
 * refusal, or a write (of an ACL, perhaps), went by that it was not told of. Kept in the folder's
 * file `names`, as keyed hashes; an endpoint that the file does not know counts as one whose name
 * has changed. Any thread. */
#ifndef STORE_NAMES_H
#define STORE_NAMES_H

#include "store/extent.h"
#include "store/folder.h"

struct names;
struct names *names_new(void) MUST_USE;
void names_free(struct names **names);
/* Once. A name that is empty is not known yet: all counts as unshared, and the file stays. */
void names_set(struct names *names, const uint8_t secret[STORE_SECRET_BYTES],
               const struct store_name *list, size_t count);
/* The folder has been opened, or the names were set: before anything is appended to it. */
void names_apply(struct names *names, const struct folder *folder);
/* Was metadata, in this extent, learnt in another name than its endpoint's present one? */
bool names_are_others(struct names *names, const uint8_t secret[STORE_SECRET_BYTES],
                      const struct metadata *metadata, uint32_t extent) MUST_USE;

#endif
