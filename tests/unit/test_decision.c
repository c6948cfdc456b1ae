/* test_decision.c - every case in which stored metadata may answer, or may not.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "cache/decision.h"

#define TTL 60
#define GRACE 600
#define ERROR_TIME 1200    /* stale_if_error */
#define NOW 1000000

enum { NO, YES, ANY };
enum age { NEVER, WITHIN_TTL, WITHIN_GRACE, OLD, ANY_AGE };

#define ANY_FRESHNESS 3
#define ANY_VERSION 3

/* The case is the first row that fits. */
static const struct row {
    int permitted, confirmed, lacks_sums, newest, restated, version, freshness, unproved;
    enum age age;
    int background;
    enum judgement judged;
    bool answers;
} rows[] = {
    { NO, ANY, ANY, ANY, ANY, ANY_VERSION, ANY_FRESHNESS, ANY, ANY_AGE, ANY, JUDGED_NOT_PERMITTED, false },
    { YES, YES, ANY, ANY, ANY, ANY_VERSION, ANY_FRESHNESS, ANY, ANY_AGE, ANY, JUDGED_CONFIRMED, true },
    { YES, NO, YES, ANY, ANY, ANY_VERSION, ANY_FRESHNESS, ANY, ANY_AGE, ANY, JUDGED_INCOMPLETE, false },
    { YES, NO, NO, YES, ANY, ANY_VERSION, ANY_FRESHNESS, ANY, ANY_AGE, ANY, JUDGED_NEWEST, false },
    { YES, NO, NO, NO, YES, ANY_VERSION, ANY_FRESHNESS, ANY, ANY_AGE, ANY, JUDGED_RESTATED, false },
    { YES, NO, NO, NO, NO, VERSION_NAMED, ANY_FRESHNESS, YES, ANY_AGE, ANY, JUDGED_VERSION_EXPIRED, false },
    { YES, NO, NO, NO, NO, VERSION_NAMED, ANY_FRESHNESS, NO, ANY_AGE, ANY, JUDGED_IMMUTABLE, true },
    { YES, NO, NO, NO, NO, VERSION_NULL, FRESH_IMMUTABLE, YES, ANY_AGE, ANY, JUDGED_VERSION_EXPIRED, false },
    { YES, NO, NO, NO, NO, VERSION_NULL, FRESH_IMMUTABLE, NO, ANY_AGE, ANY, JUDGED_IMMUTABLE, true },
    { YES, NO, NO, NO, NO, VERSION_NULL, ANY_FRESHNESS, ANY, WITHIN_TTL, ANY, JUDGED_FRESH, true },
    { YES, NO, NO, NO, NO, VERSION_NULL, ANY_FRESHNESS, ANY, ANY_AGE, ANY, JUDGED_VERSION_EXPIRED, false },
    { YES, NO, NO, NO, NO, VERSION_CURRENT, FRESH_IMMUTABLE, YES, ANY_AGE, ANY, JUDGED_UNPROVED, false },
    { YES, NO, NO, NO, NO, VERSION_CURRENT, FRESH_IMMUTABLE, NO, ANY_AGE, ANY, JUDGED_IMMUTABLE, true },
    { YES, NO, NO, NO, NO, VERSION_CURRENT, ANY_FRESHNESS, ANY, NEVER, ANY, JUDGED_UNPROVED, false },
    { YES, NO, NO, NO, NO, VERSION_CURRENT, ANY_FRESHNESS, ANY, WITHIN_TTL, ANY, JUDGED_FRESH, true },
    { YES, NO, NO, NO, NO, VERSION_CURRENT, ANY_FRESHNESS, ANY, WITHIN_GRACE, NO, JUDGED_STALE, true },
    { YES, NO, NO, NO, NO, VERSION_CURRENT, ANY_FRESHNESS, ANY, ANY_AGE, ANY, JUDGED_EXPIRED, false },
};

static enum age age_of(int64_t validated_s)
{
    int64_t age_s = NOW - validated_s;
    return !validated_s ? NEVER : age_s <= TTL ? WITHIN_TTL : age_s <= TTL + GRACE ? WITHIN_GRACE : OLD;
}

static bool fits(int wanted, int any, int is)
{
    return wanted == any || wanted == is;
}

