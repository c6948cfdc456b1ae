/* explain.c - what the store has of one object, for people. SPDX-License-Identifier: Apache-2.0 */
#include "store/explain.h"

#include "store/inside.h"

static double age_of(struct volume *volume, const struct entry *entry)
{
    struct mean_age *policy = volume->rule.policy;
    struct extent *extent = extent_ref(volume->extents, entry->extent);
    double age = -1;
    if (extent && mean_age_is_known(policy))
        age = (double)mean_age_of_stamp(mean_age_tick(policy),
                                        ages_stamp(extent_ages_of(extent), entry->ordinal)) /
              MEAN_AGE_TICKS;
    extent_release(&extent);
    return age;
}

static struct explain_record describe(struct volume *volume, const struct object_id *id,
                                      uint32_t unit, const struct entry *entry)
{
    struct explain_record record = {
        .folder = volume->number, .serving = volume_is_serving(volume), .age = -1,
        .kept_out = events_find(volume->events, id, unit, KEPT_OUT),
        .taken_out = events_find(volume->events, id, unit, TAKEN_OUT),
    };
    record.stored = record.serving && entry;
    if (record.stored) {
        record.extent = entry->extent;
        record.age = age_of(volume, entry);
    }
    return record;
}

void explain_metadata(struct store *store, const struct object_id *id,
                      const struct object_name *name, struct explain_metadata *ret)
{
    struct volume *volume = store_home(store, id);
    struct entry entry;
    uint32_t unit = METADATA_UNIT;
    bool found = volume_find_metadata(volume, id, name, &unit, &entry) == OK;
    *ret = (struct explain_metadata){
        .record = describe(volume, id, 0, found ? &entry : NULL) };
    if (!ret->record.stored)
        return;
    ret->whole = entry.whole;
}

/* Returns the number of consecutive missing units, at most `count`. */
static uint32_t missing_from(struct volume *volume, const struct metadata *metadata, uint32_t unit,
                             uint32_t count)
{
    uint32_t looks = count;
    return volume_next_unit(volume, metadata, unit, count, RECORDS_ALL, &looks) - unit;
}

uint32_t explain_units(struct store *store, const struct metadata *metadata, uint32_t unit,
                       uint32_t count, struct explain_record *ret)
{
    const struct object_id *id = &metadata->id;
    struct volume *volume = store_home_of_unit(store, id, unit);
    struct entry run[RECORD_UNITS];
    uint32_t same = 0;
    check(count > 0);
    count = MIN(count, STRIPE_UNITS - unit % STRIPE_UNITS);
    if (volume_has_units(volume, metadata, unit, 1, RECORDS_ALL) == 0) {
        *ret = describe(volume, id, unit, NULL);
        return volume_is_serving(volume) ? MAX(missing_from(volume, metadata, unit, count), 1u)
                                         : count;
    }
    uint32_t found = index_get_run(volume->index, id, unit, MIN(count, RECORD_UNITS), run);
    while (same < found && run[same].extent == run[0].extent && run[same].ordinal == run[0].ordinal)
        same++;
    *ret = describe(volume, id, unit, found ? &run[0] : NULL);
    return found && run[0].whole ? count : MAX(same, 1u);
}

/* ---- the age of a whole object ---- */

#define RUN_UNITS 64u                 /* entries of one look-up */

double explain_younger(double a, double b)
{
    return a < 0 ? b : b < 0 ? a : MIN(a, b);
}

static double age_of_units(struct volume *volume, const struct object_id *id, uint64_t etag_hash)
{
    struct entry run[RUN_UNITS], *last = NULL;
    double age = -1;
    uint32_t unit = 0;
    while (index_get_next(volume->index, id, unit, &unit, &run[0]) == OK && unit != METADATA_UNIT &&
           !run[0].whole) {
        uint32_t count = index_get_run(volume->index, id, unit, RUN_UNITS, run);
        for (uint32_t i = 0; i < count; i++) {
            bool is_new = !last || run[i].extent != last->extent || run[i].ordinal != last->ordinal;
            if (run[i].etag_hash == etag_hash && is_new)    /* one look at each record */
                age = explain_younger(age, age_of(volume, &run[i]));
            last = &run[i];
        }
        last = NULL;
        unit += MAX(count, 1u);
    }
    return age;
}

double explain_age(struct store *store, const struct object_id *id, const struct entry *metadata)
{
    double age = -1;
    if (metadata->whole)
        return age_of(store_home(store, id), metadata);
    for (size_t i = 0; i < store->volume_count; i++)
        if (volume_is_serving(store->volumes[i]))
            age = explain_younger(age, age_of_units(store->volumes[i], id, metadata->etag_hash));
    return age;
}
