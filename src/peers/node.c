/* node.c - the nodes of the fleet: who is listed, who answers. SPDX-License-Identifier: Apache-2.0
 *
 * Each listed address has an errand, which asks it for its id and weight (hello). The results of
 * hellos and of questions go to the circuit of the node (circuit.h), which says when the node may
 * be asked. A hello is sent
 *
 *   - every HELLO_MS while the circuit is closed; in a fleet of more than HELLO_MS / HELLO_EACH_MS
 *     nodes less often, so that this node says hello every HELLO_EACH_MS;
 *   - at once when the node is in doubt, with the deadline of a question;
 *   - after a pause while the circuit is open. Only a hello closes an open circuit.
 *
 * The errand begins within a time that grows with the list (peers.c), so that a node that starts
 * does not connect to a thousand others at once.
 *
 * The view is what the rank is computed from: the nodes whose circuit is not open, and this one. Of
 * two addresses with the same id, one counts. */
#include "peers/inside.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"

#define HELLO_MS 10000u
#define HELLO_ANSWER_MS 2000u
#define HELLO_BYTES_MAX 4096u
#define HEARD_MS 500u                 /* peers_heard wakes a node at most once in this time */
#define SAME_ID                                                                                   \
    "it has the id of this node, so the two never share: the cache folder of one of them is a "   \
    "copy. Stop one of them, empty its cache folders, and start it again"
#define NO_PEER                                                                                   \
    "it does not answer as a peer does: check that this address is a Penstock's peer_listen"

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

/* ---- the view ---- */

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

static bool has(const struct view *view, const uint8_t id[NODE_ID_BYTES])
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
        if (node->facts.listed && node->facts.answers && !has(view, node->facts.id))
            add(view, node->facts.id, node->facts.weight, node);
    atomic_store(&peers->others, (unsigned)view->count - 1);
    metric_set(M_PEERS, (int64_t)view->count - 1);
    view_unref(&peers->view);
    peers->view = view;
}

/* ---- who answers ---- */

static bool is_self(const struct node *node)
{
    return node->facts.known &&
           memcmp(node->facts.id, node->peers->options.id, NODE_ID_BYTES) == 0;
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

/* Under the lock. */
static void note(struct node *node, enum circuit_event event, uint64_t number, const char *why)
{
    enum circuit_state before = node->circuit.state;
    enum circuit_state now = circuit_note(&node->circuit, event, number, mono_ms());
    if (now == CIRCUIT_OPEN && (before != CIRCUIT_OPEN || event == CIRCUIT_NO_HELLO))
        set_answers(node, false, why);
    if (event == CIRCUIT_HELLO && now != CIRCUIT_OPEN)
        set_answers(node, !is_self(node), node->facts.has_our_id ? SAME_ID : "");
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
    note(node, event, number, why);
    pthread_mutex_unlock(&node->peers->lock);
}

/* ---- hello ---- */

static bool is_draining(const json_t *root)
{
    return json_is_true(json_object_get(root, "draining"));
}

static bool speaks_ours(const json_t *root)
{
    const json_t *list = json_object_get(root, "protocol"), *version;
    size_t i;
    json_array_foreach(list, i, version)
        if (json_integer_value(version) == PEER_PROTOCOL)
            return true;
    return false;
}

static void read_told(const json_t *root, struct node_told *ret)
{
    const char *version = json_string_value(json_object_get(root, "version"));
    const char *process = json_string_value(json_object_get(root, "process"));
    snprintf(ret->process, sizeof(ret->process), "%s", process ? process : "");
    snprintf(ret->version, sizeof(ret->version), "%s", version ? version : "");
    ret->protocol = speaks_ours(root) ? PEER_PROTOCOL : 0;
    ret->takes_hints = json_is_true(json_object_get(root, "hints"));
}

/* Reads what a node says of itself. Returns NULL, or why it can't be asked. */
static const char *read_hello(slice body, uint8_t ret_id[NODE_ID_BYTES], uint32_t *ret_weight,
                              struct node_told *ret_told)
{
    json_t *root = json_loadb(body.ptr, body.len, JSON_REJECT_DUPLICATES, NULL);
    slice id = slice_of(json_string_value(json_object_get(root, "node")));
    json_int_t weight = json_integer_value(json_object_get(root, "weight"));
    const char *why = NULL;
    if (!slice_unhex(id, ret_id, NODE_ID_BYTES) || weight < 1 || weight > NODE_WEIGHT_MAX)
        why = NO_PEER;
    else if (!speaks_ours(root))
        why = "it speaks another version of the protocol of peers: run versions of Penstock that "
              "are not too far apart";
    else if (is_draining(root))
        why = "it is stopping";
    *ret_weight = (uint32_t)weight;
    read_told(root, ret_told);
    json_decref(root);
    return why;
}

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
    bool has = is_self(node) && node->told.process[0] &&
               strcmp(node->told.process, peers_process()) != 0;
    if (has && !node->facts.has_our_id)
        log_warn("peer_same_id", "address=%s why=\"%s\"", node->text, SAME_ID);
    node->facts.has_our_id = has;
}

