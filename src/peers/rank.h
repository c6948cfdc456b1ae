/* rank.h - which nodes of the fleet should have a segment. SPDX-License-Identifier: Apache-2.0
 *
 * Each segment of each version of an object has an order of all nodes. The first node is the owner:
 * the other nodes ask it for the segment before they ask the origin. */
#ifndef PEERS_RANK_H
#define PEERS_RANK_H

#include "base/slice.h"

#define PEERS_SEGMENT_BYTES (8 * MIB)
#define NODE_ID_BYTES 16u
#define NODE_WEIGHT_MAX 1000u
#define RANK_WANT_MAX 16u             /* the most nodes that rank_best returns */

struct rank_node {
    uint8_t id[NODE_ID_BYTES];        /* of the installation; all ids of a list differ */
    uint32_t weight;                  /* 1 to NODE_WEIGHT_MAX; share: weight / all weights */
};

/* A segment of an object. The texts may have any bytes; version is the version ID, or empty. */
struct rank_place {
    slice endpoint, bucket, key, version;
    uint64_t segment;                 /* offset / PEERS_SEGMENT_BYTES */
};

/* Sets ret[] to the indexes of the `want` best nodes, the best first. Returns their number, which
 * is `count` if there are fewer nodes. The nodes depend on the set of nodes, and not on their
 * order. */
size_t rank_best(const struct rank_node *nodes, size_t count, const struct rank_place *place,
                 size_t ret[], size_t want);

#endif
