/* test_peers_hints.c - hints: their form, and the queue that keeps them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/metric.h"
#include "peers/frame.h"
#include "peers/hints.h"

#define HOUR 3600000u

static const uint8_t anna[NODE_ID_BYTES] = "anna", bert[NODE_ID_BYTES] = "bert";

/* ---- the form ---- */

static struct hint hint_of(unsigned what, slice key, slice version)
{
    return (struct hint){ what, S("https://s3.example:443"), S("bucket"), key, version };
}

static bool is_same(const struct hint *a, const struct hint *b)
{
    return a->what == b->what && slice_eq(a->endpoint, b->endpoint) &&
           slice_eq(a->bucket, b->bucket) && slice_eq(a->key, b->key) &&
           slice_eq(a->version, b->version);
}

TEST(a_hint_is_read_as_it_was_written)
{
    const struct hint hints[] = {
        hint_of(HINT_WRITE, S("a/b \xc3\xa4"), S("")), hint_of(HINT_WRITE, S("k"), S("v1")),
        hint_of(HINT_WRITE, S(""), S("")), hint_of(HINT_WRITE | HINT_PROPERTY, S("k"), S("")),
        hint_of(HINT_WRITE | HINT_BUCKET | HINT_RIGHTS, S(""), S("")),
        hint_of(HINT_PURGE, S(""), S("")), hint_of(HINT_PURGE_KEY, S("k"), S("")),
    };
    for (size_t i = 0; i < countof(hints); i++) {
        uint8_t written[HINT_BYTES_MAX];
        struct hint got;
        ok(hint_is_valid(&hints[i]));
        slice rest = { (char *)written, hint_write(&hints[i], written) };
        ok(hint_read(&rest, &got) == OK && !rest.len && is_same(&got, &hints[i]));
    }
}

TEST(a_hint_that_makes_no_sense_is_none)
{
    char long_key[1025];
    memset(long_key, 'k', sizeof(long_key));
    const struct hint bad[] = {
        hint_of(0, S("k"), S("")), hint_of(HINT_RIGHTS, S(""), S("")),
        hint_of(HINT_WRITE | 64, S("k"), S("")), hint_of(HINT_WRITE | HINT_PURGE, S("k"), S("")),
        hint_of(HINT_WRITE | HINT_PROPERTY, S(""), S("")), hint_of(HINT_WRITE, S(""), S("v")),
        hint_of(HINT_PURGE_KEY, S(""), S("")), hint_of(HINT_PURGE, S("k"), S("v")),
        hint_of(HINT_WRITE, S("a\0b"), S("")),
        hint_of(HINT_WRITE, (slice){ long_key, sizeof(long_key) }, S("")),
        { HINT_WRITE, S(""), S("bucket"), S("k"), S("") },
        { HINT_WRITE, S("e"), S(""), S("k"), S("") },
        { HINT_WRITE, S("e"), S("b/c"), S("k"), S("") },
    };
    for (size_t i = 0; i < countof(bad); i++)
        ok(!hint_is_valid(&bad[i]));
}

static slice batch_of(struct arena *keep, uint64_t age_ms, const struct hint *hints, size_t count)
{
    struct text text = text_in(keep);
    text_add(&text, (slice){ (char *)&age_ms, sizeof(age_ms) });
    for (size_t i = 0; i < count; i++) {
        uint8_t written[HINT_BYTES_MAX];
        text_add(&text, (slice){ (char *)written, hint_write(&hints[i], written) });
    }
    return text_slice(&text);
}

TEST(a_batch_that_is_cut_anywhere_is_refused_as_a_whole)
{
    struct arena keep = { 0 };
    const struct hint hints[] = { hint_of(HINT_WRITE, S("one"), S("")),
                                  hint_of(HINT_PURGE, S("two"), S("")) };
    slice whole = batch_of(&keep, 1234, hints, 2), first = batch_of(&keep, 0, hints, 1);
    struct hint_batch got;
    ok(hint_batch_read(&keep, whole, &got) == OK && got.count == 2 && got.age_ms == 1234);
    ok(is_same(&got.hints[0], &hints[0]) && is_same(&got.hints[1], &hints[1]));
    for (size_t len = 0; len < whole.len; len++) {
        bool complete = len == sizeof(uint64_t) || len == first.len;
        ok((hint_batch_read(&keep, slice_sub(whole, 0, len), &got) == OK) == complete);
    }
    arena_free(&keep);
}

