/* stage.c - room for records that are fetched ahead of their readers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A job that follows its readers fetches records shortly before they are read. In a full cache, the
 * rule admits few of these. The others are *staged*: they are appended to extents of their own, and
 * go some time after they were read. They are found, verified and read as all records are. Unless
 * metadata and bytes are one WHOLE record, the metadata goes to the log: units of the object may be
 * there, too, or come later, and nobody finds units without metadata.
 *
 *   share = what jobs keep ahead, and SPARE_EXTENTS; at least 1/16 and at most half of the size
 *
 * A new staging extent takes free room, if there is some within the share. Otherwise an extent is
 * evicted for it: a staging extent that readers have passed, if the staging extents have more bytes
 * than jobs keep ahead; or, if the share is used up, the oldest staging extent; or the extent of
 * the rule whose records are the oldest on average. So staging extents never take more from the
 * rule than their share. (If the rule has no extent to give, one that readers have passed goes after
 * all.) What one reader has passed stays for a while: a record may have several
 * items of a list, and a list may name an item twice. An extent goes whole, without copies. Extents
 * with pinned records are never evicted here, and records in staging extents are never pinned: the
 * pin counts when the object is stored again. For jobs that do not follow, staged records count as
 * missing (store.h).
 *
 * Readers have passed an extent when all its records were read, or when most were, and half of a
 * later one. So a few records that nobody reads keep no extent, and the records of slow readers stay
 * as long as the share has room.
 *
 * Staging extents of an earlier opening are evicted soon after the folder was opened: no reader is
 * known for their records. The same happens to all of them STAGE_IDLE_MS after the last job ended;
 * the next epoch's job, which comes before that, uses their room again. Threads: the committer,
 * unless stage.h says otherwise. */
#include "store/stage.h"

#include <string.h>
#include <time.h>

#include "base/guard.h"
#include "store/account.h"
#include "store/pinned.h"
#include "store/room.h"
#include "store/service.h"

#define SPARE_EXTENTS 3u              /* the open one, and those that are being read */
#define SHARE_LEAST 16u               /* of the size: one part of so many ... */
#define SHARE_MOST 2u                 /* ... and of so many */
#define STAGE_IDLE_MS 60000u          /* ageing time */
#define LOOK_MS 500u                  /* between two looks for extents that are due */
#define STEP_MS 200u                  /* of one step */
#define TRIES 4u                      /* extents that are evicted for a new one, at most */
#define RELEASE_MS 50u                /* a wait for readers of an evicted extent, but for the first */
#define VICTIMS_SHARE 16u             /* a look finds one extent in so many ... */
#define VICTIMS_MS 10000u             /* ... and its result serves for this time */
#define READ_EIGHTHS 7u               /* most records were read */

/* ---- the share ---- */

void stage_want(struct volume *volume, uint64_t bytes)
{
    struct staging *staging = &volume->space.staging;
    if (!bytes && atomic_load(&staging->wanted))
        atomic_store(&staging->idle_ms, ageing_ms());
    atomic_store(&staging->wanted, bytes);
}

uint64_t stage_share(const struct volume *volume)
{
    const struct space *space = &volume->space;
    uint64_t size = atomic_load(&space->size_bytes), wanted = atomic_load(&space->staging.wanted);
    uint64_t spare = (uint64_t)SPARE_EXTENTS * atomic_load(&space->extent_bytes);
    return wanted ? MIN(MAX(wanted + spare, size / SHARE_LEAST), size / SHARE_MOST) : 0;
}

bool stage_takes(struct volume *volume)
{
    return volume_is_serving(volume) &&
           stage_share(volume) >= atomic_load(&volume->space.extent_bytes);
}

void stage_over_quota(struct volume *volume)
{
    atomic_store(&volume->space.staging.over_quota, true);
}

/* ---- the extents ---- */

/* A sealed extent that may be evicted. */
struct place {
    uint32_t number;
    uint32_t records, read;           /* of a staging extent */
    bool staging, left;               /* left: by an earlier opening */
    bool stays;                       /* it has pinned records */
};

/* Returns the mean age of the records, in ticks. */
static double age_of(const struct volume *volume, const struct extent *extent)
{
    if (extent_is_unusable(extent))
        return MEAN_AGE_CAP;
    struct ages_stamps stamps = ages_stamps(extent_ages_of(extent));
    const struct mean_age_stamps all = { .stamps = stamps.stamps, .count = stamps.count,
                                         .left_out = stamps.left_out };
    struct mean_age_extent sum = mean_age_sweep(&all, mean_age_tick(volume->rule.policy));
    return (double)sum.ages / MAX(sum.records, 1u);
}

