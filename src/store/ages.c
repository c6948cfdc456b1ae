/* ages.c - the age of each record of an extent, and how much of the extent is live.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Arrays as long as the extent may have records. The kernel gives their pages at the first use. */
#include "store/ages.h"

#include <stdlib.h>

#include "store/format_files.h"

/* The bits of ages.live: the record was added or counted; its stamp came from a file; the number of
 * its entries. */
#define LIVE_KNOWN 0x80u
#define LIVE_STAMPED 0x40u
#define LIVE_ENTRIES 0x3fu

struct ages {
    uint32_t records;
    atomic_uint counted;              /* the records before this one are known */
    atomic_bool counting;
    _Atomic uint64_t live_bytes, entries;
    _Atomic uint8_t *stamps;
    _Atomic uint8_t *live;
    _Atomic uint64_t *left_out;       /* a bit each */
};

struct ages *ages_new(uint32_t records)
{
    struct ages *ages = must_alloc(sizeof(*ages));
    ages->records = records;
    ages->stamps = must_alloc(records + 1);
    ages->live = must_alloc(records + 1);
    ages->left_out = must_alloc((records / 64 + 1) * sizeof(*ages->left_out));
    return ages;
}

void ages_free(struct ages **ages)
{
    struct ages *mine = *ages;
    *ages = NULL;
    if (!mine)
        return;
    free(mine->stamps);
    free(mine->live);
    free(mine->left_out);
    free(mine);
}

static void stamp(struct ages *ages, uint32_t ordinal, uint8_t value)
{
    if (atomic_load_explicit(&ages->stamps[ordinal], memory_order_relaxed) != value)
        atomic_store_explicit(&ages->stamps[ordinal], value, memory_order_relaxed);
}

void ages_touch(struct ages *ages, uint32_t ordinal, uint8_t value)
{
    if (ordinal < ages->records)
        stamp(ages, ordinal, value);
}

/* Only the committer changes these bytes. */
static unsigned live_of(const struct ages *ages, uint32_t ordinal)
{
    return atomic_load_explicit(&ages->live[ordinal], memory_order_relaxed);
}

static void set_live(struct ages *ages, uint32_t ordinal, unsigned live)
{
    atomic_store_explicit(&ages->live[ordinal], (uint8_t)live, memory_order_relaxed);
}

/* Changes of a record that is not known are for a later count. */
static bool is_known(const struct ages *ages, uint32_t ordinal)
{
    return ordinal < ages->records && (live_of(ages, ordinal) & LIVE_KNOWN);
}

static void know(struct ages *ages, uint32_t ordinal, bool metadata, unsigned entries)
{
    set_live(ages, ordinal, entries | LIVE_KNOWN);
    if (metadata)
        atomic_fetch_or_explicit(&ages->left_out[ordinal / 64], 1ull << ordinal % 64,
                                 memory_order_relaxed);
    if (ordinal == ages_counted(ages))
        atomic_store_explicit(&ages->counted, ordinal + 1, memory_order_release);
}

void ages_add(struct ages *ages, uint32_t ordinal, uint8_t value, bool metadata)
{
    if (ordinal >= ages->records)
        return;
    stamp(ages, ordinal, value);
    know(ages, ordinal, metadata, 0);
}

void ages_entry_added(struct ages *ages, uint32_t ordinal, uint32_t bytes)
{
    if (!is_known(ages, ordinal))
        return;
    check((live_of(ages, ordinal) & LIVE_ENTRIES) < LIVE_ENTRIES);
    set_live(ages, ordinal, live_of(ages, ordinal) + 1);
    atomic_fetch_add_explicit(&ages->entries, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&ages->live_bytes, bytes, memory_order_relaxed);
}

