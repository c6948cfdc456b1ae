/* errand.h - work that lives on one thread and is woken there. SPDX-License-Identifier: Apache-2.0
 *
 * An errand enters from any thread and is from then on told by woken(), always on its own thread,
 * that something happened: it was woken, it is due, or it must stop. It decides itself when it
 * leaves. A thread that does errands keeps a struct errands in its loop. */
#ifndef ORIGIN_ERRAND_H
#define ORIGIN_ERRAND_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/mailbox.h"

struct errands {                    /* of one thread */
    struct mailbox *box;
    struct list all, timers;
    atomic_uint live;               /* entered and did not leave */
    atomic_bool stopping;
    bool told;                      /* everybody knows of it */
};

struct errand {
    void (*woken)(struct errand *errand);
    struct errands *of;
    struct ticket *ticket;
    struct list link, timer;
    uint64_t due_ms;                /* monotonic */
};

void errand_enter(struct errands *of, struct errand *errand);    /* any thread; woken() follows */
void errand_wake(struct errand *errand);                         /* any thread, until it leaves */
/* Its own thread only: */
void errand_due(struct errand *errand, uint64_t at_ms);          /* 0: no timer */
bool errand_stopping(const struct errand *errand) MUST_USE;
void errand_leave(struct errand *errand);

void errands_init(struct errands *of);
void errands_end(struct errands *of);                /* all have left, the thread is no more */
void errands_stop(struct errands *of);               /* any thread: all are woken, to stop */
bool errands_over(const struct errands *of) MUST_USE;    /* stopping, and nobody is left */
/* The loop's part: wakes who was woken, is due, or must know of the end. */
void errands_run(struct errands *of, uint64_t now_ms);
int errands_wait_ms(const struct errands *of, uint64_t now_ms);    /* so long nobody is due */

#endif
