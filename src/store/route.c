/* route.c - weighted rendezvous: which volume has which part of an object.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The volumes of the installation draw for each stripe of an object (base/rendezvous.h). The result
 * says where bytes lie on disk, so it never changes. Pure; any thread. */
#include "store/route.h"

#include <assert.h>
#include <string.h>

#include "base/rendezvous.h"

static_assert(VOLUME_ID_BYTES == HOLDER_ID_BYTES, "a volume is a holder");
static_assert(sizeof(struct object_id) == 12, "an id is read as one number of 64 bits and one of 32");

const struct route_row *route_find(const struct route_row *rows, size_t count,
                                   const uint8_t id[VOLUME_ID_BYTES])
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].weight && memcmp(rows[i].id, id, VOLUME_ID_BYTES) == 0)
            return &rows[i];
    return NULL;
}

size_t route_home(const struct route_row *rows, size_t count, const struct object_id *id,
                  uint32_t stripe)
{
    uint64_t low;
    uint32_t high;
    size_t home = 0;
    check(count > 0);
    if (count == 1)
        return 0;
    memcpy(&low, id->bytes, sizeof(low));
    memcpy(&high, id->bytes + sizeof(low), sizeof(high));
    uint64_t thing = rendezvous_mix(low ^ rendezvous_mix((uint64_t)high << 32 | stripe));
    struct draw best = { 0 };
    for (size_t i = 0; i < count; i++) {
        struct draw mine = rendezvous_draw(thing, rows[i].id, rows[i].weight);
        if (i == 0 || rendezvous_wins(&mine, &best)) {
            best = mine;
            home = i;
        }
    }
    return home;
}
