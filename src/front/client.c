/* client.c - the table of clients. SPDX-License-Identifier: Apache-2.0
 *
 * Tables and clients stay until the end of the process, so calls hold pointers to clients without
 * counting references. A new table reuses the clients that are unchanged. So a reload costs one
 * array of pointers, and memory for the clients that are new. Any thread reads the table by loading
 * one pointer; one thread at a time replaces the table. */
#include "front/client.h"

#include <stdlib.h>

struct table {
    const struct client *nobody;
    size_t count;
    const struct client *clients[];    /* sorted by access key */
};

struct clients {
    _Atomic(struct table *) table;
    struct arena keep;
    uint64_t last_id;
    struct known {
        struct client client;
        struct known *next;
    } *known;                     /* every client of every table so far */
};

struct clients *clients_new(void)
{
    struct clients *all = must_alloc(sizeof(*all));
    clients_set(all, NULL, 0);
    return all;
}

void clients_free(struct clients **all)
{
    if (!*all)
        return;
    struct arena keep = (*all)->keep;
    free(*all);
    arena_free(&keep);
    *all = NULL;
}

/* ---- making a table ---- */

static bool same_policy(const struct front_key *a, const struct front_key *b)
{
    if (a->policy_count != b->policy_count)
        return false;
    for (size_t i = 0; i < a->policy_count; i++)
        if (a->policy[i].rights != b->policy[i].rights ||
            !slice_eq(a->policy[i].bucket, b->policy[i].bucket) ||
            !slice_eq(a->policy[i].prefix, b->policy[i].prefix))
            return false;
    return true;
}

static bool is_same(const struct front_key *a, const struct front_key *b)
{
    return slice_eq(a->access_key, b->access_key) && slice_eq(a->secret_key, b->secret_key) &&
           slice_eq(a->previous_secret_key, b->previous_secret_key) &&
           slice_eq(a->session_token, b->session_token) && a->own == b->own &&
           slice_eq(a->as.access_key, b->as.access_key) &&
           slice_eq(a->as.secret_key, b->as.secret_key) &&
           slice_eq(a->as.session_token, b->as.session_token) && same_policy(a, b);
}

static const struct client *make(struct clients *all, const struct front_key *from)
{
    struct known *known = arena_alloc(&all->keep, sizeof(*known));
    struct client *client = &known->client;
    struct front_key *key = &client->key;
    slice *const texts[] = { &key->access_key, &key->secret_key, &key->session_token,
                             &key->previous_secret_key, &key->as.access_key, &key->as.secret_key,
                             &key->as.session_token };
    struct config_policy *policy =
        arena_alloc(&all->keep, (from->policy_count + 1) * sizeof(*policy));
    for (size_t i = 0; i < from->policy_count; i++)
        policy[i] = (struct config_policy){ from->policy[i].rights,
                                            arena_copy(&all->keep, from->policy[i].bucket),
                                            arena_copy(&all->keep, from->policy[i].prefix) };
    *key = *from;
    key->policy = policy;
    for (size_t i = 0; i < countof(texts); i++)
        *texts[i] = arena_copy(&all->keep, *texts[i]);
    if (key->own)
        client->who = (struct identity){ ++all->last_id, &key->as };
    client->number = all->known ? all->known->client.number + 1 : CLIENT_KNOWN;
    known->next = all->known;
    all->known = known;
    return client;
}

static const struct client *find_or_make(struct clients *all, const struct front_key *key)
{
    for (const struct known *known = all->known; known; known = known->next)
        if (is_same(&known->client.key, key))
            return &known->client;
    return make(all, key);
}

static int compare(const void *a, const void *b)
{
    const struct client *one = *(const struct client *const *)a;
    const struct client *other = *(const struct client *const *)b;
    return slice_cmp(one->key.access_key, other->key.access_key);
}

void clients_set(struct clients *all, const struct front_key *keys, size_t count)
{
    struct table *table = arena_alloc(&all->keep,
                                      sizeof(*table) + count * sizeof(table->clients[0]));
    check(keys || !count);
    for (size_t i = 0; i < count; i++) {
        if (keys[i].access_key.len && !keys[i].secret_key.len)
            continue;    /* such a key is no client; the settings refuse it, too */
        const struct client *client = find_or_make(all, &keys[i]);
        if (client->key.access_key.len)
            table->clients[table->count++] = client;
        else
            table->nobody = client;
    }
    qsort(table->clients, table->count, sizeof(table->clients[0]), compare);
    atomic_store(&all->table, table);
}

/* ---- finding a client ---- */

/* Returns the number of clients whose access key sorts before this one. */
static size_t count_below(const struct table *table, slice access_key)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (slice_cmp(table->clients[mid]->key.access_key, access_key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

enum err clients_find(const struct clients *all, slice access_key, slice session_token,
                      const struct client **ret)
{
    const struct table *table = atomic_load(&((struct clients *)all)->table);
    enum err err = ERR_UNKNOWN_KEY;
    check(table);
    for (size_t i = count_below(table, access_key); i < table->count; i++) {
        const struct client *client = table->clients[i];
        if (!slice_eq(client->key.access_key, access_key))
            break;
        if (slice_eq(client->key.session_token, session_token)) {
            *ret = client;
            return OK;
        }
        err = session_token.len ? ERR_BAD_TOKEN : ERR_UNKNOWN_KEY;
    }
    return err;
}

enum err clients_find_only(const struct clients *all, slice access_key, const struct client **ret)
{
    const struct table *table = atomic_load(&((struct clients *)all)->table);
    size_t i = count_below(table, access_key), found = 0;
    for (; i < table->count && slice_eq(table->clients[i]->key.access_key, access_key); i++) {
        *ret = table->clients[i];
        found++;
    }
    return found == 1 ? OK : ERR_UNKNOWN_KEY;
}

const struct client *clients_nobody(const struct clients *all)
{
    return atomic_load(&((struct clients *)all)->table)->nobody;
}

size_t clients_count(const struct clients *all)
{
    const struct table *table = atomic_load(&((struct clients *)all)->table);
    return table->count + (table->nobody ? 1 : 0);
}
