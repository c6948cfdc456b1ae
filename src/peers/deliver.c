/* deliver.c - brings hints to the other nodes. SPDX-License-Identifier: Apache-2.0
 *
 * One errand brings the hints of the queue (hints.h) to all nodes, one batch at a time to each:
 *
 *     a hint was queued, a node said hello, a batch has ended, a pause is over
 *         └─> look: each node for which hints wait, and that has no batch in progress ──> POST
 *
 * A node that took a batch gets the next one EACH_MS later, so that a storm of writes becomes few
 * batches. A node that did not take it gets it again after a pause. A failed
 * batch does not count for the circuit of the node: only hellos and questions do (circuit.h). A batch
 * names the id of its receiver, because another node may have got the address. Threads: the
 * errand's. */
#include "peers/inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define BATCHES_MAX 64u               /* in progress */
#define EACH_MS 100u
#define AGAIN_MS 100u                 /* first pause after a failure; then twice as long */
#define AGAIN_MS_MAX 1000u
#define REFUSED_MS_MAX 30000u         /* ... if the node answers that the batch makes no sense */
#define CONNECT_MS 2000u
#define ANSWER_MS 10000u              /* the receiver waits for its disk */
#define LOG_EACH_MS 60000u
#define FIELDS 3u

/* A batch on its way. */
struct delivery {
    struct list link;                 /* in peers->hints.deliveries */
    struct peers *peers;
    struct node *node;
    struct exchange *exchange;
    struct arena keep;
    uint8_t to[NODE_ID_BYTES];
    slice bytes;                      /* frame and payload */
    struct origin_body body;          /* ... as libcurl reads it */
    struct http_field fields[FIELDS];
    struct hints_taken taken;
    int status;
};

/* ---- the end of a batch ---- */

static void delivery_free(struct delivery **delivery)
{
    struct delivery *mine = *delivery;
    *delivery = NULL;
    exchange_drop(&mine->exchange);
    mine->node->hints.runs = false;
    mine->peers->hints.count--;
    list_del(&mine->link);
    node_unref(&mine->node);
    arena_free(&mine->keep);
    free(mine);
}

static bool makes_no_sense(int status)
{
    return status >= 300 && status != 503 && status != 404;
}

static void log_refused(struct peers *peers, const struct node *node, int status)
{
    uint64_t now_ms = mono_ms();
    if (peers->hints.logged_ms && now_ms < peers->hints.logged_ms + LOG_EACH_MS)
        return;
    peers->hints.logged_ms = now_ms;
    log_warn("peer_hints_refused", "address=%s status=%d why=\"the node does not take hints of "
             "writes, so only ttl and grant_time bound how old its copies are: run versions of "
             "Penstock that are not too far apart, and look at the log of that node\"", node->text,
             status);
}

/* Returns how long the node gets no batch. */
static uint64_t pause_of(struct delivery *delivery, const struct exchange_end *end)
{
    struct node_hints *hints = &delivery->node->hints;
    if (!end->err && delivery->status == 200) {
        hints->pause_ms = 0;
        return delivery->taken.full ? 0 : EACH_MS;
    }
    bool refused = makes_no_sense(delivery->status);
    uint64_t most_ms = refused ? REFUSED_MS_MAX : AGAIN_MS_MAX;
    if (refused)
        log_refused(delivery->peers, delivery->node, delivery->status);
    hints->pause_ms = hints->pause_ms ? MIN(2 * hints->pause_ms, most_ms) : AGAIN_MS;
    return hints->pause_ms;
}

static void on_end(void *arg, const struct exchange_end *end)
{
    struct delivery *delivery = arg;
    struct peers *peers = delivery->peers;
    delivery->exchange = NULL;
    if (!end->err && delivery->status == 200)
        hints_followed(peers->hints.queue, delivery->to, &delivery->taken);
    delivery->node->hints.due_ms = mono_ms() + pause_of(delivery, end);
    delivery_free(&delivery);
    errand_due(&peers->hints.errand, 0);
}

static bool on_ready(void *arg)
{
    return true;
}

static enum exchange_take on_head(void *arg, const struct origin_reply *reply)
{
    ((struct delivery *)arg)->status = reply->status;
    return EXCHANGE_TAKEN;
}

static enum exchange_take on_body(void *arg, slice bytes)
{
    return EXCHANGE_TAKEN;    /* a word for people */
}

static const struct exchange_events events = { on_ready, on_head, on_body, on_end };

/* ---- the beginning of a batch ---- */

static size_t read_body(void *arg, uint64_t offset, char *ret, size_t bytes)
{
    const struct delivery *delivery = arg;
    return slice_put(ret, slice_sub(delivery->bytes, offset, bytes));
}

