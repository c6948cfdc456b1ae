/* exchange_pair.h - an HTTP exchange that may be sent twice. SPDX-License-Identifier: Apache-2.0
 *
 * A pair begins as one exchange (curl.h). Its owner may start a second one with the same request,
 * if the first is late (a hedged request: hedge.h). The first good head wins: the owner gets the
 * answer of this exchange only, as if there had never been another. If one exchange fails while the
 * other is in progress, the other goes on, and the owner does not see an end.
 *
 * A callback can't drop an exchange. So the exchange that loses is marked, the errand is woken, and
 * its woken() calls exchange_pair_settle, which drops it. All functions are called on the carrier,
 * outside of callbacks. */
#ifndef ORIGIN_EXCHANGE_PAIR_H
#define ORIGIN_EXCHANGE_PAIR_H

#include "origin/curl.h"

struct exchange_pair_events {
    /* As for a single exchange. ready() is called for the first of the two only: a second request is
     * sent beside one that is in progress, so a refusal could not end the call. */
    struct exchange_events one;
    /* Returns true if a head with this status is good enough to end the other exchange. If it is
     * not, and the other exchange is in progress, the exchange of this head ends. */
    bool (*wins)(void *arg, bool is_second, int status);
    /* Takes the result of an exchange that is out, while the other goes on: its error; or OK and a
     * head that did not win. */
    void (*out)(void *arg, bool is_second, enum err err, const struct origin_reply *reply);
    void (*second_won)(void *arg);    /* before the head */
};

struct exchange_pair;
/* If the request may be sent twice, the memory of `ask` must live as long as the pair. */
struct exchange_pair *exchange_pair_start(struct errand *errand, const struct exchange_ask *ask,
                                          const struct exchange_pair_events *events,
                                          void *arg) MUST_USE;
/* Returns true if no head has come, and the request was not sent twice yet. */
bool exchange_pair_may_hedge(const struct exchange_pair *pair) MUST_USE;
/* Sends the request again, over a new connection: if idle ones are dead without a sign, a second one
 * of them would not help. */
void exchange_pair_hedge(struct exchange_pair *pair);
/* Drops the second exchange. Both must be in progress, so no head has come. */
void exchange_pair_end_second(struct exchange_pair *pair);
/* Drops the exchange that has lost. Returns true if two are in progress. */
bool exchange_pair_settle(struct exchange_pair *pair);
void exchange_pair_resume(struct exchange_pair *pair);
bool exchange_pair_sends_later(const struct exchange_pair *pair);    /* also in a callback */
void exchange_pair_drop(struct exchange_pair **pair);    /* afterwards, no callback is called */

#endif
