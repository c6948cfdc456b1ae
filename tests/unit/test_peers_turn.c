/* test_peers_turn.c - questions that wait for a node: their order, their number, and their end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/metric.h"
#include "peers/circuit.c"
#include "peers/turn.c"

static struct peers peers;
static struct node node;
static struct errands errands;

static void begin(enum circuit_state state)
{
    static bool once;
    if (!once)
        pthread_mutex_init(&peers.lock, NULL);
    once = true;
    node = (struct node){ .magic = NODE_MAGIC, .peers = &peers, .circuit.state = state };
    list_init(&node.turns.queue);
    errands_init(&errands);
}

struct asker {
    struct errand errand;
    struct turn turn;
    bool woken;
};

static void woken(struct errand *errand)
{
    container_of(errand, struct asker, errand)->woken = true;
}

static enum turn_where asks(struct asker *asker, enum origin_rank rank)
{
    *asker = (struct asker){ .errand.woken = woken, .turn.errand = &asker->errand };
    errand_enter(&errands, &asker->errand);
    errands_run(&errands, 0);
    asker->woken = false;
    return turn_take(&node, &asker->turn, rank);
}

/* Returns what has become of a waiting question that was woken. */
static enum turn_where now(struct asker *asker)
{
    errands_run(&errands, 0);
    bool was_woken = asker->woken;
    enum turn_where where = turn_take(&node, &asker->turn, ORIGIN_READER);
    ok(was_woken == (where != TURN_WAITS));
    return where;
}

static void leave(struct asker *asker)
{
    turn_end(&asker->turn);
    ok(!asker->turn.node);
    turn_end(&asker->turn);    /* safe at any time */
    errand_leave(&asker->errand);
}

TEST(a_question_that_leaves_gives_its_turn_to_the_next)
{
    struct asker first, many[CIRCUIT_QUESTIONS_MAX], late[2];
    begin(CIRCUIT_CLOSED);
    ok(asks(&first, ORIGIN_READER) == TURN_HAS);
    for (size_t i = 1; i < countof(many); i++)
        ok(asks(&many[i], ORIGIN_READER) == TURN_HAS);
    ok(asks(&late[0], ORIGIN_READER) == TURN_WAITS && asks(&late[1], ORIGIN_READER) == TURN_WAITS);
    leave(&first);
    ok(now(&late[0]) == TURN_HAS && now(&late[1]) == TURN_WAITS);
    leave(&late[0]);
    ok(now(&late[1]) == TURN_HAS && node.circuit.under_way == CIRCUIT_QUESTIONS_MAX);
    leave(&late[1]);
    for (size_t i = 1; i < countof(many); i++)
        leave(&many[i]);
    ok(!node.circuit.under_way && !node.turns.waiting);
    errands_end(&errands);
}

TEST(clients_come_before_read_ahead_and_jobs)
{
    static const enum origin_rank ranks[] = { ORIGIN_JOB, ORIGIN_AHEAD, ORIGIN_READER, ORIGIN_JOB,
                                              ORIGIN_READER };
    static const size_t order[] = { 2, 4, 1, 0, 3 };
    struct asker first, others[countof(ranks)];
    begin(CIRCUIT_TRIAL);
    ok(asks(&first, ORIGIN_READER) == TURN_HAS);
    for (size_t i = 0; i < countof(ranks); i++)
        ok(asks(&others[i], ranks[i]) == TURN_WAITS);
    leave(&first);
    for (size_t i = 0; i < countof(order); i++) {
        ok(now(&others[order[i]]) == TURN_HAS);
        leave(&others[order[i]]);
    }
    errands_end(&errands);
}

TEST(a_wait_has_an_end)
{
    struct asker first, second;
    begin(CIRCUIT_TRIAL);
    uint64_t passed = metric_read(M_PEERS_PASSED);
    ok(asks(&first, ORIGIN_READER) == TURN_HAS && asks(&second, ORIGIN_READER) == TURN_WAITS);
    ok(second.turn.until_ms >= mono_ms() && second.turn.until_ms <= mono_ms() + TURN_WAIT_MS);
    second.turn.until_ms = mono_ms();
    ok(turn_take(&node, &second.turn, ORIGIN_READER) == TURN_PASSED && !node.turns.waiting);
    ok(metric_read(M_PEERS_PASSED) == passed + 1);
    leave(&second);
    leave(&first);
    errands_end(&errands);
}

