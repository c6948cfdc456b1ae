/* fresh.c - revalidates expired keys with pages of a listing. SPDX-License-Identifier: Apache-2.0
 *
 * A page lists the folder of its key (up to the last '/'), or a folder above it. If a page reached
 * the end of its folder with few lines, the folders above are noted. Later pages for keys below
 * them list the widest of these folders that the origin allows. So many small folders cost as much
 * as one large folder, and if the origin allows only the folder itself, that one is listed.
 * paging.c chooses the key at which a page begins. Few pages are in progress, so one linked list
 * and one lock are enough for them. The origin thread that brings a page reads it and renews the
 * index, outside of the lock. */
#include "cache/fresh.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/metric.h"
#include "base/span.h"
#include "cache/inside.h"
#include "cache/paging.h"
#include "s3/encode.h"

#define PAGE_BYTES_MAX (8 * MIB)
#define REFUSED_S 600
#define FAILED_S 60            /* a listing that hangs must not delay the next reader, too */
#define REFUSED_MAX 256
#define MISSING_MAX 3
#define MISSING_ORIGINS 16        /* further origins share a count */
#define FEW_LINES 500             /* half of what a page could have brought */
#define WIDE_MAX 64

struct list_page {
    struct list link;             /* fresh->pages while it runs */
    struct fresh *fresh;
    const struct rules *rules;
    const struct identity *who;   /* signs the listing; its result renews metadata for all */
    struct arena arena;
    struct object_name name;      /* of the key it was started for */
    slice prefix, start_after;
    struct origin_call call;
    int status;
    struct text body;
    int64_t sent_s;
    uint64_t moment;
    bool failed;                  /* once `over`, `failed` and `listing` do not change */
    struct listing listing;       /* in the arena */
    /* under the lock */
    unsigned refs;
    bool over;
    struct list waiters;
};

struct place {
    slice bucket, prefix;         /* owned; bucket.ptr NULL: none */
};

struct refused {
    const struct rules *rules;
    uint64_t identity;            /* the refused one; not compared for a whole origin */
    struct place place;           /* none: the whole origin */
    int64_t until_s;
};

struct missing {
    const struct origin *origin;  /* NULL: the count is free */
    unsigned in_a_row;
};

struct fresh {
    struct cache *cache;
    pthread_mutex_t lock;
    struct list pages;
    struct refused refused[REFUSED_MAX];
    unsigned refused_next;
    struct place wide[WIDE_MAX];
    unsigned wide_next;
    struct missing missing[MISSING_ORIGINS];
    struct paging *paging;
};

struct fresh *fresh_new(struct cache *cache)
{
    struct fresh *fresh = must_alloc(sizeof(*fresh));
    fresh->cache = cache;
    pthread_mutex_init(&fresh->lock, NULL);
    list_init(&fresh->pages);
    fresh->paging = paging_new();
    return fresh;
}

static struct place place_new(slice bucket, slice prefix)
{
    return (struct place){ { must_strndup(bucket.ptr, bucket.len), bucket.len },
                           { must_strndup(prefix.ptr, prefix.len), prefix.len } };
}

static void place_free(struct place *place)
{
    free((char *)place->bucket.ptr);
    free((char *)place->prefix.ptr);
    *place = (struct place){ 0 };
}

static bool place_is(const struct place *place, slice bucket, slice prefix)
{
    return place->bucket.ptr && slice_eq(place->bucket, bucket) && slice_eq(place->prefix, prefix);
}

void fresh_free(struct fresh **fresh)
{
    if (!*fresh)
        return;
    check(list_empty(&(*fresh)->pages));
    for (size_t i = 0; i < REFUSED_MAX; i++)
        place_free(&(*fresh)->refused[i].place);
    for (size_t i = 0; i < WIDE_MAX; i++)
        place_free(&(*fresh)->wide[i]);
    paging_free(&(*fresh)->paging);
    pthread_mutex_destroy(&(*fresh)->lock);
    free(*fresh);
    *fresh = NULL;
}