TEST(a_batch_of_too_many_hints_is_refused)
{
    struct arena keep = { 0 };
    struct hint_batch got;
    struct hint *hints = arena_alloc(&keep, (HINT_BATCH_MAX + 1) * sizeof(*hints));
    for (size_t i = 0; i <= HINT_BATCH_MAX; i++)
        hints[i] = hint_of(HINT_WRITE, S("k"), S(""));
    ok(hint_batch_read(&keep, batch_of(&keep, 0, hints, HINT_BATCH_MAX), &got) == OK);
    ok(hint_batch_read(&keep, batch_of(&keep, 0, hints, HINT_BATCH_MAX + 1), &got) != OK);
    arena_free(&keep);
}

TEST(each_flipped_bit_of_a_frame_is_noticed)
{
    struct arena keep = { 0 };
    const struct hint hint = hint_of(HINT_WRITE, S("key"), S(""));
    slice payload = batch_of(&keep, HINT_AGE_NONE, &hint, 1), got;
    uint8_t bytes[FRAME_BYTES + 200];
    size_t len = FRAME_BYTES + payload.len;
    frame_write(FRAME_HINTS, payload, 0, 0, bytes);
    memcpy(bytes + FRAME_BYTES, payload.ptr, payload.len);
    slice frame = { (char *)bytes, len };
    ok(frame_open(FRAME_HINTS, frame, &got) == OK && slice_eq(got, payload));
    ok(frame_open(FRAME_NO, frame, &got) == ERR_BAD_REQUEST);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ok(frame_open(FRAME_HINTS, frame, &got) != OK);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < len; cut++)
        ok(frame_open(FRAME_HINTS, slice_sub(frame, 0, cut), &got) != OK);
    arena_free(&keep);
}

/* ---- the queue ---- */

static const struct hints_limits small = { 10, 100000, HOUR };

static void add(struct hints *hints, unsigned number, uint64_t now_ms)
{
    char key[20];
    snprintf(key, sizeof(key), "%u", number);
    struct hint hint = hint_of(HINT_WRITE, slice_of(key), S(""));
    hints_add(hints, &hint, now_ms);
}

struct batch {
    struct arena keep;
    struct hint_batch got;
    struct hints_taken taken;
};

/* Returns the keys of the next batch as a text, such as "1 2 3"; NULL: there is none. */
static const char *next(struct hints *hints, const uint8_t *id, uint64_t now_ms, struct batch *ret)
{
    arena_free(&ret->keep);
    struct text payload = text_in(&ret->keep), keys = text_in(&ret->keep);
    bool waits = hints_wait(hints, id);
    bool some = hints_take(hints, id, now_ms, &payload, &ret->taken);
    ok(some || !waits);
    if (!some)
        return NULL;
    ok(hint_batch_read(&ret->keep, text_slice(&payload), &ret->got) == OK);
    ok(ret->got.count == ret->taken.count);
    for (size_t i = 0; i < ret->got.count; i++)
        text_printf(&keys, "%s%.*s", i ? " " : "", SLICE_ARG(ret->got.hints[i].key));
    text_char(&keys, '\0');
    return keys.ptr;
}

static void take_all(struct hints *hints, const uint8_t *id, uint64_t now_ms)
{
    struct batch batch = { 0 };
    while (next(hints, id, now_ms, &batch))
        hints_followed(hints, id, &batch.taken);
    arena_free(&batch.keep);
}

static uint64_t kept(void) { return (uint64_t)metric_read(M_HINTS_KEPT); }

TEST(every_node_gets_every_hint_in_order)
{
    struct batch batch = { 0 };
    struct hints *hints = hints_new(&small);
    ok(!hints_wait(hints, anna) && !next(hints, anna, 1, &batch));
    add(hints, 1, 1000);
    add(hints, 2, 1000);
    ok(strcmp(next(hints, anna, 1000, &batch), "1 2") == 0 && batch.got.age_ms == HINT_AGE_NONE);
    ok(strcmp(next(hints, anna, 1000, &batch), "1 2") == 0);    /* it was not followed */
    hints_followed(hints, anna, &batch.taken);
    ok(!next(hints, anna, 1000, &batch));
    add(hints, 3, 1000);
    ok(strcmp(next(hints, anna, 1000, &batch), "3") == 0);
    hints_followed(hints, anna, &batch.taken);
    arena_free(&batch.keep);
    hints_free(&hints);
}

