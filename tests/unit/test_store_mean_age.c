/* test_store_mean_age.c - the mean-age rule, decision by decision.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The first tests replay the traces of mean_age_unit.h on its log of extents. A hash of all
 * decisions is compared after each 1,000 touches, with the sampler's doubles bit by bit. */
#include "mean_age_unit.h"

#include <math.h>
#include <pthread.h>

#define PIECE 1000u

/* ---- the comparison ---- */

static void note_double(struct log *log, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    note(log, bits);
}

static void note_sampler(struct log *log)
{
    const struct sampler *sampler = &log->policy->sampler;
    note_double(log, sampler->m1);
    note_double(log, sampler->m2);
    note_double(log, sampler->interval);
    note_double(log, sampler->novelty);
    note(log, sampler->mask);
    note(log, sampler->count);
    note(log, mean_age_tick(log->policy));
    note(log, log->stored);
}

static FILE *decisions_of(const char *name)
{
    FILE *file = vectors_open("mean_age.txt");
    char line[128], found[32] = "";
    while (strcmp(found, name) != 0) {
        ok(fgets(line, sizeof(line), file) != NULL);
        if (sscanf(line, "trace %31s", found) != 1)
            found[0] = 0;
    }
    return file;
}

static void replay(const struct decided *d)
{
    struct trace *trace = trace_new(d->kind);
    struct log *log = log_make(d->share, d->records, d->pins);
    FILE *file = decisions_of(d->name);
    for (uint32_t i = 0; i < TOUCHES; i++) {
        if (is_event(i, d->purge_from, d->purge_step))
            purge(log);
        if (is_event(i, d->restart_from, d->restart_step))
            restart(log);
        get(log, next_key(trace));
        if ((i + 1) % PIECE)
            continue;
        note_sampler(log);
        unsigned expected;
        ok(fscanf(file, "%8x", &expected) == 1);
        if (expected != (uint32_t)log->chain)
            fail_msg("%s: another decision than the model's, in touches %u to %u", d->name,
                     i + 1 - PIECE, i);
    }
    print_message("%s: %u touches, hit ratio %.4f, the model's decisions\n", d->name, TOUCHES,
                  (double)log->hits / TOUCHES);
    fclose(file);
    log_end(log);
    free(trace);
}

#define AS_IN_THE_MODEL(test, at) \
    TEST(test) { replay(&decided[at]); }
AS_IN_THE_MODEL(epochs_in_random_order_are_as_in_the_model, 0)
AS_IN_THE_MODEL(epochs_in_shards_are_as_in_the_model, 1)
AS_IN_THE_MODEL(changes_of_the_data_set_are_as_in_the_model, 2)
AS_IN_THE_MODEL(skewed_requests_are_as_in_the_model, 3)
AS_IN_THE_MODEL(keys_that_never_return_are_as_in_the_model, 4)
AS_IN_THE_MODEL(a_set_that_shrinks_and_grows_is_as_in_the_model, 5)
AS_IN_THE_MODEL(pins_and_purges_are_as_in_the_model, 6)
AS_IN_THE_MODEL(restarts_are_as_in_the_model, 7)

/* ---- bunches, threads ---- */

/* As get, but touches are counted 64 at a time, as a loop would. */
static void get_in_bunches(struct log *log, uint32_t key, uint32_t *uncounted)
{
    bool sampled = mean_age_samples(log->policy, mix(key)), due = false;
    if (++*uncounted == 64 || sampled) {
        due = mean_age_count(log->policy, *uncounted);
        *uncounted = 0;
    }
    if (sampled)
        mean_age_sample(log->policy, mix(key));
    if ((sampled || due) && mean_age_advance(log->policy))
        sweep(log);
    struct place at = log->where[key];
    log->hits += at.extent != NULL;
    if (at.extent)
        at.extent->stamps[at.slot] = mean_age_stamp(mean_age_tick(log->policy));
    else
        miss(log, key);
}

TEST(touches_counted_in_bunches_cost_no_hits)
{
    uint32_t hits[2] = { 0, 0 };
    for (int bunches = 0; bunches < 2; bunches++) {
        struct trace *trace = trace_new(PERMUTATION);
        struct log *log = log_make(0.5, 40, false);
        for (uint32_t i = 0, uncounted = 0; i < 10 * OBJECTS; i++) {
            if (bunches)
                get_in_bunches(log, next_key(trace), &uncounted);
            else
                get(log, next_key(trace));
        }
        hits[bunches] = log->hits;
        log_end(log);
        free(trace);
    }
    ok(hits[0] > 0.44 * 10 * OBJECTS);    /* nine of ten epochs, half of each */
    ok(abs((int)hits[0] - (int)hits[1]) < 0.005 * 10 * OBJECTS);
}

