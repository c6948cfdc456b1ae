/* retry.h - decides whether and when a try is repeated. SPDX-License-Identifier: Apache-2.0
 *
 * A try is one request of a call to an origin; if it fails, the call may make another try. Nothing
 * here does I/O: time and chance are arguments (rule H9 in src/README.md). Retries help against
 * rare failures but make an overload worse, so there is a budget: each call earns a tenth of a
 * retry, and the budget is full at the start. */
#ifndef ORIGIN_RETRY_H
#define ORIGIN_RETRY_H

#include "base/slice.h"

#define RETRY_BUDGET_MAX 10         /* retries that can be saved; also the budget at the start */

/* The budget of one origin, in thousandths of a retry. The caller holds a lock. */
struct retry_budget {
    uint32_t milli;
};
void retry_budget_init(struct retry_budget *budget);
void retry_earn(struct retry_budget *budget);               /* called for each call that begins */
bool retry_spend(struct retry_budget *budget) MUST_USE;     /* false: the budget is used up */

/* The effect if the origin receives a request twice. ONCE: harm, so this must not happen. WRITES:
 * the object is the same, but may have two equal versions. NONE: no effect. */
enum effect { EFFECT_ONCE, EFFECT_WRITES, EFFECT_NONE };

/* The result of a try. */
struct retry_case {
    enum err err;           /* OK: an answer came, with `status` */
    int status;
    bool sent;              /* the whole request was sent: the origin may act on it */
    bool reused;            /* a reused connection failed at once */
    bool no_retry;          /* the call must not happen twice */
    enum effect effect;
    unsigned tries, tries_max;      /* tries: includes this one, but no free ones */
    unsigned free_tries;            /* earlier repetitions that were free */
};
/* FREE: repeat at once, at no cost to tries_max and budget. PAID: repeat if retry_spend allows. */
enum retry { RETRY_NO, RETRY_FREE, RETRY_PAID };
enum retry retry_judge(const struct retry_case *what) MUST_USE;

/* Returns the pause before the next try, with full jitter: a random part of a limit, which is 100
 * ms at first and doubles with each try up to 5 s. `after_ms` is added: the value of Retry-After,
 * or 0. */
uint64_t retry_delay_ms(unsigned tries, uint64_t chance, uint64_t after_ms);
/* Returns the value of a Retry-After (seconds or a date) as milliseconds from now, or 0 if it is
 * not valid or in the past. */
uint64_t retry_after_ms(slice value, int64_t now_s);
#define RETRY_AFTER_MS_MAX 20000    /* for a longer wait, the caller gets the answer instead */

#endif
