/* test_metric.c - counts over threads, and how they are shown.
 * SPDX-License-Identifier: Apache-2.0 */
#define METRIC_DEF "../tests/unit/test_metric.def"    /* as seen from src */
#include "unit.h"

#include <pthread.h>

#include "base/metric.c"

#define THREADS 8
#define TIMES 10000

static void *count_much(void *arg)
{
    for (uint64_t i = 1; i <= TIMES; i++) {
        metric_add(M_HIT, 1);
        metric_add(M_MISS, i);
        metric_gauge_add(M_OPEN, i % 2 ? 1 : -1);
        metric_time(M_READ, i * 1000);
    }
    return NULL;
}

static void *read_much(void *arg)
{
    uint64_t last = 0;
    for (int i = 0; i < 2000; i++) {
        uint64_t now = metric_read(M_PLAIN);
        check(now >= last);
        last = now;
    }
    return NULL;
}

TEST(threads_come_and_go_and_every_count_stays)
{
    uint64_t hits = metric_read(M_HIT), misses = metric_read(M_MISS), reads = metric_read(M_READ);
    for (int round = 0; round < 3; round++) {
        pthread_t threads_of_round[THREADS];
        for (int i = 0; i < THREADS; i++)
            ok(pthread_create(&threads_of_round[i], NULL, count_much, NULL) == 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads_of_round[i], NULL);
    }
    ok(metric_read(M_HIT) - hits == 3 * THREADS * TIMES);
    ok(metric_read(M_MISS) - misses == 3ull * THREADS * TIMES * (TIMES + 1) / 2);
    ok(metric_read(M_READ) - reads == 3 * THREADS * TIMES);
    ok(metric_read(M_OPEN) == 0);
    ok(list_empty(&threads) || threads.next->next == &threads);    /* this thread's at most */
}