#define THREAD_TOUCHES 200000u

struct loops {
    struct mean_age *policy;
    pthread_mutex_t lock;
    _Atomic uint8_t stamps[4096];
    atomic_uint sweeps;
};

static void sweep_loops(struct loops *loops)
{
    struct mean_age_stamps stamps = { loops->stamps, countof(loops->stamps), NULL, NULL, NULL };
    struct mean_age_extent extent = mean_age_sweep(&stamps, mean_age_tick(loops->policy));
    mean_age_swept(loops->policy, &extent, 1);
    loops->sweeps++;
}

static void *loop_run(void *argument)
{
    struct loops *loops = argument;
    struct mean_age *policy = loops->policy;
    uint64_t random = (uintptr_t)&random;
    for (uint32_t i = 1; i <= THREAD_TOUCHES; i++) {
        uint64_t hash = mix(mix(random++) % 8192);
        bool due = i % 8 == 0 && mean_age_count(policy, 8);
        bool sampled = mean_age_samples(policy, hash);
        loops->stamps[hash % 4096] = mean_age_stamp(mean_age_tick(policy));
        if (!due && !sampled)
            continue;
        pthread_mutex_lock(&loops->lock);
        if (sampled)
            mean_age_sample(policy, hash);
        if (mean_age_advance(policy))
            sweep_loops(loops);
        (void)!mean_age_admit(policy, hash, ROOM_NONE);
        pthread_mutex_unlock(&loops->lock);
    }
    return NULL;
}

TEST(threads_count_every_touch_and_share_one_tick)
{
    struct loops loops = { .policy = mean_age_new(4096), .lock = PTHREAD_MUTEX_INITIALIZER };
    pthread_t threads[3];
    for (size_t i = 0; i < countof(threads); i++)
        ok(pthread_create(&threads[i], NULL, loop_run, &loops) == 0);
    for (size_t i = 0; i < countof(threads); i++)
        pthread_join(threads[i], NULL);
    ok(loops.policy->touches == countof(threads) * THREAD_TOUCHES);
    ok(loops.sweeps > 16 && loops.sweeps == mean_age_tick(loops.policy));
    mean_age_free(&loops.policy);
}

/* ---- stamps ---- */

static struct mean_age_stamps one_stamp(_Atomic uint8_t *stamp)
{
    return (struct mean_age_stamps){ stamp, 1, NULL, NULL, NULL };
}

TEST(an_untouched_record_stays_old_when_the_byte_wraps)
{
    _Atomic uint8_t stamp = 7;
    struct mean_age_stamps stamps = one_stamp(&stamp);
    for (uint64_t tick = 7; tick < 7 + 3 * 256; tick++) {
        struct mean_age_extent sum = mean_age_sweep(&stamps, tick);
        ok(sum.records == 1 && sum.ages == MIN(tick - 7, 96));
        ok(mean_age_of_stamp(tick, stamp) == sum.ages);
    }
}

TEST(a_sweep_does_not_undo_a_touch_that_comes_meanwhile)
{
    _Atomic uint8_t stamp = 200;              /* of a touch in tick 200 */
    move_up(&stamp, 50, 200);                 /* the sweep had read 50 */
    ok(stamp == 200);
    move_up(&stamp, 200, 1000);
    ok(stamp == mean_age_dead_stamp(1000));
}

TEST(a_record_that_is_read_while_its_extent_is_copied_is_kept)
{
    _Atomic uint8_t bytes[] = { 10, 10, 10, 10, 4 };
    struct mean_age_stamps stamps = { bytes, 5, NULL, NULL, NULL };
    uint64_t tick = 10;
    uint8_t cut = mean_age_cut(&stamps, tick, RECYCLE_FOR_ANY);
    for (uint64_t later = tick; later <= tick + MEAN_AGE_UNSWEPT; later++) {
        bytes[4] = mean_age_stamp(later);    /* ticks began meanwhile */
        uint8_t age = mean_age_of_record(&stamps, 4, tick);
        ok(age == 0 && mean_age_keeps(cut, age, false));
    }
}

