/* peers.c - the other nodes of the fleet: the list of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "peers/inside.h"

static const char *copy(struct peers *peers, const char *text)
{
    return arena_copy(&peers->keep, slice_of(text)).ptr;
}

struct peers *peers_new(const struct peers_options *options)
{
    struct peers *peers = must_alloc(sizeof(*peers));
    peers->options = *options;
    peers->options.name = copy(peers, options->name);
    peers->options.ca_file = copy(peers, options->ca_file);
    peers->mutual.cert_file = copy(peers, options->cert_file);
    peers->mutual.key_file = copy(peers, options->key_file);
    peers->url = arena_printf(&peers->keep, "https://%s/", options->name);
    peers->source.magic = ORIGIN_MAGIC;
    peers->source.kind = &peers_kind;
    pthread_mutex_init(&peers->lock, NULL);
    list_init(&peers->nodes);
    peers_look(peers);
    peers->carriers = carriers_new_for("peer", options->threads);
    tell_begin(peers);
    deliver_begin(peers);
    return peers;
}

static struct node *find(struct peers *peers, const struct member_address *address)
{
    list_each(struct node, node, &peers->nodes, link)
        if (member_order(&node->address, address) == 0)
            return node;
    return NULL;
}

static bool is_in(const struct node *node, const struct member_address *list, size_t count)
{
    return bsearch(&node->address, list, count, sizeof(*list), member_order) != NULL;
}

/* Under the lock. The errand sees that the node is not listed any more, and leaves. */
static void drop(struct node *node)
{
    node_count_gone(node);
    node->facts.listed = false;
    list_del(&node->link);
    node_wake(node);
    node_unref(&node);
}

void peers_listed(void *arg, const struct member_address *list, size_t count)
{
    struct peers *peers = arg;
    uint64_t now_ms = mono_ms();
    pthread_mutex_lock(&peers->lock);
    list_each_safe(struct node, node, &peers->nodes, link)
        if (!is_in(node, list, count))
            drop(node);
    for (size_t i = 0, added = 0; i < count; i++) {
        if (find(peers, &list[i]))
            continue;
        struct node *node = node_new(peers, &list[i]);
        node->circuit.hello_ms = now_ms + HELLO_EACH_MS * added++;
        list_add(&peers->nodes, &node->link);
        errand_enter(carriers_next(peers->carriers), &node->errand);
    }
    peers_give_labels(peers);
    peers_look(peers);
    pthread_mutex_unlock(&peers->lock);
}

void peers_free(struct peers **peers)
{
    struct peers *mine = *peers;
    *peers = NULL;
    if (!mine)
        return;
    tell_last(mine);
    carriers_free(mine->carriers);    /* all errands have left */
    tell_end(mine);
    while (!list_empty(&mine->nodes)) {
        struct node *node = list_of(list_take(&mine->nodes), struct node, link);
        node_unref(&node);
    }
    view_unref(&mine->view);
    pthread_mutex_destroy(&mine->lock);
    arena_free(&mine->keep);
    free(mine);
}

static char process[PEERS_PROCESS_BYTES];

static void make_process(void)
{
    uint64_t random;
    check(getrandom(&random, sizeof(random), 0) == sizeof(random));
    snprintf(process, sizeof(process), "%016" PRIx64, random);
}

const char *peers_process(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_process);
    return process;
}

bool peers_answer(const struct peers *peers)
{
    return peers && atomic_load_explicit(&peers->others, memory_order_relaxed) > 0;
}
