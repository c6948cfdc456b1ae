/* test_peers_pace.c - a bandwidth that nodes share: its rate, fairness, and no lost wake-up.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Time is simulated, in ticks of 50 us, the time in which a thread wakes another one. A sender always has bytes to send. It calls pace_take
 * as front/peer_answer.c does: when it begins, when its send is over, when it is woken, and, while
 * it comes next, each PACE_LOOK_MS. */
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "peers/pace.h"

#define TICK_NS 50000u
#define T(ms) ((uint64_t)(ms) * 20)   /* in ticks */
#define PIECE (256u * 1024u)

struct sender {
    struct paced paced;
    atomic_bool woken;
    bool ready, blocked;              /* blocked: its socket is full */
    uint64_t look_at, sent;           /* look_at: 0: never */
    size_t piece;                     /* bytes of a send at most */
};

static void wake(void *arg)
{
    atomic_store(&((struct sender *)arg)->woken, true);
}

static bool begins(struct pace *pace, struct sender *sender, uint8_t node, uint64_t bytes)
{
    uint8_t id[NODE_ID_BYTES] = { node };
    *sender = (struct sender){ .paced = { .wake = wake, .arg = sender }, .ready = true,
                               .piece = PIECE };
    return pace_enter(pace, &sender->paced, id, bytes);
}

static void try_to_send(struct pace *pace, struct sender *sender, uint64_t now)
{
    if (sender->blocked) {
        pace_step_back(pace, &sender->paced);
        return;
    }
    size_t taken = pace_take(pace, &sender->paced, sender->piece, now * TICK_NS);
    sender->sent += taken;
    sender->ready = taken > 0;        /* its socket takes all at once */
    sender->look_at = !taken && pace_is_next(pace, &sender->paced) ? now + T(PACE_LOOK_MS) : 0;
}

static void run(struct pace *pace, struct sender *senders, size_t count, uint64_t *now,
                uint64_t until)
{
    for (; *now < until; ++*now)
        for (size_t i = 0; i < count; i++) {
            struct sender *sender = &senders[(i + *now) % count];
            bool woken = atomic_exchange(&sender->woken, false);
            bool looks = woken || (sender->look_at && *now >= sender->look_at);
            if (sender->ready || looks)
                try_to_send(pace, sender, *now);
        }
}

static uint64_t sum(const struct sender *senders, size_t count)
{
    uint64_t sent = 0;
    for (size_t i = 0; i < count; i++)
        sent += senders[i].sent;
    return sent;
}

static void all_leave(struct pace *pace, struct sender *senders, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pace_leave(pace, &senders[i].paced);
    pace_free(&pace);
}

static bool is_near(uint64_t got, uint64_t want, double part)
{
    return (double)got >= (double)want * (1 - part) && (double)got <= (double)want * (1 + part);
}

TEST(without_a_limit_nothing_waits)
{
    struct pace *pace = pace_new(0);
    struct sender sender;
    ok(begins(pace, &sender, 1, UINT64_MAX));
    for (unsigned i = 0; i < 1000; i++)
        ok(pace_take(pace, &sender.paced, PIECE, 0) == PIECE && !sender.paced.waits);
    ok(!pace_is_next(pace, &sender.paced));
    all_leave(pace, &sender, 1);
}

TEST(the_rate_holds_at_any_rate)
{
    static const uint64_t rates[] = { 1 << 20, 10000000, 125000000, 1250000000 };
    for (size_t r = 0; r < countof(rates); r++) {
        struct pace *pace = pace_new(rates[r]);
        struct sender senders[3];
        uint64_t now = T(1000);
        for (uint8_t i = 0; i < 3; i++)
            ok(begins(pace, &senders[i], i, 1000));
        run(pace, senders, 3, &now, T(11000));
        ok(is_near(sum(senders, 3), 10 * rates[r], 0.05));
        all_leave(pace, senders, 3);
    }
}

/* One node asks with 30 answers, one with 3, one with 1; the last one sends small pieces. */
TEST(nodes_share_equally_however_much_they_ask)
{
    struct pace *pace = pace_new(100000000);
    struct sender senders[35];
    uint64_t now = T(1000);
    for (size_t i = 0; i < 35; i++)
        ok(begins(pace, &senders[i], i < 30 ? 1 : i < 33 ? 2 : 3, 1000));
    senders[33].piece = senders[34].piece = 70000;
    run(pace, senders, 35, &now, T(11000));
    uint64_t each = 10 * 100000000ull / 3;
    ok(is_near(sum(senders, 30), each, 0.1));
    ok(is_near(sum(senders + 30, 3), each, 0.1));
    ok(is_near(sum(senders + 33, 2), each, 0.1));
    for (size_t i = 0; i < 30; i++)
        ok(is_near(senders[i].sent, each / 30, 0.3));
    all_leave(pace, senders, 35);
}