TEST(a_sweep_does_not_take_a_later_touch_for_an_old_one)
{
    _Atomic uint8_t stamp;
    struct mean_age_stamps stamps = one_stamp(&stamp);
    for (uint64_t tick = 190; tick < 260; tick++)
        for (uint64_t later = tick; later <= tick + MEAN_AGE_UNSWEPT; later++) {
            stamp = mean_age_stamp(later);
            ok(mean_age_sweep(&stamps, tick).ages == 0 && stamp == mean_age_stamp(later));
        }
}

TEST(an_old_record_stays_old_while_sweeps_are_overdue)
{
    _Atomic uint8_t stamp = 0;
    struct mean_age_stamps stamps = one_stamp(&stamp);
    ok(mean_age_sweep(&stamps, 100).ages == MEAN_AGE_CAP);
    for (uint64_t tick = 100; tick <= 100 + MEAN_AGE_UNSWEPT; tick++)
        ok(mean_age_of_stamp(tick, stamp) == MEAN_AGE_CAP);
    ok(mean_age_sweep(&stamps, 100 + MEAN_AGE_UNSWEPT).ages == MEAN_AGE_CAP);
}

TEST(a_dead_record_is_as_old_as_can_be_and_stays_so)
{
    _Atomic uint8_t stamp = mean_age_dead_stamp(3);
    struct mean_age_stamps stamps = one_stamp(&stamp);
    for (uint64_t tick = 3; tick < 600; tick += MEAN_AGE_UNSWEPT)
        ok(mean_age_sweep(&stamps, tick).ages == MEAN_AGE_CAP);
}

TEST(a_pinned_record_counts_as_touched_now)
{
    _Atomic uint8_t bytes[70] = { 0 };
    _Atomic uint64_t pinned[2] = { ~UINT64_C(0), 0 };
    struct mean_age_stamps stamps = { bytes, 70, pinned, NULL, NULL };
    struct mean_age_extent sum = mean_age_sweep(&stamps, 40);
    ok(sum.records == 70 && sum.ages == 6 * 40);    /* records 64 to 69 are not pinned */
    ok(bytes[63] == 40 && bytes[64] == 0);
    pinned[1] = ~UINT64_C(0);
    ok(mean_age_sweep(&stamps, 90).ages == 0);
    ok(mean_age_keeps(0, 96, true));
    ok(!mean_age_keeps(96, 96, false) && mean_age_keeps(96, 95, false));
}

TEST(metadata_records_have_no_age)
{
    _Atomic uint8_t bytes[3] = { 10, 20, 30 };
    _Atomic uint64_t left_out = 1 << 1 | 1 << 2;
    struct mean_age_stamps stamps = { bytes, 3, NULL, &left_out, NULL };
    struct mean_age_extent sum = mean_age_sweep(&stamps, 200);
    ok(sum.records == 1 && sum.ages == 96);
    ok(bytes[0] == 104 && bytes[1] == 20 && bytes[2] == 30);
    ok(mean_age_cut(&stamps, 109, RECYCLE_FOR_HOT) == 5);
}