static const struct row *find_row(const struct demand *demand, const struct standing *standing)
{
    for (const struct row *row = rows; row < rows + countof(rows); row++)
        if (fits(row->permitted, ANY, standing->permitted) &&
            fits(row->confirmed, ANY, standing->confirmed) &&
            fits(row->lacks_sums, ANY, demand->checksums && !standing->full) &&
            fits(row->newest, ANY, demand->newest) && fits(row->restated, ANY, standing->restated) &&
            fits(row->version, ANY_VERSION, (int)demand->version) &&
            fits(row->freshness, ANY_FRESHNESS, (int)demand->freshness) &&
            fits(row->unproved, ANY, standing->unproved) &&
            fits((int)row->age, ANY_AGE, (int)age_of(standing->validated_s)) &&
            fits(row->background, ANY, demand->background))
            return row;
    fail();
    return NULL;
}

/* Calls `with` for each case, at each side of each border of the age. */
static void each_case(void (*with)(const struct demand *demand, const struct standing *standing))
{
    static const int64_t validated[] = { 0, NOW, NOW - TTL, NOW - TTL - 1, NOW - TTL - GRACE,
                                         NOW - TTL - GRACE - 1, NOW - TTL - ERROR_TIME,
                                         NOW - TTL - ERROR_TIME - 1, NOW + 5 };
    for (unsigned bits = 0; bits < 1u << 8; bits++)
        for (int version = 0; version < ANY_VERSION; version++)
            for (int freshness = 0; freshness < ANY_FRESHNESS; freshness++)
                for (size_t i = 0; i < countof(validated); i++) {
                    struct demand demand = { .freshness = (enum freshness)freshness,
                                             .ttl_s = TTL, .grace_s = GRACE,
                                             .newest = bits & 1, .checksums = bits & 2,
                                             .background = bits & 4 };
                    demand.version = version == 0 ? VERSION_CURRENT
                                   : version == 1 ? VERSION_NAMED : VERSION_NULL;
                    struct standing standing = { .permitted = bits & 8, .confirmed = bits & 16,
                                                 .unproved = bits & 32, .restated = bits & 64,
                                                 .full = bits & 128, .validated_s = validated[i] };
                    with(&demand, &standing);
                }
}

static unsigned times[countof(rows)];

static void judge_one(const struct demand *demand, const struct standing *standing)
{
    const struct row *row = find_row(demand, standing);
    ok(decision_judge(demand, standing, NOW) == row->judged);
    times[row - rows]++;
}

TEST(each_case_is_judged_by_the_first_row_that_fits)
{
    each_case(judge_one);
    for (size_t i = 0; i < countof(rows); i++)
        ok(times[i] > 0);
}

/* The promises behind the table. */
static void keep_promises(const struct demand *demand, const struct standing *standing)
{
    const struct row *row = find_row(demand, standing);
    bool old = standing->validated_s && age_of(standing->validated_s) == OLD;
    if (!row->answers)
        return;
    ok(standing->permitted);
    if (standing->confirmed)
        return;
    ok(!demand->newest && !standing->restated && (!demand->checksums || standing->full));
    ok(!standing->unproved || standing->validated_s);
    bool immutable = demand->freshness == FRESH_IMMUTABLE || demand->version == VERSION_NAMED;
    ok(immutable || (standing->validated_s && !old));
}

static void keep_promises_of_possible(const struct demand *demand, const struct standing *standing)
{
    if (!standing->unproved || !standing->validated_s)    /* what the origin confirmed is proved */
        keep_promises(demand, standing);
}

TEST(metadata_answers_only_if_it_is_permitted_proved_and_not_too_old)
{
    each_case(keep_promises_of_possible);
}

/* Without stale_if_error, with one shorter than the grace, and with a longer one. */
static void serve_outage(const struct demand *given, const struct standing *standing)
{
    static const int64_t bridges[] = { 0, GRACE / 2, ERROR_TIME };
    struct demand demand = *given;
    int64_t age_s = NOW - standing->validated_s;
    for (size_t i = 0; i < countof(bridges); i++) {
        demand.stale_if_error_s = bridges[i];
        bool young = age_s <= TTL + MAX((int64_t)GRACE, bridges[i]);
        bool serves = standing->permitted && !demand.newest && !standing->restated &&
                      standing->validated_s && (young || demand.freshness == FRESH_IMMUTABLE);
        ok(decision_serves_outage(&demand, standing, NOW) == serves);
        ok(decision_judge(&demand, standing, NOW) == decision_judge(given, standing, NOW));
    }
}

TEST(an_outage_is_bridged_within_grace_or_stale_if_error)
{
    each_case(serve_outage);
}

RUN(cmocka_unit_test(each_case_is_judged_by_the_first_row_that_fits),
    cmocka_unit_test(metadata_answers_only_if_it_is_permitted_proved_and_not_too_old),
    cmocka_unit_test(an_outage_is_bridged_within_grace_or_stale_if_error))
