/* test_peers_rank.c - shares, moves and fixed results of the ranking of nodes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "vector_unit.h"

#include "base/arena.h"
#include "peers/rank.c"

#define PLACES 100000u

static struct rank_place place_of(uint32_t number, char key[32])
{
    int len = snprintf(key, 32, "train/shard-%06u.tar", number / 4);
    return (struct rank_place){ S("https://s3.example"), S("data"), { key, (size_t)len }, S(""),
                                number % 4 };
}

static void nodes_make(struct rank_node *nodes, size_t count, uint32_t weight)
{
    for (size_t i = 0; i < count; i++) {
        nodes[i] = (struct rank_node){ .weight = weight };
        uint64_t half[2] = { (i + 1) * 0x9E3779B97F4A7C15u, (i + 7) * 0xC2B2AE3D27D4EB4Fu };
        memcpy(nodes[i].id, half, sizeof(nodes[i].id));
    }
}

static size_t owner_of(const struct rank_node *nodes, size_t count, uint32_t number)
{
    char key[32];
    size_t owner;
    struct rank_place place = place_of(number, key);
    ok(rank_best(nodes, count, &place, &owner, 1) == 1);
    return owner;
}

static bool is_near(double got, double want, double part)
{
    return got >= want * (1 - part) && got <= want * (1 + part);
}

TEST(shares_equal_the_weights)
{
    enum { COUNT = 600000 };
    static const uint32_t weights[] = { 300, 100, 200, 400 };
    struct rank_node nodes[countof(weights)];
    uint32_t owned[countof(weights)] = { 0 };
    const uint32_t count = rounds_of(COUNT, COUNT / 6);
    nodes_make(nodes, countof(nodes), 1);
    for (size_t i = 0; i < countof(nodes); i++)
        nodes[i].weight = weights[i];
    for (uint32_t i = 0; i < count; i++)
        owned[owner_of(nodes, countof(nodes), i)]++;
    for (size_t i = 0; i < countof(nodes); i++)
        ok(is_near((double)owned[i] / count, weights[i] / 1000.0, 0.02));
}

/* The lightest node of all has its share, too. */
TEST(a_node_may_be_a_thousand_times_lighter)
{
    struct rank_node nodes[2];
    uint32_t owned = 0;
    nodes_make(nodes, 2, NODE_WEIGHT_MAX);
    nodes[1].weight = 1;
    for (uint32_t i = 0; i < PLACES; i++)
        owned += owner_of(nodes, 2, i) == 1;
    ok(is_near(owned, PLACES / 1001.0, 0.25));    /* 100 of them: 2.5 standard deviations */
}

/* Nothing else moves when a node is removed, and when it comes back; its places fall to the second
 * of each, and these are all other nodes alike. */
TEST(a_node_that_is_removed_moves_its_own_share_alone)
{
    enum { NODES = 10, GONE = 3 };
    struct rank_node nodes[NODES], left[NODES - 1];
    uint32_t moved = 0, taken[NODES - 1] = { 0 };
    nodes_make(nodes, NODES, 100);
    for (size_t i = 0; i < NODES - 1; i++)
        left[i] = nodes[i < GONE ? i : i + 1];
    for (uint32_t i = 0; i < PLACES; i++) {
        char key[32];
        size_t before[2], after;
        struct rank_place place = place_of(i, key);
        ok(rank_best(nodes, NODES, &place, before, 2) == 2);
        ok(rank_best(left, NODES - 1, &place, &after, 1) == 1);
        size_t wanted = before[before[0] == GONE];
        ok(after == wanted - (wanted > GONE));
        moved += before[0] == GONE;
        taken[after] += before[0] == GONE;
    }
    ok(is_near(moved, PLACES / 10.0, 0.03));
    for (size_t i = 0; i < NODES - 1; i++)
        ok(is_near(taken[i], moved / 9.0, 0.1));
}

TEST(the_order_of_the_list_does_not_matter)
{
    enum { NODES = 9, WANT = 5 };
    struct rank_node nodes[NODES], turned[NODES];
    nodes_make(nodes, NODES, 100);
    nodes[2].weight = 500;
    for (size_t i = 0; i < NODES; i++)
        turned[(i * 4 + 1) % NODES] = nodes[i];
    for (uint32_t i = 0; i < 2000; i++) {
        char key[32];
        size_t a[WANT], b[WANT];
        struct rank_place place = place_of(i, key);
        ok(rank_best(nodes, NODES, &place, a, WANT) == WANT);
        ok(rank_best(turned, NODES, &place, b, WANT) == WANT);
        for (size_t j = 0; j < WANT; j++)
            ok(b[j] == (a[j] * 4 + 1) % NODES);
    }
}

