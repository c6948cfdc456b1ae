/* lists.c - equal list calls share an answer. SPDX-License-Identifier: Apache-2.0
 *
 *     key: all that must be equal ──> chain ──> shared ──< list_get, list_get, ...
 *                                     (by age) ─┘   in progress: an origin call; over: the answer
 *
 * A shared list is referenced by its call, by the table while it may be found, and by each of its
 * readers. Its key is compared in full. All bytes that it holds count (rule H8 in src/README.md).
 * If there are too many, kept answers are dropped first, the oldest one first. Then an answer in
 * progress ends as too large.
 * Threads: the lock guards the table, references, `over` and waiters. The origin thread writes the
 * answer until it sets `over`; after that no thread changes it. */
#include "cache/lists.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/metric.h"
#include "base/span.h"
#include "cache/alias.h"
#include "cache/inside.h"

#define CHAINS 256
#define LIST_BYTES_MAX (16 * MIB)     /* of one: an answer of 1,000 long keys is 4 MiB */
#define SHARED_MAGIC 0x6c69737473303131u

struct shared {
    uint64_t magic;
    struct list link, age_link;       /* in the table: its chain, and by age */
    struct lists *lists;
    unsigned refs;
    struct arena arena;
    slice key;
    struct epoch_pair *pair;          /* of its bucket */
    struct epoch_note epoch;
    struct grant_name owner;          /* the identity that asks, and the bucket */
    uint32_t refusals;                /* refusals of the owner before the request was sent */
    uint64_t sent_ms, reuse_ms;
    struct origin_call call;
    bool over;
    struct list waiters;
    size_t counted;                   /* of lists->bytes */
    char *body;
    size_t body_cap;
    struct list_answer answer;
};

struct lists {
    struct cache *cache;
    uint64_t reuse_ms;
    size_t bytes_max;
    pthread_mutex_t lock;
    size_t bytes;
    struct list chains[CHAINS], by_age;
};

struct list_get {
    struct cache_loop *loop;
    struct shared *shared;
    struct waiter waiter;
    struct ticket *ticket;
    void (*changed)(void *arg);
    void *arg;
    struct list_answer answer;
    bool reused;
};

struct lists *lists_new(struct cache *cache, uint64_t reuse_ms, size_t bytes_max)
{
    struct lists *lists = must_alloc(sizeof(*lists));
    lists->cache = cache;
    lists->reuse_ms = reuse_ms;
    lists->bytes_max = bytes_max;
    pthread_mutex_init(&lists->lock, NULL);
    list_init(&lists->by_age);
    for (size_t i = 0; i < CHAINS; i++)
        list_init(&lists->chains[i]);
    return lists;
}

/* ---- the table; all under the lock ---- */

static void unref(struct shared *shared)
{
    check(shared->refs > 0 && shared->lists->bytes >= shared->counted);
    if (--shared->refs > 0)
        return;
    check(shared->magic == SHARED_MAGIC);
    check(list_empty(&shared->waiters) && list_empty(&shared->link));
    shared->lists->bytes -= shared->counted;
    shared->magic = 0;
    free(shared->body);
    arena_free(&shared->arena);
    free(shared);
}

/* Takes the list out of the table, so that no later call finds it. */
static void forget(struct shared *shared)
{
    if (list_empty(&shared->link))
        return;
    list_del(&shared->link);
    list_del(&shared->age_link);
    unref(shared);
}

void lists_free(struct lists **lists)
{
    struct lists *mine = *lists;
    *lists = NULL;
    if (!mine)
        return;
    list_each_safe(struct shared, shared, &mine->by_age, age_link)
        forget(shared);
    check(mine->bytes == 0);
    pthread_mutex_destroy(&mine->lock);
    free(mine);
}

/* Counts so many bytes more, and drops kept answers for them. Returns false if there is no room. */
static bool count_bytes(struct shared *shared, size_t more)
{
    struct lists *lists = shared->lists;
    list_each_safe(struct shared, old, &lists->by_age, age_link) {
        if (lists->bytes + more <= lists->bytes_max)
            break;
        if (old->over) {
            metric_add(M_LISTS_EVICTED, 1);
            forget(old);
        }
    }
    if (lists->bytes + more > lists->bytes_max)
        return false;
    lists->bytes += more;
    shared->counted += more;
    return true;
}

static bool is_good(const struct shared *shared, uint64_t now_ms)
{
    return epoch_bucket_holds(shared->pair, shared->epoch) &&
           grant_refusals(&shared->owner) == shared->refusals &&
           (!shared->over || now_ms < shared->sent_ms + shared->reuse_ms);
}

static struct list *chain_of(struct lists *lists, slice key)
{
    return &lists->chains[metadata_etag_hash(key) % CHAINS];
}

static struct shared *find(struct lists *lists, slice key, uint64_t now_ms)
{
    list_each_safe(struct shared, shared, chain_of(lists, key), link) {
        if (!slice_eq(shared->key, key))
            continue;
        if (is_good(shared, now_ms))
            return shared;
        forget(shared);    /* H7: its readers go on, later calls ask the origin */
    }
    return NULL;
}

