/* missing.h - keys that were missing a moment ago. SPDX-License-Identifier: Apache-2.0
 *
 * After a 404 NoSuchKey the key counts as missing for a short time, for the identity that got
 * the answer. So a loader that asks for the same missing index file with each sample costs one
 * request to the origin, not one for each sample. A write of the key through Penstock ends this
 * (rule H7 in src/README.md), and so does a purge. If a write is in progress when the origin is
 * asked, or begins before the answer, the answer is not remembered. An answer that has the
 * object ends it, too; of two answers that overlap, the one that has the object counts. */
#ifndef CACHE_MISSING_H
#define CACHE_MISSING_H

#include "cache/fetch.h"

struct get;
struct missing_keys;

struct missing_keys *missing_new(uint64_t for_ms) MUST_USE;    /* 0: nothing is remembered */
void missing_free(struct missing_keys **all);

/* To be called when the fetch of this get has ended in a refusal. Remembers the key if the refusal
 * is NoSuchKey. Any thread. */
void missing_note(struct get *get, const struct fetch *fetch);
/* To be called when an answer to any identity has shown that there is an object of this id. Any
 * thread. */
void missing_drop(struct missing_keys *all, const struct object_id *id);
/* True if the key of this get counts as missing. The get then has its refusal. */
bool missing_find(struct get *get) MUST_USE;

#endif
