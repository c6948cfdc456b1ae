/* metric.h - counters, gauges and histograms. SPDX-License-Identifier: Apache-2.0
 *
 * Each metric is a row in metric.def: KIND(id, name, labels, help). Counters and histograms are
 * counted in memory of each thread, which no other thread writes, and summed when they are read. A
 * gauge is one atomic variable. Labels are part of the row, except in a family: its label has
 * values that are known only at run time, such as the names of buckets. Any thread may call these
 * functions. */
#ifndef BASE_METRIC_H
#define BASE_METRIC_H

#include "base/arena.h"

#ifndef METRIC_DEF    /* a test of metric.c has rows of its own */
#define METRIC_DEF "base/metric.def"
#endif

enum metric {
#define COUNTER(id, name, labels, help) id,
#define GAUGE(id, name, labels, help) id,
#define HISTOGRAM(id, name, labels, help) id,
#include METRIC_DEF
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
    METRIC_COUNT
};

enum metric_family {
#define COUNTER(id, name, labels, help)
#define GAUGE(id, name, labels, help)
#define HISTOGRAM(id, name, labels, help)
#define FAMILY(id, kind, name, label, help) id,
#include METRIC_DEF
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
#undef FAMILY
    METRIC_FAMILY_COUNT
};

void metric_add(enum metric counter, uint64_t by);
void metric_set(enum metric gauge, int64_t value);
void metric_gauge_add(enum metric gauge, int64_t by);
void metric_time(enum metric histogram, uint64_t ns);    /* exposed in seconds */

/* Returns the value of a counter or gauge, or the number of measurements in a histogram. */
uint64_t metric_read(enum metric metric);
/* Writes all metrics but families, in Prometheus text. */
void metrics_expose(struct text *to);
/* Writes one family, with a sample for each value of its label. */
struct metric_sample {
    slice label;                           /* any text */
    uint64_t value;
};
void metric_expose_family(struct text *to, enum metric_family family,
                          const struct metric_sample *samples, size_t count);
/* The same for a family of ratios. */
struct metric_ratio {
    slice label;
    double value;
};
void metric_expose_ratios(struct text *to, enum metric_family family,
                          const struct metric_ratio *ratios, size_t count);

#endif
