/* epoch.h - judges whether a fill may still publish (rule H7 in src/README.md).
 * SPDX-License-Identifier: Apache-2.0
 *
 * A fill is an object, or a part of it, on its way from the origin into the cache. It is published
 * when the index gets its entries, so that readers find it. A fill from before a write of the
 * object must not be published.
 *
 * Epochs are a fixed array of counter pairs. An object's hash gives its pair. The counter `started`
 * rises before a write removes the object's metadata, and `finished` rises before the write is
 * answered. A fill notes both counters when it begins. It may publish only if they were equal then,
 * and neither has changed since. If two objects share a pair, a write of one may prevent a fill of
 * the other from being published, but never gives a wrong byte. Any thread. */
#ifndef CACHE_EPOCH_H
#define CACHE_EPOCH_H

#include <stdatomic.h>

#include "store/store.h"

struct epoch_note {
    uint32_t started, finished;
};

/* One pair of counters. Several objects or buckets may share it; a change of one then costs the
 * other ones a call to the origin. */
struct epoch_pair {
    atomic_uint started, finished;
};

static inline void epoch_pair_begins(struct epoch_pair *pair)
{
    atomic_fetch_add(&pair->started, 1);
}

static inline void epoch_pair_ends(struct epoch_pair *pair)
{
    unsigned before = atomic_fetch_add(&pair->finished, 1);
    check(before != atomic_load(&pair->started));    /* the change that ends here has begun */
}

/* Reads `finished` first. So a change that ends between the two reads looks unfinished; a change
 * that is unfinished never looks ended. */
static inline struct epoch_note epoch_pair_now(struct epoch_pair *pair)
{
    unsigned finished = atomic_load(&pair->finished);
    return (struct epoch_note){ atomic_load(&pair->started), finished };
}

static inline bool epoch_note_is(struct epoch_note a, struct epoch_note b)
{
    return a.started == b.started && a.finished == b.finished;
}

/* True if no change was in progress at this note, and none has begun since. */
static inline bool epoch_pair_holds(struct epoch_pair *pair, struct epoch_note since)
{
    return since.started == since.finished && epoch_note_is(epoch_pair_now(pair), since);
}

/* Every write has a number. A write that begins later has a higher number. */
uint64_t epoch_write_number(void);
void epoch_write_begins(const struct object_id *id, uint64_t number);
/* True if no write with a higher number has begun, of this object or of one that shares its
 * pair. */
bool epoch_write_is_latest(const struct object_id *id, uint64_t number);
void epoch_write_ends(const struct object_id *id);
struct epoch_note epoch_now(const struct object_id *id);
/* True if a fill that began at this note may be published, and may be joined. */
bool epoch_holds(const struct object_id *id, struct epoch_note since);

/* To be called when an answer of the origin has shown that there was a write by another way than
 * Penstock. Fills that began before are not published, but for that of the answer: its fetch
 * goes on with the returned note. `since` is the present note of the fetch. If it does not hold
 * any more, it is returned. */
struct epoch_note epoch_supersede(const struct object_id *id, struct epoch_note since) MUST_USE;

/* Lists have epochs, too: any write in a bucket may change the bucket's lists. Buckets have pairs
 * in an array of their own. Buckets are written to all the time, so a fill of a key that shared a
 * pair with a bucket would never be published. */
struct epoch_pair *epoch_bucket_of(slice endpoint, slice bucket);
bool epoch_bucket_holds(struct epoch_pair *pair, struct epoch_note since);

/* A write of a key's tags, retention or ACL that names no version changes the current version,
 * whichever that is. So metadata of any version that is older than the write is revalidated, and
 * an older proof of a right does not count. `id` is that of the key without a version. */
struct epoch_restated {
    uint64_t at_ms;    /* ageing time; 0: no such write in this process */
    int64_t at_s;      /* the same moment by the clock of metadata->validated_s */
};
void epoch_restate(const struct object_id *id, struct epoch_restated now);
struct epoch_restated epoch_restated(const struct object_id *id);
/* For a write that may change the metadata or the bytes of any object in a bucket. `bucket` is its
 * plain name (alias.h). If buckets share a row, a write in one costs a HEAD for each object of the
 * other ones. */
void epoch_bucket_restate_begins(slice bucket, struct epoch_restated now);
void epoch_bucket_restate_ends(slice bucket, struct epoch_restated now);
struct epoch_restated epoch_bucket_restated(slice bucket);
/* For writes and changes of rights that nobody here has heard of, all from before this moment. Each
 * bucket counts as restated then, and no list from before counts. */
void epoch_doubt(struct epoch_restated moment);
/* A record of a fill, and the note of when the fill began. */
struct epoch_fill {
    struct store_append append;
    struct epoch_note epoch;
};
/* The function may_publish of each append that is part of a struct epoch_fill. The metadata may not
 * be published if the bucket is being restated, or was restated since the origin gave the metadata:
 * after a restart, nothing would show that the metadata is older than the restatement. */
bool epoch_may_publish(const struct store_append *append);

/* The ageing time of the last write of this object, or of one that shares its pair; 0: there was
 * none in this process. An answer that the origin gave another node before that proves nothing. */
uint64_t epoch_moved_ms(const struct object_id *id);

/* For a list page, which has many objects. The page notes the moment at which it begins.
 * epoch_quiet_since is true if no write of this object is in progress, and none was in progress
 * since that moment. */
uint64_t epoch_moment(void);
bool epoch_quiet_since(const struct object_id *id, uint64_t moment);

#endif