/* Returns false if the extent may not be evicted, because it is open or has the highest number. */
static bool look_at(struct volume *volume, uint32_t number, struct place *ret)
{
    struct extent *extent = extent_ref(volume->extents, number);
    bool may = extent && !extent_is_open(volume->extents, number) &&
               number != extents_highest(volume->extents);
    if (may) {
        const struct ages *ages = extent_ages_of(extent);
        *ret = (struct place){ .number = number, .staging = extent_is_staging(extent),
                               .stays = ages_pinned_bytes(ages) || ages_held(ages) };
        ret->read = extent_records_read(extent);
        ret->records = extent_rows(extent);
        ret->left = ret->staging && ret->read == UINT32_MAX;
    }
    extent_release(&extent);
    return may;
}

/* Finds the staging extents that may be evicted, the oldest first; in keep. */
static size_t find_places(struct volume *volume, struct arena *keep, struct place **ret)
{
    uint32_t *numbers;
    size_t all = extents_staging_numbers(volume->extents, keep, &numbers), count = 0;
    *ret = arena_alloc(keep, (all + 1) * sizeof(**ret));
    for (size_t i = 0; i < all; i++)
        count += look_at(volume, numbers[i], &(*ret)[count]);
    return count;
}

/* The bytes of the staging extents, with those that the open one may still get. */
static uint64_t staged_bytes(struct volume *volume)
{
    return extents_staging_bytes(volume->extents) +
           open_extent_left(volume->extents, OPEN_STAGING);
}

/* ---- which extent goes ---- */

/* Finds the oldest staging extent that readers have passed; 0: there is none. */
static uint32_t passed(const struct place *places, size_t count)
{
    bool later = false;               /* a later one was half read */
    uint32_t found = 0;
    for (size_t i = count; i-- > 0;) {
        const struct place *at = &places[i];
        bool most = (uint64_t)at->read * 8 >= (uint64_t)at->records * READ_EIGHTHS;
        if (at->left || at->read >= at->records || (most && later))
            found = at->number;
        later |= !at->left && (uint64_t)at->read * 2 >= at->records;
    }
    return found;
}

static bool is_of_rule(struct volume *volume, uint32_t number)
{
    struct place place;
    return look_at(volume, number, &place) && !place.staging && !place.stays;
}

/* Adds an extent to the victims, which are sorted by `ages`, the oldest first. */
static void add_victim(struct stage_victims *victims, double *ages, size_t max, uint32_t number,
                       double age)
{
    size_t at = victims->count;
    while (at > 0 && age > ages[at - 1])
        at--;
    if (at == max)
        return;
    size_t moved = MIN(victims->count, max - 1) - at;
    memmove(&ages[at + 1], &ages[at], moved * sizeof(*ages));
    memmove(&victims->numbers[at + 1], &victims->numbers[at], moved * sizeof(*victims->numbers));
    ages[at] = age;
    victims->numbers[at] = number;
    victims->count = MIN(victims->count + 1, max);
}

/* A folder of 10 TB has 150,000 extents, and a look at the ages of 100 million records takes 0.2 s.
 * So a look finds up to STAGE_VICTIMS victims, the oldest first, for VICTIMS_MS. */
static void find_victims(struct volume *volume)
{
    struct stage_victims *victims = &volume->space.staging.victims;
    struct arena keep = { 0 };
    double ages[STAGE_VICTIMS];
    uint32_t *numbers;
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    size_t max = MIN(MAX(count / VICTIMS_SHARE, 1u), STAGE_VICTIMS);
    victims->count = victims->at = 0;
    victims->looks++;
    victims->looked_ms = mono_ms();
    for (size_t i = 0; i < count; i++) {
        struct extent *extent = extent_ref(volume->extents, numbers[i]);
        if (extent && is_of_rule(volume, numbers[i]))
            add_victim(victims, ages, max, numbers[i], age_of(volume, extent));
        extent_release(&extent);
    }
    arena_free(&keep);
}

/* Finds the extent of the rule whose records are the oldest on average; 0: there is none, or it is
 * not known yet which records are pinned. */
static uint32_t of_rule(struct volume *volume)
{
    struct stage_victims *victims = &volume->space.staging.victims;
    bool fresh = mono_ms() < victims->looked_ms + VICTIMS_MS;
    if (!pinned_is_known(volume))
        return 0;
    for (unsigned looks = fresh ? 0 : 1; looks < 2; looks++) {
        if (looks == 1)
            find_victims(volume);
        while (victims->at < victims->count) {
            uint32_t number = victims->numbers[victims->at++];
            if (is_of_rule(volume, number))
                return number;
        }
    }
    return 0;
}

/* Evicts an extent for a new staging extent. `staged`: the bytes of those that are there. `over`:
 * the share is used up. */
