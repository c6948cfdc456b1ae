/* mean_age_unit.h - the traces of tests/policy/make_decisions.py, and a log of extents in memory, as
 * mean_age.py has it. SPDX-License-Identifier: Apache-2.0
 *
 * The test that includes this file has the rule's own code in it. */
#ifndef MEAN_AGE_UNIT_H
#define MEAN_AGE_UNIT_H

#include "vector_unit.h"

#include "store/ghost.c"
#include "store/mean_age.c"
#include "store/sampler.c"

#define TOUCHES 1000000u
#define OBJECTS 20000u
#define SHARD 64u
#define ONCE (10 * OBJECTS)
#define KEYS (1u << 19)
enum { HIT = 1, REFUSED, STORED };

/* ---- traces ---- */

/* splitmix64. */
static uint64_t mix(uint64_t key)
{
    key += UINT64_C(0x9E3779B97F4A7C15);
    key = (key ^ key >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    key = (key ^ key >> 27) * UINT64_C(0x94D049BB133111EB);
    return key ^ key >> 31;
}

struct trace {
    enum trace_kind { PERMUTATION, SHARDS, SWITCH, ZIPF, ONE_SHOT, SHRINKING } kind;
    uint64_t random;
    uint32_t keys[OBJECTS], count;    /* keys or shards, in the order of this epoch */
    uint32_t at, epoch, touch, once;
    bool once_next;
    double sums[OBJECTS];             /* of popularity */
};

static uint64_t draw(struct trace *t)
{
    return mix(++t->random);
}

static uint32_t below(struct trace *t, uint32_t limit)
{
    return (uint32_t)((draw(t) >> 32) * limit >> 32);
}

static struct trace *trace_new(enum trace_kind kind)
{
    struct trace *t = must_alloc(sizeof(*t));
    t->kind = kind;
    t->random = (kind + UINT64_C(1)) << 32;
    t->once = ONCE;
    t->count = kind == SHARDS ? OBJECTS / SHARD : OBJECTS;
    double total = 0;
    for (uint32_t i = 0; i < OBJECTS; i++) {
        t->keys[i] = i;
        t->sums[i] = total += 1.0 / (i + 1);
    }
    t->at = t->count * (kind == SHARDS ? SHARD : 1);
    return t;
}

static void shuffle(struct trace *t)
{
    for (uint32_t i = t->count - 1; i; i--) {
        uint32_t j = below(t, i + 1), key = t->keys[i];
        t->keys[i] = t->keys[j];
        t->keys[j] = key;
    }
}

static uint32_t zipf_key(struct trace *t)
{
    double point = (double)(draw(t) >> 11) * 0x1p-53 * t->sums[OBJECTS - 1];
    uint32_t low = 0, high = OBJECTS;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (point < t->sums[middle])
            high = middle;
        else
            low = middle + 1;
    }
    uint32_t key = MIN(low, OBJECTS - 1);
    return t->touch++ < TOUCHES / 2 ? key : OBJECTS - 1 - key;
}

static void begin_epoch(struct trace *t)
{
    if (t->kind == SHRINKING) {
        t->count = t->touch / 100000 % 2 == 0 ? OBJECTS : OBJECTS / 20;
        t->touch += t->count;
    }
    shuffle(t);
    t->at = 0;
    t->epoch++;
}

static uint32_t next_key(struct trace *t)
{
    uint32_t width = t->kind == SHARDS ? SHARD : 1;
    if (t->kind == ZIPF)
        return zipf_key(t);
    if (t->once_next) {
        t->once_next = false;
        return t->once++;
    }
    if (t->at == t->count * width) {
        begin_epoch(t);
    }
    uint32_t key = t->keys[t->at / width] * width + t->at % width;
    t->at++;
    if (t->kind == ONE_SHOT)
        t->once_next = below(t, 10) == 0;
    return t->kind == SWITCH ? (t->epoch - 1) / 5 * OBJECTS + key : key;
}

/* ---- a log of extents, as the class Log of mean_age.py ---- */

struct extent {
    uint32_t *keys, count;
    _Atomic uint8_t *stamps;
    _Atomic uint64_t *pinned;
    bool hot;
};

struct log {
    struct mean_age *policy;
    uint32_t budget, records, extents_max;    /* records: in an extent */
    bool pins;
    struct extent *open, **sealed, **swept;
    struct mean_age_extent *candidates;       /* of `swept` */
    size_t sealed_count, swept_count;
    struct place {
        struct extent *extent;
        uint32_t slot;
    } *where;
    uint32_t stored, hits;
    uint64_t chain;
};

