/* pin_walk.h - one search for the records to pin (pin_pass.c). SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_PIN_WALK_H
#define STORE_PIN_WALK_H

#include "store/inside.h"
#include "store/pinned.h"
#include "store/volume_rows.h"

struct pin_walk {
    struct store *store;
    struct volume_rows rows;          /* of the volume that is being read */
    struct pins_row *pins;            /* the table when the walk began, in keep */
    size_t pin_count;
    uint64_t *serials;                /* of the pins, in ascending order: the place is the rank */
    uint64_t *buckets;                /* the hashes of the pins' buckets, in ascending order */
    struct pin_part parts[VOLUMES_MAX];
    struct arena keep;
    uint32_t unread;                  /* extents */
    bool lacks_folder;                /* some folder takes no part, so its names are not known */
    bool again;                       /* the second reading */
    bool was_left_out[VOLUMES_MAX];   /* pinned_is_left_out, when the walk began */
    _Atomic uint64_t moved_ms;        /* time of the latest progress */
    pthread_mutex_t lock;             /* guards the members below */
    bool stops;                       /* the walk enters no other volume, and ends soon */
    size_t at;                        /* the volume whose disk the walk may wait for */
    bool takes_part[VOLUMES_MAX];
    uint64_t rounds[VOLUMES_MAX];     /* of pinned_begin */
};

/* Makes the walk through all volumes but the skipped ones: sets the bits of the records to pin, and
 * lets the recyclers work again. May hang with the disk of one volume. */
void pin_walk(struct pin_walk *walk, const bool skip[VOLUMES_MAX]);
/* Lets the walk end soon. From then on it enters no other volume. Returns the volume that it is in.
 * Another thread. */
size_t pin_walk_stop(struct pin_walk *walk);
/* After pin_walk_stop, lets the recyclers of all other volumes work again. Never waits. Returns
 * false if this must be called again. */
bool pin_walk_give_up(struct pin_walk *walk) MUST_USE;

#endif
