/* pinned.c - the pinned records of a volume, and its copy of the table of pins.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pinned record has a bit in RAM (ages.h). A new record gets it when it is appended. For other
 * records, a pass over the tables of contents sets it (pin_pass.c): when the table of pins has
 * changed, and when a folder was opened. Until then the pinned records are not known, so the
 * recycler waits. Records that do not fit in the budget are ordinary records, and are counted. The
 * files of ages say which records were pinned in the process before, so that the first pass prefers
 * them (ages.h). These stay until a pass over all folders ends, or one without pins.
 *
 * The lock guards the bits and the bytes, and keeps them in step with the index. The committer
 * holds it while it commits, so the pass sees the entries of a commit only together with its
 * effects. */
#include "store/pinned.h"

#include <time.h>

#include "base/metric.h"
#include "store/folder_files.h"
#include "store/pin_pass.h"
#include "store/service.h"

#define SPARE_EXTENTS 4u              /* that pins leave free: log, copy, two to choose from */
#define FALL_SHARE 32u                /* the budget must fall by so much of it for another pass */

uint64_t pinned_budget(struct volume *volume)
{
    uint64_t size = volume_capacity(volume);
    uint64_t spare = (uint64_t)SPARE_EXTENTS * atomic_load(&volume->space.extent_bytes);
    return MIN(size / 100 * volume->options.pin_percent, size > spare ? size - spare : 0);
}

bool pinned_wants(struct volume *volume, slice name)
{
    return pins_have(volume->options.pins, name) &&
           atomic_load(&volume->pinned.bytes) < pinned_budget(volume);
}

bool pinned_is_left_out(const struct volume *volume)
{
    return !atomic_load(&volume->pinned.marked) || atomic_load(&volume->pinned.left_out);
}

bool pinned_is_known(struct volume *volume)
{
    const struct pinned *pinned = &volume->pinned;
    return !atomic_load(&pinned->passing) &&
           (!pinned_is_left_out(volume) || pins_are_none(volume->options.pins));
}

bool pinned_needs_pass(struct volume *volume)
{
    const struct pinned *pinned = &volume->pinned;
    return pinned_is_left_out(volume) &&
           (atomic_load(&pinned->held) || atomic_load(&pinned->bytes) ||
            !pins_are_none(volume->options.pins));
}

uint64_t pinned_bytes_of(struct volume *volume, const struct entry *entry)
{
    struct extent *extent = NULL;
    if (atomic_load(&volume->pinned.bytes))
        extent = extent_ref(volume->extents, entry->extent);
    bool is = extent && ages_is_pinned(extent_ages_of(extent), entry->ordinal);
    extent_release(&extent);
    return is ? entry->len : 0;
}

/* ---- the file ---- */

/* A damaged file is replaced by the table that the other volumes have, and so is what is not a file.
 * Returns ERR_IO if the disk does not give the file: its rows may be the only ones, so no other file
 * may take its place. */
static enum err read_file(struct volume *volume)
{
    struct pins *pins = volume->options.pins;
    bool same;
    enum err e = pins_read(pins, volume->folder.fd, &same);
    if (e == ERR_IO)
        return e;
    metric_add(M_PINS_BAD, e == ERR_GONE);
    uint64_t version = pins_version(pins);
    atomic_store(&volume->pinned.written, same ? version : UINT64_MAX);
    if (!version && !e)    /* a table without rows */
        atomic_store(&volume->pinned.written, 0);
    return OK;
}

enum err pinned_open(struct volume *volume)
{
    struct pinned *pinned = &volume->pinned;
    pthread_mutex_lock(&pinned->lock);
    pinned->rounds++;
    pinned->coming = pinned->seen_bytes = 0;
    pinned->asked_budget = UINT64_MAX;
    atomic_store(&pinned->bytes, 0);
    atomic_store(&pinned->passing, false);
    atomic_store(&pinned->marked, false);
    atomic_store(&pinned->held, false);
    enum err e = read_file(volume);
    pthread_mutex_unlock(&pinned->lock);
    atomic_fetch_add(&pinned->lost, volume->folder.pins_lost);
    volume->folder.pins_lost = 0;
    return e;
}

void pinned_opened(struct volume *volume)
{
    if (pinned_needs_pass(volume))
        pin_pass_want_now(volume->options.pin_pass);
}

static enum err write_file(struct volume *volume)
{
    struct arena keep = { 0 };
    uint64_t version;
    slice bytes = pins_file(volume->options.pins, &keep, &version);
    enum err e = folder_replace(&volume->folder, PINS_FILE, bytes.ptr, bytes.len);
    if (!e)
        atomic_store(&volume->pinned.written, version);
    arena_free(&keep);
    return e;
}

