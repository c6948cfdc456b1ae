/* permit.h - who may read what: the ledger of rights. SPDX-License-Identifier: Apache-2.0
 *
 * A get asks here whether its identity may read the object now, and a fetch tells here what the
 * origin's answer grants or takes away. No other file of this folder judges the right to an
 * object. (lists.c and missing.c judge for how long a list or a 404 counts for an identity, by
 * grant.h and the rules.) The proofs of clients' identities are in grant.h, those of the shared
 * identity in the metadata (permit.c says why). Threads: the get's loop; what a fetch tells: an
 * origin thread, under the object's lock (flights_lock in flight.h). */
#ifndef CACHE_PERMIT_H
#define CACHE_PERMIT_H

#include "cache/grant.h"

struct fetch;
struct get;
struct metadata;

/* Taken when a fetch is sent. If the rights change before its answer comes, the answer proves
 * nothing. */
struct permit_note {
    struct grant_note granted;
    uint32_t refusals;            /* grant_refusals() */
};
struct permit_note permit_note_now(const struct grant_name *name, slice bucket);

/* ---- what a get asks ---- */

/* Sets whose rights the get has. To be called when its name and id are known. */
void permit_ask_as(struct get *get, const struct identity *who);
/* True if there is proof that the get's identity may read this version, or if the origin knows no
 * identities. Judged once for each version that the get finds. */
bool permit_has(struct get *get);
/* An answer to this get has proven that its identity may read the version of get->metadata. */
void permit_let(struct get *get);
/* Until when the proof of the right to read counts, in ageing time; 0: there is no proof. */
uint64_t permit_until_ms(const struct get *get, uint64_t now_ms) MUST_USE;
/* How long ago the origin gave the answers that prove that the version of get->metadata is current,
 * and that the shared identity may read it; UINT64_MAX: not known. */
uint64_t permit_age_ms(const struct get *get, uint64_t now_ms) MUST_USE;
/* True if the answer to this fetch, which is in progress, will count for this get, too. */
bool permit_shares(struct get *get, const struct fetch *fetch);

/* ---- what the answer to a fetch says ---- */

/* The longest time that may have passed since the origin gave another node the answer to this fetch,
 * which is about to be sent in the name of the shared identity, so that it still proves version and
 * right; 0: no such answer would. */
uint64_t permit_age_max_ms(const struct fetch *fetch) MUST_USE;
/* True if a 2xx to this fetch proves that its identity may read the bytes. A HEAD proves nothing if
 * the bytes are encrypted with a key that needs a right of its own. */
bool permit_proves(const struct fetch *fetch, const struct metadata *metadata);
/* True if the metadata of this fetch proves no right of the shared identity: a client asked for it,
 * or its answer proves no right to the bytes, or Penstock's own credentials are not those of the
 * names file (origin_owner_changed_ms). */
bool permit_is_unshared(const struct fetch *fetch, const struct metadata *metadata);
/* To be called when the fetch got a 2xx, and its metadata is known. */
void permit_granted(struct fetch *fetch);
/* To be called when a fetch that brought nothing is over. Returns true if the origin refused its
 * identity: by a 401, a 403, or because of its signature. */
bool permit_refused(struct fetch *fetch);

#endif