/* ---- the origin's side ---- */

static void on_head(struct origin_call *call, const struct origin_reply *reply)
{
    struct shared *shared = container_of(call, struct shared, call);
    metric_time(M_WAIT_ORIGIN, reply->first_byte_ns);
    shared->answer.status = reply->status;
    shared->answer.fields = http_fields_copy(&shared->arena, reply->fields, reply->field_count);
    shared->answer.field_count = reply->field_count;
}

static bool grow(struct shared *shared, size_t want)
{
    size_t cap = MAX(shared->body_cap * 2, MAX(want, (size_t)16384));
    pthread_mutex_lock(&shared->lists->lock);
    bool room = want <= LIST_BYTES_MAX && count_bytes(shared, cap - shared->body_cap);
    pthread_mutex_unlock(&shared->lists->lock);
    if (!room)
        return false;
    shared->body = realloc(shared->body, cap);
    check(shared->body != NULL);
    shared->body_cap = cap;
    return true;
}

static enum origin_take on_body(struct origin_call *call, slice bytes)
{
    struct shared *shared = container_of(call, struct shared, call);
    size_t len = shared->answer.body.len;
    if (shared->answer.err)
        return ORIGIN_TAKEN;
    if (len + bytes.len > shared->body_cap && !grow(shared, len + bytes.len)) {
        shared->answer.err = ERR_LIMIT;
        metric_add(M_LISTS_UNSHARED, 1);
        origin_cancel(call);
        return ORIGIN_TAKEN;
    }
    check(len + bytes.len <= shared->body_cap);
    memcpy(shared->body + len, bytes.ptr, bytes.len);
    shared->answer.body = (slice){ shared->body, len + bytes.len };
    return ORIGIN_TAKEN;
}

static void on_done(struct origin_call *call, enum err err)
{
    struct shared *shared = container_of(call, struct shared, call);
    struct lists *lists = shared->lists;
    struct cache *cache = lists->cache;
    pthread_mutex_lock(&lists->lock);
    check(!shared->over);
    if (!shared->answer.err)
        shared->answer.err = err;
    if (grant_is_refusal(shared->answer.status, shared->answer.err))
        /* No earlier answer to this identity counts now. */
        grant_refusals_add(&shared->owner, ageing_ms());
    shared->over = true;
    waiters_wake(&shared->waiters);
    if (shared->answer.err || shared->answer.status != 200 || !is_good(shared, ageing_ms()))
        forget(shared);
    unref(shared);
    pthread_mutex_unlock(&lists->lock);
    cache_fetch_ended(cache);
}

static const struct origin_events events = { on_head, on_body, on_done };

/* ---- the key: equal calls have equal keys ---- */

/* Adds the parameters in one order. None comes twice: such a request was refused. */
static void add_query(struct text *to, slice query)
{
    size_t count = 0, max = 1;
    for (size_t i = 0; i < query.len; i++)
        max += query.ptr[i] == '&';
    slice *pairs = arena_alloc(to->arena, max * sizeof(*pairs));
    for (slice rest = query; rest.ptr && count < max;)
        pairs[count++] = slice_cut(&rest, '&');
    qsort(pairs, count, sizeof(*pairs), slice_order);
    for (size_t i = 0; i < count; i++)
        text_printf(to, "%.*s&", SLICE_ARG(pairs[i]));
}

/* Returns the key. It has the time at which Penstock's own credentials changed: an answer to the
 * old credentials is another answer. */
static slice key_of(struct arena *keep, const struct list_ask *ask)
{
    const struct origin *origin = ask->rules->origin;
    struct text key = text_in(keep);
    text_printf(&key, "%.*s %" PRIu64 " %" PRIu64 " %d %.*s?", SLICE_ARG(origin_endpoint(origin)),
                identity_id(ask->who), origin_owner_changed_ms(origin), (int)ask->op,
                SLICE_ARG(ask->bucket));
    add_query(&key, ask->query);
    for (size_t i = 0; i < ask->field_count; i++)
        text_printf(&key, "\n%.*s: %.*s", SLICE_ARG(ask->fields[i].name),
                    SLICE_ARG(ask->fields[i].value));
    return text_slice(&key);
}

/* ---- asking ---- */

static struct origin_call make_call(struct arena *keep, const struct list_ask *ask)
{
    return (struct origin_call){
        .events = &events,
        .as = identity_as(ask->who),
        .op = ask->op,
        .bucket = arena_copy(keep, ask->bucket),
        .query = arena_copy(keep, ask->query),
        .fields = http_fields_copy(keep, ask->fields, ask->field_count),
        .field_count = ask->field_count,
    };
}

/* For a client with its own identity, an answer counts no longer than a grant does. */
static uint64_t reuse_ms(const struct lists *lists, const struct list_ask *ask)
{
    return identity_id(ask->who) ? MIN(lists->reuse_ms, ask->rules->grant_ms) : lists->reuse_ms;
}

