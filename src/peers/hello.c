/* hello.c - asks a listed address for its id, its weight, and what it can do.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A hello is sent
 *
 *   - every HELLO_MS while the circuit is closed; in a fleet of more than HELLO_MS / HELLO_EACH_MS
 *     nodes less often, so that this node says hello every HELLO_EACH_MS;
 *   - at once when the node is in doubt, with the deadline of a question;
 *   - at once after peers_heard, but at most once in HEARD_MS;
 *   - after a pause while the circuit is open. Only a hello closes an open circuit.
 *
 * Threads: that of the node's errand. */
#include "peers/inside.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define HELLO_MS 10000u
#define HELLO_ANSWER_MS 2000u
#define HELLO_BYTES_MAX 4096u
#define HEARD_MS 500u
#define NO_PEER                                                                                   \
    "it does not answer as a peer does: check that this address is a Penstock's peer_listen"

/* ---- the answer ---- */

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

static void read_report(const json_t *root, struct node_report *ret)
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
                              struct node_report *ret_report)
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
    read_report(root, ret_report);
    json_decref(root);
    return why;
}

static void judge_hello(struct node *node, const char *failure)
{
    struct hello *hello = &node->hello;
    struct peers *peers = node->peers;
    uint8_t id[NODE_ID_BYTES];
    uint32_t weight = 0;
    struct node_report report = { .round_trip_us = hello->round_trip_us };
    const char *why = failure;
    if (!why && hello->status != 200)
        why = NO_PEER;
    if (!why)
        why = read_hello(text_slice(&hello->body), id, &weight, &report);
    pthread_mutex_lock(&peers->lock);
    if (!failure)
        node->report = report;
    if (!why)
        node_learn(node, id, weight, report.takes_hints);
    else
        node_note_locked(node, failure && hello->is_check ? CIRCUIT_NO_CHECK : CIRCUIT_NO_HELLO, 0,
                         why);
    uint64_t each_ms = MAX((uint64_t)HELLO_MS, peers->view->count * HELLO_EACH_MS);
    pthread_mutex_unlock(&peers->lock);
    hello->due_ms = mono_ms() + each_ms;
}

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
    const char *why = node_failure(end);
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
    hello_go_on(node);
}

static const struct exchange_events hello_events = { on_ready, on_head, on_body, on_end };

/* ---- sending ---- */

static void say_hello(struct node *node, bool is_check, bool stops)
{
    struct hello *hello = &node->hello;
    struct exchange_mutual mutual;
    char id[2 * NODE_ID_BYTES];
    const struct http_field fields[] = { { S("Host"), slice_of(node->peers->options.name) },
                                         { S("x-penstock-node"), { id, sizeof(id) } },
                                         { S("x-penstock-draining"), S("1") } };
    hex_write(node->peers->options.id, NODE_ID_BYTES, id);
    arena_free(&hello->keep);
    hello->body = text_in(&hello->keep);
    hello->status = 0;
    hello->round_trip_us = hello->ready_ns = 0;
    hello->is_check = is_check;
    struct exchange_ask ask = node_ask(node, &mutual, "/peer/hello", fields,
                                       countof(fields) - !stops);
    if (!is_check)
        ask.connect_ms = ask.head_ms = HELLO_ANSWER_MS;
    hello->exchange = exchange_start(&node->errand, &ask, &hello_events, node);
}

/* Under the lock. */
static uint64_t due_of(const struct node *node)
{
    const struct node_facts *facts = &node->facts;
    uint64_t heard_ms = facts->heard ? facts->heard_ms + HEARD_MS : UINT64_MAX;
    uint64_t next_ms = node->circuit.state == CIRCUIT_OPEN ? node->circuit.hello_ms
                                                           : node->hello.due_ms;
    return node->circuit.state == CIRCUIT_DOUBTED ? 0 : MIN(heard_ms, next_ms);
}

void hello_go_on(struct node *node)
{
    struct hello *hello = &node->hello;
    uint64_t now_ms = mono_ms();
    pthread_mutex_lock(&node->peers->lock);
    bool doubted = node->circuit.state == CIRCUIT_DOUBTED, stops = node->peers->stops;
    uint64_t due_ms = due_of(node);
    bool in_progress = hello->exchange && (!doubted || hello->is_check);
    if (node->facts.heard && !in_progress && now_ms >= due_ms) {
        node->facts.heard = false;
        node->facts.heard_ms = now_ms;
    }
    pthread_mutex_unlock(&node->peers->lock);
    if (in_progress)
        return;
    exchange_drop(&hello->exchange);    /* it has more time than a doubt has */
    if (now_ms >= due_ms)
        say_hello(node, doubted, stops);
    else
        errand_due(&node->errand, due_ms);
}