/* ---- a budget that falls ---- */

/* Other files take space on the disk, or the size was lowered. If the pass unpins too little, because
 * some names are not known, another one is of use only when the budget has fallen further. */
static void follow_budget(struct volume *volume)
{
    struct pinned *pinned = &volume->pinned;
    uint64_t bytes = atomic_load(&pinned->bytes), asked = pinned->asked_budget;
    uint64_t budget = pinned_budget(volume);
    if (bytes - bytes / FALL_SHARE <= budget) {
        pinned->asked_budget = UINT64_MAX;
    } else if (pinned_is_known(volume) && budget < asked - asked / FALL_SHARE) {
        pinned->asked_budget = budget;
        pinned->asked_pass = pin_pass_want_now(volume->options.pin_pass);
    }
}

bool pinned_awaits_fall(struct volume *volume)
{
    const struct pinned *pinned = &volume->pinned;
    follow_budget(volume);
    return pinned->asked_budget != UINT64_MAX &&
           !pin_pass_is_done(volume->options.pin_pass, pinned->asked_pass);
}

bool pinned_turn(struct volume *volume)
{
    struct pinned *pinned = &volume->pinned;
    enum err e = OK;
    if (atomic_load(&volume->service.open))
        follow_budget(volume);
    if (atomic_load(&volume->service.open) && !pinned_has_written(volume, pins_version(volume->options.pins)))
        e = write_file(volume);
    pthread_mutex_lock(&pinned->lock);
    pinned->turns++;
    pthread_cond_broadcast(&pinned->turned);
    pthread_mutex_unlock(&pinned->lock);
    return !e || e == ERR_FULL || e == ERR_LIMIT;
}

bool pinned_has_written(struct volume *volume, uint64_t version)
{
    uint64_t written = atomic_load(&volume->pinned.written);
    return written != UINT64_MAX && written >= version;
}

/* ---- records ---- */

static uint64_t weight_of(const struct record *record)
{
    uint64_t units = record_units(record);
    uint32_t alone = record->kind == KIND_HEAD ? record->metadata_len : record->data_len;
    return record->kind == KIND_UNITS ? record->data_len + units * pin_weight(0)
                                      : pin_weight(alone);
}

void pinned_appended(struct volume *volume, struct ages *ages, const struct record *record)
{
    struct pinned *pinned = &volume->pinned;
    uint64_t weight = weight_of(record);
    if (atomic_load(&pinned->bytes) + pinned->coming + weight > pinned_budget(volume)) {
        metric_add(M_PINS_OVER, record->data_len);
        atomic_store(&pinned->over, true);
        return;
    }
    pinned->coming += weight;
    ages_pin_new(ages, record->ordinal, atomic_load(&pinned->passing));
    atomic_store(&pinned->unsaved, true);
}

/* No pass runs: it waits for the recycler. */
void pinned_copied(struct volume *volume, struct ages *ages, const struct record *record)
{
    ages_pin_new(ages, record->ordinal, false);
    atomic_store(&volume->pinned.unsaved, true);
}

void pinned_settled(struct volume *volume, const struct record *record)
{
    struct ages *ages = extent_ages(volume->extents, record->extent);
    if (!ages || !ages_is_pinned(ages, record->ordinal))
        return;
    pthread_mutex_lock(&volume->pinned.lock);
    ages_unpin_dead(ages, record->ordinal);
    pthread_mutex_unlock(&volume->pinned.lock);
}

void pinned_lost(struct volume *volume, uint64_t bytes)
{
    if (!bytes || pins_are_none(volume->options.pins))
        return;
    metric_add(M_PINS_LOST, bytes);
    atomic_fetch_add(&volume->pinned.lost, bytes);
}

/* Pinned records that are left in a dropped extent are lost. */
void pinned_dropped(struct volume *volume, uint32_t extent)
{
    struct ages *ages = extent_ages(volume->extents, extent);
    if (!ages || !ages_pinned_bytes(ages))
        return;
    pthread_mutex_lock(&volume->pinned.lock);
    uint64_t bytes = ages_pinned_bytes(ages);
    atomic_fetch_sub(&volume->pinned.bytes, bytes);
    volume->pinned.seen_bytes -= ages_seen_bytes(ages);
    ages_unpin_all(ages);
    pthread_mutex_unlock(&volume->pinned.lock);
    pinned_lost(volume, bytes);
}

/* ---- a pass ---- */

