/* region.h - the regions of buckets, as origins reported them. Any thread may call these functions.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ORIGIN_REGION_H
#define ORIGIN_REGION_H

#include <pthread.h>

#include "base/list.h"
#include "base/slice.h"

#define REGION_BYTES_MAX 64

struct regions {                    /* belongs to one origin */
    pthread_mutex_t lock;
    struct list list;               /* the oldest first */
    size_t count;
};

void regions_init(struct regions *regions);
void regions_end(struct regions *regions);
bool region_valid(slice region) MUST_USE;    /* strict, as a region becomes part of a host name */
void region_learn(struct regions *regions, slice bucket, slice region);
/* Copies the region of the bucket to ret. Returns false if no region was learnt; then ret is
 * `otherwise`. */
bool region_get(struct regions *regions, slice bucket, slice otherwise, char ret[REGION_BYTES_MAX]);

#endif