/* Under the lock. */
static void learn(struct node *node, const uint8_t id[NODE_ID_BYTES], uint32_t weight,
                  bool takes_hints)
{
    struct node_facts *facts = &node->facts;
    bool same = facts->known && weight == facts->weight &&
                memcmp(id, facts->id, NODE_ID_BYTES) == 0;
    memcpy(facts->id, id, NODE_ID_BYTES);
    facts->weight = weight;
    note_takes_hints(node, takes_hints, !same);
    facts->known = true;
    note_same_id(node);
    note(node, CIRCUIT_HELLO, 0, "");
    if (takes_hints && !is_self(node))
        hints_meet(node->peers->hints.queue, id);
    deliver_look(node->peers);
    if (!same)
        peers_look(node->peers);
}

static void judge_hello(struct node *node, const char *failure)
{
    struct hello *hello = &node->hello;
    struct peers *peers = node->peers;
    uint8_t id[NODE_ID_BYTES];
    uint32_t weight = 0;
    struct node_told told = { .round_trip_us = hello->round_trip_us };
    const char *why = failure;
    if (!why && hello->status != 200)
        why = NO_PEER;
    if (!why)
        why = read_hello(text_slice(&hello->body), id, &weight, &told);
    pthread_mutex_lock(&peers->lock);
    if (!failure)
        node->told = told;
    if (!why)
        learn(node, id, weight, told.takes_hints);
    else
        note(node, failure && hello->is_check ? CIRCUIT_NO_CHECK : CIRCUIT_NO_HELLO, 0, why);
    uint64_t each_ms = MAX((uint64_t)HELLO_MS, peers->view->count * HELLO_EACH_MS);
    pthread_mutex_unlock(&peers->lock);
    hello->due_ms = mono_ms() + each_ms;
}

static void go_on(struct node *node);

static bool on_ready(void *arg)
{
    ((struct node *)arg)->hello.ready_ns = mono_ns();
    return true;
}

static enum exchange_take on_head(void *arg, const struct origin_reply *reply)
{
    struct hello *hello = &((struct node *)arg)->hello;
    hello->status = reply->status;
    hello->round_trip_us = MAX((mono_ns() - hello->ready_ns) / 1000, (uint64_t)1);
    return EXCHANGE_TAKEN;
}

static enum exchange_take on_body(void *arg, slice bytes)
{
    struct text *body = &((struct node *)arg)->hello.body;
    if (body->len + bytes.len > HELLO_BYTES_MAX)
        return EXCHANGE_END;
    text_add(body, bytes);
    return EXCHANGE_TAKEN;
}

/* Says whose certificate is at fault: in TLS 1.3, the other node refuses ours by an alert, after the
 * connection is ready. The alert is lost if our request comes to a socket that is closed already. */
