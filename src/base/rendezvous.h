/* rendezvous.h - weighted rendezvous hashing: which of several holders wins a thing.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each holder draws a number for each thing, by a hash of both. The number is distributed
 * exponentially, with the holder's weight as its rate, and the lowest number wins. So each holder
 * wins a share of its weight. A holder that is added takes only the things that it wins, and a
 * holder that is removed loses only its own: all other things stay where they are. The holders of
 * store/route.c are the volumes of a store, those of peers/rank.c the nodes of a fleet.
 *
 * The result must be the same on every machine and with every compiler, because it says where bytes
 * are. So there is no floating point here. Pure; any thread. */
#ifndef BASE_RENDEZVOUS_H
#define BASE_RENDEZVOUS_H

#include "base/base.h"

#define HOLDER_ID_BYTES 16u

struct draw {
    uint64_t number, weight;
    const uint8_t *id;                /* of the holder: HOLDER_ID_BYTES */
};

/* Each bit of the value changes about half of the bits of the result (the last step of
 * MurmurHash3). */
static inline uint64_t rendezvous_mix(uint64_t value)
{
    value = (value ^ value >> 33) * 0xff51afd7ed558ccdu;
    value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53u;
    return value ^ value >> 33;
}

/* `thing` is a hash of the thing. Any weight is allowed; a draw of weight 0 never wins against
 * another weight. */
struct draw rendezvous_draw(uint64_t thing, const uint8_t id[HOLDER_ID_BYTES], uint64_t weight);
/* Returns true if `a` wins against `b`. If both are equal, the lower id wins. */
bool rendezvous_wins(const struct draw *a, const struct draw *b);

#endif
