/* sampler.h - time until a record is touched again. SPDX-License-Identifier: Apache-2.0
 *
 * The sampler follows a hash sample of all records that are touched, stored or not. Time is a
 * number of touches. Under the caller's lock, but for `mask`, which any thread may read. */
#ifndef STORE_SAMPLER_H
#define STORE_SAMPLER_H

#include <stdatomic.h>

#include "base/base.h"

#define SAMPLE_KEYS 1024u             /* records in the sample */
#define SAMPLE_CHAINS 2048u

/* Slot 0 is the head of the list by time of the last touch. */
struct sample {
    uint64_t hash, touched;
    uint16_t older, newer;            /* slots; in a free slot, `newer` is the next free one */
    uint16_t chain;
};

struct sampler {
    _Atomic uint64_t mask;            /* a sampled record has none of these bits in its hash */
    uint64_t burst;                   /* a touch so soon after the last one does not count */
    double m1, m2;                    /* running means of the intervals and of their squares */
    double interval;                  /* m2 / m1, called L; 0: not known yet */
    double novelty;                   /* share of first touches among the latest touches */
    uint64_t returns;                 /* touches that were not first touches */
    uint32_t count;
    uint16_t free;
    uint16_t chains[SAMPLE_CHAINS];
    struct sample samples[SAMPLE_KEYS + 2];
};

void sampler_open(struct sampler *sampler);
/* Takes in a touch of a record that is in the sample, at the time `now`. */
void sampler_touch(struct sampler *sampler, uint64_t hash, uint64_t now);

#endif
