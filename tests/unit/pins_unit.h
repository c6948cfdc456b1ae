/* pins_unit.h - pins and pinned objects, for tests. SPDX-License-Identifier: Apache-2.0 */
#ifndef PINS_UNIT_H
#define PINS_UNIT_H

#include "store_unit.h"

#include "store/inside.h"
#include "store/pin.h"
#include "store/pinned.h"

#define EXTENT (4 * MIB)
#define SIZE (64 * MIB)

__attribute__((unused)) static struct unit_store open_with(unsigned percent)
{
    struct unit_store unit;
    struct store_options options = options_of(SIZE, EXTENT);
    options.pin_percent = percent;
    ok(unit_try(&unit, options) == OK);
    return unit;
}

__attribute__((unused)) static bool pin(struct unit_store *unit, const char *prefix, bool pinned)
{
    struct pin_name name = { S("http://origin"), S("bucket"), slice_of(prefix) };
    bool changed;
    ok(store_pin(unit->store, &name, 1, pinned, &changed) == OK);
    return changed;
}

#define AT_ONCE 20

/* A record waits for room for a few seconds, which may not be enough on a slow machine. */
__attribute__((unused)) static bool put_again(struct unit_store *unit, const char *key,
                                              uint64_t size)
{
    enum err e = ERR_FULL;
    for (int i = 0; i < 20 && e == ERR_FULL; i++)
        e = put_object(unit, key, "\"1\"", size);
    return e == OK;
}

__attribute__((unused)) static void put_many(struct unit_store *unit, const char *prefix,
                                             int count, uint64_t size)
{
    char keys[AT_ONCE][40];
    struct unit_put puts[AT_ONCE];
    for (int i = 0; i < count; i += AT_ONCE) {
        int end = MIN(count - i, AT_ONCE);
        for (int k = 0; k < end; k++) {
            snprintf(keys[k], sizeof(keys[k]), "%s%d", prefix, i + k);
            puts[k] = put_begin(unit, keys[k], "\"1\"", size);
        }
        for (int k = 0; k < end; k++)
            ok(put_wait(&puts[k]) == OK || put_again(unit, keys[k], size));
    }
}

__attribute__((unused)) static int count_many(struct unit_store *unit, const char *prefix,
                                              int count, uint64_t size)
{
    char key[40];
    int found = 0;
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "%s%d", prefix, i);
        found += has_object(unit, key, "\"1\"", size);
    }
    return found;
}

__attribute__((unused)) static struct pin_bytes weight(struct unit_store *unit)
{
    struct pin_bytes bytes;
    store_pin_bytes(unit->store, &bytes);
    return bytes;
}

/* Sets `key` to a name below `prefix` whose metadata and first stripe lie in this volume. */
__attribute__((unused)) static void key_in(struct unit_store *unit, size_t volume,
                                           const char *prefix, char key[40])
{
    struct object_id id;
    for (int i = 0;; i++) {
        snprintf(key, 40, "%s%d", prefix, i);
        struct object_name name = name_of(key);
        store_object_id(unit->store, &name, &id);
        if (store_home(unit->store, &id) == unit->store->volumes[volume])
            return;
    }
}

/* Sets `key` to a name below `prefix` whose metadata lies in the second volume, and whose second
 * stripe lies in the first one. */
__attribute__((unused)) static void key_of_both(struct unit_store *unit, const char *prefix,
                                                char key[40])
{
    struct object_id id;
    for (int i = 0;; i++) {
        snprintf(key, 40, "%s%d", prefix, i);
        struct object_name name = name_of(key);
        store_object_id(unit->store, &name, &id);
        if (store_home(unit->store, &id) == unit->store->volumes[1] &&
            store_home_of_unit(unit->store, &id, STRIPE_UNITS) == unit->store->volumes[0])
            return;
    }
}

__attribute__((unused)) static bool must_stay(struct unit_store *unit, struct volume *volume,
                                              const char *key, uint32_t number)
{
    struct object_name name = name_of(key);
    struct object_id id;
    struct entry entry;
    store_object_id(unit->store, &name, &id);
    ok(find_unit(volume->index, &id, number, &entry) == OK);
    struct extent *extent = extent_ref(volume->extents, entry.extent);
    bool stays = ages_must_stay(extent_ages_of(extent), entry.ordinal);
    extent_release(&extent);
    return stays;
}

__attribute__((unused)) static uint64_t turns(struct volume *volume)
{
    pthread_mutex_lock(&volume->pinned.lock);
    uint64_t turns = volume->pinned.turns;
    pthread_mutex_unlock(&volume->pinned.lock);
    return turns;
}

__attribute__((unused)) static bool is_out(struct volume *volume)
{
    return !atomic_load(&volume->service.open) && atomic_load(&volume->service.faults) == 1;
}

__attribute__((unused)) static void take_away(const char *path)
{
    char moved[100];
    snprintf(moved, sizeof(moved), "%s-gone", path);
    ok(rename(path, moved) == 0);
    ok(symlink("nowhere/at/all", path) == 0);    /* nor can it be made */
}

__attribute__((unused)) static void bring_back(const char *path)
{
    char moved[100];
    snprintf(moved, sizeof(moved), "%s-gone", path);
    ok(unlink(path) == 0 && rename(moved, path) == 0);
}

#endif