/* An answer whose peer takes nothing holds up nobody, and goes on when the peer does. */
TEST(a_peer_that_takes_nothing_holds_up_nobody)
{
    struct pace *pace = pace_new(10000000);
    struct sender senders[3];
    uint64_t now = T(1000);
    for (uint8_t i = 0; i < 3; i++)
        ok(begins(pace, &senders[i], i, 1000));
    run(pace, senders, 3, &now, T(2000));
    senders[0].blocked = true;
    uint64_t before = sum(senders, 3), stuck = senders[0].sent;
    run(pace, senders, 3, &now, T(12000));
    ok(senders[0].sent == stuck && is_near(sum(senders, 3) - before, 100000000, 0.05));
    senders[0].blocked = false;
    senders[0].ready = true;
    run(pace, senders, 3, &now, T(22000));
    ok(is_near(senders[0].sent - stuck, 33333333, 0.1));
    all_leave(pace, senders, 3);
}

static void leave(struct pace *pace, struct sender *sender)
{
    pace_leave(pace, &sender->paced);
    sender->ready = false;
    sender->look_at = 0;
    atomic_store(&sender->woken, false);
}

TEST(the_next_one_may_leave)
{
    struct pace *pace = pace_new(10000000);
    struct sender senders[10];
    uint64_t now = T(1000);
    for (uint8_t i = 0; i < 10; i++)
        ok(begins(pace, &senders[i], i / 2, 1000));
    for (size_t left = 10; left > 1; left--) {
        size_t next = 0;
        while (next < 10 && !pace_is_next(pace, &senders[next].paced))
            next++;
        ok(next < 10 || left == 10);    /* before the first run, nobody waits */
        if (next < 10)
            leave(pace, &senders[next]);
        uint64_t before = sum(senders, 10);
        run(pace, senders, 10, &now, now + T(1000));
        ok(is_near(sum(senders, 10) - before, 10000000, 0.1));
    }
    all_leave(pace, senders, 10);
}

TEST(what_would_come_too_slowly_is_refused)
{
    struct pace *pace = pace_new(10000000);    /* 20 MB may be owed */
    struct sender senders[6];
    uint64_t now = T(1000);
    ok(begins(pace, &senders[0], 1, 30000000));     /* the first one always enters */
    ok(!begins(pace, &senders[1], 1, 8000000));
    ok(begins(pace, &senders[1], 2, 8000000));      /* less than half of 20 MB */
    ok(!begins(pace, &senders[2], 2, 8000000));
    ok(begins(pace, &senders[2], 3, 1000000));
    run(pace, senders, 3, &now, T(4000));           /* they have taken 30 MB, 10 MB each at most */
    ok(begins(pace, &senders[3], 2, 6000000));
    pace_leave(pace, &senders[0].paced);
    ok(begins(pace, &senders[4], 4, 100));
    pace_resize(pace, &senders[4].paced, 20000000);
    ok(!begins(pace, &senders[0], 1, 8000000));
    pace_resize(pace, &senders[4].paced, 50);
    ok(begins(pace, &senders[0], 1, 8000000));
    all_leave(pace, senders, 5);
}

TEST(the_rate_may_change)
{
    struct pace *pace = pace_new(1 << 20);
    struct sender senders[2];
    uint64_t now = T(1000);
    for (uint8_t i = 0; i < 2; i++)
        ok(begins(pace, &senders[i], i, 1000));
    run(pace, senders, 2, &now, T(2000));
    uint64_t before = sum(senders, 2);
    pace_set(pace, 50000000);
    run(pace, senders, 2, &now, T(4000));
    ok(is_near(sum(senders, 2) - before, 100000000, 0.05));
    pace_set(pace, 0);
    before = sum(senders, 2);
    run(pace, senders, 2, &now, T(4100));
    ok(sum(senders, 2) - before >= 2 * (T(100) - 2) * PIECE);
    all_leave(pace, senders, 2);
}

/* ---- threads ---- */

static struct pace *shared;
static _Atomic uint64_t shared_sent;

static void *send_much(void *arg)
{
    struct sender *sender = arg;
    for (unsigned sends = 0; sends < 200;) {
        size_t taken = pace_take(shared, &sender->paced, 65536, mono_ns());
        atomic_fetch_add(&shared_sent, taken);
        sends += taken > 0;
        while (!taken && !pace_is_next(shared, &sender->paced) && !atomic_load(&sender->woken))
            usleep(200);
        atomic_store(&sender->woken, false);
    }
    pace_leave(shared, &sender->paced);
    return NULL;
}

TEST(threads_share_it)
{
    pthread_t threads[8];
    static struct sender senders[8];
    shared = pace_new(1000000000);
    for (uint8_t i = 0; i < 8; i++)
        ok(begins(shared, &senders[i], i / 3, 1000));
    for (size_t i = 0; i < 8; i++)
        ok(pthread_create(&threads[i], NULL, send_much, &senders[i]) == 0);
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    ok(atomic_load(&shared_sent) == 8 * 200 * 65536);
    pace_free(&shared);
}

RUN(cmocka_unit_test(without_a_limit_nothing_waits),
    cmocka_unit_test(the_rate_holds_at_any_rate),
    cmocka_unit_test(nodes_share_equally_however_much_they_ask),
    cmocka_unit_test(a_peer_that_takes_nothing_holds_up_nobody),
    cmocka_unit_test(the_next_one_may_leave),
    cmocka_unit_test(what_would_come_too_slowly_is_refused),
    cmocka_unit_test(the_rate_may_change),
    cmocka_unit_test(threads_share_it))