static void note(struct log *log, uint64_t value)
{
    log->chain = log->chain * UINT64_C(0x100000001b3) ^ value;
}

static struct mean_age_stamps stamps_of(const struct extent *e)
{
    return (struct mean_age_stamps){ e->stamps, e->count, e->pinned, NULL, NULL };
}

static struct extent *extent_make(uint32_t records)
{
    struct extent *e = must_alloc(sizeof(*e));
    e->keys = must_alloc(records * sizeof(*e->keys));
    e->stamps = must_alloc(records);
    e->pinned = must_alloc((records / 64 + 1) * sizeof(*e->pinned));
    return e;
}

static void extent_end(struct extent *e)
{
    if (e) {
        free(e->keys);
        free((void *)e->stamps);
        free((void *)e->pinned);
    }
    free(e);
}

static struct log *log_make(double share, uint32_t records, bool pins)
{
    struct log *log = must_alloc(sizeof(*log));
    log->budget = (uint32_t)(share * OBJECTS);
    log->records = records;
    log->extents_max = MAX(2u, (log->budget + records / 2) / records);
    log->pins = pins;
    log->policy = mean_age_new(log->budget);
    log->sealed = must_alloc((log->extents_max + 1) * sizeof(*log->sealed));
    log->swept = must_alloc((log->extents_max + 1) * sizeof(*log->swept));
    log->candidates = must_alloc((log->extents_max + 1) * sizeof(*log->candidates));
    log->where = must_alloc(KEYS * sizeof(*log->where));
    return log;
}

static void log_end(struct log *log)
{
    for (size_t i = 0; i < log->sealed_count; i++)
        extent_end(log->sealed[i]);
    extent_end(log->open);
    mean_age_free(&log->policy);
    free(log->sealed);
    free(log->swept);
    free(log->candidates);
    free(log->where);
    free(log);
}

static void sweep(struct log *log)
{
    uint64_t total = 0, tick = mean_age_tick(log->policy);
    for (size_t i = 0; i < log->sealed_count; i++) {
        struct mean_age_stamps stamps = stamps_of(log->sealed[i]);
        log->swept[i] = log->sealed[i];
        log->candidates[i] = mean_age_sweep(&stamps, tick);
        total += log->candidates[i].ages;
    }
    if (log->open) {
        struct mean_age_stamps stamps = stamps_of(log->open);
        (void)!mean_age_sweep(&stamps, tick).ages;    /* not a victim; but its stamps must not wrap */
    }
    log->swept_count = log->sealed_count;
    mean_age_swept(log->policy, log->candidates, log->swept_count);
    note(log, total);
    note(log, log->policy->moved);
}

static bool is_pinned(const struct log *log, uint32_t key)
{
    return log->pins && (mix(key) >> 16 & 7) == 0;
}

static void append(struct log *log, uint32_t key, uint8_t stamp)
{
    struct extent *e = log->open;
    if (is_pinned(log, key))
        e->pinned[e->count / 64] |= UINT64_C(1) << e->count % 64;
    e->keys[e->count] = key;
    e->stamps[e->count] = stamp;
    log->where[key] = (struct place){ e, e->count++ };
    log->stored++;
}

static size_t unseal(struct log *log, const struct extent *victim)
{
    size_t at = 0;
    while (log->sealed[at] != victim)
        at++;
    log->sealed_count--;
    memmove(&log->sealed[at], &log->sealed[at + 1],
            (log->sealed_count - at) * sizeof(*log->sealed));
    return at;
}

/* Copies what is kept of an extent into the open one. Returns the number of records. */
static uint32_t copy_forward(struct log *log, struct extent *victim, uint8_t cut)
{
    uint32_t copied = 0;
    for (uint32_t i = 0; i < victim->count; i++) {
        uint32_t key = victim->keys[i];
        if (log->where[key].extent != victim || log->where[key].slot != i)
            continue;
        log->where[key].extent = NULL;
        log->stored--;
        uint8_t age = mean_age_of_stamp(mean_age_tick(log->policy), victim->stamps[i]);
        if (!mean_age_keeps(cut, age, is_pinned(log, key)))
            continue;
        append(log, key, victim->stamps[i]);
        copied++;
    }
    return copied;
}

