/* own_list.c - what the origin lists to a client. SPDX-License-Identifier: Apache-2.0
 *
 *   loop: own_list_ask, own_list_next ──> list call ──> take: copies the page ──> done
 *   any thread: own_list_read: objects of the page ──> sorted list, or ERR_WAIT: own_list_next
 *
 * The list calls are sent one after another, in the name of the client (cache/lists.h). No earlier
 * answer is used again. Each call goes on where the one before ended (s3/list_pages.h). Some
 * origins list keys in another order than that of their bytes, so the objects are sorted in the
 * end.
 *
 * Limits (rule H8 in src/README.md): the calls for one list take at most LIST_MS + TICK_MS, and
 * there are at most CALLS_MAX of them. A list that reaches one of these two limits ends with the
 * last key that has come, like a list that has reached keys_max or bytes_max. If no key has come,
 * the request fails. A list is long if its keys_max is larger than PAGE_KEYS. There are at most
 * OWN_LISTS_LONG long lists at a time, and one for each identity: so a user with a slow origin
 * can't keep all others from long lists. */
#include "front/own_list.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/metric.h"
#include "cache/lists.h"
#include "s3/list_pages.h"

#define PAGE_KEYS 1000u
#define KEY_BYTES (8 * KIB)           /* a page has at most so many bytes for each key ... */
#define HEAD_BYTES (64 * KIB)         /* ... and besides */
#define CALLS_MAX 1000u
#define LIST_MS 60000u
#define TICK_MS 1000u
#define ADVICE " Update the origin's software, or use an access key that has a policy: Penstock " \
               "then needs no list from the origin."

struct own_list {
    struct call *call;                /* while the origin is asked */
    struct list_get *get;             /* the list call in progress, or NULL */
    struct http_timer *timer;         /* of that call */
    void (*done)(void *arg, enum err err);
    void *arg;
    struct own_list_ask ask;          /* keys_max 0: only the status counts */
    atomic_uint_fast64_t *place;      /* of a long list: in front->own_lists; else NULL */
    uint64_t until_ms;                /* ageing time */
    unsigned calls;
    struct arena page_keep, keep;     /* hold the page that has come; the objects' texts */
    slice page;
    struct listed *objects;           /* in the end: sorted by key */
    size_t count, capacity;
    struct list_pages pages;
    const char *why;                  /* of an error, or NULL */
};

bool own_list_is_needed(const struct call *call)
{
    return identity_id(&call->client->who) && call->rules->grant_scope == GRANT_OBJECT;
}

static void end_call(struct own_list *list)
{
    http_timer_stop(&list->timer);
    list_end(&list->get);
}

void own_list_free(struct own_list **list)
{
    struct own_list *mine = *list;
    *list = NULL;
    if (!mine)
        return;
    end_call(mine);
    if (mine->place)
        atomic_store(mine->place, 0);
    list_pages_end(&mine->pages);
    arena_free(&mine->page_keep);
    arena_free(&mine->keep);
    free(mine->objects);
    free(mine);
}

static enum err fail(struct own_list *list, enum err err, const char *why)
{
    list->why = why;
    return err;
}

slice own_list_why(const struct own_list *list)
{
    return list && list->why ? slice_of(list->why) : S("");
}

/* ---- the list calls, on the loop ---- */

/* The number of keys that the next page may have. */
static size_t keys_wanted(const struct own_list *list)
{
    return MIN(MAX(list->ask.keys_max, (size_t)1) - list->count, (size_t)PAGE_KEYS);
}

/* Takes the answer to the call in progress. */
static enum err take(struct own_list *list, const struct list_answer *answer)
{
    if (answer->err == ERR_LIMIT)
        return fail(list, ERR_LIMIT, "Please reduce your request rate: the memory for lists "
                    "(budget memory_lists) has no room for the origin's answer. If this "
                    "happens again and again, give Penstock more memory (setting memory).");
    if (answer->err)
        return answer->err;
    if (answer->status != 200)
        return answer->status == 404 ? ERR_NO_SUCH_BUCKET : ERR_DENIED;
    if (!list->ask.keys_max)
        return OK;
    if (!answer->body.len)
        return ERR_ORIGIN_REPLY;
    if (answer->body.len > keys_wanted(list) * KEY_BYTES + HEAD_BYTES)
        return fail(list, ERR_ORIGIN_REPLY, "The origin's answer is too large for the number of "
                    "keys that Penstock asked for: the origin ignores max-keys." ADVICE);
    list->page = arena_copy(&list->page_keep, answer->body);
    return OK;
}

static enum err look(struct own_list *list)
{
    const struct list_answer *answer;
    if (list_answer(list->get, &answer) == ERR_WAIT)
        return ERR_WAIT;
    enum err err = take(list, answer);
    end_call(list);
    return err;
}

static void changed(void *arg)
{
    struct own_list *list = arg;
    enum err err = list->get ? look(list) : ERR_WAIT;
    if (err != ERR_WAIT)
        list->done(list->arg, err);
}

static enum err no_key_in_time(struct own_list *list)
{
    return fail(list, ERR_ORIGIN_TIMEOUT, "The origin's list had no key within 60 s, or in 1000 "
                "pages. Please try again. If it fails again, and the request has a prefix, ask for "
                "a longer one.");
}

/* Called each second while the origin is asked. Its clock is the ageing clock, which tests move. */
static void tick(void *arg)
{
    struct own_list *list = arg;
    http_timer_stop(&list->timer);
    if (ageing_ms() < list->until_ms) {
        list->timer = http_timer_start(http_request_loop(list->call->http), TICK_MS, tick, list);
        return;
    }
    end_call(list);
    list->done(list->arg, list->count ? OK : no_key_in_time(list));
}

