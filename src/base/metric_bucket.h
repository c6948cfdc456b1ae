/* metric_bucket.h - counters by bucket, with a bound on the number of labels.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A bucket gets a number when it is first counted. Only buckets that an origin has confirmed may be
 * counted, so that no client makes up labels. /metrics shows the 100 largest buckets with a label
 * each, and all other buckets together as "other". The size of a bucket is the number of its bytes
 * that clients got, plus the number of its bytes that are cached. When 100 buckets have labels,
 * another bucket replaces the smallest of them only if it is more than twice as large. So labels
 * rarely change. Counts from before a bucket got its label stay in "other", so that the counters of
 * "other" never fall.
 *
 * Each thread counts in memory of its own, as in metric.c. Any thread may call these functions. */
#ifndef BASE_METRIC_BUCKET_H
#define BASE_METRIC_BUCKET_H

#include "base/metric.h"

#define METRIC_BUCKETS_MAX 4096u      /* later ones count in "other" (rule H8 in src/README.md) */
#define METRIC_BUCKET_LABELS 100u

enum bucket_counter {
    BUCKET_READS, BUCKET_HITS, BUCKET_BYTES, BUCKET_CACHE_BYTES, BUCKET_PEERS_BYTES,
    BUCKET_EVICTED_BYTES,
    BUCKET_COUNTERS
};

/* Returns the number of a bucket, which never changes; 0: there are too many buckets. Takes no
 * lock, except for a bucket that has no number yet. */
uint32_t metric_bucket(slice name) MUST_USE;
void metric_bucket_add(uint32_t number, enum bucket_counter counter, uint64_t by);

/* The part of the cache that a bucket has now. */
struct bucket_holds {
    uint64_t bytes, objects;
};
/* Writes the families of all buckets, in Prometheus text. `holds` has METRIC_BUCKETS_MAX rows, and
 * the number of a bucket is the index of its row. Row 0 is for records whose bucket is not
 * known. */
void metric_buckets_expose(struct text *to, const struct bucket_holds *holds);

#endif
