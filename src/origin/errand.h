/* errand.h - work that belongs to one thread and is woken there.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Any thread may enter an errand into the struct errands of a worker thread. From then on, that
 * worker calls the errand's function woken() for three reasons: another thread woke the errand, the
 * errand is due, or it must stop. The errand itself decides when it leaves. */
#ifndef ORIGIN_ERRAND_H
#define ORIGIN_ERRAND_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/mailbox.h"

struct errands {                    /* the errands of one thread, which runs them in its loop */
    struct mailbox *box;
    struct list all, timers;
    atomic_uint live;               /* number of errands that have entered and not left yet */
    atomic_bool stopping;
    bool stop_woken;                /* every errand was woken to tell it to stop */
};

struct errand {
    void (*woken)(struct errand *errand);
    struct errands *of;
    struct ticket *ticket;
    struct list link, timer;
    uint64_t due_ms;                /* monotonic */
};

void errand_enter(struct errands *of, struct errand *errand);    /* any thread; woken() follows */
void errand_wake(struct errand *errand);  /* any thread, until the errand leaves */
/* Only on the errand's own thread: */
void errand_due(struct errand *errand, uint64_t at_ms);          /* UINT64_MAX: never */
bool errand_stopping(const struct errand *errand) MUST_USE;
void errand_leave(struct errand *errand);

void errands_init(struct errands *of);
void errands_end(struct errands *of);  /* after all have left, and the thread has ended */
void errands_stop(struct errands *of);  /* any thread; wakes every errand to tell it to stop */
bool errands_over(const struct errands *of) MUST_USE;    /* stopping, and all errands have left */
/* For the thread's loop: calls woken() of each errand that was woken, is due, or must stop. */
void errands_run(struct errands *of, uint64_t now_ms);
int errands_wait_ms(const struct errands *of, uint64_t now_ms);    /* time until an errand is due */

#endif
