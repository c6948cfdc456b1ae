/* decision.h - whether metadata that is stored may answer a request.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The functions here are pure: the same facts give the same decision, and nothing changes. So
 * get_forecast can explain a decision without making it, and tests can go through all cases. Age is
 * in seconds of ageing time (ageing_s). */
#ifndef CACHE_DECISION_H
#define CACHE_DECISION_H

#include "cache/get.h"

/* The demands of a request, and of the settings of its bucket. */
struct demand {
    enum freshness freshness;
    int64_t ttl_s, grace_s, stale_if_error_s;
    bool newest;                  /* no earlier answer of the origin counts */
    bool checksums;               /* it wants the checksums of the whole object */
    bool background;              /* no client waits */
    enum { VERSION_CURRENT, VERSION_NAMED, VERSION_NULL } version;    /* see judge_version */
};

/* The facts about the metadata at this moment. */
struct standing {
    bool permitted;               /* there is proof that the identity may read this version */
    bool confirmed;               /* the origin confirmed it during this request */
    int64_t validated_s;          /* when the origin last confirmed it; 0: not in this process */
    bool unproved;                /* ... and the process before ended without a clean stop */
    bool restated;                /* a write may have changed it since the origin confirmed it */
    bool full;                    /* it has the checksums of the whole object */
};

/* May the metadata answer without the origin? The order of the questions is the rule: first the
 * right to read, then the demands of the client, then the age. */
enum judgement decision_judge(const struct demand *demand, const struct standing *standing,
                              int64_t now_s);
/* May the metadata answer although the origin could not confirm it, because the origin fails?
 * Only within grace or stale_if_error, with a proof of the right to read, and if nothing has
 * changed the metadata since the origin last confirmed it. */
bool decision_serves_outage(const struct demand *demand, const struct standing *standing,
                            int64_t now_s);

#endif