TEST(a_reader_never_sees_a_count_go_down_while_threads_end)
{
    pthread_t reader;
    ok(pthread_create(&reader, NULL, read_much, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        ok(pthread_create(&thread, NULL, count_much, NULL) == 0);
        metric_add(M_PLAIN, 1);
        pthread_join(thread, NULL);
    }
    pthread_join(reader, NULL);
}

TEST(a_bucket_holds_what_is_at_most_its_bound)
{
    ok(bucket_of(0) == 0 && bucket_of(1000) == 0 && bucket_of(1001) == 1);
    ok(bucket_of(9001) == 9 && bucket_of(10000) == 9 && bucket_of(10001) == 10);
    ok(bucket_of(20000) == 10 && bucket_of(20001) == 11);
    ok(bucket_of(1000000000000) == BUCKETS - 2 && bucket_of(1000000000001) == BUCKETS - 1);
    size_t last = 0;
    for (uint64_t ns = 1; ns < UINT64_MAX / 3; ns = ns * 3 / 2 + 1) {
        ok(bucket_of(ns) >= last && bucket_of(ns) < BUCKETS);
        last = bucket_of(ns);
    }
}

/* The line of `name` in the exposition; empty if there is none. */
static slice value_of(slice page, const char *name)
{
    slice wanted = slice_of(name);
    while (page.ptr) {
        slice line = slice_cut(&page, '\n');
        if (slice_starts(line, wanted) && line.len > wanted.len && line.ptr[wanted.len] == ' ')
            return slice_from(line, wanted.len + 1);
    }
    return S("");
}

static slice shown(struct arena *arena)
{
    struct text text = text_in(arena);
    metrics_expose(&text);
    return text_slice(&text);
}

TEST(a_histogram_is_shown_in_seconds_with_exact_bounds)
{
    struct arena arena = { 0 };
    metric_time(M_WAIT, 10000);             /* 10 us: the first bound */
    metric_time(M_WAIT, 20001);             /* just beyond 20 us */
    metric_time(M_WAIT, 50000000);          /* 50 ms */
    metric_time(M_WAIT, 4000000000000);     /* beyond every bound */
    slice page = shown(&arena);
    same(value_of(page, "test_wait_seconds_bucket{le=\"1e-05\"}"), S("1"));
    same(value_of(page, "test_wait_seconds_bucket{le=\"2e-05\"}"), S("1"));
    same(value_of(page, "test_wait_seconds_bucket{le=\"5e-05\"}"), S("2"));
    same(value_of(page, "test_wait_seconds_bucket{le=\"0.02\"}"), S("2"));
    same(value_of(page, "test_wait_seconds_bucket{le=\"0.05\"}"), S("3"));
    same(value_of(page, "test_wait_seconds_bucket{le=\"500\"}"), S("3"));
    same(value_of(page, "test_wait_seconds_bucket{le=\"+Inf\"}"), S("4"));
    same(value_of(page, "test_wait_seconds_count"), S("4"));
    same(value_of(page, "test_wait_seconds_sum"), S("4000.050030001"));
    ok(metric_read(M_WAIT) == 4);
    arena_free(&arena);
}

static slice family(slice name)
{
    static const char *const tails[] = { "_bucket", "_sum", "_count" };
    for (size_t i = 0; i < countof(tails); i++)
        if (slice_ends(name, slice_of(tails[i])))
            return slice_sub(name, 0, name.len - strlen(tails[i]));
    return name;
}

/* What promtool looks for first: HELP, TYPE, then samples of that name, once a name. */
TEST(the_exposition_passes_a_small_parser)
{
    struct arena arena = { 0 };
    metric_set(M_OPEN, -3);
    slice page = shown(&arena), rest = page, name = S("");
    ok(slice_ends(page, S("\n")));
    size_t names = 0, samples = 0;
    while (rest.len) {
        slice line = slice_cut(&rest, '\n');
        if (slice_starts(line, S("# HELP "))) {
            line = slice_from(line, 7);
            name = slice_cut(&line, ' ');
            ok(line.len > 0);
            slice type = slice_cut(&rest, '\n');
            ok(slice_starts(type, S("# TYPE ")));
            type = slice_from(type, 7);
            same(slice_cut(&type, ' '), name);
            ok(slice_eq(type, S("counter")) == slice_ends(name, S("_total")));
            names++;
            continue;
        }
        slice left = slice_cut(&line, ' ');
        char *end;
        strtod(line.ptr, &end);
        ok(line.len && end == line.ptr + line.len);
        same(family(slice_cut(&left, '{')), name);
        ok(left.ptr == NULL || slice_ends(left, S("\"}")));
        samples++;
    }
    ok(names == 6 && samples == 1 + 1 + 2 + 1 + 3 * (24 + 3));
    same(value_of(page, "test_open"), S("-3"));
    same(value_of(page, "penstock_build_info{version=\"" PACKAGE_VERSION "\"}"), S("1"));
    metric_set(M_OPEN, 0);
    arena_free(&arena);
}

static const struct {
    const char *name, *labels, *help;
} real[] = {
#define COUNTER(id, name, labels, help) { name, labels, help },
#define GAUGE COUNTER
#define HISTOGRAM COUNTER
#include "base/metric.def"
};

TEST(a_family_has_a_sample_for_each_label_with_escapes)
{
    struct arena keep = { 0 };
    struct text text = text_in(&keep);
    const struct metric_sample samples[] = { { S("/a"), 7 }, { S("/\"b\\\n"), 0 } };
    metric_expose_family(&text, F_DISK, samples, 2);
    same(text_slice(&text), S("# HELP test_disk_bytes Bytes by path\n"
                              "# TYPE test_disk_bytes gauge\n"
                              "test_disk_bytes{path=\"/a\"} 7\n"
                              "test_disk_bytes{path=\"/\\\"b\\\\\\n\"} 0\n"));
    arena_free(&keep);
}

TEST(rows_of_one_name_stand_together_and_no_row_is_there_twice)
{
    for (size_t i = 0; i < countof(real); i++) {
        bool first = i == 0 || strcmp(real[i].name, real[i - 1].name) != 0;
        ok(strncmp(real[i].name, "penstock_", 9) == 0 && !real[i].help[0] == !first);
        ok(!strpbrk(real[i].help, "\n\\") && !strchr(real[i].labels, '\n'));
        for (size_t j = 0; j < i; j++) {
            if (strcmp(real[i].name, real[j].name) != 0)
                continue;
            ok(strcmp(real[i].name, real[i - 1].name) == 0);
            ok(strcmp(real[i].labels, real[j].labels) != 0);
        }
    }
}

RUN(cmocka_unit_test(a_family_has_a_sample_for_each_label_with_escapes),
    cmocka_unit_test(threads_come_and_go_and_every_count_stays),
    cmocka_unit_test(a_reader_never_sees_a_count_go_down_while_threads_end),
    cmocka_unit_test(a_bucket_holds_what_is_at_most_its_bound),
    cmocka_unit_test(a_histogram_is_shown_in_seconds_with_exact_bounds),
    cmocka_unit_test(the_exposition_passes_a_small_parser),
    cmocka_unit_test(rows_of_one_name_stand_together_and_no_row_is_there_twice))
