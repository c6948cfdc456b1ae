/* retry.h - whether and when a try is repeated. SPDX-License-Identifier: Apache-2.0
 *
 * Pure: time and chance are arguments (H9). Retries help against rare failures and make an overload
 * worse, so they are paid for: each call earns a tenth of a retry, and a few are free. */
#ifndef ORIGIN_RETRY_H
#define ORIGIN_RETRY_H

#include "base/slice.h"

#define RETRY_BUDGET_MAX 10         /* retries that may be saved up */

/* Belongs to one origin; its owner locks it. In thousandths of a retry. */
struct retry_budget {
    uint32_t milli;
};
void retry_budget_init(struct retry_budget *budget);
void retry_earn(struct retry_budget *budget);               /* a call begins */
bool retry_spend(struct retry_budget *budget) MUST_USE;     /* false: used up */

/* What it does to the origin to happen twice. WRITES leaves the same object, but may leave two
 * versions of it. */
enum effect { EFFECT_ONCE, EFFECT_WRITES, EFFECT_NONE };

/* What became of a try. */
struct retry_case {
    enum err err;           /* OK: an answer came, with this status */
    int status;
    bool sent;              /* all of the request: the origin may have acted upon it */
    bool reused;            /* it failed at once on a connection that had served before */
    bool no_retry;          /* the call must not happen twice */
    enum effect effect;
    unsigned tries, tries_max;      /* this one included */
    unsigned free_tries;            /* repeated for nothing before */
};
enum retry { RETRY_NO, RETRY_FREE, RETRY_PAID };
enum retry retry_judge(const struct retry_case *what) MUST_USE;

/* Full jitter: anything up to 100 ms doubled with each try, at most 5 s; never before *after_ms*,
 * what Retry-After said (0: nothing). */
uint64_t retry_delay_ms(unsigned tries, uint64_t chance, uint64_t after_ms);
/* A Retry-After value, seconds or a date, as ms from now; 0 if it is none or past. */
uint64_t retry_after_ms(slice value, int64_t now_s);
#define RETRY_AFTER_MS_MAX 20000    /* who is told to wait longer hands out the answer instead */

#endif