static uint8_t cut_of(const uint8_t *ages, uint32_t count, enum mean_age_verdict why)
{
    _Atomic uint8_t bytes[8];
    for (uint32_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(100 - ages[i]);
    return mean_age_cut(&(struct mean_age_stamps){ bytes, count, NULL, NULL, NULL }, 100, why);
}

TEST(the_younger_half_is_kept_for_hot_records)
{
    ok(cut_of((uint8_t[]){ 9, 1, 5, 7 }, 4, RECYCLE_FOR_HOT) == 7);
    ok(cut_of((uint8_t[]){ 9, 1, 5 }, 3, RECYCLE_FOR_HOT) == 5);
    ok(cut_of((uint8_t[]){ 96, 96, 96 }, 3, RECYCLE_FOR_HOT) == 96);
    ok(cut_of(NULL, 0, RECYCLE_FOR_HOT) == 0);
}

TEST(an_extent_with_holes_keeps_all_that_is_in_use)
{
    ok(cut_of((uint8_t[]){ 14, 14, 96 }, 3, RECYCLE_FOR_ANY) == 28);
    ok(cut_of((uint8_t[]){ 14, 15, 96 }, 3, RECYCLE_FOR_ANY) == 14);
    ok(cut_of(NULL, 0, RECYCLE_FOR_ANY) == 28);
}

/* ---- victims ---- */

/* A policy that knows L = 1,600, so a tick is 100 touches, and has seen few first touches. */
static struct mean_age *knowing(void)
{
    struct mean_age *policy = mean_age_new(1000);
    ok(mean_age_restore(policy, &(struct mean_age_saved){ 1600, 1600.0 * 1600, 5, true, false }));
    policy->sampler.novelty = 0;
    return policy;
}

TEST(the_oldest_extent_goes_and_of_equals_the_last_one)
{
    struct mean_age *policy = knowing();
    struct mean_age_extent extents[] = { { 300, 10, false }, { 310, 10, false }, { 0, 0, false },
                                         { 620, 20, false } };
    mean_age_swept(policy, extents, 4);
    ok(mean_age_victim(policy, extents, 4, RECYCLE_FOR_ANY) == 3);
    ok(mean_age_victim(policy, extents, 4, RECYCLE_FOR_ANY) == 1);
    ok(mean_age_victim(policy, extents, 4, RECYCLE_FOR_ANY) == 0);
    ok(mean_age_victim(policy, extents, 4, RECYCLE_FOR_ANY) == MEAN_AGE_NONE);
    ok(mean_age_victim(policy, extents, 4, RECYCLE_FOR_HOT) == 2);    /* empty: of age 0 */
    ok(mean_age_victim(policy, extents, 4, RECYCLE_FOR_HOT) == MEAN_AGE_NONE);
    ok(mean_age_victim(policy, NULL, 0, RECYCLE_FOR_HOT) == MEAN_AGE_NONE);
    mean_age_free(&policy);
}

TEST(an_extent_is_stale_above_its_limit_not_at_it)
{
    struct mean_age *policy = knowing();
    struct mean_age_extent extents[] = { { 288, 10, false }, { 0, 90, false } };
    mean_age_swept(policy, extents, 2);
    ok(!mean_age_is_stale(policy));    /* 28.8 = 1.8 L */
    ok(mean_age_admit(policy, 1, ROOM_NONE) == ADMIT_NO);
    extents[0].ages = 289;
    mean_age_swept(policy, extents, 2);
    ok(mean_age_is_stale(policy));
    ok(mean_age_admit(policy, 1, ROOM_NONE) == RECYCLE_FOR_ANY);
    ok(mean_age_admit(policy, 1, ROOM_FOR_HOT) == RECYCLE_FOR_ANY);
    ok(mean_age_admit(policy, 1, ROOM_FOR_ANY) == ADMIT_YES);
    policy->sampler.novelty = 0.76;
    ok(!mean_age_is_stale(policy));    /* most touches are first touches: a scan */
    mean_age_free(&policy);
}

TEST(after_a_change_of_the_data_set_less_is_stale_until_few_are_old)
{
    struct mean_age *policy = knowing();
    struct mean_age_extent extents[8] = { { 0 } };
    for (size_t i = 0; i < 8; i++)
        extents[i] = (struct mean_age_extent){ 170, 10, false };
    extents[0].ages = 210;
    mean_age_swept(policy, extents, 8);
    ok(policy->moved && mean_age_is_stale(policy));    /* mean above 1 L; 21 is above 1.25 L */
    for (size_t i = 1; i < 8; i++)
        extents[i].ages = 10;
    extents[1].ages = 210;
    mean_age_swept(policy, extents, 8);
    ok(policy->moved && mean_age_is_stale(policy));    /* two of eight are above 1.25 L */
    extents[1].ages = 200;
    mean_age_swept(policy, extents, 8);
    ok(!policy->moved && !mean_age_is_stale(policy));  /* one of eight */
    mean_age_free(&policy);
}

TEST(a_cache_of_pinned_records_gives_up_nothing)
{
    struct mean_age *policy = knowing();
    _Atomic uint8_t bytes[64] = { 0 };
    _Atomic uint64_t pinned = ~UINT64_C(0);
    struct mean_age_stamps stamps = { bytes, 64, &pinned, NULL, NULL };
    struct mean_age_extent extents[4];
    for (size_t i = 0; i < 4; i++)
        extents[i] = mean_age_sweep(&stamps, 90);
    mean_age_swept(policy, extents, 4);
    ok(mean_age_victim(policy, extents, 4, RECYCLE_FOR_ANY) == MEAN_AGE_NONE);
    ok(mean_age_cut(&stamps, 90, RECYCLE_FOR_HOT) == 0 && mean_age_keeps(0, 0, true));
    mean_age_free(&policy);
}

/* ---- ghost ---- */

TEST(a_run_of_touches_makes_a_refused_record_hot)
{
    struct ghost ghost;
    ghost_open(&ghost, 100);
    ok(!ghost_touch(&ghost, 77, 254));
    ok(!ghost_touch(&ghost, 77, 254));    /* in one tick: one touch */
    ok(!ghost_touch(&ghost, 77, 255));
    ok(!ghost_touch(&ghost, 77, 0));      /* the tick's byte wraps */
    ok(ghost_touch(&ghost, 77, 1));       /* 3 gaps in 3 ticks */
    ok(!ghost_touch(&ghost, 77, 1));      /* and the run has ended */
    ghost_close(&ghost);
}

TEST(a_slow_run_needs_more_touches_and_a_slower_one_ends)
{
    struct ghost ghost;
    ghost_open(&ghost, 100);
    for (unsigned i = 0; i < 13; i++)
        ok(!ghost_touch(&ghost, 5, (uint8_t)(6 * i)));
    ok(ghost_touch(&ghost, 5, 6 * 13));   /* 13 gaps in 78 ticks */
    for (unsigned i = 0; i < 1000; i++)
        ok(!ghost_touch(&ghost, 5, (uint8_t)(7 * i)));
    ghost_close(&ghost);
}

TEST(a_run_longer_than_the_ticks_byte_does_not_seem_short)
{
    struct ghost ghost;
    ghost_open(&ghost, 100);
    ok(!ghost_touch(&ghost, 5, 0) && !ghost_touch(&ghost, 5, 3));
    ok(!ghost_touch(&ghost, 5, (uint8_t)257));    /* 2 gaps, seemingly in one tick */
    ghost_close(&ghost);
}

TEST(every_run_that_is_not_hot_fits_an_entry)
{
    unsigned count = 0, codes[512] = { 0 };
    for (unsigned gaps = 0; gaps <= GAPS_MAX; gaps++)
        for (unsigned took = gaps; took <= gaps * GAP_TICKS; took++, count++) {
            uint32_t entry = pack(TAGS, (struct run){ 200, took, gaps });
            struct run run = unpack(entry);
            ok(entry >> 17 == TAGS && run.last == 200 && run.took == took && run.gaps == gaps);
            ok(codes[entry & 511]++ == 0);
        }
    ok(count == 403);
}

TEST(in_a_full_bucket_the_run_of_the_oldest_touch_is_lost)
{
    struct ghost ghost;
    ghost_open(&ghost, 0);
    ok(ghost.buckets == 1 && (uintptr_t)ghost.entries % LINE_BYTES == 0);
    for (uint64_t key = 0; key < 16; key++)
        ok(!ghost_touch(&ghost, key, 1));
    ok(!ghost_touch(&ghost, 0, 2));       /* now key 1 was touched longest ago */
    ok(!ghost_touch(&ghost, 16, 2));
    for (uint8_t tick = 3; tick < 4; tick++)
        ok(!ghost_touch(&ghost, 0, tick));
    ok(ghost_touch(&ghost, 0, 4));        /* 3 gaps: its run was there all the time */
    ok(!ghost_touch(&ghost, 1, 2) && !ghost_touch(&ghost, 1, 3));
    ok(!ghost_touch(&ghost, 1, 4));       /* only 2 gaps: the run began anew */
    ok(ghost_touch(&ghost, 1, 5));
    ghost_close(&ghost);
}

TEST(a_ghost_has_8_bytes_for_each_record)
{
    ok(ghost_bytes(30000000) < 241 * MIB && ghost_bytes(30000000) > 228 * MIB);
    ok(ghost_bytes(UINT64_MAX) < (UINT64_C(1) << 39));
}

/* ---- sampler ---- */

TEST(a_full_sample_is_halved_and_an_empty_one_doubled)
{
    struct mean_age *policy = mean_age_new(0);
    struct sampler *s = &policy->sampler;
    for (int epoch = 0; epoch < 4; epoch++)
        for (uint64_t key = 0; key < 50000; key++)
            mean_age_touch(policy, mix(key));
    ok(s->mask == 63 && s->count <= SAMPLE_KEYS && s->count > SAMPLE_KEYS / 2);
    for (uint16_t at = s->samples[0].newer; at; at = s->samples[at].newer)
        ok(!(s->samples[at].hash & s->mask));
    ok(s->interval > 49999 && s->interval < 50001);    /* same order: 1 epoch */
    for (uint64_t i = 0; i < 1000000; i++)
        mean_age_touch(policy, mix(i % 500));
    ok(s->mask < 8 && s->count > 500 / 8 / 2 && s->interval < 600);
    mean_age_free(&policy);
}

TEST(hashes_that_agree_in_their_low_bits_do_not_overfill_the_sample)
{
    struct mean_age *policy = mean_age_new(0);
    for (uint64_t i = 0; i < 5000; i++)
        mean_age_touch(policy, i << 40);
    ok(policy->sampler.count <= SAMPLE_KEYS && policy->sampler.mask > UINT32_MAX);
    mean_age_free(&policy);
}

TEST(no_tick_passes_and_nothing_is_recycled_before_the_interval_is_known)
{
    struct mean_age *policy = mean_age_new(1000);
    struct mean_age_extent extent = { 96, 1, false };
    mean_age_swept(policy, &extent, 1);
    for (uint64_t key = 0; key < 100000; key++) {
        ok(!mean_age_touch(policy, mix(key)));
        ok(mean_age_admit(policy, mix(key % 3), ROOM_NONE) == ADMIT_NO);
    }
    ok(mean_age_tick(policy) == 0);
    mean_age_free(&policy);
}

TEST(touches_in_a_burst_are_one_touch)
{
    struct mean_age *policy = mean_age_new(1600);    /* 100 touches are a burst */
    for (uint64_t i = 0; i < 40000; i++)
        mean_age_touch(policy, mix(i / 4 % 1000));
    ok(policy->sampler.m1 > 3990 && policy->sampler.m1 < 4010);
    mean_age_resize(policy, 0);
    ok(policy->sampler.burst == 0 && policy->ghost.buckets == 1);
    mean_age_free(&policy);
}

TEST(caches_of_no_record_and_of_one_record_work)
{
    for (uint64_t records = 0; records < 2; records++) {
        struct mean_age *policy = mean_age_new(records);
        _Atomic uint8_t stamp = 0;
        struct mean_age_stamps stamps = { &stamp, (uint32_t)records, NULL, NULL, NULL };
        for (uint64_t i = 0; i < 20000; i++) {
            if (mean_age_touch(policy, mix(i % 10))) {
                struct mean_age_extent extent = mean_age_sweep(&stamps, mean_age_tick(policy));
                mean_age_swept(policy, &extent, 1);
                (void)!mean_age_victim(policy, &extent, 1, RECYCLE_FOR_HOT);
            }
            (void)!mean_age_admit(policy, mix(i % 10), ROOM_FOR_HOT);
        }
        ok(policy->sampler.interval > 0 && mean_age_tick(policy) > 1000);
        mean_age_free(&policy);
    }
    struct mean_age *none = NULL;
    mean_age_free(&none);
}

TEST(units_of_one_object_have_hashes_of_their_own)
{
    struct object_id id = { .bytes = { 1, 2, 3 } };
    unsigned sampled = 0;
    for (uint32_t unit = 0; unit < 64000; unit++)
        sampled += (mean_age_hash(&id, unit) & 63) == 0;
    ok(sampled > 900 && sampled < 1100);
}

/* ---- restart ---- */

TEST(a_restored_policy_goes_on_with_its_ticks)
{
    struct mean_age *policy = knowing();
    struct mean_age_saved saved;
    for (int i = 0; i < 99; i++)
        ok(!mean_age_count(policy, 1) && !mean_age_advance(policy));
    ok(mean_age_count(policy, 1) && mean_age_advance(policy) && mean_age_tick(policy) == 6);
    policy->moved = true;
    mean_age_save(policy, &saved);
    ok(saved.tick == 6 && saved.known && saved.moved && saved.m1 == 1600);
    mean_age_free(&policy);

    policy = mean_age_new(10);
    mean_age_save(policy, &saved);
    ok(!saved.known && mean_age_restore(policy, &saved));
    ok(!mean_age_count(policy, 1000000) && !mean_age_advance(policy));
    mean_age_free(&policy);
}

TEST(what_no_policy_can_have_saved_is_refused)
{
    static const struct mean_age_saved bad[] = {
        { NAN, 1, 0, true, false },      { 1, NAN, 0, false, false },
        { INFINITY, 1, 0, true, false }, { -1, 1, 0, false, false },
        { 0, 5, 0, true, false },        { 5, 0, 0, true, false },
        { 1, 1e20, 0, true, false },     { 1, 1e300, 0, false, false },
    };
    struct mean_age *policy = mean_age_new(10);
    for (size_t i = 0; i < countof(bad); i++)
        ok(!mean_age_restore(policy, &bad[i]));
    ok(policy->tick_end == NEVER && policy->sampler.m1 == 0);
    ok(mean_age_restore(policy, &(struct mean_age_saved){ 1e17, 9e34, UINT64_MAX, true, true }));
    ok(!mean_age_advance(policy));
    mean_age_free(&policy);
}

RUN(cmocka_unit_test(epochs_in_random_order_are_as_in_the_model),
    cmocka_unit_test(epochs_in_shards_are_as_in_the_model),
    cmocka_unit_test(changes_of_the_data_set_are_as_in_the_model),
    cmocka_unit_test(skewed_requests_are_as_in_the_model),
    cmocka_unit_test(keys_that_never_return_are_as_in_the_model),
    cmocka_unit_test(a_set_that_shrinks_and_grows_is_as_in_the_model),
    cmocka_unit_test(pins_and_purges_are_as_in_the_model),
    cmocka_unit_test(restarts_are_as_in_the_model),
    cmocka_unit_test(touches_counted_in_bunches_cost_no_hits),
    cmocka_unit_test(threads_count_every_touch_and_share_one_tick),
    cmocka_unit_test(an_untouched_record_stays_old_when_the_byte_wraps),
    cmocka_unit_test(a_sweep_does_not_undo_a_touch_that_comes_meanwhile),
    cmocka_unit_test(a_record_that_is_read_while_its_extent_is_copied_is_kept),
    cmocka_unit_test(a_sweep_does_not_take_a_later_touch_for_an_old_one),
    cmocka_unit_test(an_old_record_stays_old_while_sweeps_are_overdue),
    cmocka_unit_test(a_dead_record_is_as_old_as_can_be_and_stays_so),
    cmocka_unit_test(a_pinned_record_counts_as_touched_now),
    cmocka_unit_test(metadata_records_have_no_age),
    cmocka_unit_test(the_younger_half_is_kept_for_hot_records),
    cmocka_unit_test(an_extent_with_holes_keeps_all_that_is_in_use),
    cmocka_unit_test(the_oldest_extent_goes_and_of_equals_the_last_one),
    cmocka_unit_test(an_extent_is_stale_above_its_limit_not_at_it),
    cmocka_unit_test(after_a_change_of_the_data_set_less_is_stale_until_few_are_old),
    cmocka_unit_test(a_cache_of_pinned_records_gives_up_nothing),
    cmocka_unit_test(a_run_of_touches_makes_a_refused_record_hot),
    cmocka_unit_test(a_slow_run_needs_more_touches_and_a_slower_one_ends),
    cmocka_unit_test(a_run_longer_than_the_ticks_byte_does_not_seem_short),
    cmocka_unit_test(every_run_that_is_not_hot_fits_an_entry),
    cmocka_unit_test(in_a_full_bucket_the_run_of_the_oldest_touch_is_lost),
    cmocka_unit_test(a_ghost_has_8_bytes_for_each_record),
    cmocka_unit_test(a_full_sample_is_halved_and_an_empty_one_doubled),
    cmocka_unit_test(hashes_that_agree_in_their_low_bits_do_not_overfill_the_sample),
    cmocka_unit_test(no_tick_passes_and_nothing_is_recycled_before_the_interval_is_known),
    cmocka_unit_test(touches_in_a_burst_are_one_touch),
    cmocka_unit_test(caches_of_no_record_and_of_one_record_work),
    cmocka_unit_test(units_of_one_object_have_hashes_of_their_own),
    cmocka_unit_test(a_restored_policy_goes_on_with_its_ticks),
    cmocka_unit_test(what_no_policy_can_have_saved_is_refused))