static const char *failure_of(struct node *node, const struct exchange_end *end)
{
    const char *why = *end->why ? end->why : err_text(end->err);
    bool closed = node->hello.ready_ns && !node->hello.status && end->err != ERR_ORIGIN_TIMEOUT;
    if (end->err == ERR_ORIGIN_CERT)
        return arena_printf(&node->hello.keep, "its certificate is refused: sign it with a CA of "
                            "peer_tls_ca_file, for the name peer_name (%.80s)", why).ptr;
    if (end->err && strstr(why, " alert "))
        return arena_printf(&node->hello.keep, "it refuses the certificate of this node: sign it "
                            "with a CA that it has, for the same peer_name (%.80s)", why).ptr;
    if (end->err && closed)
        return arena_printf(&node->hello.keep, "it closes the connection without an answer: maybe "
                            "it refuses the certificate of this node (%.80s)", why).ptr;
    return end->err ? why : NULL;
}

static void on_end(void *arg, const struct exchange_end *end)
{
    struct node *node = arg;
    node->hello.exchange = NULL;
    judge_hello(node, failure_of(node, end));
    go_on(node);
}

static const struct exchange_events hello_events = { on_ready, on_head, on_body, on_end };

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

static void say_hello(struct node *node, bool is_check)
{
    struct hello *hello = &node->hello;
    struct exchange_mutual mutual;
    char id[2 * NODE_ID_BYTES];
    const struct http_field fields[] = { { S("Host"), slice_of(node->peers->options.name) },
                                         { S("x-penstock-node"), { id, sizeof(id) } } };
    hex_write(node->peers->options.id, NODE_ID_BYTES, id);
    arena_free(&hello->keep);
    hello->body = text_in(&hello->keep);
    hello->status = 0;
    hello->round_trip_us = hello->ready_ns = 0;
    hello->is_check = is_check;
    struct exchange_ask ask = node_ask(node, &mutual, "/peer/hello", fields, countof(fields));
    if (!is_check)
        ask.connect_ms = ask.head_ms = HELLO_ANSWER_MS;
    hello->exchange = exchange_start(&node->errand, &ask, &hello_events, node);
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

/* Sends the hello that is due, or sets the timer for the next one. */
static void go_on(struct node *node)
{
    struct hello *hello = &node->hello;
    pthread_mutex_lock(&node->peers->lock);
    bool doubted = node->circuit.state == CIRCUIT_DOUBTED, heard = node->facts.heard;
    uint64_t due_ms = doubted || heard ? 0
                    : node->circuit.state == CIRCUIT_OPEN ? node->circuit.hello_ms : hello->due_ms;
    node->facts.heard = heard && hello->exchange;
    pthread_mutex_unlock(&node->peers->lock);
    if (doubted && !hello->is_check)    /* the one in progress has more time than a doubt has */
        exchange_drop(&hello->exchange);
    if (hello->exchange)
        return;
    if (mono_ms() >= due_ms)
        say_hello(node, doubted);
    else
        errand_due(&node->errand, due_ms);
}

static slice host_of(slice address)
{
    (void)slice_cut_last(&address, ':');
    return address;
}

void peers_heard(struct peers *peers, slice from, const uint8_t id[NODE_ID_BYTES])
{
    uint64_t now_ms = mono_ms();
    slice host = host_of(from);
    if (!peers)
        return;
    pthread_mutex_lock(&peers->lock);
    bool known = has(peers->view, id);    /* this node, too */
    list_each(struct node, node, &peers->nodes, link) {
        struct node_facts *facts = &node->facts;
        bool is_us = is_self(node) && !facts->has_our_id;
        if (known || is_us || now_ms < facts->heard_ms + HEARD_MS ||
            !slice_eq(host_of(slice_of(node->text)), host))
            continue;
        facts->heard = true;
        facts->heard_ms = now_ms;
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
        go_on(node);
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
