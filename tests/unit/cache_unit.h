/* cache_unit.h - a cache with a real store and a fake origin, and its clients.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CACHE_UNIT_H
#define CACHE_UNIT_H

#include "fake_origin.h"

#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metric.h"
#include "cache/get.h"
#include "cache/write.h"

static struct {
    char folder[64];
    struct arena keep;
    struct store *store;
    struct cache *cache;
    struct origin origin;
    struct rules rules;
    const char *engine;
    int64_t if_modified_since;    /* of what is asked for; -1: none */
    uint64_t missing_ms, lists_ms;
    size_t lists_bytes;
    slice version;                /* of what is asked for; empty: what is current */
    const struct identity *who;   /* who asks from now on */
    uint8_t *to;                  /* where the answer goes; NULL: wherever it lies */
    uint64_t to_bytes;
    enum cold_reads cold_reads;
    uint64_t folder_bytes;        /* 0: 64 MiB */
} house;

static void open_house(uint64_t size)
{
    slice why;
    const char *engine_why;
    struct store_folder folder = {
        house.folder, house.folder_bytes ? house.folder_bytes : 64 * MIB
    };
    struct store_options options = {
        .folders = &folder, .folder_count = 1, .reserve_bytes = 1, .extent_bytes = 4 * MIB,
        .metadata_bytes = 1 * MIB, .queue_bytes_max = 32 * MIB, .commit_ms_max = 5000,
        .cold_reads = house.cold_reads,
    };
    const char *engine = getenv("PENSTOCK_IO");
    ok(disk_choose(slice_of(engine ? engine : "auto"), &options.engine, &engine_why) == OK);
    ok(store_open(&options, &house.keep, &house.store, &why) == OK);
    house.cache = cache_new(&(struct cache_options){
        .store = house.store, .slots_bytes = 16 * MIB, .fetches_max = 1000,
        .missing_ms = house.missing_ms, .lists_ms = house.lists_ms,
        .lists_bytes = house.lists_bytes, .grants_bytes = MIB });
    house.rules = (struct rules){ .origin = &house.origin, .freshness = FRESH_IMMUTABLE };
    house.if_modified_since = -1;
    house.who = NULL;
    fake_begin(size);
}

static void close_house(void)
{
    fake_end();
    cache_free(&house.cache);
    store_close(&house.store);
    arena_free(&house.keep);
}

static void new_house(uint64_t size)
{
    snprintf(house.folder, sizeof(house.folder), "/tmp/penstock-test-XXXXXX");
    ok(mkdtemp(house.folder) != NULL);
    open_house(size);
}

static void drop_house(void)
{
    char command[128];
    close_house();
    snprintf(command, sizeof(command), "rm -rf %s", house.folder);
    ok(system(command) == 0);
}

/* ---- a client ---- */

struct client {
    struct mailbox *box;
    struct cache_loop *loop;
    struct get *get;
    const struct get_answer *answer;
    enum err err;
    uint64_t got, in_place;
    unsigned version;
};

static inline void client_begin(struct client *client)
{
    *client = (struct client){ .box = mailbox_new() };
    client->loop = cache_loop_new(house.cache, client->box);
}

static inline void client_end(struct client *client)
{
    get_end(&client->get);
    cache_loop_free(&client->loop);
    mailbox_free(&client->box);
}

static inline void noted(void *arg)
{
    (void)arg;
}

static inline void turn(struct client *client)
{
    poll(&(struct pollfd){ .fd = mailbox_fd(client->box), .events = POLLIN }, 1, 20);
    mailbox_deliver(client->box);
    cache_loop_turn(client->loop);
}

static inline void ask_for(struct client *client, const char *key, uint64_t first, uint64_t end)
{
    struct get_ask want = {
        .rules = &house.rules,
        .who = house.who,
        .bucket = S("bucket"),
        .key = slice_of(key),
        .version = house.version,
        .to = { .at = house.to, .bytes = house.to_bytes },
        .conditions = { .if_modified_since = house.if_modified_since, .if_unmodified_since = -1 },
    };
    if (end)
        want.range = (struct s3_range){ .kind = RANGE_SPAN, .first = first, .last = end - 1 };
    get_end(&client->get);
    client->got = client->in_place = 0;
    client->get = get_start(client->loop, &want, noted, client);
}

static inline void ask(struct client *client, uint64_t first, uint64_t end)
{
    ask_for(client, "key", first, end);
}

static inline enum err decided(struct client *client)
{
    uint64_t until = mono_ms() + 60000;
    enum err err;
    while ((err = get_decide(client->get, &client->answer)) == ERR_WAIT) {
        check(mono_ms() < until);
        turn(client);
    }
    return client->answer->err;
}

/* Reads up to `most` bytes, each compared; true if all of the answer came. */
static inline bool read_some(struct client *client, uint64_t most)
{
    uint64_t until = mono_ms() + 60000, length = client->answer->end - client->answer->first;
    unsigned version = client->version ? client->version : 1;
    while (client->got < MIN(most, length)) {
        slice bytes;
        enum err err = get_next(client->get, &bytes);
        check(mono_ms() < until);
        if (err == ERR_WAIT) {
            turn(client);
            continue;
        }
        client->err = err;
        if (err)
            return false;
        check(fake_is(version, client->answer->first + client->got, bytes));
        if (house.to && bytes.ptr == (char *)house.to + client->got)
            client->in_place += bytes.len;
        client->got += bytes.len;
    }
    return client->got == length;
}

static inline bool reads(struct client *client, uint64_t first, uint64_t end)
{
    ask(client, first, end);
    return decided(client) == OK && read_some(client, UINT64_MAX);
}

static inline void settle(struct client *client)    /* what is on its way to the store has arrived */
{
    get_end(&client->get);    /* it may hold the last flight */
    while (flights_objects(house.cache->flights) > 0)
        turn(client);
}

#endif
