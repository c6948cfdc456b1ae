/* volume.h - one cache folder in use. SPDX-License-Identifier: Apache-2.0
 *
 * A volume has a folder, its extents, its index, metadata in RAM, and threads: the committer, which
 * alone writes the index, the recycler, the watch, and, if they are needed, the scrub and the reader
 * of names (find_name.c). The store (store.h) gives each object to the volumes, and has what they
 * share. Most functions here do for one volume what the function of the same name in store.h does
 * for all of them. Threads: as in store.h. */
#ifndef STORE_VOLUME_H
#define STORE_VOLUME_H

#include "store/store.h"

struct volume;
struct installation;
struct pin_pass;
struct pins;
struct route_row;

struct volume_options {
    struct installation *installation;    /* stays as long as the volume */
    const struct route_row *self;     /* of the installation's route: this volume */
    const char *folder;
    uint64_t size_bytes, reserve_bytes;    /* these five as in store_options, for one folder */
    uint32_t extent_bytes;
    size_t metadata_bytes;
    size_t queue_bytes_max;
    uint32_t commit_ms_max;
    uint64_t scrub_ms;                /* as in store_options */
    uint64_t memory_bytes;            /* share of the process's memory; the limit for maps */
    struct pins *pins;                /* of the installation; stays as long as the volume */
    struct pin_pass *pin_pass;        /* as pins */
    unsigned pin_percent;             /* of the volume, that pinned records may take */
};

struct volume *volume_new(const struct volume_options *options) MUST_USE;
/* Tries to take the folder into service, and starts the threads, which try again. Returns OK, also
 * if the folder is out of service, or ERR_FORMAT if starting would be a mistake; the volume has no
 * threads then. *ret_why, in keep, is a sentence for people, or empty. */
enum err volume_start(struct volume *volume, struct arena *keep, slice *ret_why) MUST_USE;
/* Stops the threads. They may look into other volumes, so all volumes are stopped before the first
 * one is freed. */
void volume_stop(struct volume *volume);
/* Closes the folder and frees the volume. */
void volume_free(struct volume **volume);

void volume_names(struct volume *volume, const struct store_name *list, size_t count);
void volume_status(struct volume *volume, struct store_status *ret);
uint64_t volume_capacity(struct volume *volume);

uint32_t volume_has_units(struct volume *volume, const struct metadata *metadata, uint32_t first,
                          uint32_t count, enum store_records among);
/* Takes one from *looks for each look-up in the index, and ends at this unit when none is left. */
uint32_t volume_next_unit(struct volume *volume, const struct metadata *metadata, uint32_t first,
                          uint32_t count, enum store_records among, uint32_t *looks);
bool volume_takes(struct volume *volume);
bool volume_keeps_up(struct volume *volume);
bool volume_admits(struct volume *volume, const struct metadata *metadata, uint32_t unit,
                   bool always);
bool volume_admits_ahead(struct volume *volume, const struct metadata *metadata, uint32_t unit,
                         bool always);
/* Notes that a record was not stored because its bucket or prefix is at its quota, or has a quota and
 * is not counted yet. */
void volume_over_quota(struct volume *volume, const struct object_id *id, uint32_t unit);
bool volume_admits_metadata(struct volume *volume, const struct metadata *metadata);
enum err volume_append(struct volume *volume, struct store_append *append) MUST_USE;
void volume_remove(struct volume *volume, struct store_removal *removal);
void volume_restate(struct volume *volume, struct store_removal *removal);
bool volume_knows(struct volume *volume, const struct object_id *id,
                  const struct object_name *name);
bool volume_may_have(struct volume *volume, const struct object_id *id,
                     const struct store_versions *versions);

enum store_renewal volume_renew(struct volume *volume, const struct object_id *id,
                                const struct store_vouch *vouch);
uint32_t volume_grant(struct volume *volume, const struct object_id *id,
                      const struct metadata *only, uint32_t granted, bool forgive);
bool volume_refuse(struct volume *volume, struct store_removal *removal) MUST_USE;

#endif
