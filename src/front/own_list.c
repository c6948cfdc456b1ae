/* own_list.c - the objects that the origin lists to a client. SPDX-License-Identifier: Apache-2.0
 *
 * The list calls are sent one after another, in the name of the client (cache/lists.h). No earlier
 * answer is used again. Some origins list keys in another order than that of their bytes, so a call
 * goes on with the token of the call before, and the objects are sorted in the end. */
#include "front/own_list.h"

#include <stdlib.h>

#include "cache/lists.h"
#include "s3/encode.h"

#define PAGE_KEYS 1000u

struct own_list {
    struct call *call;                /* until the verdict */
    struct list_get *get;             /* the list call in progress, or NULL */
    void (*done)(void *arg, enum err err);
    void *arg;
    struct own_list_ask ask;
    struct arena keep;                /* holds the objects' texts */
    struct listed *objects;           /* after the verdict: sorted by key */
    size_t count, capacity;
    slice last, token;                /* the last key; the place at which the next page begins */
    bool more;                        /* the last page was not the end of the origin's list */
};

bool own_list_is_needed(const struct call *call)
{
    return identity_id(&call->client->who) && call->rules->grant_scope == GRANT_OBJECT;
}

void own_list_free(struct own_list **list)
{
    struct own_list *mine = *list;
    *list = NULL;
    if (!mine)
        return;
    list_end(&mine->get);
    arena_free(&mine->keep);
    free(mine->objects);
    free(mine);
}

/* ---- the list calls ---- */

static bool is_full(const struct own_list *list)
{
    return list->count >= list->ask.keys_max ||
           list->keep.used_bytes + list->count * sizeof(list->objects[0]) >= list->ask.bytes_max;
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
    list->last = copy->key;
}

/* Adds the objects of a page. Returns OK or ERR_ORIGIN_REPLY. */
static enum err read_page(struct own_list *list, slice document)
{
    struct arena scratch = { 0 };
    struct listing page = { .truncated = false };
    bool good = xml_read_listing(&scratch, document, &page) == OK;
    for (size_t i = 0; i < page.object_count && good; i++)
        add(list, &page.objects[i]);
    list->more = page.truncated;
    list->token = arena_copy(&list->keep, page.next_token);
    good = good && (page.object_count || !page.truncated);    /* calls must come to an end */
    arena_free(&scratch);
    return good ? OK : ERR_ORIGIN_REPLY;
}

static void changed(void *arg);

/* Sends the next list call. Returns false if too many calls are in progress. */
static bool ask_page(struct own_list *list)
{
    struct call *call = list->call;
    struct arena scratch = { 0 };
    struct text query = text_in(&scratch);
    text_printf(&query, "encoding-type=url&list-type=2&max-keys=%zu&prefix=",
                MIN(list->ask.keys_max - list->count, (size_t)PAGE_KEYS));
    uri_encode(&query, list->ask.prefix, true);
    slice place = list->token.len ? list->token : list->last;
    if (place.len) {
        text_add(&query, list->token.len ? S("&continuation-token=") : S("&start-after="));
        uri_encode(&query, place, true);
    }
    struct list_ask ask = { .rules = call->rules, .who = &call->client->who,
                            .op = S3_LIST_OBJECTS_V2, .bucket = call->s3.bucket,
                            .query = text_slice(&query), .newest = true };
    list->get = list_start(call->loop->cache, &ask, changed, list);
    arena_free(&scratch);
    return list->get != NULL;
}

static int by_key(const void *a, const void *b)
{
    return slice_cmp(((const struct listed *)a)->key, ((const struct listed *)b)->key);
}

/* Takes the answers that are there, and asks for the next page as long as there is room. Returns
 * ERR_WAIT or the verdict. */
static enum err look(struct own_list *list)
{
    const struct list_answer *answer;
    enum err err = OK;
    do {
        if (!list->get && !ask_page(list))
            return ERR_SLOW_DOWN;
        if (list_answer(list->get, &answer) == ERR_WAIT)
            return ERR_WAIT;
        err = list_verdict(answer);
        if (!err)
            err = read_page(list, answer->body);
        list_end(&list->get);
    } while (!err && list->more && !is_full(list));
    if (list->count)
        qsort(list->objects, list->count, sizeof(list->objects[0]), by_key);
    return err;
}

static void changed(void *arg)
{
    struct own_list *list = arg;
    enum err err = list->get ? look(list) : ERR_WAIT;
    if (err != ERR_WAIT)
        list->done(list->arg, err);
}

enum err own_list_ask(struct call *call, const struct own_list_ask *ask,
                      void (*done)(void *arg, enum err err), void *arg, struct own_list **ret)
{
    struct own_list *list = must_alloc(sizeof(*list));
    check(ask->keys_max > 0);
    *list = (struct own_list){ .call = call, .done = done, .arg = arg, .ask = *ask };
    list->ask.prefix = arena_copy(&list->keep, ask->prefix);
    list->last = arena_copy(&list->keep, ask->after);
    *ret = list;
    return look(list);
}

/* ---- after the verdict ---- */

const struct listed *own_list_find(const struct own_list *list, slice key)
{
    struct listed wanted = { .key = key };
    return list->count ? bsearch(&wanted, list->objects, list->count, sizeof(wanted), by_key) : NULL;
}

bool own_list_has_more(const struct own_list *list, slice *ret)
{
    *ret = list->last;
    return list->more;
}
