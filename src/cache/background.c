/* background.c - revalidations that no client waits for. SPDX-License-Identifier: Apache-2.0
 *
 * A copy within its grace is served at once. Meanwhile a get without a client revalidates it, in
 * the same way as any other get (listing page, then HEAD). The object's metadata has a mark while
 * such a get is in progress, so that many readers start only one. The get belongs to the loop of
 * the get that started it, and ends with that loop. Rules such as H8 are in src/README.md. */
#include <stdlib.h>

#include "base/metric.h"
#include "cache/getting.h"

#define BACKGROUND_MAX 256u           /* a loop (rule H8); of more, the next reader tries again */

struct background {
    struct list link;             /* loop->background */
    struct cache_loop *loop;
    struct get *get;
    struct metadata *metadata;    /* it has the mark of this get */
    struct arena keep;            /* holds the slices of get_ask */
};

static void background_end(struct background *background)
{
    check(background->loop->background_count > 0);
    check(atomic_exchange(&background->metadata->revalidating, false));
    list_del(&background->link);
    background->loop->background_count--;
    get_end(&background->get);
    metadata_unref(&background->metadata);
    arena_free(&background->keep);
    free(background);
}

static void step(void *arg)
{
    struct background *background = arg;
    const struct get_answer *ignored;    /* whatever came of it is in the store */
    if (get_decide(background->get, &ignored) != ERR_WAIT)
        background_end(background);
}

void background_start(struct get *get, bool by_head)
{
    struct cache_loop *loop = get->of.loop;
    check(!get->ask.background);    /* a get without a client waits for the origin itself */
    if (loop->background_count >= BACKGROUND_MAX) {
        metric_add(M_CACHE_BACKGROUND_REFUSED, 1);
        return;
    }
    if (atomic_exchange(&get->metadata->revalidating, true))
        return;
    struct background *background = must_alloc(sizeof(*background));
    background->loop = loop;
    background->metadata = metadata_ref(get->metadata);
    struct get_ask ask = {
        .rules = get->ask.rules,
        .bucket = arena_copy(&background->keep, get->of.name.bucket),
        .key = arena_copy(&background->keep, get->of.name.key),
        .version = arena_copy(&background->keep, get->of.name.version),
        .conditions = { .if_modified_since = -1, .if_unmodified_since = -1 },
        .who = get->of.asker.who,
        .list_id = get->ask.list_id,
        .head_only = true,
        .revalidate = by_head,
        .background = true,
    };
    list_init(&background->link);
    list_add(&loop->background, &background->link);
    loop->background_count++;
    background->get = get_start(loop, &ask, step, background);
    step(background);
}

void background_end_all(struct cache_loop *loop)
{
    while (!list_empty(&loop->background))
        background_end(list_of(loop->background.next, struct background, link));
    check(loop->background_count == 0);
}
