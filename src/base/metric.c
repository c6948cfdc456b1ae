/* metric.c - counters, gauges and histograms. SPDX-License-Identifier: Apache-2.0
 *
 * Each thread counts in slots of its own, which its first count allocates. So a count is a plain
 * load and store, and no cache line is shared. Readers sum the slots of all threads under a lock. A
 * thread that ends adds its counts to `gone` under the same lock, so no count is lost or read
 * twice.
 * A histogram has nine log-linear steps a decade, from 1 us to 1,000 s. The exposition (the text of
 * /metrics) has the 1-2-5 bounds between 10 us and 500 s. Each of these bounds is also a bound of a
 * step, so the numbers are exact. */
#include "base/metric.h"

#include <assert.h>
#include <config.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

enum kind { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM };

enum {
#define COUNTER(id, name, labels, help)
#define GAUGE(id, name, labels, help)
#define HISTOGRAM(id, name, labels, help) INDEX_##id,
#include METRIC_DEF
#undef HISTOGRAM
    HISTOGRAM_SPARE,    /* an array must not be empty */
    HISTOGRAM_COUNT
};

static const struct row {
    enum kind kind;
    unsigned histogram;    /* index in slots.histograms; only for a histogram */
    const char *name, *labels, *help;
} rows[] = {
#undef COUNTER
#undef GAUGE
#define COUNTER(id, name, labels, help) { KIND_COUNTER, 0, name, labels, help },
#define GAUGE(id, name, labels, help) { KIND_GAUGE, 0, name, labels, help },
#define HISTOGRAM(id, name, labels, help) { KIND_HISTOGRAM, INDEX_##id, name, labels, help },
#include METRIC_DEF
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
};
static_assert(countof(rows) == METRIC_COUNT, "there is one row for each id");

static const struct family {
    const char *kind, *name, *label, *help;
} families[] = {
#define COUNTER(id, name, labels, help)
#define GAUGE(id, name, labels, help)
#define HISTOGRAM(id, name, labels, help)
#define FAMILY(id, kind, name, label, help) { kind, name, label, help },
#include METRIC_DEF
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
#undef FAMILY
    { "", "", "", "" },    /* an array must not be empty */
};

#define FIRST_NS 1000u
#define DECADES 9u
#define BUCKETS (9 * DECADES + 2)    /* the last one is for times above the last bound */

struct histogram {
    _Atomic uint64_t buckets[BUCKETS];
    _Atomic uint64_t sum_ns;
};

struct slots {
    struct list link;
    _Atomic uint64_t counters[METRIC_COUNT];
    struct histogram histograms[HISTOGRAM_COUNT];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    /* guards threads and gone */
static struct list threads = { &threads, &threads };
static struct slots gone;
static _Atomic int64_t gauges[METRIC_COUNT];
static pthread_key_t at_thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local struct slots *mine;

static uint64_t get(const _Atomic uint64_t *cell)
{
    return atomic_load_explicit(cell, memory_order_relaxed);
}

/* Call this function only for a cell with one writer: the thread that owns the slots, or the holder
 * of the lock. */
static void put(_Atomic uint64_t *cell, uint64_t by)
{
    atomic_store_explicit(cell, get(cell) + by, memory_order_relaxed);
}

static void histogram_fold(struct histogram *to, const struct histogram *from)
{
    for (size_t i = 0; i < BUCKETS; i++)
        put(&to->buckets[i], get(&from->buckets[i]));
    put(&to->sum_ns, get(&from->sum_ns));
}

static void thread_ends(void *arg)
{
    struct slots *slots = arg;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < METRIC_COUNT; i++)
        put(&gone.counters[i], get(&slots->counters[i]));
    for (size_t i = 0; i < HISTOGRAM_COUNT; i++)
        histogram_fold(&gone.histograms[i], &slots->histograms[i]);
    list_del(&slots->link);
    pthread_mutex_unlock(&lock);
    mine = NULL;    /* if a later destructor counts, this function runs again, for new slots */
    free(slots);
}

static void make_key(void)
{
    check(pthread_key_create(&at_thread_end, thread_ends) == 0);
}

static struct slots *my_slots(void)
{
    if (mine)
        return mine;
    pthread_once(&once, make_key);
    mine = must_alloc(sizeof(*mine));
    pthread_mutex_lock(&lock);
    list_add(&threads, &mine->link);
    pthread_mutex_unlock(&lock);
    pthread_setspecific(at_thread_end, mine);
    return mine;
}

void metric_add(enum metric counter, uint64_t by)
{
    check(counter < METRIC_COUNT && rows[counter].kind == KIND_COUNTER);
    put(&my_slots()->counters[counter], by);
}

void metric_set(enum metric gauge, int64_t value)
{
    check(gauge < METRIC_COUNT && rows[gauge].kind == KIND_GAUGE);
    atomic_store_explicit(&gauges[gauge], value, memory_order_relaxed);
}

void metric_gauge_add(enum metric gauge, int64_t by)
{
    check(gauge < METRIC_COUNT && rows[gauge].kind == KIND_GAUGE);
    atomic_fetch_add_explicit(&gauges[gauge], by, memory_order_relaxed);
}

/* Returns the bucket of ns. A bucket holds the times above its lower bound, up to and including its
 * upper bound. */
static size_t bucket_of(uint64_t ns)
{
    uint64_t unit = FIRST_NS;
    for (size_t decade = 0; decade < DECADES; decade++, unit *= 10)
        if (ns <= 10 * unit)
            return 9 * decade + (ns ? (ns - 1) / unit : 0);
    return BUCKETS - 1;
}

void metric_time(enum metric histogram, uint64_t ns)
{
    check(histogram < METRIC_COUNT && rows[histogram].kind == KIND_HISTOGRAM);
    struct histogram *to = &my_slots()->histograms[rows[histogram].histogram];
    put(&to->buckets[bucket_of(ns)], 1);
    put(&to->sum_ns, ns);
}

