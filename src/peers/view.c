/* view.c - the nodes that answer, from which the owner of a segment is computed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * These are the nodes whose circuit is not open, and this one. Of two addresses with the same id,
 * one counts. A view never changes: when a node comes or goes, there is a new view for the next
 * question. */
#include "peers/inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/metric.h"

void view_unref(struct view **view)
{
    struct view *mine = *view;
    *view = NULL;
    if (!mine || atomic_fetch_sub(&mine->refs, 1) > 1)
        return;
    for (size_t i = 0; i < mine->count; i++)
        node_unref(&mine->nodes[i]);
    free(mine->ranks);
    free(mine->nodes);
    free(mine);
}

struct view *peers_view(struct peers *peers)
{
    pthread_mutex_lock(&peers->lock);
    struct view *view = peers->view;
    atomic_fetch_add(&view->refs, 1);
    pthread_mutex_unlock(&peers->lock);
    return view;
}

bool view_has(const struct view *view, const uint8_t id[NODE_ID_BYTES])
{
    size_t i = 0;
    while (i < view->count && memcmp(view->ranks[i].id, id, NODE_ID_BYTES) != 0)
        i++;
    return i < view->count;
}

static void add(struct view *view, const uint8_t id[NODE_ID_BYTES], uint32_t weight,
                struct node *node)
{
    struct rank_node *rank = &view->ranks[view->count];
    memcpy(rank->id, id, NODE_ID_BYTES);
    rank->weight = weight;
    view->nodes[view->count++] = node ? node_ref(node) : NULL;
}

void peers_look(struct peers *peers)
{
    size_t count = 1;
    struct view *view = must_alloc(sizeof(*view));
    list_each(struct node, node, &peers->nodes, link)
        count++;
    atomic_store(&view->refs, 1);
    view->ranks = must_alloc(count * sizeof(*view->ranks));
    view->nodes = must_alloc(count * sizeof(struct node *));
    add(view, peers->options.id, peers->options.weight, NULL);
    list_each(struct node, node, &peers->nodes, link)
        if (node->facts.listed && node->facts.answers && !view_has(view, node->facts.id))
            add(view, node->facts.id, node->facts.weight, node);
    atomic_store(&peers->others, (unsigned)view->count - 1);
    metric_set(M_PEERS, (int64_t)view->count - 1);
    view_unref(&peers->view);
    peers->view = view;
}
