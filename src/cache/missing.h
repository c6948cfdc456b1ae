/* missing.h - keys that were not there a moment ago. SPDX-License-Identifier: Apache-2.0
 *
 * A key that an origin did not have (404 NoSuchKey) is known to be missing for a short time, by the
 * identity that was told so. A loader that looks for an index file next to each sample asks for it
 * once, not once a sample. Any write of the key through us ends it (H7): one that is under way when
 * the origin is asked, or begins before it answers, leaves nothing to be remembered. */
#ifndef CACHE_MISSING_H
#define CACHE_MISSING_H

#include "cache/fetch.h"

struct get;
struct missing_keys;

struct missing_keys *missing_new(uint64_t for_ms) MUST_USE;    /* 0: nothing is remembered */
void missing_free(struct missing_keys **all);

/* The fetch that a get waited for has ended in a refusal: remembered, if it says that the key is
 * not there. Any thread. */
void missing_note(struct get *get, const struct fetch *fetch);
/* Is the key of this get known to be missing? Then the get has been refused so. */
bool missing_find(struct get *get) MUST_USE;

#endif
