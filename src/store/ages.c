/* ages.c - the age of each record of an extent, and how much of the extent is live.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All arrays lie in one allocation, behind the struct. They have room for each record that the
 * extent can have. For a sealed extent, this is the number of its records. For an extent that is
 * being written, it is the largest possible number. The kernel provides a page of a large
 * allocation only when the page is first used. So the arrays that few extents use come last. */
#include "store/ages.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "store/format_files.h"
#include "store/record_set.h"

/* The bits of ages.live: the record was added or counted; its stamp came from a file; the number of
 * its entries. */
#define LIVE_KNOWN 0x80u
#define LIVE_STAMPED 0x40u
#define LIVE_ENTRIES 0x3fu

/* From this size on, the memory is mapped. */
#define MAPPED_BYTES_MIN (128 * KIB)

struct ages {
    uint32_t records;
    size_t mapped;                    /* bytes, if the memory is mapped; else 0 */
    atomic_uint counted;              /* the records before this one are known */
    atomic_bool counting;
    _Atomic uint64_t live_bytes, entries;
    _Atomic uint8_t *stamps;
    _Atomic uint8_t *live;
    _Atomic uint64_t *left_out;       /* one bit for each record */
    struct ages_pins {
        _Atomic uint64_t *pinned, *seen, *before;    /* one bit for each record */
        _Atomic uint32_t end;         /* the records from this one on have no bit */
        uint32_t fresh;               /* those from this one on were appended while the pass ran */
        _Atomic uint64_t pinned_bytes, seen_bytes;
        uint64_t fresh_bytes;         /* of seen_bytes: of the fresh records */
        atomic_bool unsaved;          /* `before` has changed since it was saved */
    } pins;
    _Atomic uint16_t *tallies;
    _Atomic uint8_t *read;            /* slices; of records of tallies that expire */
    uint32_t tallied;                 /* the records before this one have a tally */
    struct tally_change *sums;        /* of live records that have a tally, for each tally */
    size_t sum_count, sum_max, sum_last;    /* sum_last: the one that changed last */
    struct ages_room {
        uint32_t aged, live;          /* known records that have an age; those that are live */
        atomic_uint waste;            /* enum ages_waste */
    } room;
};

#define WORD sizeof(uint64_t)

static size_t whole_words(size_t bytes)
{
    return (bytes + WORD - 1) / WORD * WORD;
}

/* Takes the next bytes of the allocation. */
static void *take(uint8_t **at, size_t bytes)
{
    void *taken = *at;
    *at += whole_words(bytes);
    return taken;
}

/* Returns memory of zeros. If the kernel gave a huge page at the first use of a large allocation, an
 * extent of few records would take 2 MiB. */
static uint8_t *memory_of(size_t bytes, size_t *ret_mapped)
{
    *ret_mapped = 0;
    if (bytes < MAPPED_BYTES_MIN)
        return must_alloc(bytes);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return must_alloc(bytes);
    (void)!madvise(memory, bytes, MADV_NOHUGEPAGE);    /* fails if the kernel has no huge pages */
    *ret_mapped = bytes;
    return memory;
}

struct ages *ages_new(uint32_t records)
{
    check(records <= AGES_RECORDS_MAX);    /* so that no size below wraps */
    size_t bytes = records + 1, tally_bytes = bytes * sizeof(uint16_t), mapped;
    size_t set_bytes = record_set_bytes(records), head = whole_words(sizeof(struct ages));
    uint8_t *at = memory_of(head + whole_words(tally_bytes) + 3 * whole_words(bytes) +
                            4 * whole_words(set_bytes), &mapped);
    struct ages *ages = take(&at, sizeof(*ages));
    ages->mapped = mapped;
    ages->records = records;
    ages->stamps = take(&at, bytes);
    ages->live = take(&at, bytes);
    ages->tallies = take(&at, tally_bytes);
    ages->left_out = take(&at, set_bytes);
    ages->pins.pinned = take(&at, set_bytes);
    ages->pins.before = take(&at, set_bytes);
    ages->pins.seen = take(&at, set_bytes);
    ages->read = take(&at, bytes);
    ages->pins.fresh = UINT32_MAX;
    return ages;
}

