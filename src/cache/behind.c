/* behind.c - revalidations nobody waits for. SPDX-License-Identifier: Apache-2.0
 *
 * A copy within its grace is served at once, and the origin is asked about it meanwhile: by a get
 * of its own, without a client, that goes the same way as any other (page, then HEAD) and stores
 * what it learns. The head carries the mark that one is under way, so that a crowd of readers
 * starts one, not thousands. Belongs to the loop of the get that started it; ends with it. */
#include <stdlib.h>

#include "base/metric.h"
#include "cache/getting.h"

#define BEHIND_MAX 256u           /* a loop (H8); of more, the next reader tries again */

struct behind {
    struct list link;             /* loop->behind */
    struct cache_loop *loop;
    struct get *get;
    struct head *head;            /* whose mark it holds */
    char *bucket, *key;
};

static void behind_end(struct behind *behind)
{
    atomic_store(&behind->head->revalidating, false);
    list_del(&behind->link);
    behind->loop->behind_count--;
    get_end(&behind->get);
    head_unref(&behind->head);
    free(behind->bucket);
    free(behind->key);
    free(behind);
}

static void step(void *arg)
{
    struct behind *behind = arg;
    const struct get_answer *ignored;    /* whatever came of it is in the store */
    if (get_decide(behind->get, &ignored) != ERR_WAIT)
        behind_end(behind);
}

void behind_start(struct get *get)
{
    struct cache_loop *loop = get->loop;
    if (loop->behind_count >= BEHIND_MAX) {
        metric_add(M_CACHE_BEHIND_REFUSED, 1);
        return;
    }
    if (atomic_exchange(&get->head->revalidating, true))
        return;
    struct behind *behind = must_alloc(sizeof(*behind));
    behind->loop = loop;
    behind->head = head_ref(get->head);
    behind->bucket = must_strndup(get->name.bucket.ptr, get->name.bucket.len);
    behind->key = must_strndup(get->name.key.ptr, get->name.key.len);
    struct get_ask ask = {
        .place = get->ask.place,
        .bucket = { behind->bucket, get->name.bucket.len },
        .key = { behind->key, get->name.key.len },
        .conditions = { .if_modified_since = -1, .if_unmodified_since = -1 },
        .head_only = true,
        .behind = true,
    };
    list_init(&behind->link);
    list_add(&loop->behind, &behind->link);
    loop->behind_count++;
    behind->get = get_start(loop, &ask, step, behind);
    step(behind);
}

void behind_end_all(struct cache_loop *loop)
{
    while (!list_empty(&loop->behind))
        behind_end(list_of(loop->behind.next, struct behind, link));
}
