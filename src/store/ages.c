/* ages.c - the age of each record of an extent, and how much of the extent is live.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Records lie in chunks of 4,096, which are made when their first record comes and stay until the
 * extent goes. */
#include "store/ages.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/base.h"

#define CHUNK_RECORDS 4096u
#define CHUNKS (AGES_RECORDS_MAX / CHUNK_RECORDS)
#define LIVE_METADATA 0x80u           /* a bit of chunk.live: the record has metadata alone */
#define LIVE_KNOWN 0x40u              /* the record was added or counted */
#define LIVE_ENTRIES 0x3fu

struct chunk {
    _Atomic uint8_t stamps[CHUNK_RECORDS];
    /* The number of entries, and two bits. Written by the committer only. */
    _Atomic uint8_t live[CHUNK_RECORDS];
};

struct ages {
    _Atomic(struct chunk *) chunks[CHUNKS];
    atomic_uint counted;              /* the records before this one are known */
    _Atomic uint64_t live_bytes;
};

struct ages *ages_new(void)
{
    return must_alloc(sizeof(struct ages));
}

void ages_free(struct ages **ages)
{
    struct ages *mine = *ages;
    *ages = NULL;
    for (size_t i = 0; mine && i < CHUNKS; i++)
        free(atomic_load_explicit(&mine->chunks[i], memory_order_relaxed));
    free(mine);
}

static struct chunk *chunk_of(const struct ages *ages, uint32_t ordinal)
{
    if (ordinal >= AGES_RECORDS_MAX)
        return NULL;
    return atomic_load_explicit(&ages->chunks[ordinal / CHUNK_RECORDS], memory_order_acquire);
}

/* NULL: the extent has too many records for this one to have an age. */
static struct chunk *chunk_made(struct ages *ages, uint32_t ordinal)
{
    struct chunk *chunk = chunk_of(ages, ordinal);
    if (chunk || ordinal >= AGES_RECORDS_MAX)
        return chunk;
    chunk = must_alloc(sizeof(*chunk));
    atomic_store_explicit(&ages->chunks[ordinal / CHUNK_RECORDS], chunk, memory_order_release);
    return chunk;
}

static void stamp(struct chunk *chunk, uint32_t ordinal, uint8_t value)
{
    _Atomic uint8_t *place = &chunk->stamps[ordinal % CHUNK_RECORDS];
    if (atomic_load_explicit(place, memory_order_relaxed) != value)
        atomic_store_explicit(place, value, memory_order_relaxed);
}

void ages_touch(struct ages *ages, uint32_t ordinal, uint8_t value)
{
    struct chunk *chunk = chunk_of(ages, ordinal);
    if (chunk)
        stamp(chunk, ordinal, value);
}

static uint8_t live_of(const struct chunk *chunk, uint32_t ordinal)
{
    return atomic_load_explicit(&chunk->live[ordinal % CHUNK_RECORDS], memory_order_relaxed);
}

static void set_live(struct chunk *chunk, uint32_t ordinal, unsigned live)
{
    atomic_store_explicit(&chunk->live[ordinal % CHUNK_RECORDS], (uint8_t)live,
                          memory_order_relaxed);
}

/* Changes of a record that is not known are for a later count. */
static bool is_known(const struct chunk *chunk, uint32_t ordinal)
{
    return chunk && (live_of(chunk, ordinal) & LIVE_KNOWN);
}

static void know(struct ages *ages, uint32_t ordinal, unsigned live)
{
    set_live(chunk_of(ages, ordinal), ordinal, live | LIVE_KNOWN);
    if (ordinal == atomic_load_explicit(&ages->counted, memory_order_relaxed))
        atomic_store_explicit(&ages->counted, ordinal + 1, memory_order_release);
}

void ages_add(struct ages *ages, uint32_t ordinal, uint8_t value, bool metadata)
{
    struct chunk *chunk = chunk_made(ages, ordinal);
    if (!chunk)
        return;
    stamp(chunk, ordinal, value);
    know(ages, ordinal, metadata ? LIVE_METADATA : 0);
}

void ages_entry_added(struct ages *ages, uint32_t ordinal, uint32_t bytes)
{
    struct chunk *chunk = chunk_of(ages, ordinal);
    if (!is_known(chunk, ordinal))
        return;
    check((live_of(chunk, ordinal) & LIVE_ENTRIES) < LIVE_ENTRIES);
    set_live(chunk, ordinal, live_of(chunk, ordinal) + 1u);
    atomic_fetch_add_explicit(&ages->live_bytes, bytes, memory_order_relaxed);
}

void ages_entry_removed(struct ages *ages, uint32_t ordinal, uint32_t bytes, uint8_t dead)
{
    struct chunk *chunk = chunk_of(ages, ordinal);
    if (!is_known(chunk, ordinal) || !(live_of(chunk, ordinal) & LIVE_ENTRIES))
        return;
    set_live(chunk, ordinal, live_of(chunk, ordinal) - 1u);
    atomic_fetch_sub_explicit(&ages->live_bytes, bytes, memory_order_relaxed);
    if (!(live_of(chunk, ordinal) & LIVE_ENTRIES))
        stamp(chunk, ordinal, dead);
}

void ages_count(struct ages *ages, uint8_t value, bool metadata, uint32_t entries, uint64_t bytes,
                uint8_t dead)
{
    uint32_t ordinal = ages_counted(ages);
    struct chunk *chunk = chunk_made(ages, ordinal);
    if (!chunk)
        return;
    check(entries < LIVE_ENTRIES);
    stamp(chunk, ordinal, entries ? value : dead);
    know(ages, ordinal, entries | (metadata ? LIVE_METADATA : 0));
    atomic_fetch_add_explicit(&ages->live_bytes, bytes, memory_order_relaxed);
}

uint32_t ages_counted(const struct ages *ages)
{
    return atomic_load_explicit(&ages->counted, memory_order_acquire);
}

uint64_t ages_live_bytes(const struct ages *ages)
{
    return atomic_load_explicit(&ages->live_bytes, memory_order_relaxed);
}

uint8_t ages_stamp(const struct ages *ages, uint32_t ordinal)
{
    struct chunk *chunk = chunk_of(ages, ordinal);
    return chunk ? atomic_load_explicit(&chunk->stamps[ordinal % CHUNK_RECORDS],
                                        memory_order_relaxed) : 0;
}

bool ages_is_dead(const struct ages *ages, uint32_t ordinal)
{
    struct chunk *chunk = chunk_of(ages, ordinal);
    return is_known(chunk, ordinal) && !(live_of(chunk, ordinal) & LIVE_ENTRIES);
}

void ages_sweep(struct ages *ages, uint8_t tick, uint8_t cap, uint32_t ret_counts[AGES_OLDEST + 1])
{
    uint32_t count = ages_counted(ages);
    for (size_t i = 0; i <= AGES_OLDEST; i++)
        ret_counts[i] = 0;
    for (uint32_t ordinal = 0; ordinal < count; ordinal++) {
        struct chunk *chunk = chunk_of(ages, ordinal);
        if (live_of(chunk, ordinal) & LIVE_METADATA)
            continue;
        _Atomic uint8_t *place = &chunk->stamps[ordinal % CHUNK_RECORDS];
        uint8_t age = (uint8_t)(tick - atomic_load_explicit(place, memory_order_relaxed));
        if (age > cap)
            atomic_store_explicit(place, (uint8_t)(tick - cap), memory_order_relaxed);
        ret_counts[MIN(age, cap)]++;
    }
}