void ages_free(struct ages **ages)
{
    struct ages *mine = *ages;
    *ages = NULL;
    if (!mine)
        return;
    free(mine->sums);
    if (mine->mapped)
        munmap(mine, mine->mapped);
    else
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

/* Changes of a record that is not known are ignored, because a later count finds them. */
static bool is_known(const struct ages *ages, uint32_t ordinal)
{
    return ordinal < ages->records && (live_of(ages, ordinal) & LIVE_KNOWN);
}

/* ---- pins ---- */

static void put_bit(struct ages *ages, _Atomic uint64_t *set, uint32_t ordinal)
{
    uint32_t end = atomic_load_explicit(&ages->pins.end, memory_order_relaxed);
    record_set_put(set, ordinal);
    if (ordinal >= end)
        atomic_store_explicit(&ages->pins.end, ordinal + 1, memory_order_relaxed);
}

static void unpin(struct ages *ages, uint32_t ordinal)
{
    if (record_set_has(ages->pins.pinned, ordinal))
        record_set_drop(ages->pins.pinned, ordinal);
    if (record_set_has(ages->pins.seen, ordinal))
        record_set_drop(ages->pins.seen, ordinal);
    if (record_set_has(ages->pins.before, ordinal))
        record_set_drop(ages->pins.before, ordinal);
}

/* To be called when an entry begins to name the record, or ceases to. */
static void weigh(struct ages *ages, uint32_t ordinal, uint64_t added, uint64_t removed)
{
    if (ordinal >= ages->records)
        return;
    if (record_set_has(ages->pins.pinned, ordinal))
        atomic_fetch_add_explicit(&ages->pins.pinned_bytes, added - removed, memory_order_relaxed);
    if (record_set_has(ages->pins.seen, ordinal))
        atomic_fetch_add_explicit(&ages->pins.seen_bytes, added - removed, memory_order_relaxed);
    if (ages_is_fresh(ages, ordinal))
        ages->pins.fresh_bytes += added - removed;
}

/* ---- records ---- */

static void know(struct ages *ages, uint32_t ordinal, bool metadata, unsigned entries)
{
    set_live(ages, ordinal, entries | LIVE_KNOWN);
    if (metadata)
        record_set_put(ages->left_out, ordinal);
    ages->room.aged += !metadata;
    ages->room.live += !metadata && entries;
    if (ordinal == ages_counted(ages))
        atomic_store_explicit(&ages->counted, ordinal + 1, memory_order_release);
}

/* ---- reads ---- */

uint8_t ages_read(const struct ages *ages, uint32_t ordinal)
{
    return ordinal < ages->records
               ? atomic_load_explicit(&ages->read[ordinal], memory_order_relaxed) : 0;
}

void ages_set_read(struct ages *ages, uint32_t ordinal, uint8_t when)
{
    if (ordinal < ages->records && ages_read(ages, ordinal) != when)
        atomic_store_explicit(&ages->read[ordinal], when, memory_order_relaxed);
}

/* ---- tallies ---- */

/* Returns the sum of a tally. The sum that changed last is found at once. */
static struct tally_change *sum_of(struct ages *ages, uint16_t tally)
{
    size_t i = ages->sum_last;
    if (i >= ages->sum_count || ages->sums[i].tally != tally)
        for (i = 0; i < ages->sum_count && ages->sums[i].tally != tally; i++)
            ;
    if (i == ages->sum_max) {
        ages->sum_max = MAX(4, 2 * ages->sum_max);
        ages->sums = realloc(ages->sums, ages->sum_max * sizeof(*ages->sums));
        check(ages->sums != NULL);
    }
    if (i == ages->sum_count)
        ages->sums[ages->sum_count++] = (struct tally_change){ .tally = tally };
    ages->sum_last = i;
    return &ages->sums[i];
}

/* Adds to the sums, or takes away from them (sign -1). Returns the change. Records without a tally
 * are not in the sums. */
static struct tally_change note(struct ages *ages, uint32_t ordinal, int sign, bool record,
                                const struct ages_entries *entries)
{
    if (ordinal >= ages->tallied)
        return (struct tally_change){ 0 };
    struct tally_change change = { .tally = ages_tally(ages, ordinal), .records = sign * record,
                                   .objects = sign * (int32_t)entries->objects,
                                   .bytes = sign * (int64_t)entries->data_bytes };
    struct tally_change *sum = sum_of(ages, change.tally);
    sum->records += change.records;
    sum->objects += change.objects;
    sum->bytes += change.bytes;
    return change;
}

static void set_tally(struct ages *ages, uint32_t ordinal, uint16_t tally)
{
    atomic_store_explicit(&ages->tallies[ordinal], tally, memory_order_relaxed);
    if (ordinal == ages->tallied)
        ages->tallied++;
}

uint32_t ages_tallied(const struct ages *ages)
{
    return ages->tallied;
}

struct tally_change ages_adopt(struct ages *ages, uint16_t tally,
                               const struct ages_entries *entries)
{
    uint32_t ordinal = ages->tallied;
    if (!is_known(ages, ordinal))
        return (struct tally_change){ 0 };
    set_tally(ages, ordinal, tally);
    return note(ages, ordinal, 1, entries->count > 0, entries);
}

struct tally_change ages_move(struct ages *ages, uint32_t ordinal, uint16_t tally,
                              const struct ages_entries *entries)
{
    if (!is_known(ages, ordinal) || ages_tally(ages, ordinal) == tally)
        return (struct tally_change){ 0 };
    bool lives = ages_live(ages, ordinal);
    struct tally_change before = note(ages, ordinal, -1, lives, entries);
    set_tally(ages, ordinal, tally);
    (void)note(ages, ordinal, 1, lives, entries);
    return before;
}

/* ---- changes ---- */

void ages_add(struct ages *ages, uint32_t ordinal, const struct ages_record *record)
{
    if (ordinal >= ages->records)
        return;
    stamp(ages, ordinal, record->stamp);
    know(ages, ordinal, record->metadata, 0);
    set_tally(ages, ordinal, record->tally);
}

struct tally_change ages_entry_added(struct ages *ages, uint32_t ordinal,
                                     const struct ages_entries *entry)
{
    weigh(ages, ordinal, pin_weight(entry->bytes), 0);
    if (!is_known(ages, ordinal))
        return (struct tally_change){ 0 };
    unsigned live = live_of(ages, ordinal);
    check((live & LIVE_ENTRIES) < LIVE_ENTRIES);
    set_live(ages, ordinal, live + 1);
    if (!(live & LIVE_ENTRIES) && !record_set_has(ages->left_out, ordinal))
        ages->room.live++;
    atomic_fetch_add_explicit(&ages->entries, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&ages->live_bytes, entry->bytes, memory_order_relaxed);
    return note(ages, ordinal, 1, !(live & LIVE_ENTRIES), entry);
}

struct tally_change ages_entry_removed(struct ages *ages, uint32_t ordinal,
                                       const struct ages_entries *entry, uint8_t dead)
{
    weigh(ages, ordinal, 0, pin_weight(entry->bytes));
    if (!is_known(ages, ordinal) || !(live_of(ages, ordinal) & LIVE_ENTRIES))
        return (struct tally_change){ 0 };
    unsigned live = live_of(ages, ordinal) - 1;
    bool dies = !(live & LIVE_ENTRIES);
    set_live(ages, ordinal, live);
    atomic_fetch_sub_explicit(&ages->entries, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&ages->live_bytes, entry->bytes, memory_order_relaxed);
    if (dies) {
        ages->room.live -= !record_set_has(ages->left_out, ordinal);
        stamp(ages, ordinal, dead);
        unpin(ages, ordinal);
    }
    return note(ages, ordinal, -1, dies, entry);
}

struct tally_change ages_count(struct ages *ages, const struct ages_record *record,
                               const struct ages_entries *entries)
{
    uint32_t ordinal = ages_counted(ages);
    if (ordinal >= ages->records)
        return (struct tally_change){ 0 };
    check(entries->count < LIVE_ENTRIES);
    if (!entries->count || !(live_of(ages, ordinal) & LIVE_STAMPED))
        stamp(ages, ordinal, entries->count ? record->stamp : record->dead);
    know(ages, ordinal, record->metadata, entries->count);
    if (!entries->count)
        unpin(ages, ordinal);
    set_tally(ages, ordinal, record->tally);
    atomic_fetch_add_explicit(&ages->live_bytes, entries->bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&ages->entries, entries->count, memory_order_relaxed);
    return note(ages, ordinal, 1, entries->count > 0, entries);
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

void ages_copy(const struct ages *ages, uint32_t count, uint8_t *stamps, uint8_t *live)
{
    check(count <= ages_counted(ages));
    for (uint32_t i = 0; i < count; i++) {
        stamps[i] = ages_stamp(ages, i);
        live[i] = (uint8_t)((live_of(ages, i) & LIVE_ENTRIES) |
                            (record_set_has(ages->left_out, i) ? AGES_HEAD : 0) |
                            (record_set_has(ages->pins.before, i) ? AGES_PINNED : 0));
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

bool ages_is_stamped(const struct ages *ages, uint32_t ordinal)
{
    return ordinal < ages->records && (live_of(ages, ordinal) & LIVE_STAMPED);
}

uint32_t ages_limit(const struct ages *ages)
{
    return ages->records;
}

bool ages_is_live(const struct ages *ages, uint32_t ordinal)
{
    return is_known(ages, ordinal) && (live_of(ages, ordinal) & LIVE_ENTRIES);
}

bool ages_is_dead(const struct ages *ages, uint32_t ordinal)
{
    return is_known(ages, ordinal) && !(live_of(ages, ordinal) & LIVE_ENTRIES);
}

uint32_t ages_live(const struct ages *ages, uint32_t ordinal)
{
    return is_known(ages, ordinal) ? live_of(ages, ordinal) & LIVE_ENTRIES : 0;
}

uint16_t ages_tally(const struct ages *ages, uint32_t ordinal)
{
    return ordinal < ages->records
               ? atomic_load_explicit(&ages->tallies[ordinal], memory_order_relaxed) : 0;
}

size_t ages_sums(const struct ages *ages, const struct tally_change **ret)
{
    *ret = ages->sums;
    return ages->sum_count;
}

struct ages_dead ages_dead(const struct ages *ages)
{
    return (struct ages_dead){ ages->room.aged, ages->room.aged - ages->room.live };
}

void ages_set_waste(struct ages *ages, enum ages_waste waste)
{
    atomic_store(&ages->room.waste, (unsigned)waste);
}

enum ages_waste ages_waste(const struct ages *ages)
{
    return (enum ages_waste)atomic_load(&ages->room.waste);
}

struct ages_stamps ages_stamps(struct ages *ages)
{
    return (struct ages_stamps){ ages->stamps, ages->left_out, ages->pins.pinned,
                                 ages_counted(ages) };
}

/* ---- pins ---- */

bool ages_is_pinned(const struct ages *ages, uint32_t ordinal)
{
    return ordinal < ages->records && record_set_has(ages->pins.pinned, ordinal);
}

bool ages_was_pinned(const struct ages *ages, uint32_t ordinal)
{
    return ordinal < ages->records && record_set_has(ages->pins.before, ordinal);
}

uint64_t ages_pinned_bytes(const struct ages *ages)
{
    return atomic_load_explicit(&ages->pins.pinned_bytes, memory_order_relaxed);
}

void ages_pin_new(struct ages *ages, uint32_t ordinal, bool seen)
{
    if (ordinal >= ages->records)
        return;
    put_bit(ages, ages->pins.pinned, ordinal);
    put_bit(ages, ages->pins.before, ordinal);
    atomic_store(&ages->pins.unsaved, true);
    if (!seen)
        return;
    put_bit(ages, ages->pins.seen, ordinal);
    ages->pins.fresh = MIN(ages->pins.fresh, ordinal);
}

void ages_unpin_dead(struct ages *ages, uint32_t ordinal)
{
    if (ages_is_dead(ages, ordinal))
        unpin(ages, ordinal);
}

bool ages_is_seen(const struct ages *ages, uint32_t ordinal)
{
    return ordinal < ages->records && record_set_has(ages->pins.seen, ordinal);
}

/* A record that was pinned when it was appended is as one that was pinned before. */
bool ages_is_fresh(const struct ages *ages, uint32_t ordinal)
{
    return ordinal >= ages->pins.fresh && ordinal < ages->records &&
           record_set_has(ages->pins.seen, ordinal) && record_set_has(ages->pins.before, ordinal);
}

void ages_see(struct ages *ages, uint32_t ordinal, uint64_t bytes)
{
    if (ordinal >= ages->records)
        return;
    if (!record_set_has(ages->pins.pinned, ordinal))
        atomic_fetch_add_explicit(&ages->pins.pinned_bytes, bytes, memory_order_relaxed);
    put_bit(ages, ages->pins.pinned, ordinal);
    ages_mark_seen(ages, ordinal, bytes);
}

void ages_mark_seen(struct ages *ages, uint32_t ordinal, uint64_t bytes)
{
    if (ordinal >= ages->records)
        return;
    if (!record_set_has(ages->pins.seen, ordinal))
        atomic_fetch_add_explicit(&ages->pins.seen_bytes, bytes, memory_order_relaxed);
    put_bit(ages, ages->pins.seen, ordinal);
}

void ages_hold(struct ages *ages, uint32_t ordinal, uint64_t bytes)
{
    check(ages_was_pinned(ages, ordinal) && !ages_is_pinned(ages, ordinal));
    atomic_fetch_add_explicit(&ages->pins.pinned_bytes, bytes, memory_order_relaxed);
    put_bit(ages, ages->pins.pinned, ordinal);
}

void ages_unpin(struct ages *ages, uint32_t ordinal, uint64_t bytes)
{
    check(ordinal < ages->records && !ages_is_fresh(ages, ordinal));
    if (ages_is_pinned(ages, ordinal))
        atomic_fetch_sub_explicit(&ages->pins.pinned_bytes, MIN(bytes, ages_pinned_bytes(ages)),
                                  memory_order_relaxed);
    if (ages_is_seen(ages, ordinal))
        atomic_fetch_sub_explicit(&ages->pins.seen_bytes, MIN(bytes, ages_seen_bytes(ages)),
                                  memory_order_relaxed);
    unpin(ages, ordinal);
    atomic_store(&ages->pins.unsaved, true);
}

uint64_t ages_seen_bytes(const struct ages *ages)
{
    return atomic_load_explicit(&ages->pins.seen_bytes, memory_order_relaxed);
}

static uint64_t word_of(const _Atomic uint64_t *set, uint32_t i)
{
    return atomic_load_explicit(&set[i], memory_order_relaxed);
}

/* Writes only if the word differs, so that sets without a bit take no memory. */
static void set_word(_Atomic uint64_t *set, uint32_t i, uint64_t word)
{
    if (word_of(set, i) != word)
        atomic_store_explicit(&set[i], word, memory_order_relaxed);
}

/* The words that may have bits: the others may have no memory yet. */
static uint32_t pin_words(const struct ages *ages)
{
    uint32_t end = atomic_load_explicit(&ages->pins.end, memory_order_relaxed);
    return end / 64 + (end % 64 != 0);
}

uint64_t ages_held(const struct ages *ages)
{
    uint64_t held = 0;
    for (uint32_t i = 0; i < pin_words(ages); i++)
        held += (uint64_t)__builtin_popcountll(word_of(ages->pins.before, i) &
                                               ~word_of(ages->pins.pinned, i));
    return held;
}

/* Returns the bits of the fresh records in this word. */
static uint64_t fresh_bits(const struct ages *ages, uint32_t i)
{
    uint32_t fresh = ages->pins.fresh, first = i * 64;
    uint64_t from = fresh <= first ? ~0ull : fresh - first < 64 ? ~0ull << (fresh - first) : 0;
    return word_of(ages->pins.seen, i) & word_of(ages->pins.before, i) & from;
}

void ages_see_fresh(struct ages *ages)
{
    for (uint32_t i = 0; i < pin_words(ages); i++)
        set_word(ages->pins.seen, i, fresh_bits(ages, i));
    atomic_store_explicit(&ages->pins.seen_bytes, ages->pins.fresh_bytes, memory_order_relaxed);
}

static void end_seen(struct ages *ages)
{
    atomic_store_explicit(&ages->pins.seen_bytes, 0, memory_order_relaxed);
    ages->pins.fresh_bytes = 0;
    ages->pins.fresh = UINT32_MAX;
}

void ages_end_pass(struct ages *ages, bool keep)
{
    bool changes = false;
    for (uint32_t i = 0; i < pin_words(ages); i++) {
        if (!keep)
            set_word(ages->pins.pinned, i, word_of(ages->pins.seen, i));
        uint64_t before = word_of(ages->pins.pinned, i) |
                          (keep ? word_of(ages->pins.before, i) : 0);
        changes |= before != word_of(ages->pins.before, i);
        set_word(ages->pins.before, i, before);
        set_word(ages->pins.seen, i, 0);
    }
    if (changes)
        atomic_store(&ages->pins.unsaved, true);
    if (!keep)
        atomic_store_explicit(&ages->pins.pinned_bytes, ages_seen_bytes(ages),
                              memory_order_relaxed);
    end_seen(ages);
}

void ages_unpin_all(struct ages *ages)
{
    for (uint32_t i = 0; i < pin_words(ages); i++) {
        set_word(ages->pins.seen, i, 0);
        set_word(ages->pins.pinned, i, 0);
        set_word(ages->pins.before, i, 0);
    }
    end_seen(ages);
    atomic_store_explicit(&ages->pins.pinned_bytes, 0, memory_order_relaxed);
}

bool ages_restore_pins(struct ages *ages, uint32_t count, const uint8_t *live)
{
    bool some = false;
    for (uint32_t i = 0; i < MIN(count, ages->records); i++) {
        if (!(live[i] & AGES_PINNED))
            continue;
        put_bit(ages, ages->pins.before, i);
        some = true;
    }
    return some;
}

bool ages_are_pins_unsaved(const struct ages *ages)
{
    return atomic_load(&ages->pins.unsaved);
}

void ages_pins_saved(struct ages *ages)
{
    atomic_store(&ages->pins.unsaved, false);
}

void ages_pins_unsaved(struct ages *ages)
{
    atomic_store(&ages->pins.unsaved, true);
}
