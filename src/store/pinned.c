/* pinned.c - the pinned records of a volume, and its copy of the table of pins.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pinned record has a bit in RAM (ages.h). A new record gets it when it is appended. For other
 * records, a pass over the tables of contents sets it (pin_pass.c): when the table of pins has
 * changed, and when a folder was opened. Until then the pinned records are not known, so the
 * recycler waits. Records that do not fit in the budget are ordinary records, and are counted.
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
#define FILE_NAME "pins"

uint64_t pinned_budget(struct volume *volume)
{
    uint64_t size = volume_capacity(volume);
    uint64_t spare = (uint64_t)SPARE_EXTENTS * atomic_load(&volume->pinned.extent_bytes);
    return MIN(size / 100 * volume->options.pin_percent, size > spare ? size - spare : 0);
}

bool pinned_wants(struct volume *volume, slice name)
{
    return pins_have(volume->options.pins, name) &&
           atomic_load(&volume->pinned.bytes) < pinned_budget(volume);
}

bool pinned_is_known(struct volume *volume)
{
    const struct pinned *pinned = &volume->pinned;
    return !atomic_load(&pinned->passing) &&
           (atomic_load(&pinned->marked) || pins_are_none(volume->options.pins));
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
    struct arena keep = { 0 };
    struct pin *rows = NULL;
    size_t count = 0;
    uint64_t serial = 0;
    slice bytes;
    enum err e = folder_read(volume->folder.fd, FILE_NAME, PINS_FILE_MAX, &keep, &bytes);
    bool there = e != ERR_NOT_FOUND;
    if (e == ERR_IO && !folder_odd(volume->folder.fd, FILE_NAME)) {
        arena_free(&keep);
        return e;
    }
    if (!e)
        e = pins_decode(bytes, &keep, &rows, &count, &serial);
    if (e && there)
        metric_add(M_PINS_BAD, 1);
    bool same = pins_merge(pins, rows, e ? 0 : count, e ? 0 : serial);
    uint64_t version = pins_version(pins);
    atomic_store(&volume->pinned.written, same ? version : UINT64_MAX);
    if (!version && !e)    /* a table without rows */
        atomic_store(&volume->pinned.written, 0);
    arena_free(&keep);
    return OK;
}

enum err pinned_open(struct volume *volume)
{
    struct pinned *pinned = &volume->pinned;
    pthread_mutex_lock(&pinned->lock);
    pinned->rounds++;
    pinned->coming = pinned->seen_bytes = 0;
    atomic_store(&pinned->bytes, 0);
    atomic_store(&pinned->passing, false);
    atomic_store(&pinned->marked, false);
    atomic_store(&pinned->extent_bytes, volume->folder.format.extent_bytes);
    enum err e = read_file(volume);
    pthread_mutex_unlock(&pinned->lock);
    return e;
}

void pinned_opened(struct volume *volume)
{
    if (!pins_are_none(volume->options.pins))
        pin_pass_want(volume->options.pin_pass);
}

static enum err write_file(struct volume *volume)
{
    struct arena keep = { 0 };
    uint64_t version;
    slice bytes = pins_file(volume->options.pins, &keep, &version);
    enum err e = folder_write(volume->folder.fd, FILE_NAME, bytes.ptr, bytes.len);
    if (!e)
        atomic_store(&volume->pinned.written, version);
    arena_free(&keep);
    return e;
}

bool pinned_turn(struct volume *volume)
{
    struct pinned *pinned = &volume->pinned;
    enum err e = OK;
    if (atomic_load(&volume->service.open) && !pinned_has_written(volume, pins_version(volume->options.pins)))
        e = write_file(volume);
    pthread_mutex_lock(&pinned->lock);
    pinned->turns++;
    pthread_cond_broadcast(&pinned->turned);
    pthread_mutex_unlock(&pinned->lock);
    return !e || e == ERR_FULL;
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
    metric_add(M_PINS_LOST, bytes);
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

uint64_t pinned_see(struct volume *volume, uint32_t number, uint32_t ordinal, uint64_t bytes)
{
    struct pinned *pinned = &volume->pinned;
    struct extent *extent = extent_ref(volume->extents, number);
    struct ages *ages = extent ? extent_ages_of(extent) : NULL;
    uint64_t over = 0;
    if (ages && !ages_is_seen(ages, ordinal)) {
        bool had = ages_is_pinned(ages, ordinal);
        uint64_t others = had ? pinned->seen_bytes
                              : MAX(pinned->seen_bytes, atomic_load(&pinned->bytes));
        if (others + pinned->coming + bytes > pinned_budget(volume)) {
            over = bytes;
        } else {
            ages_see(ages, ordinal, bytes);
            pinned->seen_bytes += bytes;
            atomic_fetch_add(&pinned->bytes, had ? 0 : bytes);
        }
    }
    extent_release(&extent);
    return over;
}

/* Under the lock of the pins. Returns the weight of the records that were unpinned. */
static uint64_t end_round(struct volume *volume, uint64_t round, enum pass_end end)
{
    struct pinned *pinned = &volume->pinned;
    struct arena keep = { 0 };
    uint32_t *numbers;
    uint64_t bytes = 0, before = atomic_load(&pinned->bytes);
    if (pinned->rounds != round)
        return 0;
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
    atomic_store(&pinned->passing, false);
    if (end != PASS_FAILED)
        atomic_store(&pinned->marked, true);
    return before > bytes ? before - bytes : 0;
}

/* The recycler may have waited for the end of the pass. */
static void wake_recycler(struct volume *volume)
{
    pthread_mutex_lock(&volume->rule.lock);
    pthread_cond_signal(&volume->rule.more);
    pthread_mutex_unlock(&volume->rule.lock);
    service_metrics(volume);
}

uint64_t pinned_end(struct volume *volume, uint64_t round, enum pass_end end)
{
    pthread_mutex_lock(&volume->pinned.lock);
    uint64_t released = end_round(volume, round, end);
    pthread_mutex_unlock(&volume->pinned.lock);
    wake_recycler(volume);
    return released;
}

bool pinned_give_up(struct volume *volume, uint64_t round)
{
    if (pthread_mutex_trylock(&volume->pinned.lock) != 0)
        return false;
    (void)end_round(volume, round, PASS_FAILED);
    pthread_mutex_unlock(&volume->pinned.lock);
    wake_recycler(volume);
    return true;
}
