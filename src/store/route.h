/* route.h - which volume has which part of an object. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROUTE_H
#define STORE_ROUTE_H

#include "store/metadata.h"

#define VOLUMES_MAX 64u               /* H8: the most volumes of an installation */
#define VOLUME_ID_BYTES 16u
#define STRIPE_UNITS 512u             /* units of an object that lie in the same volume: 64 MiB */

/* A volume, as far as the route needs it. No member ever changes. Weight 0 has no share. */
struct route_row {
    uint8_t id[VOLUME_ID_BYTES];
    uint64_t weight;                  /* its share of all objects is weight / sum of weights */
};

/* Returns the row of the volume with this id, if it has a share, or NULL. */
const struct route_row *route_find(const struct route_row *rows, size_t count,
                                   const uint8_t id[VOLUME_ID_BYTES]);
/* Returns the index of the row that has this stripe of the object. The result depends on the set of
 * rows, and not on their order. */
size_t route_home(const struct route_row *rows, size_t count, const struct object_id *id,
                  uint32_t stripe) MUST_USE;

#endif