TEST(what_all_nodes_have_is_dropped)
{
    struct batch batch = { 0 };
    struct hints *hints = hints_new(&small);
    hints_inherit(hints, (const uint8_t (*)[NODE_ID_BYTES])anna, 1, 1);
    add(hints, 1, 1000);
    take_all(hints, anna, 2000);
    add(hints, 2, 3000);
    ok(kept() == 1);
    ok(strcmp(next(hints, bert, 4000, &batch), "2") == 0);    /* it is new, and may have missed 1 */
    ok(batch.got.age_ms == 3000);
    hints_followed(hints, bert, &batch.taken);
    ok(kept() == 1);
    take_all(hints, anna, 5000);
    ok(kept() == 0 && metric_read(M_HINTS_BYTES) == 0);
    arena_free(&batch.keep);
    hints_free(&hints);
}

TEST(hints_are_kept_for_a_node_from_when_it_is_known)
{
    struct batch batch = { 0 };
    struct hints *hints = hints_new(&small);
    add(hints, 1, 1000);
    take_all(hints, anna, 1000);    /* 1 is dropped */
    hints_meet(hints, bert);
    add(hints, 2, 5000);
    take_all(hints, anna, 5000);
    ok(strcmp(next(hints, bert, 6000, &batch), "2") == 0 && batch.got.age_ms == 5000);
    add(hints, 3, 7000);            /* ... and while its first batch is on its way */
    take_all(hints, anna, 7000);
    hints_followed(hints, bert, &batch.taken);
    ok(strcmp(next(hints, bert, 8000, &batch), "3") == 0 && batch.got.age_ms == HINT_AGE_NONE);
    hints_followed(hints, bert, &batch.taken);
    ok(kept() == 0);
    arena_free(&batch.keep);
    hints_free(&hints);
}

TEST(a_full_queue_drops_the_oldest_and_the_node_learns_their_age)
{
    struct batch batch = { 0 };
    struct hints *hints = hints_new(&small);
    add(hints, 0, 1000);
    ok(strcmp(next(hints, anna, 1000, &batch), "0") == 0);    /* anna is known, and gone */
    for (unsigned i = 1; i <= 12; i++)
        add(hints, i, 1000 * i);
    ok(kept() == 10);
    uint64_t lost = metric_read(M_HINTS_LOST);
    ok(strcmp(next(hints, anna, 20000, &batch), "3 4 5 6 7 8 9 10 11 12") == 0);
    ok(batch.got.age_ms == 18000 && metric_read(M_HINTS_LOST) == lost + 3);
    ok(next(hints, anna, 21000, &batch) && batch.got.age_ms == 19000);    /* until it is followed */
    hints_followed(hints, anna, &batch.taken);
    add(hints, 13, 22000);
    ok(strcmp(next(hints, anna, 22000, &batch), "13") == 0 && batch.got.age_ms == HINT_AGE_NONE);
    arena_free(&batch.keep);
    hints_free(&hints);
}

TEST(what_is_lost_while_a_batch_is_on_its_way_is_told_with_the_next)
{
    struct batch batch = { 0 };
    struct hints *hints = hints_new(&small);
    add(hints, 0, 1000);
    ok(next(hints, anna, 1000, &batch));
    for (unsigned i = 1; i <= 10; i++)
        add(hints, i, 1000 + i);
    ok(next(hints, anna, 2000, &batch) && batch.got.age_ms == 1000);
    struct hints_taken taken = batch.taken;
    for (unsigned i = 11; i <= 30; i++)
        add(hints, i, 2000 + i);
    hints_followed(hints, anna, &taken);
    ok(strcmp(next(hints, anna, 3000, &batch), "21 22 23 24 25 26 27 28 29 30") == 0);
    ok(batch.got.age_ms == 3000 - 2020);
    arena_free(&batch.keep);
    hints_free(&hints);
}

