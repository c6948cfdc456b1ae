/* node.c - a listed address, and the state of the node there. SPDX-License-Identifier: Apache-2.0
 *
 * Each listed address has an errand, which asks it for its id and weight (hello.c). The results of
 * hellos and of questions go to the circuit of the node (circuit.h), which says when the node may
 * be asked. When that changes, there is a new view (view.c).
 *
 * The errand begins within a time that grows with the list (peers.c), so that a node that starts
 * does not connect to a thousand others at once. */
#include "peers/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"

#define SAME_ID                                                                                   \
    "it has the id of this node, so the two neither share nor tell each other of writes: the "    \
    "cache folder of one is a copy. Stop one of them, empty its cache folders, and start it again"
#define TWIN                                                                                      \
    "another listed node has its id, so only one of the two is told of writes and asked for "     \
    "bytes: the cache folder of one is a copy. Stop one of them, empty its cache folders, and "   \
    "start it again"

/* ---- references ---- */

struct node *node_ref(struct node *node)
{
    check(node->magic == NODE_MAGIC && atomic_fetch_add(&node->refs, 1) > 0);
    return node;
}

void node_unref(struct node **node)
{
    struct node *mine = *node;
    *node = NULL;
    if (!mine || atomic_fetch_sub(&mine->refs, 1) > 1)
        return;
    check(mine->magic == NODE_MAGIC && !mine->hello.exchange);
    mine->magic = 0;
    arena_free(&mine->hello.keep);
    free(mine);
}

/* ---- does it answer? ---- */

bool node_has_id(const struct node *node, const uint8_t id[NODE_ID_BYTES])
{
    return node->facts.known && memcmp(node->facts.id, id, NODE_ID_BYTES) == 0;
}

static bool is_self(const struct node *node)
{
    return node_has_id(node, node->peers->options.id);
}

bool node_is_this(const struct node *node)
{
    return is_self(node) && !node->facts.has_our_id;
}

/* Under the lock. */
static void set_answers(struct node *node, bool answers, const char *why)
{
    struct node_facts *facts = &node->facts;
    snprintf(facts->why, sizeof(facts->why), "%s", why);
    if (facts->answers == answers && facts->since_s)
        return;
    facts->answers = answers;
    facts->since_s = wall_s();
    if (is_self(node))
        return;
    if (answers)
        log_info("peer_answers", "address=%s weight=%u", node->text, facts->weight);
    else
        log_warn("peer_away", "address=%s why=\"%s\"", node->text, why);
    peers_look(node->peers);
}

void node_wake(struct node *node)
{
    if (node->facts.has_errand)
        errand_wake(&node->errand);
}

void node_note_locked(struct node *node, enum circuit_event event, uint64_t number, const char *why)
{
    enum circuit_state before = node->circuit.state;
    enum circuit_state now = circuit_note(&node->circuit, event, number, mono_ms());
    if (now == CIRCUIT_OPEN && (before != CIRCUIT_OPEN || event == CIRCUIT_NO_HELLO))
        set_answers(node, false, why);
    if (event == CIRCUIT_HELLO && now != CIRCUIT_OPEN)
        set_answers(node, !is_self(node), node->facts.has_our_id ? SAME_ID
                                          : node->facts.has_twin ? TWIN : "");
    if (now != before && (now == CIRCUIT_OPEN || now == CIRCUIT_DOUBTED))
        node_wake(node);
    turns_give(node);
}

static void count(struct node *node, enum circuit_event event)
{
    bool bad = event == CIRCUIT_BAD;
    if (!bad && event != CIRCUIT_LATE && event != CIRCUIT_CUT)
        return;
    atomic_fetch_add(bad ? &node->counts.bad : &node->counts.failed, 1);
    metric_add(bad ? M_PEERS_BAD : M_PEERS_FAILED, 1);
}

void node_note(struct node *node, enum circuit_event event, uint64_t number, const char *why)
{
    count(node, event);
    pthread_mutex_lock(&node->peers->lock);
    node_note_locked(node, event, number, why);
    pthread_mutex_unlock(&node->peers->lock);
}

/* ---- what a hello says ---- */

/* Under the lock. A node whose version knows no hints is still asked for bytes. */
static void note_takes_hints(struct node *node, bool takes_hints, bool is_new)
{
    if (!takes_hints && (is_new || node->facts.takes_hints))
        log_warn("peer_without_hints", "address=%s why=\"the node runs a version of Penstock that "
                 "takes no hints of writes, so only its ttl and grant_time bound how old its copies "
                 "are: run a newer version there\"", node->text);
    node->facts.takes_hints = takes_hints;
}

/* Under the lock. */
static void note_same_id(struct node *node)
{
    bool has = is_self(node) && node->report.process[0] &&
               strcmp(node->report.process, peers_process()) != 0;
    if (has && !node->facts.has_our_id)
        log_warn("peer_same_id", "address=%s why=\"%s\"", node->text, SAME_ID);
    node->facts.has_our_id = has;
}

