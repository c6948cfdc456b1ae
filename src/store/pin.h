/* pin.h - keeps objects in the cache, by a prefix of their names.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Cached objects of a pinned prefix stay, and objects that are stored later stay, too, within the
 * budget of each volume (store_options.pin_percent). Functions may wait for disks, so they must not
 * run on a loop, unless a comment says otherwise. */
#ifndef STORE_PIN_H
#define STORE_PIN_H

#include "store/pins.h"
#include "store/route.h"
#include "store/store.h"

struct pin_name {
    slice endpoint, bucket, prefix;   /* prefix: the beginning of the key; may be empty */
};

/* Pins or unpins these prefixes, at most PIN_NAMES_MAX. After OK, each volume in service has the
 * new table on its disk, and its records are pinned or not accordingly. *ret_changed: at least one
 * prefix has changed. Returns OK; ERR_LIMIT if there are PREFIX_ROWS_MAX pins; ERR_IO if no volume
 * could write the table, so nothing has changed; or ERR_STOPPING. */
#define PIN_NAMES_MAX 64u
enum err store_pin(struct store *store, const struct pin_name *names, size_t count, bool pinned,
                   bool *ret_changed) MUST_USE;
/* To be called at the stop: from now on, store_pin does not wait for a pass that still runs, and
 * returns ERR_STOPPING. Never waits. */
void store_pin_end(struct store *store);
/* The volumes, in the order of the settings, that do not have the present pins on their disks. */
void store_pins_missing(struct store *store, bool ret[VOLUMES_MAX]);

/* The pins of a bucket that begin with name->prefix, as prefixes of keys (pins.h); in keep. This
 * function and the next two wait for nothing. */
size_t store_pins(struct store *store, const struct pin_name *name, struct arena *keep,
                  struct pins_row **ret);
/* Returns the endpoints with a pin of the bucket that begins with `prefix`; if `whole`, that is
 * `prefix`. In keep. */
size_t store_pin_endpoints(struct store *store, slice bucket, slice prefix, bool whole,
                           struct arena *keep, slice **ret);
struct pin_bytes {
    uint64_t pinned, budget;          /* the weight of pinned records on the disks, and its limit */
};
void store_pin_bytes(struct store *store, struct pin_bytes *ret);

#endif