void ages_entry_removed(struct ages *ages, uint32_t ordinal, uint32_t bytes, uint8_t dead)
{
    if (!is_known(ages, ordinal) || !(live_of(ages, ordinal) & LIVE_ENTRIES))
        return;
    set_live(ages, ordinal, live_of(ages, ordinal) - 1);
    atomic_fetch_sub_explicit(&ages->entries, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&ages->live_bytes, bytes, memory_order_relaxed);
    if (!(live_of(ages, ordinal) & LIVE_ENTRIES))
        stamp(ages, ordinal, dead);
}

void ages_count(struct ages *ages, uint8_t value, bool metadata, uint32_t entries, uint64_t bytes,
                uint8_t dead)
{
    uint32_t ordinal = ages_counted(ages);
    if (ordinal >= ages->records)
        return;
    check(entries < LIVE_ENTRIES);
    if (!entries || !(live_of(ages, ordinal) & LIVE_STAMPED))
        stamp(ages, ordinal, entries ? value : dead);
    know(ages, ordinal, metadata, entries);
    atomic_fetch_add_explicit(&ages->live_bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&ages->entries, entries, memory_order_relaxed);
}

uint32_t ages_counted(const struct ages *ages)
{
    return atomic_load_explicit(&ages->counted, memory_order_acquire);
}

void ages_set_counting(struct ages *ages, bool counting)
{
    atomic_store(&ages->counting, counting);
}

bool ages_are_counting(const struct ages *ages)
{
    return atomic_load(&ages->counting);
}

static bool is_left_out(const struct ages *ages, uint32_t ordinal)
{
    return atomic_load_explicit(&ages->left_out[ordinal / 64], memory_order_relaxed) >>
           ordinal % 64 & 1;
}

void ages_copy(const struct ages *ages, uint32_t count, uint8_t *stamps, uint8_t *live)
{
    check(count <= ages_counted(ages));
    for (uint32_t i = 0; i < count; i++) {
        stamps[i] = ages_stamp(ages, i);
        live[i] = (uint8_t)((live_of(ages, i) & LIVE_ENTRIES) |
                            (is_left_out(ages, i) ? AGES_HEAD : 0));
    }
}

void ages_restore(struct ages *ages, uint32_t count, const uint8_t *stamps, const uint8_t *live,
                  uint64_t live_bytes)
{
    uint64_t entries = 0;
    count = MIN(count, ages->records);
    check(ages_counted(ages) == 0);
    for (uint32_t i = 0; i < count; i++) {
        stamp(ages, i, stamps[i]);
        if (live)
            know(ages, i, live[i] & AGES_HEAD, live[i] & AGES_UNITS);
        else
            set_live(ages, i, LIVE_STAMPED);
        entries += live ? live[i] & AGES_UNITS : 0;
    }
    atomic_store_explicit(&ages->entries, entries, memory_order_relaxed);
    atomic_store_explicit(&ages->live_bytes, live ? live_bytes : 0, memory_order_relaxed);
}

uint64_t ages_live_bytes(const struct ages *ages)
{
    return atomic_load_explicit(&ages->live_bytes, memory_order_relaxed);
}

uint64_t ages_entries(const struct ages *ages)
{
    return atomic_load_explicit(&ages->entries, memory_order_relaxed);
}

uint8_t ages_stamp(const struct ages *ages, uint32_t ordinal)
{
    return ordinal < ages->records
               ? atomic_load_explicit(&ages->stamps[ordinal], memory_order_relaxed) : 0;
}

bool ages_is_live(const struct ages *ages, uint32_t ordinal)
{
    return is_known(ages, ordinal) && (live_of(ages, ordinal) & LIVE_ENTRIES);
}

bool ages_is_dead(const struct ages *ages, uint32_t ordinal)
{
    return is_known(ages, ordinal) && !(live_of(ages, ordinal) & LIVE_ENTRIES);
}

struct ages_stamps ages_stamps(struct ages *ages)
{
    return (struct ages_stamps){ ages->stamps, ages->left_out, ages_counted(ages) };
}