static bool is_twin(const struct node *node, const struct node *other)
{
    return node != other && other->facts.answers && other->report.process[0] &&
           node_has_id(other, node->facts.id) &&
           strcmp(node->report.process, other->report.process) != 0;
}

/* Under the lock. A node that has this node's id reports it to itself (note_same_id). */
static void note_twin(struct node *node)
{
    bool has = false;
    list_each(struct node, other, &node->peers->nodes, link)
        has |= node->report.process[0] && !is_self(node) && is_twin(node, other);
    if (has && !node->facts.has_twin)
        log_warn("peer_same_id", "address=%s why=\"%s\"", node->text, TWIN);
    node->facts.has_twin = has;
}

void node_learn(struct node *node, const uint8_t id[NODE_ID_BYTES], uint32_t weight,
                bool takes_hints)
{
    struct node_facts *facts = &node->facts;
    bool same = node_has_id(node, id) && weight == facts->weight;
    memcpy(facts->id, id, NODE_ID_BYTES);
    facts->weight = weight;
    note_takes_hints(node, takes_hints, !same);
    facts->known = true;
    note_same_id(node);
    note_twin(node);
    node_note_locked(node, CIRCUIT_HELLO, 0, "");
    if (takes_hints && !is_self(node))
        hints_meet(node->peers->hints.queue, id);
    deliver_look(node->peers);
    if (!same)
        peers_look(node->peers);
}

/* ---- its errand ---- */

struct exchange_ask node_ask(const struct node *node, struct exchange_mutual *mutual,
                             const char *target, const struct http_field *fields, size_t count)
{
    const struct peers *peers = node->peers;
    *mutual = peers->mutual;
    mutual->connect_to = node->text;
    return (struct exchange_ask){
        .method = "GET", .url = peers->url.ptr, .ca_file = peers->options.ca_file,
        .mutual = mutual, .target = target, .fields = fields, .field_count = count,
        .connect_ms = PEER_CONNECT_MS, .progress_ms = PEER_SILENT_MS,
        .answer_ms = PEER_SILENT_MS, .head_ms = PEER_HEAD_MS,
    };
}

const char *node_failure(const struct exchange_end *end)
{
    return end->err == ERR_ORIGIN_TIMEOUT ? "it did not answer in time"
         : *end->why                      ? end->why
                                          : err_text(end->err);
}

/* Returns true if the errand must end. After that, no thread wakes it. */
static bool must_leave(struct node *node)
{
    pthread_mutex_lock(&node->peers->lock);
    bool leaves = errand_stopping(&node->errand) || !node->facts.listed;
    node->facts.has_errand = !leaves;
    pthread_mutex_unlock(&node->peers->lock);
    return leaves;
}

static slice host_of(slice address)
{
    (void)slice_cut_last(&address, ':');
    return address;
}

void peers_heard(struct peers *peers, slice from, const uint8_t id[NODE_ID_BYTES], bool stops)
{
    slice host = host_of(from);
    if (!peers)
        return;
    pthread_mutex_lock(&peers->lock);
    bool known = view_has(peers->view, id);    /* this node, too */
    list_each(struct node, node, &peers->nodes, link) {
        bool matters = stops ? node_has_id(node, id)
                             : !known && slice_eq(host_of(slice_of(node->text)), host);
        if (node_is_this(node) || !matters)
            continue;
        node->facts.heard = true;
        node_wake(node);
    }
    pthread_mutex_unlock(&peers->lock);
}

void peers_drain(struct peers *peers)
{
    if (!peers)
        return;
    pthread_mutex_lock(&peers->lock);
    peers->stops = true;
    list_each(struct node, node, &peers->nodes, link) {
        node->facts.heard = !is_self(node);
        node->facts.heard_ms = 0;
        node_wake(node);
    }
    pthread_mutex_unlock(&peers->lock);
}

static void woken(struct errand *errand)
{
    struct node *node = container_of(errand, struct node, errand);
    if (must_leave(node)) {
        exchange_drop(&node->hello.exchange);
        errand_leave(errand);
        node_unref(&node);
    } else {
        hello_go_on(node);
    }
}

struct node *node_new(struct peers *peers, const struct member_address *address)
{
    struct node *node = must_alloc(sizeof(*node));
    node->magic = NODE_MAGIC;
    node->peers = peers;
    node->address = *address;
    check(member_text(address, node->text).len > 0);
    node->facts.listed = node->facts.has_errand = true;
    node->errand.woken = woken;
    atomic_store(&node->refs, 2);    /* the list's and the errand's */
    list_init(&node->link);
    list_init(&node->turns.queue);
    return node;
}
