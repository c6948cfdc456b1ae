/* installation.h - what the cache folders of one Penstock have in common.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_INSTALLATION_H
#define STORE_INSTALLATION_H

#include "store/ban_list.h"
#include "store/folder.h"
#include "store/runs.h"
#include "store/tallies.h"

struct installation {
    uint8_t secret[STORE_SECRET_BYTES];    /* never changes */
    /* The folders of the route, in the order of the settings. A weight of 0: the folder is
     * not of this installation, and has no share. */
    struct route_row route[VOLUMES_MAX];
    size_t count;
    struct route_row list[VOLUMES_MAX];    /* the rows with a weight */
    size_t list_count;
    struct runs runs;
    struct tallies *tallies;          /* made by the store */
    struct ban_list bans;             /* the purges */
};

/* Reads the format files of all folders, without their locks. */
void installation_find(struct installation *all, const struct store_folder *folders, size_t count);
/* Returns true if both lists have the same volumes with the same weights, in any order. */
bool installation_is_same_list(const struct route_row *a, size_t a_count,
                               const struct route_row *b, size_t b_count);

#endif
