/* decision.c - whether metadata that is stored may answer a request.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cache/decision.h"

/* A version that the client names never becomes another one. The exception is "null": it is the
 * latest object that was written while the bucket had no versions, and no listing of current
 * objects shows it. */
static enum judgement judge_version(const struct demand *demand, const struct standing *standing,
                                    int64_t age_s)
{
    if (demand->freshness == FRESH_IMMUTABLE || demand->version == VERSION_NAMED)
        return standing->unproved ? JUDGED_VERSION_EXPIRED : JUDGED_IMMUTABLE;
    return standing->validated_s && age_s <= demand->ttl_s ? JUDGED_FRESH : JUDGED_VERSION_EXPIRED;
}

static enum judgement judge_age(const struct demand *demand, const struct standing *standing,
                                int64_t age_s)
{
    if (!standing->validated_s)
        return JUDGED_UNPROVED;
    if (age_s <= demand->ttl_s)
        return JUDGED_FRESH;
    return age_s <= demand->ttl_s + demand->grace_s && !demand->background ? JUDGED_STALE
                                                                           : JUDGED_EXPIRED;
}

enum judgement decision_judge(const struct demand *demand, const struct standing *standing,
                              int64_t now_s)
{
    int64_t age_s = now_s - standing->validated_s;
    if (!standing->permitted)
        return JUDGED_NOT_PERMITTED;
    if (standing->confirmed)
        return JUDGED_CONFIRMED;
    if (demand->checksums && !standing->full)
        return JUDGED_INCOMPLETE;
    if (demand->newest)
        return JUDGED_NEWEST;
    if (standing->restated)
        return JUDGED_RESTATED;
    if (demand->version != VERSION_CURRENT)
        return judge_version(demand, standing, age_s);
    if (demand->freshness == FRESH_IMMUTABLE)
        return standing->unproved ? JUDGED_UNPROVED : JUDGED_IMMUTABLE;
    return judge_age(demand, standing, age_s);
}

bool decision_serves_outage(const struct demand *demand, const struct standing *standing,
                            int64_t now_s)
{
    if (!standing->permitted || demand->newest || standing->restated || !standing->validated_s)
        return false;
    int64_t bridged_s = demand->ttl_s + MAX(demand->grace_s, demand->stale_if_error_s);
    return demand->freshness == FRESH_IMMUTABLE || now_s - standing->validated_s <= bridged_s;
}