static uint64_t sum_counter(enum metric metric)
{
    uint64_t sum = get(&gone.counters[metric]);
    list_each(struct slots, slots, &threads, link)
        sum += get(&slots->counters[metric]);
    return sum;
}

static void sum_histogram(enum metric metric, struct histogram *ret)
{
    unsigned which = rows[metric].histogram;
    memset(ret, 0, sizeof(*ret));
    histogram_fold(ret, &gone.histograms[which]);
    list_each(struct slots, slots, &threads, link)
        histogram_fold(ret, &slots->histograms[which]);
}

static uint64_t histogram_count(const struct histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        count += get(&histogram->buckets[i]);
    return count;
}

uint64_t metric_read(enum metric metric)
{
    check(metric < METRIC_COUNT);
    if (rows[metric].kind == KIND_GAUGE)
        return (uint64_t)atomic_load_explicit(&gauges[metric], memory_order_relaxed);
    uint64_t value;
    pthread_mutex_lock(&lock);
    if (rows[metric].kind == KIND_COUNTER) {
        value = sum_counter(metric);
    } else {
        struct histogram sum;
        sum_histogram(metric, &sum);
        value = histogram_count(&sum);
    }
    pthread_mutex_unlock(&lock);
    return value;
}

/* ---- exposition ---- */

static void expose_value(struct text *to, const struct row *row, int64_t value, bool is_signed)
{
    text_printf(to, row->labels[0] ? "%s{%s} " : "%s%s ", row->name, row->labels);
    text_printf(to, is_signed ? "%jd\n" : "%ju\n", (intmax_t)value);
}

static void expose_histogram(struct text *to, const struct row *row, const struct histogram *sum)
{
    const char *comma = row->labels[0] ? "," : "";
    uint64_t count = 0;
    size_t next = 0;
    double decade_s = 1e-5;
    for (size_t decade = 1; decade < DECADES; decade++, decade_s *= 10) {
        for (unsigned step = 1; step <= 5; step += step == 1 ? 1 : 3) {
            for (; next < 9 * decade + step; next++)
                count += get(&sum->buckets[next]);
            text_printf(to, "%s_bucket{%s%sle=\"%.6g\"} %ju\n", row->name, row->labels, comma,
                        decade_s * step, (uintmax_t)count);
        }
    }
    uintmax_t all = histogram_count(sum);
    text_printf(to, "%s_bucket{%s%sle=\"+Inf\"} %ju\n", row->name, row->labels, comma, all);
    const char *open = row->labels[0] ? "{" : "", *close = row->labels[0] ? "}" : "";
    text_printf(to, "%s_sum%s%s%s %.9f\n", row->name, open, row->labels, close,
                (double)get(&sum->sum_ns) / 1e9);
    text_printf(to, "%s_count%s%s%s %ju\n", row->name, open, row->labels, close, all);
}

static void expose_row(struct text *to, enum metric metric)
{
    static const char *const kinds[] = { "counter", "gauge", "histogram" };
    const struct row *row = &rows[metric];
    if (metric == 0 || strcmp(row->name, rows[metric - 1].name) != 0)
        text_printf(to, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
                    kinds[row->kind]);
    if (row->kind == KIND_HISTOGRAM) {
        struct histogram sum;
        sum_histogram(metric, &sum);
        expose_histogram(to, row, &sum);
    } else if (row->kind == KIND_COUNTER) {
        expose_value(to, row, (int64_t)sum_counter(metric), false);
    } else {
        int64_t value = atomic_load_explicit(&gauges[metric], memory_order_relaxed);
        expose_value(to, row, value, true);
    }
}

/* Adds the value of a label, with the escapes of the format. */
static void add_label(struct text *to, slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        char letter = value.ptr[i];
        if (letter == '\n')
            text_add(to, S("\\n"));
        else
            text_printf(to, letter == '\\' || letter == '"' ? "\\%c" : "%c", letter);
    }
}

static void expose_head(struct text *to, const struct family *row)
{
    text_printf(to, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, row->kind);
}

static void expose_label(struct text *to, const struct family *row, slice label)
{
    text_printf(to, "%s{%s=\"", row->name, row->label);
    add_label(to, label);
    text_add(to, S("\"} "));
}

void metric_expose_family(struct text *to, enum metric_family family,
                          const struct metric_sample *samples, size_t count)
{
    check((size_t)family < METRIC_FAMILY_COUNT);
    const struct family *row = &families[family];
    expose_head(to, row);
    for (size_t i = 0; i < count; i++) {
        expose_label(to, row, samples[i].label);
        text_printf(to, "%ju\n", (uintmax_t)samples[i].value);
    }
}

void metric_expose_ratios(struct text *to, enum metric_family family,
                          const struct metric_ratio *ratios, size_t count)
{
    check((size_t)family < METRIC_FAMILY_COUNT);
    const struct family *row = &families[family];
    expose_head(to, row);
    for (size_t i = 0; i < count; i++) {
        expose_label(to, row, ratios[i].label);
        text_printf(to, "%.4f\n", ratios[i].value);
    }
}

void metrics_expose(struct text *to)
{
    text_add(to, S("# HELP penstock_build_info Version of the running Penstock, as a label; the "
                   "value is always 1\n"
                   "# TYPE penstock_build_info gauge\n"
                   "penstock_build_info{version=\"" PACKAGE_VERSION "\"} 1\n"));
    pthread_mutex_lock(&lock);
    for (unsigned metric = 0; metric < METRIC_COUNT; metric++)
        expose_row(to, (enum metric)metric);
    pthread_mutex_unlock(&lock);
}
