/* hedge.h - decides when a request to an origin is sent a second time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A hedged request is a request that is sent a second time, over another connection, because its
 * answer is late. The first good answer counts. An origin is many servers: while one of them is
 * slow, another one usually answers the second request at the usual speed.
 *
 * An answer is late if it takes longer than the 95th percentile of the times to the first byte, and
 * longer than twice their median. (If all times are nearly the same, a percentile alone would call
 * answers late that come a millisecond later.) A histogram has the times of the last minutes. A
 * budget limits hedges to 3 % of the answers: more requests would make an origin slower that is slow
 * as a whole. While few second requests win, the budget grows by a tenth only: then slow answers do
 * not come from a slow server, but for example from a prefix that is always slow.
 * Nothing here does I/O: time is an argument (rule H9 in src/README.md).
 * The caller holds a lock. */
#ifndef ORIGIN_HEDGE_H
#define ORIGIN_HEDGE_H

#include "base/slice.h"

/* With fewer samples, a few slow answers would decide about the 95th percentile. */
#define HEDGE_SAMPLES 200u
/* A request is never sent again sooner. On a busy machine, a carrier waits some milliseconds for a
 * processor, and so does an origin in the local network that usually answers in 1 ms. A second
 * request would wait, too. */
#define HEDGE_FLOOR_MS 20u
/* The counts of the histogram halve once in this time. An origin with fewer answers
 * than HEDGE_SAMPLES in some minutes is not hedged. */
#define HEDGE_HALF_MS 60000u
/* Each answer adds 0.03 of a hedge to the budget, which is empty at first. */
#define HEDGE_EARN_MILLI 30u
/* If fewer than a quarter of so many hedges, or of more, have won, each answer adds a tenth. */
#define HEDGE_JUDGED 8u
/* The number of hedges that can be saved. If all connections of an origin stall at once, no more
 * requests than these are added. */
#define HEDGE_BUDGET_MAX 10u

/* The buckets of the histogram are an eighth of a power of two wide, so at most 12.5 % of their
 * times. Times from 1 ms to 67 s have a bucket; other times count in the first or the last. */
#define HEDGE_STEPS 8u
#define HEDGE_LEAST_US 1024u
#define HEDGE_BUCKETS (16u * HEDGE_STEPS)

struct hedge {                      /* all zeroes at first */
    bool off;                       /* nothing is hedged; set before the first call */
    uint32_t counts[HEDGE_BUCKETS];
    uint32_t samples;               /* the sum of the counts */
    uint64_t halved_ms;
    uint32_t milli;                 /* the budget, in thousandths of a hedge */
    uint32_t begun, won;            /* hedges; halved as the counts */
};

/* Takes the time to the first byte of an answer, from the start of the first try of its request. So
 * a request whose second try won counts as slow, as it would without the hedge. */
void hedge_note(struct hedge *hedge, uint64_t first_byte_us, uint64_t now_ms);
/* Returns the time after which a request may be sent again; 0: never, as too few times are
 * known. */
unsigned hedge_delay_ms(struct hedge *hedge, uint64_t now_ms) MUST_USE;
bool hedge_spend(struct hedge *hedge) MUST_USE;    /* false: the budget is used up */
void hedge_won(struct hedge *hedge);    /* a second request brought the answer */

#endif