static bool recycle(struct log *log, enum mean_age_verdict why)
{
    size_t at = mean_age_victim(log->policy, log->candidates, log->swept_count, why);
    if (at == MEAN_AGE_NONE)
        return false;
    struct extent *victim = log->swept[at];
    struct mean_age_stamps stamps = stamps_of(victim);
    uint8_t cut = mean_age_cut(&stamps, mean_age_tick(log->policy), why);
    size_t index = unseal(log, victim);
    log->open = extent_make(log->records);
    log->open->hot = why == RECYCLE_FOR_HOT;
    uint32_t copied = copy_forward(log, victim, cut);
    extent_end(victim);
    note(log, index);
    note(log, cut);
    note(log, copied);
    return true;
}

/* Does what the verdict says. Returns true if the record may be appended. */
static bool make_room(struct log *log, enum mean_age_verdict verdict)
{
    if (verdict == ADMIT_NO)
        return false;
    if (verdict != ADMIT_YES) {
        if (log->open)
            log->open->hot = false;
        else if (!recycle(log, verdict))
            return false;
    }
    return log->open->count < log->records;
}

static void miss(struct log *log, uint32_t key)
{
    if (log->open && log->open->count == log->records) {
        log->sealed[log->sealed_count++] = log->open;
        log->open = NULL;
    }
    if (!log->open && log->sealed_count < log->extents_max)
        log->open = extent_make(log->records);
    enum mean_age_room room = !log->open ? ROOM_NONE
                              : log->open->hot ? ROOM_FOR_HOT : ROOM_FOR_ANY;
    enum mean_age_verdict verdict = mean_age_admit(log->policy, mix(key), room);
    note(log, verdict);
    bool may = make_room(log, verdict);
    if (may)
        append(log, key, mean_age_stamp(mean_age_tick(log->policy)));
    note(log, may ? STORED : REFUSED);
}

static void get(struct log *log, uint32_t key)
{
    if (mean_age_touch(log->policy, mix(key)))
        sweep(log);
    struct place at = log->where[key];
    if (!at.extent) {
        miss(log, key);
        return;
    }
    at.extent->stamps[at.slot] = mean_age_stamp(mean_age_tick(log->policy));
    note(log, HIT);
    log->hits++;
}

/* Every fourth key dies where it lies. */
static void purge(struct log *log)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        struct place at = log->where[key];
        if (!at.extent || (mix(key) >> 8 & 3))
            continue;
        at.extent->pinned[at.slot / 64] &= ~(UINT64_C(1) << at.slot % 64);
        at.extent->stamps[at.slot] = mean_age_dead_stamp(mean_age_tick(log->policy));
        log->where[key].extent = NULL;
        log->stored--;
    }
}

/* A restart that loses the stamps. */
static void restart(struct log *log)
{
    struct mean_age_saved saved;
    mean_age_save(log->policy, &saved);
    mean_age_free(&log->policy);
    log->policy = mean_age_new(log->budget);
    ok(mean_age_restore(log->policy, &saved));
    for (size_t i = 0; i <= log->sealed_count; i++) {
        struct extent *e = i < log->sealed_count ? log->sealed[i] : log->open;
        for (uint32_t slot = 0; e && slot < e->count; slot++)
            e->stamps[slot] = mean_age_stamp(saved.tick);
    }
    sweep(log);
}

/* ---- the traces ---- */

struct decided {
    const char *name;
    enum trace_kind kind;
    double share;
    uint32_t records;
    bool pins;
    uint32_t purge_from, purge_step, restart_from, restart_step;    /* step 0: never */
};

/* As the table TRACES of make_decisions.py. */
static const struct decided decided[] = {
    { .name = "permutation", .kind = PERMUTATION, .share = 0.5, .records = 40 },
    { .name = "shards", .kind = SHARDS, .share = 0.25, .records = 8 },
    { .name = "switch", .kind = SWITCH, .share = 0.5, .records = 125 },
    { .name = "zipf", .kind = ZIPF, .share = 0.05, .records = 40 },
    { .name = "one_shot", .kind = ONE_SHOT, .share = 0.5, .records = 40 },
    { .name = "shrinking", .kind = SHRINKING, .share = 0.25, .records = 40 },
    { .name = "purges", .kind = SWITCH, .share = 0.25, .records = 40,
      .pins = true, .purge_from = 70000, .purge_step = 130000 },
    { .name = "restarts", .kind = ZIPF, .share = 0.25, .records = 40,
      .restart_from = 60000, .restart_step = 300000 },
};

static bool is_event(uint32_t touch, uint32_t from, uint32_t step)
{
    return step && touch >= from && (touch - from) % step == 0;
}

#endif