TEST(the_queue_has_a_limit_of_bytes)
{
    struct hints_limits limits = { 1000, 5000, HOUR };
    struct hints *hints = hints_new(&limits);
    for (unsigned i = 0; i < 1000; i++) {
        add(hints, i, 1000);
        ok(metric_read(M_HINTS_BYTES) <= 5000);
    }
    ok(kept() > 50 && kept() < 200);
    hints_free(&hints);
    ok(kept() == 0 && metric_read(M_HINTS_BYTES) == 0);
}

TEST(a_hint_is_kept_for_an_hour)
{
    struct batch batch = { 0 };
    struct hints *hints = hints_new(&small);
    add(hints, 1, 1000);
    ok(next(hints, anna, 1000, &batch));
    add(hints, 2, 2000);
    ok(strcmp(next(hints, anna, HOUR + 1000, &batch), "2") == 0 && batch.got.age_ms == HOUR);
    hints_followed(hints, anna, &batch.taken);
    ok(!next(hints, anna, 3 * HOUR, &batch));    /* away for long, but nothing was written */
    arena_free(&batch.keep);
    hints_free(&hints);
}

TEST(a_node_that_never_comes_back_keeps_no_hint_for_longer)
{
    struct hints *hints = hints_new(&small);
    add(hints, 1, 1000);
    take_all(hints, anna, 1000);
    take_all(hints, bert, 1000);
    for (unsigned i = 2; i < 30; i++) {
        add(hints, i, 1000 * i);
        take_all(hints, bert, 1000 * i);
    }
    ok(kept() <= 10);
    for (unsigned i = 30; i < 40; i++) {    /* anna is behind now */
        add(hints, i, 1000 * i);
        take_all(hints, bert, 1000 * i + 500);
        ok(kept() == 0);
    }
    hints_free(&hints);
}

TEST(equal_hints_that_nobody_got_yet_are_one)
{
    struct batch batch = { 0 };
    struct hints *hints = hints_new(&small);
    add(hints, 1, 1000);
    add(hints, 2, 1000);
    add(hints, 1, 1000);
    ok(strcmp(next(hints, anna, 1000, &batch), "1 2") == 0);
    add(hints, 1, 1000);    /* a write after the batch had left */
    hints_followed(hints, anna, &batch.taken);
    ok(strcmp(next(hints, anna, 1000, &batch), "1") == 0);
    arena_free(&batch.keep);
    hints_free(&hints);
}

TEST(a_large_queue_goes_in_several_batches)
{
    struct batch batch = { 0 };
    struct hints_limits limits = { 10000, 10 * MIB, HOUR };
    struct hints *hints = hints_new(&limits);
    size_t count = 0, batches = 0;
    for (unsigned i = 0; i < 2500; i++)
        add(hints, i, 1000);
    for (; next(hints, anna, 2000, &batch); batches++) {
        ok(batch.taken.full == (count + batch.taken.count < 2500));
        count += batch.taken.count;
        hints_followed(hints, anna, &batch.taken);
    }
    ok(count == 2500 && batches >= 3);
    arena_free(&batch.keep);
    hints_free(&hints);
}

TEST(after_a_crash_every_node_but_those_that_had_all_may_have_missed_some)
{
    struct batch batch = { 0 };
    struct arena keep = { 0 };
    uint8_t (*ids)[NODE_ID_BYTES];
    size_t count;
    struct hints *hints = hints_new(&small);
    ok(!hints_settled(hints, &keep, &ids, &count) && !count);    /* no hint: nothing to remember */
    hints_inherit(hints, (const uint8_t (*)[NODE_ID_BYTES])anna, 1, 1000);
    ok(!next(hints, anna, 5000, &batch));
    const char *keys = next(hints, bert, 5000, &batch);
    ok(keys && !*keys && batch.got.age_ms == 4000);
    ok(hints_settled(hints, &keep, &ids, &count) && count == 1 && !memcmp(ids[0], anna, 16));
    hints_followed(hints, bert, &batch.taken);
    ok(!next(hints, bert, 6000, &batch));
    ok(hints_settled(hints, &keep, &ids, &count) && count == 2);
    add(hints, 1, 7000);
    take_all(hints, bert, 7000);
    ok(hints_settled(hints, &keep, &ids, &count) && count == 1 && !memcmp(ids[0], bert, 16));
    arena_free(&batch.keep);
    arena_free(&keep);
    hints_free(&hints);
}