/* Each further node is the best of those that are left. */
TEST(the_best_nodes_come_in_order)
{
    enum { NODES = 1000 };
    static struct rank_node nodes[NODES];
    nodes_make(nodes, NODES, 100);
    for (uint32_t i = 0; i < 50; i++) {
        char key[32];
        size_t best[RANK_WANT_MAX], first;
        struct rank_place place = place_of(i, key);
        size_t left = NODES;
        ok(rank_best(nodes, NODES, &place, best, RANK_WANT_MAX) == RANK_WANT_MAX);
        static struct rank_node rest[NODES];
        memcpy(rest, nodes, sizeof(nodes));
        for (size_t j = 0; j < RANK_WANT_MAX; j++) {
            ok(rank_best(rest, left, &place, &first, 1) == 1);
            ok(memcmp(rest[first].id, nodes[best[j]].id, NODE_ID_BYTES) == 0);
            rest[first] = rest[--left];
        }
    }
}

TEST(few_nodes_are_all_returned)
{
    struct rank_node nodes[2];
    char key[32];
    size_t best[3] = { 7, 7, 7 };
    struct rank_place place = place_of(5, key);
    nodes_make(nodes, 2, 100);
    ok(rank_best(nodes, 0, &place, best, 3) == 0 && best[0] == 7);
    ok(rank_best(nodes, 2, &place, best, 0) == 0 && best[0] == 7);
    ok(rank_best(nodes, 1, &place, best, 3) == 1 && best[0] == 0 && best[1] == 7);
    ok(rank_best(nodes, 2, &place, best, 3) == 2 && best[0] + best[1] == 1 && best[2] == 7);
}

/* Equal numbers: only the ids differ, and the lower one wins, wherever it stands. */
TEST(ties_go_to_the_lower_id)
{
    static const uint8_t low[NODE_ID_BYTES] = { 1 }, high[NODE_ID_BYTES] = { 2 };
    struct draw a = { 600, 3, low }, b = { 200, 1, high }, c = { 200, 0, low };
    ok(rendezvous_wins(&a, &b) && !rendezvous_wins(&b, &a));
    ok(rendezvous_wins(&b, &c) && !rendezvous_wins(&c, &b));    /* weight 0 */
}

/* ---- tests/vectors/rank.txt ---- */

static slice text_of(struct arena *keep, const char *hex)
{
    size_t len = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
    uint8_t *bytes = arena_alloc(keep, len + 1);
    ok(slice_unhex(slice_sub(slice_of(hex), 0, 2 * len), bytes, len));
    return (slice){ (const char *)bytes, len };
}

TEST(results_never_change)
{
    static char line[8192], hex[4][2100];
    struct rank_node nodes[16];
    size_t count = 0, places = 0;
    struct arena keep = { 0 };
    FILE *file = vectors_open("rank.txt");
    while (fgets(line, sizeof(line), file)) {
        unsigned long long segment;
        unsigned weight, want[4];
        size_t best[4];
        if (sscanf(line, "node %2099s %u", hex[0], &weight) == 2) {
            ok(count < countof(nodes));
            ok(slice_unhex(slice_of(hex[0]), nodes[count].id, NODE_ID_BYTES));
            nodes[count++].weight = weight;
            continue;
        }
        ok(sscanf(line, "place %llu %2099s %2099s %2099s %2099s %u %u %u %u", &segment, hex[0],
                  hex[1], hex[2], hex[3], &want[0], &want[1], &want[2], &want[3]) == 9);
        struct rank_place place = { text_of(&keep, hex[0]), text_of(&keep, hex[1]),
                                    text_of(&keep, hex[2]), text_of(&keep, hex[3]), segment };
        ok(rank_best(nodes, count, &place, best, 4) == 4);
        for (size_t i = 0; i < 4; i++)
            ok(best[i] == want[i]);
        places++;
    }
    fclose(file);
    arena_free(&keep);
    ok(count == 10 && places == 54);
}

RUN(cmocka_unit_test(shares_equal_the_weights),
    cmocka_unit_test(a_node_may_be_a_thousand_times_lighter),
    cmocka_unit_test(a_node_that_is_removed_moves_its_own_share_alone),
    cmocka_unit_test(the_order_of_the_list_does_not_matter),
    cmocka_unit_test(the_best_nodes_come_in_order),
    cmocka_unit_test(few_nodes_are_all_returned),
    cmocka_unit_test(ties_go_to_the_lower_id),
    cmocka_unit_test(results_never_change))
