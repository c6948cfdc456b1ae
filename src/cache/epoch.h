/* epoch.h - which fills may still publish (H7). SPDX-License-Identifier: Apache-2.0
 *
 * A fixed array of counter pairs, found by an object's hash: `started` rises before a write removes
 * the object's metadata, `finished` before the write is answered. A fill notes both when it begins;
 * it may publish only if they were equal then and neither has moved since. Two objects that share a
 * pair cost each other an unpublished fill, never a wrong byte. Any thread. */
#ifndef CACHE_EPOCH_H
#define CACHE_EPOCH_H

#include <stdatomic.h>

#include "store/metadata.h"

struct epoch_note {
    uint32_t started, finished;
};

/* One such pair. It may stand for many things: those that share it cost each other a question. */
struct epoch_pair {
    atomic_uint started, finished;
};

static inline void epoch_pair_begins(struct epoch_pair *pair)
{
    atomic_fetch_add(&pair->started, 1);
}

static inline void epoch_pair_ends(struct epoch_pair *pair)
{
    atomic_fetch_add(&pair->finished, 1);
}

/* Finished is read first: a change that ends between the two reads then looks unfinished, never the
 * reverse. */
static inline struct epoch_note epoch_pair_now(struct epoch_pair *pair)
{
    unsigned finished = atomic_load(&pair->finished);
    return (struct epoch_note){ atomic_load(&pair->started), finished };
}

/* Nothing was under way at this note, and nothing has begun since. */
static inline bool epoch_pair_holds(struct epoch_pair *pair, struct epoch_note since)
{
    struct epoch_note now = epoch_pair_now(pair);
    return since.started == since.finished && now.started == since.started &&
           now.finished == since.finished;
}

/* Every write has a number: of two, the one that began later has the higher. */
uint64_t epoch_write_number(void);
void epoch_write_begins(const struct object_id *id, uint64_t number);
/* No write of this object, or one that shares its pair, with a higher number has begun. */
bool epoch_write_is_latest(const struct object_id *id, uint64_t number);
void epoch_write_ends(const struct object_id *id);
struct epoch_note epoch_now(const struct object_id *id);
/* May what began at this note be published, and joined? */
bool epoch_holds(const struct object_id *id, struct epoch_note since);

/* The same for lists: what one shows changes with any write in its bucket. A pair a bucket, of an
 * array of their own: buckets are written to all the time, and keys that shared a pair with one
 * would never be kept. */
struct epoch_pair *epoch_bucket_of(slice endpoint, slice bucket);
bool epoch_bucket_holds(struct epoch_pair *pair, struct epoch_note since);

/* A write of a key's tags, retention or ACL that names no version changes the current version,
 * whichever that is. So metadata of any version from before it is revalidated, and a proof of a
 * right from before it does not count. id: the key's, without a version. */
struct epoch_restated {
    uint64_t at_ms;    /* ageing time; 0: no such write in this process */
    int64_t at_s;      /* the same moment by the clock of metadata->validated_s */
};
void epoch_restate(const struct object_id *id, struct epoch_restated now);
struct epoch_restated epoch_restated(const struct object_id *id);
/* The same for a whole bucket, by its plain name (alias.h): the metadata or the bytes of any of its
 * objects may have changed. Buckets that share a row cost each other a HEAD an object. */
void epoch_bucket_restate_begins(slice bucket, struct epoch_restated now);
void epoch_bucket_restate_ends(slice bucket, struct epoch_restated now);
struct epoch_restated epoch_bucket_restated(slice bucket);
/* May a fill that began at this note publish a record, with its metadata or without? Not the
 * metadata, if its bucket was restated since: after a restart nothing would tell that the metadata
 * is older. */
bool epoch_may_publish(const struct metadata *metadata, bool with_metadata,
                       struct epoch_note since);

/* For a list page, which tells of many objects at once: a moment, and whether an object has not
 * been written to since, and is not being written to. */
uint64_t epoch_moment(void);
bool epoch_quiet_since(const struct object_id *id, uint64_t moment);

#endif