/* ---- threads ---- */

static struct {
    struct hints *hints;
    atomic_uint adding;
} shared;

static void *add_some(void *arg)
{
    unsigned first = *(unsigned *)arg;
    for (unsigned i = 0; i < 2000; i++)
        add(shared.hints, first + i, 1000 + i);
    atomic_fetch_sub(&shared.adding, 1);
    return NULL;
}

/* Returns the number of hints that this node got. */
static void *take_some(void *id)
{
    struct batch batch = { 0 };
    size_t count = 0;
    for (bool over = false, last = false; !last; last = over) {
        over = atomic_load(&shared.adding) == 0;
        while (next(shared.hints, id, 5000, &batch)) {
            count += batch.got.count;
            ok(batch.got.age_ms == HINT_AGE_NONE);
            hints_followed(shared.hints, id, &batch.taken);
        }
    }
    arena_free(&batch.keep);
    return (void *)count;
}

TEST(threads_add_and_take_at_the_same_time)
{
    struct hints_limits limits = { 100000, 100 * MIB, HOUR };
    unsigned firsts[] = { 0, 10000, 20000 };
    const uint8_t both[2][NODE_ID_BYTES] = { "anna", "bert" };
    pthread_t adders[countof(firsts)], takers[countof(both)];
    shared.hints = hints_new(&limits);
    atomic_store(&shared.adding, countof(firsts));
    hints_inherit(shared.hints, both, 2, 1);
    for (size_t i = 0; i < countof(takers); i++)
        ok(pthread_create(&takers[i], NULL, take_some, (void *)both[i]) == 0);
    for (size_t i = 0; i < countof(adders); i++)
        ok(pthread_create(&adders[i], NULL, add_some, &firsts[i]) == 0);
    for (size_t i = 0; i < countof(adders); i++)
        ok(pthread_join(adders[i], NULL) == 0);
    for (size_t i = 0; i < countof(takers); i++) {
        void *got;
        ok(pthread_join(takers[i], &got) == 0 && (size_t)got == 6000);
    }
    ok(kept() == 0);
    hints_free(&shared.hints);
}

TEST(the_number_of_known_nodes_is_limited)
{
    struct hints *hints = hints_new(&small);
    struct arena keep = { 0 };
    uint8_t (*ids)[NODE_ID_BYTES], id[NODE_ID_BYTES] = { 7 };
    size_t count;
    add(hints, 1, 1000);
    for (unsigned i = 0; i < 1000; i++) {
        memcpy(id + 1, &i, sizeof(i));    /* all in one chain */
        take_all(hints, id, 1000);
    }
    ok(hints_settled(hints, &keep, &ids, &count) && count == 64);
    arena_free(&keep);
    hints_free(&hints);
}

RUN(cmocka_unit_test(a_hint_is_read_as_it_was_written),
    cmocka_unit_test(a_hint_that_makes_no_sense_is_none),
    cmocka_unit_test(a_batch_that_is_cut_anywhere_is_refused_as_a_whole),
    cmocka_unit_test(a_batch_of_too_many_hints_is_refused),
    cmocka_unit_test(each_flipped_bit_of_a_frame_is_noticed),
    cmocka_unit_test(every_node_gets_every_hint_in_order),
    cmocka_unit_test(what_all_nodes_have_is_dropped),
    cmocka_unit_test(hints_are_kept_for_a_node_from_when_it_is_known),
    cmocka_unit_test(a_full_queue_drops_the_oldest_and_the_node_learns_their_age),
    cmocka_unit_test(what_is_lost_while_a_batch_is_on_its_way_is_told_with_the_next),
    cmocka_unit_test(the_queue_has_a_limit_of_bytes),
    cmocka_unit_test(a_hint_is_kept_for_an_hour),
    cmocka_unit_test(a_node_that_never_comes_back_keeps_no_hint_for_longer),
    cmocka_unit_test(equal_hints_that_nobody_got_yet_are_one),
    cmocka_unit_test(a_large_queue_goes_in_several_batches),
    cmocka_unit_test(after_a_crash_every_node_but_those_that_had_all_may_have_missed_some),
    cmocka_unit_test(threads_add_and_take_at_the_same_time),
    cmocka_unit_test(the_number_of_known_nodes_is_limited))
