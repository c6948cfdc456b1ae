/* region.c - the regions of buckets, as origins reported them. SPDX-License-Identifier: Apache-2.0
 *
 * The list is short, because few buckets lie in another region than the settings say. When the list
 * is full, its oldest entry is dropped; it is learnt again if it is needed. */
#include "origin/region.h"

#include <stdio.h>
#include <stdlib.h>

#define REGIONS_MAX 1024

struct learnt {
    struct list link;
    char bucket[64], region[REGION_BYTES_MAX];
};

void regions_init(struct regions *regions)
{
    pthread_mutex_init(&regions->lock, NULL);
    list_init(&regions->list);
    regions->count = 0;
}

void regions_end(struct regions *regions)
{
    list_each_safe(struct learnt, learnt, &regions->list, link)
        free(learnt);
    pthread_mutex_destroy(&regions->lock);
}

bool region_valid(slice region)
{
    return region.len > 0 && region.len < REGION_BYTES_MAX &&
           slice_only(region, LOWER_CHARS DIGIT_CHARS "-");
}

static struct learnt *find(struct regions *regions, slice bucket)
{
    list_each(struct learnt, learnt, &regions->list, link)
        if (slice_eq(slice_of(learnt->bucket), bucket))
            return learnt;
    return NULL;
}

/* Returns the entry of a bucket, new or old; the caller writes bucket and region into it. */
static struct learnt *place(struct regions *regions, slice bucket)
{
    struct learnt *learnt = find(regions, bucket);
    if (learnt)
        return learnt;
    if (regions->count < REGIONS_MAX) {
        learnt = must_alloc(sizeof(*learnt));
        regions->count++;
    } else {
        learnt = list_of(list_take(&regions->list), struct learnt, link);
    }
    list_add(&regions->list, &learnt->link);
    return learnt;
}

void region_learn(struct regions *regions, slice bucket, slice region)
{
    if (bucket.len == 0 || bucket.len >= sizeof(((struct learnt *)NULL)->bucket))
        return;
    check(region_valid(region));
    pthread_mutex_lock(&regions->lock);
    struct learnt *learnt = place(regions, bucket);
    snprintf(learnt->bucket, sizeof(learnt->bucket), "%.*s", SLICE_ARG(bucket));
    snprintf(learnt->region, sizeof(learnt->region), "%.*s", SLICE_ARG(region));
    pthread_mutex_unlock(&regions->lock);
}

bool region_get(struct regions *regions, slice bucket, slice otherwise, char ret[REGION_BYTES_MAX])
{
    pthread_mutex_lock(&regions->lock);
    struct learnt *learnt = find(regions, bucket);
    slice region = learnt ? slice_of(learnt->region) : otherwise;
    snprintf(ret, REGION_BYTES_MAX, "%.*s", SLICE_ARG(region));
    pthread_mutex_unlock(&regions->lock);
    return learnt != NULL;
}
