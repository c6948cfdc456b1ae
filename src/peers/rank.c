/* rank.c - weighted rendezvous: which nodes should have a segment.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The nodes of the fleet draw for each segment (base/rendezvous.h). If a node is gone, each of its
 * segments falls to the second in the segment's own order. So the survivors share the load of that
 * node by their weights, and no other segment moves.
 *
 * All nodes must agree, whatever their versions and machines: nodes that rank differently fetch a
 * segment twice. So what is below never changes; tests/vectors/rank.txt has results that
 * tests/vectors/make_rank.py computes on its own. The hash of a place is XXH3, 64 bits. The authors
 * of xxHash promise that XXH3 returns the same on all machines, in all versions since 0.8.0. It
 * needs no context, and costs less than SipHash (store/hash.c). SipHash's key would have no use:
 * all nodes must know it, so every installation would have to have the same. A client that writes
 * objects could look for keys with the same hash, and one node would then own them all. It gains
 * nothing by that: it could as well read one object again and again.
 * Pure; any thread. */
#include "peers/rank.h"

#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "base/rendezvous.h"

static_assert(NODE_ID_BYTES == HOLDER_ID_BYTES, "a node is a holder");

/* The hash of each text is the seed of the next one. So a byte that moves from the end of one text
 * to the beginning of the next changes the result. */
static uint64_t hash_of(const struct rank_place *place)
{
    const slice texts[] = { place->endpoint, place->bucket, place->key, place->version };
    uint64_t hash = 0;
    for (size_t i = 0; i < countof(texts); i++)
        hash = XXH3_64bits_withSeed(texts[i].ptr, texts[i].len, hash);
    return rendezvous_mix(hash ^ rendezvous_mix(place->segment));
}

size_t rank_best(const struct rank_node *nodes, size_t count, const struct rank_place *place,
                 size_t ret[], size_t want)
{
    struct draw best[RANK_WANT_MAX];
    uint64_t thing = hash_of(place);
    size_t found = 0;
    check(want <= RANK_WANT_MAX);
    for (size_t i = 0; i < count; i++) {
        struct draw mine = rendezvous_draw(thing, nodes[i].id, nodes[i].weight);
        size_t at = found;
        while (at > 0 && rendezvous_wins(&mine, &best[at - 1]))
            at--;
        if (at == want)
            continue;
        found = MIN(found + 1, want);
        for (size_t j = found - 1; j > at; j--) {
            best[j] = best[j - 1];
            ret[j] = ret[j - 1];
        }
        best[at] = mine;
        ret[at] = i;
    }
    return found;
}
