/* gate.c - so many at once, the others in the order they came. SPDX-License-Identifier: Apache-2.0
 *
 * An origin's limit of connections holds over all threads. Who leaves hands its place straight to
 * the first in the queue, so nobody who comes later can slip in between. */
#include "origin/gate.h"

void gate_init(struct gate *gate, unsigned most)
{
    pthread_mutex_init(&gate->lock, NULL);
    gate->most = MAX(most, 1u);
    gate->inside = 0;
    list_init(&gate->waiting);
}

void gate_end(struct gate *gate)
{
    check(gate->inside == 0 && list_empty(&gate->waiting));
    pthread_mutex_destroy(&gate->lock);
}

bool gate_enter(struct gate *gate, struct gate_pass *pass)
{
    pthread_mutex_lock(&gate->lock);
    check(pass->where == GATE_AWAY);
    list_init(&pass->link);
    if (gate->inside < gate->most) {
        gate->inside++;
        pass->where = GATE_INSIDE;
    } else {
        list_add(&gate->waiting, &pass->link);
        pass->where = GATE_WAITING;
    }
    bool inside = pass->where == GATE_INSIDE;
    pthread_mutex_unlock(&gate->lock);
    return inside;
}

bool gate_is_inside(struct gate *gate, const struct gate_pass *pass)
{
    pthread_mutex_lock(&gate->lock);
    bool inside = pass->where == GATE_INSIDE;
    pthread_mutex_unlock(&gate->lock);
    return inside;
}

static void hand_over(struct gate *gate)
{
    if (list_empty(&gate->waiting)) {
        gate->inside--;
        return;
    }
    struct gate_pass *next = list_of(gate->waiting.next, struct gate_pass, link);
    list_del(&next->link);
    next->where = GATE_INSIDE;
    errand_wake(next->errand);
}

void gate_leave(struct gate *gate, struct gate_pass *pass)
{
    pthread_mutex_lock(&gate->lock);
    if (pass->where == GATE_INSIDE)
        hand_over(gate);
    else if (pass->where == GATE_WAITING)
        list_del(&pass->link);
    pass->where = GATE_AWAY;
    pthread_mutex_unlock(&gate->lock);
}
