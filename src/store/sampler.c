/* sampler.c - time until a record is touched again. SPDX-License-Identifier: Apache-2.0
 *
 * The result is L = m2 / m1, the sum of the squared intervals over their sum. It is the mean of the
 * interval that a random moment falls into. So it weighs each record by time and not by touches: a
 * fast job over few records, or an object that is read in pieces, does not shorten it.
 *
 * When the table is full, the sample is halved: `mask` gets one more bit. When the table is nearly
 * empty, `mask` loses a bit. A record that was not touched for 8 L leaves.
 *
 * tests/policy/mean_age.py is the model. All results are equal to its results bit by bit, so the
 * order of the operations on doubles is part of the rule. No multiplication may be fused with an
 * addition: Makefile.am has -ffp-contract=off. */
#include "store/sampler.h"

#include <assert.h>
#include <string.h>

#define REACH 8.0                     /* a record leaves when it was not touched for this many L */
#define WINDOW 8.0                    /* novelty is a mean over about count / WINDOW touches */
#define HALF_RETURNED 2u              /* L is known when half of the records have come back */
#define NEARLY_EMPTY 8u               /* an eighth of the places is taken */

void sampler_open(struct sampler *s)
{
    memset(s, 0, sizeof(*s));
    s->novelty = 1;
    s->free = 1;
    for (uint16_t i = 1; i <= SAMPLE_KEYS; i++)
        s->samples[i].newer = i + 1;
}

static uint16_t *chain_of(struct sampler *s, uint64_t hash)
{
    return &s->chains[hash >> 53];    /* the low bits are those of the mask */
}
static_assert(SAMPLE_CHAINS == 1u << (64 - 53), "a chain for each value of the high bits");

static uint16_t find(struct sampler *s, uint64_t hash)
{
    uint16_t at = *chain_of(s, hash);
    while (at && s->samples[at].hash != hash)
        at = s->samples[at].chain;
    return at;
}

static void drop(struct sampler *s, uint16_t at)
{
    struct sample *gone = &s->samples[at];
    uint16_t *link = chain_of(s, gone->hash);
    while (*link != at)
        link = &s->samples[*link].chain;
    *link = gone->chain;
    s->samples[gone->older].newer = gone->newer;
    s->samples[gone->newer].older = gone->older;
    gone->newer = s->free;
    s->free = at;
    s->count--;
}

static void add(struct sampler *s, uint64_t hash, uint64_t now)
{
    uint16_t at = s->free, newest = s->samples[0].older, *chain = chain_of(s, hash);
    check(at != 0 && at < countof(s->samples));
    s->free = s->samples[at].newer;
    s->samples[at] = (struct sample){ hash, now, newest, 0, *chain };
    s->samples[newest].newer = s->samples[0].older = at;
    *chain = at;
    s->count++;
}

/* Adds an interval between two touches of a record to the means. */
static void learn(struct sampler *s, double gap, uint32_t others)
{
    s->returns++;
    double weight = MAX(1.0 / others, 1.0 / (double)s->returns);
    s->m1 += weight * (gap - s->m1);
    s->m2 += weight * (gap * gap - s->m2);
    if (s->interval > 0 || HALF_RETURNED * s->returns > others)
        s->interval = s->m2 / s->m1;
}

static void set_mask(struct sampler *s, uint64_t mask)
{
    atomic_store_explicit(&s->mask, mask, memory_order_relaxed);
}

static void halve(struct sampler *s, uint64_t mask)
{
    set_mask(s, mask);
    for (uint16_t at = s->samples[0].newer, next; at; at = next) {
        next = s->samples[at].newer;
        if (s->samples[at].hash & mask)
            drop(s, at);
    }
}

static void adapt(struct sampler *s)
{
    uint64_t mask = atomic_load_explicit(&s->mask, memory_order_relaxed);
    while (s->count > SAMPLE_KEYS)
        halve(s, mask = mask << 1 | 1);
    if (mask && s->count < SAMPLE_KEYS / NEARLY_EMPTY && s->returns > SAMPLE_KEYS) {
        set_mask(s, mask >> 1);
        s->returns = SAMPLE_KEYS / 2;
    }
}

void sampler_touch(struct sampler *s, uint64_t hash, uint64_t now)
{
    uint16_t at = find(s, hash);
    uint64_t gap = at ? now - s->samples[at].touched : 0;
    if (at && gap <= s->burst)
        return;
    if (at)
        drop(s, at);
    uint32_t others = MAX(1u, s->count);
    s->novelty += ((at ? 0.0 : 1.0) - s->novelty) * MIN(1.0, WINDOW / others);
    if (at)
        learn(s, (double)gap, others);
    add(s, hash, now);
    while (s->interval > 0 &&
           (double)(now - s->samples[s->samples[0].newer].touched) > REACH * s->interval)
        drop(s, s->samples[0].newer);
    adapt(s);
}