static slice prefix_of(slice key)
{
    slice above = key;
    key.len -= slice_cut_last(&above, '/').len;
    return key;
}

/* ---- what can't be listed ---- */

static bool is_refused(struct fresh *fresh, const struct rules *rules, const struct identity *who,
                       slice bucket, slice prefix, int64_t now_s)
{
    for (size_t i = 0; i < REFUSED_MAX; i++) {
        const struct refused *refused = &fresh->refused[i];
        if (refused->until_s > now_s && refused->rules->origin == rules->origin &&
            (!refused->place.bucket.ptr || (refused->identity == identity_id(who) &&
                                            place_is(&refused->place, bucket, prefix))))
            return true;
    }
    return false;
}

static void refuse(struct fresh *fresh, const struct rules *rules, const struct identity *who,
                   struct place take_place, int64_t for_s)
{
    struct refused *refused = &fresh->refused[fresh->refused_next++ % REFUSED_MAX];
    place_free(&refused->place);
    *refused = (struct refused){ rules, identity_id(who), take_place, ageing_s() + for_s };
}

static struct missing *missing_at(struct fresh *fresh, const struct origin *origin)
{
    size_t i = 0;
    while (i < MISSING_ORIGINS - 1 && fresh->missing[i].origin != origin &&
           fresh->missing[i].origin)
        i++;
    fresh->missing[i].origin = origin;
    return &fresh->missing[i];
}

void fresh_missing(struct fresh *fresh, const struct rules *rules, bool missing)
{
    pthread_mutex_lock(&fresh->lock);
    struct missing *count = missing_at(fresh, rules->origin);
    count->in_a_row = missing ? count->in_a_row + 1 : 0;
    if (count->in_a_row >= MISSING_MAX) {
        count->in_a_row = 0;
        refuse(fresh, rules, NULL, (struct place){ 0 }, REFUSED_S);
    }
    pthread_mutex_unlock(&fresh->lock);
}

/* ---- how wide a page is ---- */

static bool is_wide(const struct fresh *fresh, slice bucket, slice prefix)
{
    for (size_t i = 0; i < WIDE_MAX; i++)
        if (place_is(&fresh->wide[i], bucket, prefix))
            return true;
    return false;
}

/* Notes the folders around this one, whose page reached the end of the folder with few lines. Later
 * pages list the widest of them that the origin allows. */
static void widen(struct fresh *fresh, slice bucket, slice prefix)
{
    while (prefix.len) {
        check(prefix.ptr[prefix.len - 1] == '/');
        prefix = prefix_of(slice_sub(prefix, 0, prefix.len - 1));
        if (is_wide(fresh, bucket, prefix))
            continue;
        struct place *wide = &fresh->wide[fresh->wide_next++ % WIDE_MAX];
        place_free(wide);
        *wide = place_new(bucket, prefix);
    }
}

/* Returns the widest noted folder around the key that may be listed, or else the key's own. */
static slice widest_prefix(struct fresh *fresh, const struct rules *rules,
                           const struct identity *who, const struct object_name *name)
{
    slice own = prefix_of(name->key);
    for (size_t len = 0; len < own.len; len++) {
        slice prefix = slice_sub(own, 0, len);
        if ((len == 0 || own.ptr[len - 1] == '/') && is_wide(fresh, name->bucket, prefix) &&
            !is_refused(fresh, rules, who, name->bucket, prefix, ageing_s()))
            return prefix;
    }
    return own;
}

/* ---- one page ---- */

static void list_page_unref(struct list_page *page)    /* under the lock */
{
    check(page->refs > 0);
    if (--page->refs > 0)
        return;
    check(page->over && list_empty(&page->waiters));
    arena_free(&page->arena);
    free(page);
}

static void on_head(struct origin_call *call, const struct origin_reply *reply)
{
    container_of(call, struct list_page, call)->status = reply->status;
}

static enum origin_take on_body(struct origin_call *call, slice bytes)
{
    struct list_page *page = container_of(call, struct list_page, call);
    if (page->body.len + bytes.len > PAGE_BYTES_MAX)
        origin_cancel(call);
    else
        text_add(&page->body, bytes);
    return ORIGIN_TAKEN;
}