enum err own_list_next(struct own_list *list)
{
    struct call *call = list->call;
    struct arena scratch = { 0 };
    struct list_ask ask = { .rules = call->rules, .who = &call->client->who,
                            .op = S3_LIST_OBJECTS_V2, .bucket = call->s3.bucket,
                            .query = list_pages_query(&list->pages, keys_wanted(list), &scratch),
                            .newest = true };
    list->get = list_start(call->loop->cache, &ask, changed, list);
    arena_free(&scratch);
    if (!list->get)
        return ERR_SLOW_DOWN;
    list->calls++;
    list->timer = http_timer_start(http_request_loop(call->http), TICK_MS, tick, list);
    return look(list);
}

/* Takes a place for a long list. Two loops may take places for one identity at the same moment;
 * that does no harm. */
static bool take_place(struct own_list *list)
{
    atomic_uint_fast64_t *places = list->call->front->own_lists;
    uint64_t id = identity_id(&list->call->client->who);
    for (size_t i = 0; i < OWN_LISTS_LONG; i++)
        if (atomic_load(&places[i]) == id)
            return false;
    for (size_t i = 0; i < OWN_LISTS_LONG && !list->place; i++) {
        uint_fast64_t none = 0;
        if (atomic_compare_exchange_strong(&places[i], &none, id))
            list->place = &places[i];
    }
    return list->place != NULL;
}

enum err own_list_ask(struct call *call, const struct own_list_ask *ask,
                      void (*done)(void *arg, enum err err), void *arg, struct own_list **ret)
{
    struct own_list *list = must_alloc(sizeof(*list));
    check(ask->keys_max > 0);
    *list = (struct own_list){ .call = call, .done = done, .arg = arg, .ask = *ask };
    list->until_ms = ageing_ms() + LIST_MS;
    *ret = list;
    if (!own_list_is_needed(call))
        list->ask.keys_max = 0;
    list_pages_begin(&list->pages, ask->prefix, list->ask.keys_max ? ask->after : S(""));
    if (list->ask.keys_max > PAGE_KEYS && !take_place(list)) {
        metric_add(M_WALKS_LIMITED, 1);
        return fail(list, ERR_SLOW_DOWN, "Please reduce your request rate: at most 4 requests may "
                    "read long lists of the origin at the same time, and at most 1 for each "
                    "identity.");
    }
    return own_list_next(list);
}

/* ---- pages, on any thread ---- */

static bool is_full(const struct own_list *list)
{
    return list->count >= list->ask.keys_max ||
           list->keep.used_bytes + list->count * sizeof(list->objects[0]) >= list->ask.bytes_max;
}

/* True if the list may make no further call: it has made CALLS_MAX calls, or its time is over. */
static bool is_late(const struct own_list *list)
{
    return list->calls >= CALLS_MAX || ageing_ms() >= list->until_ms;
}

static void add(struct own_list *list, const struct listed *object)
{
    if (list->count == list->capacity) {
        list->capacity = MAX(2 * list->capacity, (size_t)64);
        list->objects = realloc(list->objects, list->capacity * sizeof(list->objects[0]));
        check(list->objects != NULL);
    }
    struct listed *copy = &list->objects[list->count++];
    *copy = *object;
    copy->key = arena_copy(&list->keep, object->key);
    copy->etag = arena_copy(&list->keep, object->etag);
}

static const char *const faults[LIST_FAULTS] = {
    [LIST_ENDLESS] = LIST_ENDLESS_TEXT ADVICE, [LIST_REPEATED] = LIST_REPEATED_TEXT ADVICE,
    [LIST_BEFORE] = LIST_BEFORE_TEXT ADVICE,
};

/* Adds the objects of the page. */
static enum err read_page(struct own_list *list)
{
    struct arena scratch = { 0 };
    struct listing page = { .truncated = false };
    enum err err = xml_read_listing(&scratch, list->page, &page) == OK ? OK : ERR_ORIGIN_REPLY;
    enum list_fault fault = err ? LIST_GOES_ON : list_pages_take(&list->pages, &page);
    if (fault)
        err = fail(list, ERR_ORIGIN_REPLY, faults[fault]);
    for (size_t i = 0; i < page.object_count && !err; i++)
        add(list, &page.objects[i]);
    arena_free(&scratch);
    arena_free(&list->page_keep);
    list->page = S("");
    return err;
}

static int by_key(const void *a, const void *b)
{
    return slice_cmp(((const struct listed *)a)->key, ((const struct listed *)b)->key);
}

/* If the time ran out during the last call (tick), there is no new page to read. */
enum err own_list_read(struct own_list *list)
{
    enum err err = list->page.len ? read_page(list) : OK;
    if (!list->ask.keys_max || err)
        return err;
    if (list->pages.more && !is_full(list)) {
        if (!is_late(list))
            return ERR_WAIT;
        if (!list->count)
            return no_key_in_time(list);
    }
    if (list->count)
        qsort(list->objects, list->count, sizeof(list->objects[0]), by_key);
    return OK;
}

/* ---- the list ---- */

const struct listed *own_list_find(const struct own_list *list, slice key)
{
    struct listed wanted = { .key = key };
    return list->count ? bsearch(&wanted, list->objects, list->count, sizeof(wanted), by_key)
                       : NULL;
}

bool own_list_has_more(const struct own_list *list, slice *ret)
{
    *ret = list->pages.last;
    return list->pages.more;
}
