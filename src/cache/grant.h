/* grant.h - proofs that an identity may read objects. SPDX-License-Identifier: Apache-2.0
 *
 * A grant is an identity, a scope (an object, a configured prefix or a bucket), and a time until
 * which it counts. A 2xx of the origin to the identity's own credentials proves it. A refusal drops
 * it, and so does a write of its object, or a change of rights in its bucket, that goes through
 * Penstock. A full table forgets it, and the origin is asked once more. Knows no HTTP and no clock:
 * ageing time is an argument. Any thread. */
#ifndef CACHE_GRANT_H
#define CACHE_GRANT_H

#include "cache/epoch.h"
#include "s3/sigv4.h"

/* An identity as an origin sees it. Lives as long as the process, because calls in progress point
 * to it. NULL is the shared identity. */
struct identity {
    uint64_t id;                  /* 0: the shared one, Penstock's own; never reused */
    const struct sigv4_credentials *as;    /* NULL: Penstock's own; an empty key: unsigned */
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

/* What a grant is for. id: of the object; or of the name that has the prefix for its key, or the
 * bucket's with none. They are keyed hashes: nobody can choose two that meet. */
struct grant_name {
    uint64_t identity;
    struct object_id id;
    enum grant_scope scope;
};

/* Epochs that must not move between a request and the use of its answer. Taken before the request
 * is sent: an answer may be older than a change that ended meanwhile. */
struct grant_note {
    struct epoch_note key, bucket;
};
struct grant_note grant_note_now(const struct grant_name *name, slice bucket);
bool grant_note_holds(const struct grant_name *name, slice bucket, struct grant_note since);

/* True if the end of a call is a refusal of its identity. */
bool grant_is_refusal(int status, enum err err);
/* Number of refusals of this name. After a refusal, a request never uses the answer to a request
 * from before it (H6): a hit needs a new one, too. */
uint32_t grant_refusals(const struct grant_name *name);
void grant_refusals_add(const struct grant_name *name);

/* The version that the grant is for. Another object of the same name (of another tenant, or after a
 * write) needs a grant of its own. 0: any version, of a scope wider than an object. */
typedef uint64_t grant_version;

struct grants;
struct grants *grants_new(size_t bytes) MUST_USE;
void grants_free(struct grants **grants);
/* Until when the grant counts; 0: there is none. */
uint64_t grants_find(struct grants *grants, const struct grant_name *name, grant_version version,
                     slice bucket, uint64_t now_ms);
/* A request that was sent at asked_ms got a 2xx. Gives nothing if an epoch has moved since the
 * note, or a later request was refused. */
void grants_give(struct grants *grants, const struct grant_name *name, grant_version version,
                 slice bucket, struct grant_note note, uint64_t asked_ms, uint64_t ttl_ms,
                 uint64_t now_ms);
/* A request was refused: drops the grant, and requests from before asked_ms give none any more. */
void grants_refuse(struct grants *grants, const struct grant_name *name, uint64_t asked_ms,
                   uint64_t ttl_ms, uint64_t now_ms);

/* A change of rights in this bucket, by any of its names (alias.h), that goes through Penstock. No
 * grant comes from an answer between the two, nor from a request that was sent before the end. */
void grants_change_begins(slice bucket, uint64_t now_ms);
void grants_change_ends(slice bucket, uint64_t now_ms);
/* The moment of the last such change: an answer to an earlier request proves nothing. */
uint64_t grants_changed_ms(slice bucket);

#endif