/* Renews each stored version that a line of the page confirms, as of the time when the request was
 * sent. Objects that a write has changed or restated since then are left out. */
static void renew_all(struct list_page *page)
{
    const struct listing *listing = &page->listing;
    struct store *store = cache_store(page->fresh->cache);
    int64_t restated_s = epoch_bucket_restated(page->name.bucket).at_s;
    struct object_name whole = { .endpoint = page->name.endpoint, .bucket = page->name.bucket };
    struct object_id bucket;
    store_object_id(store, &whole, &bucket);
    for (size_t i = 0; i < listing->object_count; i++) {
        const struct listed *listed = &listing->objects[i];
        struct object_name name = page->name;
        struct object_id id;
        name.key = listed->key;
        store_object_id(store, &name, &id);
        struct store_vouch vouch = { metadata_etag_hash(listed->etag), listed->size,
                                     listed->modified_s, { NULL, 0 }, page->sent_s,
                                     restated_s, &bucket, &name };
        if (epoch_quiet_since(&id, page->moment) &&
            store_renew(store, &id, &vouch) == STORE_RENEWED)
            metric_add(M_CACHE_RENEWED, 1);
    }
}

/* Learns the beginnings of the next pages, and the keys that they list. */
static void learn_from(struct fresh *fresh, const struct list_page *page)
{
    const struct listing *listing = &page->listing;
    struct folder_name folder = { page->rules->origin, page->name.bucket, page->prefix };
    slice last = S("");
    if (listing->truncated && listing->object_count)
        last = listing->objects[listing->object_count - 1].key;
    if (last.len || !listing->truncated)
        paging_note(fresh->paging, &folder, page->name.key, page->start_after, last);
    if (!listing->truncated && listing->object_count < FEW_LINES)
        widen(fresh, page->name.bucket, page->prefix);
}

static void on_done(struct origin_call *call, enum err err)
{
    struct list_page *page = container_of(call, struct list_page, call);
    struct fresh *fresh = page->fresh;
    page->failed = err || page->status != 200 ||
                   xml_read_listing(&page->arena, text_slice(&page->body), &page->listing) != OK;
    if (!page->failed)
        renew_all(page);
    pthread_mutex_lock(&fresh->lock);
    check(!page->over && page->refs > 0);
    page->over = true;
    if (!page->failed)
        learn_from(fresh, page);
    else if (err != ERR_ORIGIN_DOWN)    /* the breaker refused it: listings may work as before */
        refuse(fresh, page->rules, page->who, place_new(page->name.bucket, page->prefix),
               err || page->status >= 500 || page->status == 429 ? FAILED_S : REFUSED_S);
    list_del(&page->link);
    waiters_wake(&page->waiters);
    list_page_unref(page);
    pthread_mutex_unlock(&fresh->lock);
    cache_fetch_ended(fresh->cache);
}

static const struct origin_events events = { on_head, on_body, on_done };

static struct list_page *list_page_start(struct fresh *fresh, const struct rules *rules,
                                         const struct asker *asker, const struct object_name *name,
                                         slice prefix, slice start_after)
{
    check(prefix.len <= name->key.len);    /* it is the beginning of the key */
    struct list_page *page = must_alloc(sizeof(*page));
    page->fresh = fresh;
    page->rules = rules;
    page->who = asker->who;
    page->refs = 1;
    page->name = (struct object_name){
        .endpoint = arena_copy(&page->arena, name->endpoint),
        .bucket = arena_copy(&page->arena, name->bucket),
        .key = arena_copy(&page->arena, name->key),
    };
    page->prefix = slice_sub(page->name.key, 0, prefix.len);
    page->start_after = arena_copy(&page->arena, start_after);
    page->body = text_in(&page->arena);
    page->sent_s = ageing_s();
    page->moment = epoch_moment();
    list_init(&page->waiters);
    list_add(&fresh->pages, &page->link);
    struct text query = text_in(&page->arena);
    text_add(&query, S("encoding-type=url&list-type=2&max-keys=1000&prefix="));
    uri_encode(&query, page->prefix, true);
    if (page->start_after.len) {
        text_add(&query, S("&start-after="));
        uri_encode(&query, page->start_after, true);
    }
    page->call = (struct origin_call){
        .events = &events,
        .op = S3_LIST_OBJECTS_V2,
        .bucket = page->name.bucket,
        .query = text_slice(&query),
        .no_retry = true,    /* gets that wait for it can send a HEAD instead */
        .as = identity_as(asker->who),
    };
    trace_copy(asker->trace, &page->arena, &page->call.trace);
    metric_add(M_CACHE_PAGES, 1);
    origin_start(rules->origin, &page->call);
    return page;
}