static enum err make_room(struct volume *volume, uint64_t staged, bool over)
{
    struct arena keep = { 0 };
    struct place *places;
    size_t count = find_places(volume, &keep, &places);
    enum event_why why = EVENT_STAGED;
    bool drops_passed = over || staged > atomic_load(&volume->space.staging.wanted);
    uint32_t number = drops_passed ? passed(places, count) : 0;
    if (!number && over)
        number = count ? places[0].number : 0;
    if (!number && !over) {
        number = of_rule(volume);
        why = EVENT_EVICTED;
    }
    if (!number) {    /* the rule has no extent to give */
        number = passed(places, count);
        why = EVENT_STAGED;
    }
    arena_free(&keep);
    return number ? room_evict(volume, number, why) : ERR_FULL;
}

/* Readers may still hold an evicted extent, which takes its space until they release it: waits a
 * moment for them. Returns false if they hold it for longer. Another eviction would then cost more
 * records, and might gain as little. Commits wait meanwhile. */
static bool space_is_released(struct volume *volume)
{
    uint64_t *since_ms = &volume->space.staging.held_since_ms;
    uint64_t until_ms = volume_waits_until(since_ms, RELEASE_MS);
    for (;;) {
        service_measure(volume);    /* a full disk has room again */
        if (room_free_extents(volume) || !extents_held_bytes(volume->extents)) {
            *since_ms = 0;
            return true;
        }
        if (mono_ms() >= until_ms)
            return false;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

enum err stage_next_extent(struct volume *volume)
{
    uint64_t want = atomic_load(&volume->space.extent_bytes);
    (void)!open_extent_seal(volume->extents, OPEN_STAGING);
    account_sealed(volume);
    if (stage_share(volume) < want)
        return ERR_FULL;
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t staged = staged_bytes(volume);
        bool over = staged + want > stage_share(volume) && guard_on(GUARD_STAGING);
        enum err e = OK;
        if (!over && room_free_extents(volume)) {
            e = open_extent_begin(volume->extents, OPEN_STAGING);
            room_note(volume);    /* that room is no room of the rule any more */
        } else if (volume_holds_too_much(volume)) {
            e = space_is_released(volume) ? OK : ERR_FULL;
        } else {
            e = make_room(volume, staged, over);
            if (!e && !space_is_released(volume))
                e = ERR_FULL;
        }
        if (e || open_extent_is_open(volume->extents, OPEN_STAGING))
            return e == ERR_LIMIT ? ERR_FULL : e;
    }
    return ERR_FULL;
}

/* ---- extents that no reader needs ---- */

static bool is_idle(const struct volume *volume)
{
    const struct staging *staging = &volume->space.staging;
    return !atomic_load(&staging->wanted) &&
           ageing_ms() >= atomic_load(&staging->idle_ms) + STAGE_IDLE_MS;
}

/* Finds an extent that is due; 0: there is none. Those that readers have passed are due if a quota
 * is used up: their bytes count in it. */
static uint32_t find_due(struct volume *volume)
{
    struct arena keep = { 0 };
    struct place *places;
    bool idle = is_idle(volume);
    uint32_t found = 0;
    size_t count = find_places(volume, &keep, &places);
    for (size_t i = 0; i < count && !found && guard_on(GUARD_STAGING); i++)
        if (places[i].left || idle)
            found = places[i].number;
    if (!found && volume->space.staging.drops_passed)
        found = passed(places, count);
    arena_free(&keep);
    return found;
}

/* The extent with the highest number can go only after a higher one was made: the next log. If the
 * log is open, it is sealed early for that, which costs no records. */
static void begin_higher(struct volume *volume)
{
    bool idle = is_idle(volume);
    if (idle && open_extent_is_open(volume->extents, OPEN_STAGING)) {
        (void)!open_extent_seal(volume->extents, OPEN_STAGING);
        account_sealed(volume);
    }
    if (!extents_is_staging(volume->extents, extents_highest(volume->extents)) ||
        open_extent_is_open(volume->extents, OPEN_STAGING))
        return;
    if (!open_extent_is_open(volume->extents, OPEN_LOG))
        room_begin_log(volume);
    else if (idle && room_free_extents(volume))
        (void)!room_next_extent(volume);    /* without it, the next look tries again */
}

bool stage_is_due(struct volume *volume)
{
    struct staging *staging = &volume->space.staging;
    if (staging->stepped || mono_ms() < staging->looked_ms + LOOK_MS) {
        bool due = staging->due && !staging->stepped;    /* other work has every second turn */
        staging->stepped = false;
        return due;
    }
    staging->looked_ms = mono_ms();
    staging->due = false;
    staging->drops_passed = atomic_exchange(&staging->over_quota, false);
    if (extents_staging(volume->extents)) {
        begin_higher(volume);
        staging->due = find_due(volume) > 0;
    }
    return staging->due;
}

enum err stage_step(struct volume *volume)
{
    uint64_t until_ms = mono_ms() + STEP_MS;
    uint32_t number;
    enum err e = OK;
    while ((number = find_due(volume)) > 0 && !e && mono_ms() < until_ms)
        e = room_evict(volume, number, EVENT_STAGED);
    volume->space.staging.due = number > 0 && !e;
    volume->space.staging.stepped = true;
    return e;
}
