/* grant.h - proofs that an identity may read objects. SPDX-License-Identifier: Apache-2.0
 *
 * A grant has an identity, a scope (an object, a configured prefix or a bucket), and a time at
 * which it expires. A 2xx of the origin to the identity's own credentials proves the grant. A
 * refusal drops the grant. So does a write of its object, or a change of rights in its bucket, that
 * goes through Penstock. If the table is full, grants are forgotten, and the origin is asked again.
 * This file knows no HTTP and no clock: ageing time (base/clock.h) is an argument. Any thread. */
#ifndef CACHE_GRANT_H
#define CACHE_GRANT_H

#include "cache/epoch.h"

/* An identity as an origin sees it. Lives as long as the process, because calls in progress point
 * to it. NULL is the shared identity. */
struct identity {
    uint64_t id;                  /* never reused; 0: the shared identity */
    const struct sigv4_credentials *as;    /* NULL: own credentials; an empty key: unsigned */
};

static inline uint64_t identity_id(const struct identity *who) { return who ? who->id : 0; }
static inline const struct sigv4_credentials *identity_as(const struct identity *who)
{
    return who ? who->as : NULL;
}
static inline bool identity_same(const struct identity *a, const struct identity *b)
{
    return identity_id(a) == identity_id(b);
}

enum grant_scope { GRANT_OBJECT, GRANT_PREFIX, GRANT_BUCKET };

/* The identity and the objects of a grant. `id` depends on the scope: it is the id of the object;
 * or of a name whose key is the prefix; or of a name with the bucket and no key. The ids are keyed
 * hashes, so that nobody can choose two names with one id. */
struct grant_name {
    uint64_t identity;
    struct object_id id;
    enum grant_scope scope;
};

/* Epochs that must not change between a request and the use of its answer. The note is taken before
 * the request is sent, because the answer may be older than a change that ends in between. */
struct grant_note {
    struct epoch_note key, bucket;
};
struct grant_note grant_note_now(const struct grant_name *name, slice bucket);
bool grant_note_holds(const struct grant_name *name, slice bucket, struct grant_note since);

/* True if a call that ended with this status and error was refused because of its identity. */
bool grant_is_refusal(int status, enum err err);
/* Number of refusals of this name. A request that comes after a refusal never uses the answer to a
 * request from before the refusal (rule H6 in src/README.md). So after a refusal, even a cached
 * object is served only after a new answer of the origin. */
uint32_t grant_refusals(const struct grant_name *name);
void grant_refusals_add(const struct grant_name *name, uint64_t now_ms);
/* When this name was last refused; 0: never in this process. */
uint64_t grant_refused_ms(const struct grant_name *name);

/* The version that a grant is for. Another object of the same name (of another tenant, or after a
 * write) needs a grant of its own. 0: any version, for a scope wider than an object. */
typedef uint64_t grant_version;

struct grants;
struct grants *grants_new(size_t bytes) MUST_USE;
void grants_free(struct grants **grants);
/* Returns the time at which the grant expires, or 0 if there is no grant. */
uint64_t grants_find(struct grants *grants, const struct grant_name *name, grant_version version,
                     slice bucket, uint64_t now_ms);
/* For a request that was sent at asked_ms and got a 2xx. Gives no grant if an epoch has changed
 * since the note, or a later request was refused. */
void grants_give(struct grants *grants, const struct grant_name *name, grant_version version,
                 slice bucket, struct grant_note note, uint64_t asked_ms, uint64_t ttl_ms,
                 uint64_t now_ms);
/* For a request that was refused: drops the grant. Requests from before asked_ms can give no grant
 * any more. */
void grants_refuse(struct grants *grants, const struct grant_name *name, uint64_t asked_ms,
                   uint64_t ttl_ms, uint64_t now_ms);

/* Call these before and after a change of rights in this bucket that goes through Penstock.
 * `bucket` may be any of the bucket's names (alias.h). An answer between the two calls gives no
 * grant. The answer to a request that was sent before the second call gives none, either. */
void grants_change_begins(slice bucket, uint64_t now_ms);
void grants_change_ends(slice bucket, uint64_t now_ms);
/* The time of the latest change of rights. An answer to an earlier request proves nothing. */
uint64_t grants_changed_ms(slice bucket);

#endif