/* Waits for the end of the recycler's present work. */
static void await_recycler(struct volume *volume, _Atomic uint64_t *moved_ms)
{
    struct recycler *recycler = &volume->recycler;
    while (pthread_mutex_trylock(&recycler->lock) != 0) {
        uint64_t moved = atomic_load(&recycler->moved_ms);
        atomic_store(moved_ms, MAX(moved, atomic_load(moved_ms)));
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    pthread_mutex_unlock(&recycler->lock);
}

bool pinned_begin(struct volume *volume, _Atomic uint64_t *moved_ms, uint64_t *ret_round)
{
    struct pinned *pinned = &volume->pinned;
    if (!volume_is_serving(volume))
        return false;
    pthread_mutex_lock(&pinned->lock);
    *ret_round = ++pinned->rounds;
    atomic_store(&pinned->passing, true);
    pthread_mutex_unlock(&pinned->lock);
    await_recycler(volume, moved_ms);
    pthread_mutex_lock(&pinned->lock);
    /* The turn that runs may have begun before. */
    for (uint64_t until = pinned->turns + 2; pinned->turns < until && volume_is_serving(volume);) {
        volume_wants_turn(volume);
        cond_wait_until(&pinned->turned, &pinned->lock, mono_ns() + 100 * 1000000u);
        atomic_store(moved_ms, mono_ms());
    }
    bool same = pinned->rounds == *ret_round;
    bool good = same && volume_is_serving(volume);
    if (same && !good)
        atomic_store(&pinned->passing, false);
    pthread_mutex_unlock(&pinned->lock);
    return good;
}

static bool has_room(struct volume *volume, uint64_t others, uint64_t weight)
{
    return others + volume->pinned.coming + weight <= pinned_budget(volume);
}

/* `share` has the weight that the record may still take, if the pass chooses. */
static bool fits(struct volume *volume, enum pin_look look, bool had, uint64_t share,
                 uint64_t weight)
{
    uint64_t seen = volume->pinned.seen_bytes;
    if (look == LOOK_CHOOSE)
        return share >= weight && has_room(volume, seen, weight);
    return has_room(volume, had ? seen : MAX(seen, atomic_load(&volume->pinned.bytes)), weight);
}

static void see(struct volume *volume, struct pin_part *part, struct pin_share *shares,
                struct ages *ages, const struct pin_found *found)
{
    bool had = ages_is_pinned(ages, found->ordinal), before = ages_was_pinned(ages, found->ordinal);
    uint64_t *share = before ? &shares->before : &shares->others, weight = found->weight;
    bool counts = part->look != LOOK_CHOOSE;
    if (ages_is_fresh(ages, found->ordinal))
        return;
    *share += counts ? weight : 0;
    if (part->look == LOOK_COUNT || ages_is_seen(ages, found->ordinal))
        return;
    if (!fits(volume, part->look, had, *share, weight)) {
        part->over += weight;
        part->lost += before ? weight : 0;
        return;
    }
    *share -= counts ? 0 : weight;
    ages_see(ages, found->ordinal, weight);
    volume->pinned.seen_bytes += weight;
    atomic_fetch_add(&volume->pinned.bytes, had ? 0 : weight);
}

void pinned_see(struct volume *volume, struct pin_part *part, size_t rank,
                const struct pin_found *found)
{
    struct extent *extent = NULL;
    if (part->look != LOOK_NONE)
        extent = extent_ref(volume->extents, found->extent);
    if (extent && !extent_is_staging(extent))    /* it goes with its pinned records, too */
        see(volume, part, &part->shares[rank], extent_ages_of(extent), found);
    extent_release(&extent);
}

void pinned_see_before(struct volume *volume, struct pin_part *part, const struct pin_found *found)
{
    struct extent *extent = extent_ref(volume->extents, found->extent);
    struct ages *ages = extent ? extent_ages_of(extent) : NULL;
    bool holds = part->look == LOOK_CHOOSE && part->holds;
    if (!ages || !ages_was_pinned(ages, found->ordinal)) {
        extent_release(&extent);
        return;
    }
    if (part->look == LOOK_COUNT && !ages_is_seen(ages, found->ordinal)) {
        ages_mark_seen(ages, found->ordinal, found->weight);
        volume->pinned.seen_bytes += found->weight;
    }
    if (holds && !ages_is_pinned(ages, found->ordinal)) {
        ages_hold(ages, found->ordinal, found->weight);
        atomic_fetch_add(&volume->pinned.bytes, found->weight);
    }
    extent_release(&extent);
}

/* A record that was appended during the pass stays pinned, because the table of pins may have
 * changed since the pass read it. In that case, another pass follows. */
void pinned_disown(struct volume *volume, struct pin_part *part, const struct pin_found *found)
{
    struct extent *extent = extent_ref(volume->extents, found->extent);
    struct ages *ages = extent ? extent_ages_of(extent) : NULL;
    if (ages && ages_must_stay(ages, found->ordinal) && !ages_is_fresh(ages, found->ordinal)) {
        uint64_t pinned = ages_pinned_bytes(ages), seen = ages_seen_bytes(ages);
        ages_unpin(ages, found->ordinal, found->weight);
        atomic_fetch_sub(&volume->pinned.bytes, pinned - ages_pinned_bytes(ages));
        volume->pinned.seen_bytes -= seen - ages_seen_bytes(ages);
        part->frees = true;
    }
    extent_release(&extent);
}

/* The older pin takes what it needs, and leaves the rest to the younger ones. */
static void divide(uint64_t left, struct pin_share *shares, size_t ranks)
{
    for (size_t i = 0; i < ranks; i++) {
        shares[i].before = MIN(shares[i].before, left);
        left -= shares[i].before;
        shares[i].others = MIN(shares[i].others, left);
        left -= shares[i].others;
    }
}

/* Returns the weight of the records that were pinned before, and that no known name has. `before`
 * is the weight of all that were pinned before, without those that the walk has unpinned. */
static uint64_t nameless(uint64_t before, const struct pin_part *part, size_t ranks)
{
    uint64_t known = 0;
    for (size_t i = 0; i < ranks; i++)
        known += part->shares[i].before;
    return before - MIN(before, known);
}

void pinned_choose(struct volume *volume, uint64_t round, struct pin_part *part, size_t ranks,
                   bool holds)
{
    struct pinned *pinned = &volume->pinned;
    struct arena keep = { 0 };
    uint32_t *numbers;
    uint64_t fresh = 0;
    pthread_mutex_lock(&pinned->lock);
    size_t count = pinned->rounds == round ? extents_numbers(volume->extents, &keep, &numbers) : 0;
    for (size_t i = 0; i < count; i++) {
        struct extent *extent = extent_ref(volume->extents, numbers[i]);
        if (extent)
            ages_see_fresh(extent_ages_of(extent));
        fresh += extent ? ages_seen_bytes(extent_ages_of(extent)) : 0;
        extent_release(&extent);
    }
    uint64_t before = pinned->seen_bytes - MIN(pinned->seen_bytes, fresh);
    pinned->seen_bytes = count ? fresh : pinned->seen_bytes;
    uint64_t budget = pinned_budget(volume), kept = fresh + pinned->coming;
    kept += holds ? nameless(before, part, ranks) : 0;
    divide(budget - MIN(budget, kept), part->shares, ranks);
    part->holds = holds;
    part->look = LOOK_CHOOSE;
    part->over = part->lost = 0;
    pthread_mutex_unlock(&pinned->lock);
    arena_free(&keep);
}

/* Under the lock of the pins. */
static void end_round(struct volume *volume, uint64_t round, enum pass_end end)
{
    struct pinned *pinned = &volume->pinned;
    struct arena keep = { 0 };
    uint32_t *numbers;
    uint64_t bytes = 0;
    if (pinned->rounds != round)
        return;
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++) {
        struct extent *extent = extent_ref(volume->extents, numbers[i]);
        if (!extent)
            continue;
        ages_end_pass(extent_ages_of(extent), end != PASS_FULL);
        bytes += ages_pinned_bytes(extent_ages_of(extent));
        extent_release(&extent);
    }
    arena_free(&keep);
    pinned->rounds++;
    pinned->seen_bytes = 0;
    atomic_store(&pinned->bytes, bytes);
    atomic_store(&pinned->unsaved, true);
    atomic_store(&pinned->passing, false);
    if (end != PASS_FAILED) {
        atomic_store(&pinned->marked, true);
        atomic_store(&pinned->left_out, false);
    }
}

/* The recycler may have waited for the end of the pass. */
static void wake_recycler(struct volume *volume)
{
    pthread_mutex_lock(&volume->rule.lock);
    pthread_cond_signal(&volume->rule.more);
    pthread_mutex_unlock(&volume->rule.lock);
    service_metrics(volume);
}

void pinned_end(struct volume *volume, uint64_t round, enum pass_end end)
{
    pthread_mutex_lock(&volume->pinned.lock);
    end_round(volume, round, end);
    pthread_mutex_unlock(&volume->pinned.lock);
    wake_recycler(volume);
}

bool pinned_give_up(struct volume *volume, uint64_t round)
{
    if (pthread_mutex_trylock(&volume->pinned.lock) != 0)
        return false;
    end_round(volume, round, PASS_FAILED);
    pthread_mutex_unlock(&volume->pinned.lock);
    wake_recycler(volume);
    return true;
}