static struct grant_name owner_of(struct lists *lists, const struct list_ask *ask)
{
    struct grant_name owner = { identity_id(ask->who), { { 0 } }, GRANT_BUCKET };
    struct object_name name = { .endpoint = origin_endpoint(ask->rules->origin),
                                .bucket = ask->bucket };
    store_object_id(cache_store(lists->cache), &name, &owner.id);
    return owner;
}

static struct shared *ask_origin(struct lists *lists, const struct list_ask *ask, slice key)
{
    struct shared *shared = must_alloc(sizeof(*shared));
    shared->magic = SHARED_MAGIC;
    shared->lists = lists;
    shared->refs = 1;
    shared->key = arena_copy(&shared->arena, key);
    shared->pair =
        epoch_bucket_of(origin_endpoint(ask->rules->origin), alias_bucket(ask->bucket));
    shared->epoch = epoch_pair_now(shared->pair);
    shared->owner = owner_of(lists, ask);
    shared->refusals = grant_refusals(&shared->owner);
    shared->sent_ms = ageing_ms();
    shared->reuse_ms = reuse_ms(lists, ask);
    shared->call = make_call(&shared->arena, ask);
    trace_copy(ask->trace, &shared->arena, &shared->call.trace);
    list_init(&shared->link);
    list_init(&shared->age_link);
    list_init(&shared->waiters);
    if (!count_bytes(shared, sizeof(*shared) + shared->arena.used_bytes) ||
        !cache_fetch_may_begin(lists->cache)) {
        unref(shared);
        metric_add(M_LISTS_UNSHARED, 1);
        return NULL;
    }
    if (!ask->newest) {
        shared->refs++;
        list_add(chain_of(lists, key), &shared->link);
        list_add(&lists->by_age, &shared->age_link);
    }
    metric_add(M_LISTS_ASKED, 1);
    origin_start(ask->rules->origin, &shared->call);
    return shared;
}

/* Joins an equal list, or asks the origin. Returns a reference, or NULL. Under the lock. */
static struct shared *join_or_ask(struct lists *lists, const struct list_ask *ask, bool *ret_reused)
{
    struct arena scratch = { 0 };
    slice key = key_of(&scratch, ask);
    struct shared *shared = ask->newest ? NULL : find(lists, key, ageing_ms());
    *ret_reused = shared && shared->over;
    if (shared && !shared->over && ask->trace)
        span_link(ask->trace->span, &shared->call.trace);
    if (shared)
        metric_add(shared->over ? M_LISTS_REUSED : M_LISTS_JOINED, 1);
    else
        shared = ask_origin(lists, ask, key);
    if (shared)
        shared->refs++;
    arena_free(&scratch);
    return shared;
}

static void woken(void *arg)
{
    struct list_get *get = arg;
    get->changed(get->arg);
}

struct list_get *list_start(struct cache_loop *loop, const struct list_ask *ask,
                            void (*changed)(void *arg), void *arg)
{
    struct lists *lists = loop->cache->lists;
    bool reused;
    pthread_mutex_lock(&lists->lock);
    struct shared *shared = join_or_ask(lists, ask, &reused);
    pthread_mutex_unlock(&lists->lock);
    if (!shared)
        return NULL;
    struct list_get *get = must_alloc(sizeof(*get));
    get->loop = loop;
    get->shared = shared;
    get->reused = reused;
    get->changed = changed;
    get->arg = arg;
    get->ticket = ticket_new(loop->box, woken, get);
    get->waiter.ticket = get->ticket;
    list_init(&get->waiter.link);
    return get;
}

enum err list_answer(struct list_get *get, const struct list_answer **ret)
{
    struct shared *shared = get->shared;
    pthread_mutex_lock(&shared->lists->lock);
    bool over = shared->over;
    if (!over)
        waiter_add(&shared->waiters, &get->waiter);
    pthread_mutex_unlock(&shared->lists->lock);
    if (!over)
        return ERR_WAIT;
    get->answer = shared->answer;
    get->answer.reused = get->reused;
    *ret = &get->answer;
    return OK;
}

/* True if only the list's own call, and perhaps the table, hold references, and no later call would
 * use the answer. */
static bool is_of_no_use(const struct shared *shared)
{
    unsigned own = list_empty(&shared->link) ? 1 : 2;
    return !shared->over && shared->refs == own && (own == 1 || !shared->reuse_ms);
}

void list_end(struct list_get **get)
{
    struct list_get *mine = *get;
    *get = NULL;
    if (!mine)
        return;
    struct shared *shared = mine->shared;
    struct lists *lists = shared->lists;
    pthread_mutex_lock(&lists->lock);
    list_del(&mine->waiter.link);
    shared->refs--;
    check(shared->refs > 0 || shared->over);    /* the call has a reference, or the list is over */
    if (is_of_no_use(shared)) {
        forget(shared);
        origin_cancel(&shared->call);
    }
    shared->refs++;
    unref(shared);
    pthread_mutex_unlock(&lists->lock);
    ticket_end(&mine->ticket);
    free(mine);
}