/* Returns false if nothing waits for the node. */
static bool write_body(struct delivery *delivery)
{
    static const char room[FRAME_BYTES];
    struct text text = text_in(&delivery->keep);
    text_add(&text, (slice){ room, sizeof(room) });
    if (!hints_take(delivery->peers->hints.queue, delivery->to, ageing_ms(), &text,
                    &delivery->taken))
        return false;
    delivery->bytes = text_slice(&text);
    frame_write(FRAME_HINTS, slice_from(delivery->bytes, FRAME_BYTES), 0, 0, (uint8_t *)text.ptr);
    delivery->body = (struct origin_body){ .length = delivery->bytes.len, .read = read_body,
                                           .arg = delivery };
    return true;
}

static slice hex_of(struct arena *keep, const uint8_t id[NODE_ID_BYTES])
{
    char *hex = arena_alloc(keep, 2 * NODE_ID_BYTES);
    hex_write(id, NODE_ID_BYTES, hex);
    return (slice){ hex, 2 * NODE_ID_BYTES };
}

static void start(struct peers *peers, struct node *take_node, const uint8_t to[NODE_ID_BYTES])
{
    struct delivery *delivery = must_alloc(sizeof(*delivery));
    struct exchange_mutual mutual;
    delivery->peers = peers;
    delivery->node = take_node;
    take_node->hints.runs = true;
    peers->hints.count++;
    list_add(&peers->hints.deliveries, &delivery->link);
    memcpy(delivery->to, to, NODE_ID_BYTES);
    if (!write_body(delivery)) {
        delivery_free(&delivery);
        return;
    }
    struct http_field *fields = delivery->fields;
    fields[0] = (struct http_field){ S("Host"), slice_of(peers->options.name) };
    fields[1] = (struct http_field){ S("x-penstock-node"),
                                     hex_of(&delivery->keep, peers->options.id) };
    fields[2] = (struct http_field){ S("x-penstock-to"), hex_of(&delivery->keep, to) };
    struct exchange_ask ask = node_ask(take_node, &mutual, HINTS_TARGET, fields, FIELDS);
    ask.method = "POST";
    ask.body = &delivery->body;
    ask.sends_length = true;
    ask.connect_ms = CONNECT_MS;
    ask.progress_ms = ask.answer_ms = ANSWER_MS;
    ask.head_ms = 0;
    delivery->exchange = exchange_start(&peers->hints.errand, &ask, &events, delivery);
}

/* ---- which nodes ---- */

/* A node that does not answer gets its hints as soon as it does. */
bool deliver_waits(const struct peers *peers, const struct node *node)
{
    const struct node_facts *facts = &node->facts;
    return facts->listed && facts->known && facts->takes_hints &&
           memcmp(facts->id, peers->options.id, NODE_ID_BYTES) != 0 &&
           hints_wait(peers->hints.queue, facts->id);
}

struct chosen {
    struct node *node;
    uint8_t id[NODE_ID_BYTES];
};

/* Returns how many nodes get a batch now. *ret_due_ms: when the next one may get one. */
static size_t choose(struct peers *peers, struct chosen chosen[BATCHES_MAX], uint64_t *ret_due_ms)
{
    size_t count = 0;
    uint64_t now_ms = mono_ms();
    *ret_due_ms = UINT64_MAX;
    pthread_mutex_lock(&peers->lock);
    list_each(struct node, node, &peers->nodes, link) {
        if (node->hints.runs || !deliver_waits(peers, node))
            continue;
        if (node->hints.due_ms > now_ms) {
            *ret_due_ms = MIN(*ret_due_ms, node->hints.due_ms);
        } else if (peers->hints.count + count < BATCHES_MAX) {
            chosen[count].node = node_ref(node);
            memcpy(chosen[count++].id, node->facts.id, NODE_ID_BYTES);
        }    /* else the end of a batch makes room */
    }
    pthread_mutex_unlock(&peers->lock);
    return count;
}

static void look(struct peers *peers)
{
    struct chosen chosen[BATCHES_MAX];
    uint64_t due_ms;
    size_t count = choose(peers, chosen, &due_ms);
    for (size_t i = 0; i < count; i++)
        start(peers, chosen[i].node, chosen[i].id);
    errand_due(&peers->hints.errand, due_ms);
}

static void leave(struct peers *peers)
{
    pthread_mutex_lock(&peers->lock);
    peers->hints.has_errand = false;
    pthread_mutex_unlock(&peers->lock);
    list_each_safe(struct delivery, delivery, &peers->hints.deliveries, link)
        delivery_free(&delivery);
    errand_leave(&peers->hints.errand);
}

static void woken(struct errand *errand)
{
    struct peers *peers = container_of(errand, struct peers, hints.errand);
    atomic_store(&peers->hints.woken, false);
    if (errand_stopping(errand))
        leave(peers);
    else
        look(peers);
}

/* ---- the interface ---- */

void deliver_begin(struct peers *peers)
{
    list_init(&peers->hints.deliveries);
    peers->hints.errand.woken = woken;
    peers->hints.has_errand = true;
    errand_enter(carriers_next(peers->carriers), &peers->hints.errand);
}

void deliver_look(struct peers *peers)
{
    if (peers->hints.has_errand && !atomic_exchange(&peers->hints.woken, true))
        errand_wake(&peers->hints.errand);
}
