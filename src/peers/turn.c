/* turn.c - a question's turn at a node. SPDX-License-Identifier: Apache-2.0
 *
 * The circuit of the node (circuit.h) says whether a question may be sent now. If not, the question
 * waits in the node's queue: while the node is in doubt, or while it has as many questions as it
 * may have. A burst for stored bytes is over within milliseconds, so to wait a moment is better
 * than to fetch the bytes a second time elsewhere. But a node whose own origin is slow keeps its
 * questions for long. So a question waits TURN_WAIT_MS at most, the time that an acknowledgement
 * may take. Then it passes the node by: the second in rank is next, and then the origin. The
 * questions of clients come before those of read-ahead and of jobs.
 *
 * Threads: any; all is under the lock of peers. The errand of a waiting question is woken when its
 * wait is over. */
#include "peers/inside.h"

#include "base/clock.h"
#include "base/metric.h"

#define TURN_WAIT_MS 100u
/* More than a node with free loops answers in TURN_WAIT_MS; and waiting costs no connection. */
#define TURNS_WAITING_MAX 512u

static void stop_waiting(struct node *node, struct turn *turn)
{
    list_del(&turn->link);
    node->turns.waiting--;
}

/* Behind the last one of the same rank. */
static void queue_up(struct node *node, struct turn *turn)
{
    struct list *next = &node->turns.queue;
    while (next->prev != &node->turns.queue &&
           list_of(next->prev, struct turn, link)->rank > turn->rank)
        next = next->prev;
    list_add(next, &turn->link);    /* list_add adds in front of a link as it does of a head */
    node->turns.waiting++;
    turn->where = TURN_WAITS;
    turn->until_ms = mono_ms() + TURN_WAIT_MS;
    if (node->circuit.state == CIRCUIT_DOUBTED)
        turn->until_ms = node->circuit.doubted_ms + CIRCUIT_DOUBT_MS;
}

void turns_give(struct node *node)
{
    while (!list_empty(&node->turns.queue)) {
        struct turn *turn = list_of(node->turns.queue.next, struct turn, link);
        enum circuit_say say = circuit_admit(&node->circuit, mono_ms(), &turn->number);
        if (say == CIRCUIT_WAIT)
            break;
        stop_waiting(node, turn);
        turn->where = say == CIRCUIT_ASK ? TURN_HAS : TURN_PASSED;
        errand_wake(turn->errand);
    }
}

static void take_first(struct node *node, struct turn *turn)
{
    bool others_wait = !list_empty(&node->turns.queue);
    enum circuit_say say = others_wait ? CIRCUIT_WAIT
                                       : circuit_admit(&node->circuit, mono_ms(), &turn->number);
    if (say == CIRCUIT_ASK)
        turn->where = TURN_HAS;
    else if (say == CIRCUIT_WAIT && node->turns.waiting < TURNS_WAITING_MAX)
        queue_up(node, turn);
    else
        turn->where = TURN_PASSED;
}

enum turn_where turn_take(struct node *node, struct turn *turn, enum origin_rank rank)
{
    check(!turn->node || turn->node == node);
    pthread_mutex_lock(&node->peers->lock);
    if (!turn->node) {
        turn->node = node;
        turn->rank = rank;
        list_init(&turn->link);
        take_first(node, turn);
    } else if (turn->where == TURN_WAITS && mono_ms() >= turn->until_ms) {
        stop_waiting(node, turn);
        turn->where = TURN_PASSED;
    }
    enum turn_where where = turn->where;
    pthread_mutex_unlock(&node->peers->lock);
    metric_add(M_PEERS_PASSED, where == TURN_PASSED);
    return where;
}

void turn_end(struct turn *turn)
{
    struct node *node = turn->node;
    if (!node)
        return;
    pthread_mutex_lock(&node->peers->lock);
    if (turn->where == TURN_WAITS)
        stop_waiting(node, turn);
    if (turn->where == TURN_HAS)
        circuit_leave(&node->circuit, turn->number);
    turn->where = TURN_ENDED;
    turns_give(node);
    pthread_mutex_unlock(&node->peers->lock);
    turn->node = NULL;
}