/* Returns the page in progress that begins nearest below the key, or NULL. */
static struct list_page *running_list_page(struct fresh *fresh, const struct rules *rules,
                                           const struct object_name *name)
{
    struct list_page *best = NULL;
    list_each(struct list_page, page, &fresh->pages, link)
        if (page->rules->origin == rules->origin && slice_eq(page->name.bucket, name->bucket) &&
            slice_starts(name->key, page->prefix) && slice_cmp(page->start_after, name->key) < 0 &&
            (!best || slice_cmp(best->start_after, page->start_after) < 0))
            best = page;
    return best;
}

struct list_page *fresh_list_page(struct fresh *fresh, const struct rules *rules,
                                  const struct asker *asker, const struct object_name *name,
                                  bool own_only)
{
    const struct identity *who = asker->who;
    struct arena scratch = { 0 };
    slice start_after;
    struct list_page *page = NULL;
    pthread_mutex_lock(&fresh->lock);
    slice prefix = widest_prefix(fresh, rules, who, name);
    struct folder_name folder = { rules->origin, name->bucket, prefix };
    if (rules->by_listing && !is_refused(fresh, rules, who, name->bucket, prefix, ageing_s())) {
        if (!own_only)
            page = running_list_page(fresh, rules, name);
        if (page && asker->trace)
            span_link(asker->trace->span, &page->call.trace);
        if (!page && cache_fetch_may_begin(fresh->cache)) {
            if (paging_start(fresh->paging, &scratch, &folder, name->key, own_only, &start_after))
                page = list_page_start(fresh, rules, asker, name, prefix, start_after);
            else
                cache_fetch_ended(fresh->cache);
        }
    }
    if (page)
        page->refs++;
    pthread_mutex_unlock(&fresh->lock);
    arena_free(&scratch);
    return page;
}

static bool is_listed(const struct listing *listing, slice key)
{
    for (size_t i = 0; i < listing->object_count; i++)
        if (slice_eq(listing->objects[i].key, key))
            return true;
    return false;
}

/* True if the page ends before this key. */
static bool ends_before(const struct listing *listing, slice key)
{
    return listing->truncated && (!listing->object_count ||
           slice_cmp(key, listing->objects[listing->object_count - 1].key) > 0);
}

enum list_page_state fresh_look(struct list_page *page, slice key, struct waiter *waiter)
{
    enum list_page_state state = PAGE_RUNNING;
    pthread_mutex_lock(&page->fresh->lock);
    if (!page->over)
        waiter_add(&page->waiters, waiter);
    else if (page->failed || ends_before(&page->listing, key))
        state = PAGE_MISSES;
    else
        state = is_listed(&page->listing, key) ? PAGE_COVERS : PAGE_LACKS;
    pthread_mutex_unlock(&page->fresh->lock);
    return state;
}

void fresh_leave(struct list_page **page, struct waiter *waiter)
{
    struct list_page *mine = *page;
    *page = NULL;
    if (!mine)
        return;
    struct fresh *fresh = mine->fresh;
    pthread_mutex_lock(&fresh->lock);
    list_del(&waiter->link);
    list_page_unref(mine);
    pthread_mutex_unlock(&fresh->lock);
}
