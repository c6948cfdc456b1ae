/* missing.c - keys that were not there a moment ago. SPDX-License-Identifier: Apache-2.0
 *
 *     id, identity, GET or HEAD ──> row ──> [ entry | entry | entry | entry ]
 *
 * A fixed table of rows with WAYS entries each. If a row is full, the entry that would expire first
 * is dropped. An entry is the origin's own answer. The answer to a HEAD has no document, so an
 * entry of a HEAD serves only HEADs, and an entry of a GET only GETs. Its time counts from when the
 * request was sent. An entry has few bytes (rule H8 in src/README.md): a longer document is not
 * kept. One lock is enough, because without an entry each caller would ask the origin. */
#include "cache/missing.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/metric.h"
#include "cache/getting.h"

#define ROWS 1024u
#define WAYS 4u
#define REFUSAL_BYTES_MAX 2048u       /* 4,096 of them: 8 MiB */

struct entry {
    struct object_id id;
    uint64_t who;
    bool head_only;
    struct epoch_note epoch;
    uint64_t compared;                /* store_compared() when the request was sent */
    uint64_t until_ms;
    struct refusal *refusal;          /* NULL: the entry is free */
};

struct missing_keys {
    uint64_t for_ms;
    pthread_mutex_t lock;
    struct entry entries[ROWS][WAYS];
};

struct missing_keys *missing_new(uint64_t for_ms)
{
    struct missing_keys *all = must_alloc(sizeof(*all));
    all->for_ms = for_ms;
    pthread_mutex_init(&all->lock, NULL);
    return all;
}

void missing_free(struct missing_keys **all)
{
    if (!*all)
        return;
    for (size_t i = 0; i < ROWS * WAYS; i++)
        refusal_unref(&(*all)->entries[i / WAYS][i % WAYS].refusal);
    pthread_mutex_destroy(&(*all)->lock);
    free(*all);
    *all = NULL;
}

static struct entry *row_of(struct missing_keys *all, const struct object_id *id)
{
    uint32_t hash;
    memcpy(&hash, id->bytes + 4, sizeof(hash));
    return all->entries[hash % ROWS];
}

/* A 404 for a version is not remembered: it may mean other things than a missing version. */
static bool may_be_remembered(const struct get *get)
{
    const struct rules *rules = get->ask.rules;
    return !get->of.name.version.len && !get_wants_newest(get) &&
           (rules->freshness != FRESH_TTL || rules->ttl_s + rules->grace_s > 0);
}

static bool holds(const struct entry *entry)
{
    return !guard_on(GUARD_MISSING) || epoch_holds(&entry->id, entry->epoch);
}

/* True if the key was purged after the request was sent. */
static bool is_purged(const struct get *get, const struct entry *entry)
{
    return store_is_purged(cache_store(get->of.loop->cache), &get->of.name, entry->compared);
}

/* For a client with an identity of its own, an entry counts no longer than a grant does. */
static uint64_t for_ms(const struct missing_keys *all, const struct get *get)
{
    return reading_who(&get->of) ? MIN(all->for_ms, get->ask.rules->grant_ms) : all->for_ms;
}

/* True if the request was sent before the latest restatement of the object or its bucket. */
static bool is_restated(const struct missing_keys *all, const struct entry *entry,
                        const struct get *get)
{
    uint64_t restated_ms = get_restated(get).at_ms;
    return restated_ms && entry->until_ms - for_ms(all, get) <= restated_ms;
}

static bool is_of(const struct entry *entry, const struct get *get)
{
    return entry->refusal && memcmp(&entry->id, &get->of.id, sizeof(get->of.id)) == 0 &&
           entry->who == reading_who(&get->of) && entry->head_only == get->ask.head_only;
}

/* Returns the entry to use: the old one of this get, a free one, or the one that expires first. */
static struct entry *room_for(struct missing_keys *all, const struct get *get, uint64_t now_ms)
{
    struct entry *row = row_of(all, &get->of.id), *first = row;
    for (size_t i = 0; i < WAYS; i++) {
        if (is_of(&row[i], get))
            return &row[i];
        if (row[i].until_ms < first->until_ms)
            first = &row[i];
    }
    if (first->refusal && first->until_ms > now_ms)
        metric_add(M_CACHE_NEGATIVE_DROPPED, 1);
    return first;
}

void missing_note(struct get *get, const struct fetch *fetch)
{
    struct missing_keys *all = get->of.loop->cache->missing;
    struct refusal *refusal = fetch->refusal;
    uint64_t now_ms = ageing_ms();
    check(fetch->over && refusal);
    struct entry entry = {
        .id = get->of.id, .who = reading_who(&get->of), .head_only = get->ask.head_only,
        .epoch = fetch->sent.epoch, .compared = fetch->sent.compared,
        .until_ms = fetch->sent.at_ms + for_ms(all, get),
    };
    bool own_kind = (fetch->asked.kind == FETCH_HEAD) == get->ask.head_only;
    const struct learnt *learnt = &fetch->inflight->learnt;
    bool was_seen = learnt->etag_hash && learnt->answers != fetch->sent.answers;
    if (was_seen || refusal->err != ERR_NO_SUCH_KEY || refusal->status != 404 || !own_kind ||
        entry.until_ms <= now_ms || !may_be_remembered(get) || !holds(&entry))
        return;
    if (refusal->fields.len + refusal->body.len > REFUSAL_BYTES_MAX) {
        metric_add(M_CACHE_NEGATIVE_DROPPED, 1);
        return;
    }
    pthread_mutex_lock(&all->lock);
    struct entry *room = room_for(all, get, now_ms);
    refusal_unref(&room->refusal);
    *room = entry;
    room->refusal = refusal_ref(refusal);
    pthread_mutex_unlock(&all->lock);
}

void missing_drop(struct missing_keys *all, const struct object_id *id)
{
    if (!all->for_ms)
        return;
    pthread_mutex_lock(&all->lock);
    struct entry *row = row_of(all, id);
    for (size_t i = 0; i < WAYS; i++)
        if (row[i].refusal && memcmp(&row[i].id, id, sizeof(*id)) == 0)
            refusal_unref(&row[i].refusal);
    pthread_mutex_unlock(&all->lock);
}

bool missing_find(struct get *get)
{
    struct missing_keys *all = get->of.loop->cache->missing;
    struct refusal *found = NULL;
    if (!all->for_ms || !may_be_remembered(get))
        return false;
    pthread_mutex_lock(&all->lock);
    struct entry *row = row_of(all, &get->of.id);
    for (size_t i = 0; i < WAYS && !found; i++)
        if (is_of(&row[i], get) && row[i].until_ms > ageing_ms() && holds(&row[i]) &&
            !is_restated(all, &row[i], get) && !is_purged(get, &row[i]))
            found = refusal_ref(row[i].refusal);
    pthread_mutex_unlock(&all->lock);
    if (!found)
        return false;
    enum err refused = get_refuse(get, found);
    check(refused == OK);
    get->answer.source = GET_NEGATIVE;
    refusal_unref(&found);
    return true;
}
