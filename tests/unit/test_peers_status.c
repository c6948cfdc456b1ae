/* test_peers_status.c - the labels of nodes on /metrics. SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "peers/peers_status.c"

#define NODES (PEER_LABELS + 6)

static struct peers *peers;
static struct arena keep;

static struct member_address address_of(unsigned i)
{
    struct member_address address;
    bool good = member_address_read(S("127.0.0.1"), 1000 + i, &address);
    check(good);
    return address;
}

/* Nodes without an errand: nobody is asked. */
static struct node *list_node(unsigned i)
{
    struct node *node = must_alloc(sizeof(*node));
    node->magic = NODE_MAGIC;
    node->peers = peers;
    node->address = address_of(i);
    check(member_text(&node->address, node->text).len > 0);
    node->facts.listed = node->facts.known = true;
    node->facts.id[0] = (uint8_t)(i + 1);
    atomic_store(&node->refs, 1);
    pthread_mutex_lock(&peers->lock);    /* the thread of peers looks for nodes that want hints */
    list_add(&peers->nodes, &node->link);
    pthread_mutex_unlock(&peers->lock);
    return node;
}

static void unlist(struct node *node)
{
    pthread_mutex_lock(&peers->lock);
    node_count_gone(node);
    list_del(&node->link);
    pthread_mutex_unlock(&peers->lock);
    node_unref(&node);
}

static void begin(void)
{
    const struct peers_options options = { .id = { 0xff }, .weight = 100, .name = "fleet",
                                           .cert_file = "", .key_file = "", .ca_file = "",
                                           .threads = 1, .hints_max = 10 };
    peers = peers_new(&options);
}

static void end(void)
{
    peers_free(&peers);
    arena_free(&keep);
}

static uint64_t bytes_of(const char *address, size_t *ret_count)
{
    const struct peer_label *labels = peers_labels(peers, &keep, ret_count);
    for (size_t i = 0; i < *ret_count; i++)
        if (slice_eq(labels[i].address, slice_of(address)))
            return labels[i].counts.from_bytes;
    return UINT64_MAX;
}

static uint64_t sum_of_bytes(void)
{
    size_t count;
    uint64_t sum = 0;
    const struct peer_label *labels = peers_labels(peers, &keep, &count);
    for (size_t i = 0; i < count; i++)
        sum += labels[i].counts.from_bytes;
    return sum;
}

TEST(a_large_fleet_has_few_labels)
{
    size_t count;
    begin();
    for (unsigned i = 0; i < NODES; i++)
        atomic_store(&list_node(i)->counts.bytes, 10);
    peers_give_labels(peers);
    ok(bytes_of("other", &count) == NODES * 10 && count == PEER_LABELS + 1);
    list_each(struct node, node, &peers->nodes, link)
        atomic_fetch_add(&node->counts.bytes, 1);
    ok(bytes_of("127.0.0.1:1000", &count) == 1);
    ok(bytes_of("127.0.0.1:1069", &count) == UINT64_MAX);
    ok(bytes_of("other", &count) == NODES * 10 + (NODES - PEER_LABELS));
    ok(sum_of_bytes() == NODES * 11);
    end();
}

/* A label that is free goes to the next node; what that node had counted before stays in other. */
TEST(other_never_falls)
{
    size_t count;
    struct node *nodes[NODES];
    begin();
    for (unsigned i = 0; i < NODES; i++)
        nodes[i] = list_node(i);
    peers_give_labels(peers);
    for (unsigned i = 0; i < NODES; i++)
        atomic_fetch_add(&nodes[i]->counts.bytes, 100);
    uint64_t other = bytes_of("other", &count);
    ok(other == (NODES - PEER_LABELS) * 100);
    unlist(nodes[0]);    /* its series ends, with its counts */
    peers_give_labels(peers);
    ok(bytes_of("other", &count) == other && count == PEER_LABELS + 1);
    ok(bytes_of("127.0.0.1:1064", &count) == 0);
    atomic_fetch_add(&nodes[PEER_LABELS]->counts.bytes, 7);
    ok(bytes_of("127.0.0.1:1064", &count) == 7 && bytes_of("other", &count) == other);
    unlist(nodes[PEER_LABELS]);
    unlist(nodes[NODES - 1]);
    ok(bytes_of("other", &count) == other);
    end();
}

TEST(answers_count_for_the_node_that_asked)
{
    size_t count;
    struct peers_self self;
    begin();
    list_node(0);
    list_node(1);
    peers_give_labels(peers);
    const uint8_t known[NODE_ID_BYTES] = { 2 }, unknown[NODE_ID_BYTES] = { 9 };
    peers_count_answer(peers, known, 1000);
    peers_count_answer(peers, unknown, 50);
    peers_count_answer(NULL, known, 1);
    const struct peer_status *all = peers_status(peers, &keep, &count, &self);
    ok(count == 2 && all[1].counts.answered == 1 && all[1].counts.to_bytes == 1000);
    ok(all[0].counts.answered == 0 && self.strangers.answered == 1 && self.strangers.to_bytes == 50);
    const struct peer_label *labels = peers_labels(peers, &keep, &count);
    ok(count == 3 && labels[1].counts.to_bytes == 1000 && labels[2].counts.to_bytes == 50);
    end();
}

TEST(shares_are_those_of_the_nodes_that_answer)
{
    size_t count;
    struct peers_self self;
    struct peer_rank ranks[2];
    const struct rank_place place = { S("http://origin"), S("bucket"), S("key"), S(""), 0 };
    begin();
    struct node *first = list_node(0), *second = list_node(1);
    first->facts.weight = second->facts.weight = 300;
    first->facts.answers = true;
    peers_look(peers);
    const struct peer_status *all = peers_status(peers, &keep, &count, &self);
    ok(self.share == 0.25 && all[0].share == 0.75 && all[1].share == 0);
    ok(peers_rank(peers, &place, &keep, ranks, 2) == 2);
    ok(!ranks[0].address.len != !ranks[1].address.len);    /* one is this node */
    end();
}

RUN(cmocka_unit_test(a_large_fleet_has_few_labels),
    cmocka_unit_test(other_never_falls),
    cmocka_unit_test(answers_count_for_the_node_that_asked),
    cmocka_unit_test(shares_are_those_of_the_nodes_that_answer))
