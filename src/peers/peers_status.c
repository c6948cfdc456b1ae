/* peers_status.c - what operators see of the other nodes. SPDX-License-Identifier: Apache-2.0
 *
 * /status has a row for each listed address. /metrics has a label for PEER_LABELS of them, so that
 * the metrics of a large fleet do not grow with the square of its size. A label belongs to an address
 * until it leaves the list; what its node counted before it got the label stays in "other". So no
 * counter ever falls, and an address that leaves takes its own series along. Threads: any. */
#include <string.h>

#include "base/clock.h"
#include "peers/inside.h"

static void add(struct peer_counts *to, const struct peer_counts *from)
{
    to->asked += from->asked;
    to->from_bytes += from->from_bytes;
    to->failed += from->failed;
    to->bad += from->bad;
    to->answered += from->answered;
    to->to_bytes += from->to_bytes;
}

static struct peer_counts since(const struct peer_counts *now, const struct peer_counts *before)
{
    return (struct peer_counts){
        .asked = now->asked - before->asked, .from_bytes = now->from_bytes - before->from_bytes,
        .failed = now->failed - before->failed, .bad = now->bad - before->bad,
        .answered = now->answered - before->answered, .to_bytes = now->to_bytes - before->to_bytes,
    };
}

static struct peer_counts counts_of(const struct node *node)
{
    const struct node_counts *counts = &node->counts;
    return (struct peer_counts){
        .asked = atomic_load(&counts->asked), .from_bytes = atomic_load(&counts->bytes),
        .failed = atomic_load(&counts->failed), .bad = atomic_load(&counts->bad),
        .answered = atomic_load(&counts->answered), .to_bytes = atomic_load(&counts->sent),
    };
}

void peers_count_answer(struct peers *peers, const uint8_t id[NODE_ID_BYTES], uint64_t bytes)
{
    struct node *found = NULL;
    if (!peers)
        return;
    pthread_mutex_lock(&peers->lock);
    list_each(struct node, node, &peers->nodes, link)
        if (!found && node_has_id(node, id))
            found = node;
    if (found) {
        atomic_fetch_add(&found->counts.answered, 1);
        atomic_fetch_add(&found->counts.sent, bytes);
    } else {
        peers->beside.strangers.answered++;
        peers->beside.strangers.to_bytes += bytes;
    }
    pthread_mutex_unlock(&peers->lock);
}

/* ---- the list ---- */

static uint64_t weight_sum(const struct view *view)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < view->count; i++)
        sum += view->ranks[i].weight;
    return sum;
}

/* The share of the segments that the node owns. A second address of the same node has none, since
 * one of them counts (view.c). `node` NULL: this node. */
static double share_of(const struct view *view, const struct node *node)
{
    for (size_t i = 0; i < view->count; i++)
        if (view->nodes[i] == node)
            return (double)view->ranks[i].weight / (double)weight_sum(view);
    return 0;
}

static struct peer_status status_of(struct node *node, struct arena *keep)
{
    const struct node_facts *facts = &node->facts;
    struct peers *peers = node->peers;
    bool is_self = node_is_this(node);
    bool waits = !facts->answers && !is_self && !facts->has_our_id;
    uint64_t now_ms = mono_ms(), until_ms = node->circuit.hello_ms;
    struct peer_status status = {
        .address = arena_copy(keep, slice_of(node->text)), .weight = facts->weight,
        .share = share_of(peers->view, is_self ? NULL : node),
        .is_self = is_self, .answers = facts->answers, .since_s = facts->since_s,
        .why = arena_copy(keep, slice_of(facts->why)),
        .retry_ms = !waits ? 0 : until_ms > now_ms ? until_ms - now_ms : 1,
        .version = arena_copy(keep, slice_of(node->report.version)),
        .protocol = node->report.protocol, .round_trip_us = node->report.round_trip_us,
        .counts = counts_of(node),
    };
    memcpy(status.id, facts->id, NODE_ID_BYTES);
    return status;
}

struct peer_status *peers_status(struct peers *peers, struct arena *keep, size_t *ret_count,
                                 struct peers_self *ret_self)
{
    size_t count = 0;
    pthread_mutex_lock(&peers->lock);
    list_each(struct node, node, &peers->nodes, link)
        count++;
    struct peer_status *all = arena_alloc(keep, (count + 1) * sizeof(*all)), *at = all;
    list_each(struct node, node, &peers->nodes, link)
        *at++ = status_of(node, keep);
    *ret_self = (struct peers_self){
        .weight = peers->options.weight, .share = share_of(peers->view, NULL),
        .name = arena_copy(keep, slice_of(peers->options.name)),
        .strangers = peers->beside.strangers,
    };
    memcpy(ret_self->id, peers->options.id, NODE_ID_BYTES);
    pthread_mutex_unlock(&peers->lock);
    *ret_count = count;
    return all;
}

size_t peers_rank(struct peers *peers, const struct rank_place *place, struct arena *keep,
                  struct peer_rank ret[], size_t want)
{
    size_t best[RANK_WANT_MAX];
    struct view *view = peers_view(peers);
    check(want <= RANK_WANT_MAX);
    size_t count = rank_best(view->ranks, view->count, place, best, want);
    for (size_t i = 0; i < count; i++) {
        const struct node *node = view->nodes[best[i]];
        ret[i].address = node ? arena_copy(keep, slice_of(node->text)) : S("");
        memcpy(ret[i].id, view->ranks[best[i]].id, NODE_ID_BYTES);
    }
    view_unref(&view);
    return count;
}

/* ---- labels ---- */

void node_count_gone(struct node *node)
{
    struct peer_counts now = counts_of(node);
    add(&node->peers->beside.gone, node->label.given ? &node->label.before : &now);
}

void peers_give_labels(struct peers *peers)
{
    size_t given = 0;
    list_each(struct node, node, &peers->nodes, link)
        given += node->label.given;
    list_each(struct node, node, &peers->nodes, link) {
        if (node->label.given || given == PEER_LABELS)
            continue;
        node->label.given = true;
        node->label.before = counts_of(node);
        given++;
    }
}

struct peer_label *peers_labels(struct peers *peers, struct arena *keep, size_t *ret_count)
{
    struct peer_label *all = arena_alloc(keep, (PEER_LABELS + 1) * sizeof(*all)), *at = all;
    pthread_mutex_lock(&peers->lock);
    struct peer_counts other = peers->beside.gone;
    add(&other, &peers->beside.strangers);
    list_each(struct node, node, &peers->nodes, link) {
        struct peer_counts now = counts_of(node);
        add(&other, node->label.given ? &node->label.before : &now);
        if (!node->label.given || node_is_this(node))
            continue;
        *at++ = (struct peer_label){ arena_copy(keep, slice_of(node->text)), node->facts.answers,
                                     since(&now, &node->label.before) };
    }
    pthread_mutex_unlock(&peers->lock);
    *at++ = (struct peer_label){ .address = S("other"), .counts = other };
    *ret_count = (size_t)(at - all);
    return all;
}
