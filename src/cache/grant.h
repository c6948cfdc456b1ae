/* grant.h - whom the origin has lately let read what. SPDX-License-Identifier: Apache-2.0
 *
 * A grant is an identity and a scope (an object, a configured prefix, a bucket) that a 2xx of the
 * origin to that identity's own credentials has proven, and a time until which it is believed. It
 * is dropped by a refusal, by a write of its object and by whatever changes who may read what
 * in its bucket (through us), and forgotten when the table is full: then the origin is asked once
 * more. Knows no HTTP and no clock: ageing time is an argument. Any thread. */
#ifndef CACHE_GRANT_H
#define CACHE_GRANT_H

#include "cache/epoch.h"
#include "s3/sigv4.h"

/* Who asks, as an origin sees it. Lives as long as the process: calls under way hold on to it. A
 * NULL identity is the shared one. */
struct identity {
    uint64_t id;                  /* 0: the shared one, Penstock's own; never reused */
    const struct sigv4_credentials *as;    /* NULL: the origin's own; an empty key: unsigned */
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

/* What must not have moved between the question and the use of its answer. Taken before the
 * question is sent: an answer may tell of before a change that ended meanwhile. */
struct grant_note {
    struct epoch_note key, bucket;
};
struct grant_note grant_note_now(const struct grant_name *name, slice bucket);
bool grant_note_holds(const struct grant_name *name, slice bucket, struct grant_note since);

/* Does the end of a call say of who asked that they may not? */
bool grant_is_refusal(int status, enum err err);
/* How often something of this name was refused. Who asks does not wait for the answer to a question
 * from before the last time (H6): a hit needs a new one, too. */
uint32_t grant_refusals(const struct grant_name *name);
void grant_refusals_add(const struct grant_name *name);

/* Of the object as it was shown, so that another's under the same name (of another tenant, or after
 * another's write) is another right. 0: any, of a scope wider than an object. */
typedef uint64_t grant_version;

struct grants;
struct grants *grants_new(size_t bytes) MUST_USE;
void grants_free(struct grants **grants);
/* Until when it is believed; 0: there is none, or not any more. */
uint64_t grants_find(struct grants *grants, const struct grant_name *name, grant_version version,
                     slice bucket, uint64_t now_ms);
/* A question that was asked at asked_ms has been answered with a 2xx. Nothing, if something has
 * moved since the note, or a later question was refused. */
void grants_give(struct grants *grants, const struct grant_name *name, grant_version version,
                 slice bucket, struct grant_note note, uint64_t asked_ms, uint64_t ttl_ms,
                 uint64_t now_ms);
/* It has been refused: what was given is taken, and earlier questions give nothing any more. */
void grants_refuse(struct grants *grants, const struct grant_name *name, uint64_t asked_ms,
                   uint64_t ttl_ms, uint64_t now_ms);

/* A change of who may read what in this bucket, by whatever name (alias.h), through us: between the
 * two, and for answers to questions from before the end, nobody is given anything. */
void grants_change_begins(slice bucket, uint64_t now_ms);
void grants_change_ends(slice bucket, uint64_t now_ms);
/* What was answered to a question of before then counts for nothing. */
uint64_t grants_changed_ms(slice bucket);

#endif