/* A question that comes late in a doubt waits as long as the first one, not longer. */
TEST(all_waits_of_a_doubt_end_together)
{
    struct asker asker;
    begin(CIRCUIT_DOUBTED);
    node.circuit.doubted_ms = mono_ms() - 60;
    ok(asks(&asker, ORIGIN_READER) == TURN_WAITS);
    ok(asker.turn.until_ms == node.circuit.doubted_ms + CIRCUIT_DOUBT_MS);
    leave(&asker);
    node.circuit.doubted_ms = mono_ms() - CIRCUIT_DOUBT_MS;
    ok(asks(&asker, ORIGIN_READER) == TURN_PASSED);
    leave(&asker);
    errands_end(&errands);
}

TEST(a_node_that_is_out_keeps_nobody_waiting)
{
    struct asker many[10];
    begin(CIRCUIT_DOUBTED);
    node.circuit.doubted_ms = mono_ms() + 60000;    /* a slow test machine is no matter here */
    for (size_t i = 0; i < countof(many); i++)
        ok(asks(&many[i], ORIGIN_READER) == TURN_WAITS);
    leave(&many[3]);
    node.circuit.state = CIRCUIT_OPEN;
    turns_give(&node);
    for (size_t i = 0; i < countof(many); i++)
        if (i != 3) {
            ok(now(&many[i]) == TURN_PASSED);
            leave(&many[i]);
        }
    ok(!node.turns.waiting);
    errands_end(&errands);
}

TEST(so_many_may_wait_and_no_more)
{
    static struct asker many[TURNS_WAITING_MAX + 2];
    begin(CIRCUIT_TRIAL);
    for (size_t i = 0; i < countof(many); i++)
        ok(asks(&many[i], ORIGIN_READER) == (!i                          ? TURN_HAS
                                             : i <= TURNS_WAITING_MAX ? TURN_WAITS
                                                                      : TURN_PASSED));
    for (size_t i = countof(many); i > 0; i--)
        leave(&many[i - 1]);
    ok(!node.turns.waiting && !node.circuit.under_way);
    errands_end(&errands);
}

/* ---- threads ---- */

#define THREADS 6
#define TURNS 300

static atomic_int inside, had, passed;

static void stay_awake(struct errand *errand)
{
    (void)errand;
}

static void *take_turns(void *arg)
{
    struct errands mine;
    (void)arg;
    errands_init(&mine);
    for (unsigned i = 0; i < TURNS; i++) {
        struct asker asker = { .errand.woken = stay_awake, .turn.errand = &asker.errand };
        enum turn_where where;
        errand_enter(&mine, &asker.errand);
        while ((where = turn_take(&node, &asker.turn, (enum origin_rank)(i % ORIGIN_RANKS))) ==
               TURN_WAITS) {
            usleep(20);
            errands_run(&mine, mono_ms());
        }
        if (where == TURN_HAS)
            ok(atomic_fetch_add(&inside, 1) == 0 && atomic_fetch_sub(&inside, 1) == 1);
        atomic_fetch_add(where == TURN_HAS ? &had : &passed, 1);
        turn_end(&asker.turn);
        errand_leave(&asker.errand);
    }
    errands_end(&mine);
    return NULL;
}

TEST(a_trial_has_one_question_at_a_time_from_any_thread)
{
    pthread_t threads[THREADS];
    begin(CIRCUIT_TRIAL);
    for (size_t i = 0; i < THREADS; i++)
        ok(pthread_create(&threads[i], NULL, take_turns, NULL) == 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ok(atomic_load(&had) + atomic_load(&passed) == THREADS * TURNS && atomic_load(&had) > TURNS);
    ok(!node.circuit.under_way && !node.turns.waiting);
    errands_end(&errands);
}

RUN(cmocka_unit_test(a_question_that_leaves_gives_its_turn_to_the_next),
    cmocka_unit_test(clients_come_before_read_ahead_and_jobs),
    cmocka_unit_test(a_wait_has_an_end),
    cmocka_unit_test(all_waits_of_a_doubt_end_together),
    cmocka_unit_test(a_node_that_is_out_keeps_nobody_waiting),
    cmocka_unit_test(so_many_may_wait_and_no_more),
    cmocka_unit_test(a_trial_has_one_question_at_a_time_from_any_thread))
