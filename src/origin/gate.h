/* gate.h - so many at once, the others in the order they came.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ORIGIN_GATE_H
#define ORIGIN_GATE_H

#include <pthread.h>

#include "origin/errand.h"

struct gate {                       /* any thread */
    pthread_mutex_t lock;
    unsigned most, inside;
    struct list waiting;
};

struct gate_pass {                  /* one errand's; all zeroes at start */
    struct errand *errand;
    struct list link;
    enum { GATE_AWAY, GATE_WAITING, GATE_INSIDE } where;    /* gate->lock */
};

void gate_init(struct gate *gate, unsigned most);
void gate_end(struct gate *gate);
/* False: it waits, and its errand is woken when it is inside. */
bool gate_enter(struct gate *gate, struct gate_pass *pass) MUST_USE;
bool gate_is_inside(struct gate *gate, const struct gate_pass *pass) MUST_USE;
void gate_leave(struct gate *gate, struct gate_pass *pass);    /* from wherever it is */

#endif
