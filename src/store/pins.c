/* pins.c - which names are pinned. SPDX-License-Identifier: Apache-2.0
 *
 * The rows lie in the order of their prefixes. Each pinned row knows the longest other pinned
 * prefix of its own prefix. A name is looked up by binary search: if any pin is a prefix of the
 * name, it is the highest one that is not above the name, or one of the prefixes of that. */
#include "store/pins.h"

#include "base/metric.h"
#include "store/folder_files.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct pins {
    pthread_rwlock_t lock;            /* guards all members but the atomic ones */
    struct pin *rows;                 /* in the order of their prefixes; own copies of these */
    size_t count;
    struct pins_row *pinned;          /* the rows that are pinned */
    atomic_size_t pinned_count;
    uint64_t serial;                  /* the highest one of a row, now or earlier */
    _Atomic uint64_t version;
};

struct pins *pins_new(void)
{
    struct pins *pins = must_alloc(sizeof(*pins));
    pthread_rwlock_init(&pins->lock, NULL);
    pins->rows = must_alloc(PREFIX_ROWS_MAX * sizeof(*pins->rows));
    pins->pinned = must_alloc(PREFIX_ROWS_MAX * sizeof(*pins->pinned));
    return pins;
}

void pins_free(struct pins **pins)
{
    struct pins *mine = *pins;
    *pins = NULL;
    if (!mine)
        return;
    for (size_t i = 0; i < mine->count; i++)
        free((char *)(uintptr_t)mine->rows[i].prefix.ptr);
    free(mine->rows);
    free(mine->pinned);
    pthread_rwlock_destroy(&mine->lock);
    free(mine);
}

/* ---- order ---- */

size_t pins_find(const struct pins_row *rows, size_t count, slice name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (slice_cmp(rows[middle].prefix, name) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    size_t at = low ? low - 1 : PINS_NONE;
    while (at != PINS_NONE && !slice_starts(name, rows[at].prefix))
        at = rows[at].up;
    return at;
}

/* Adds a prefix that is above all others. */
static void add_last(struct pins_row *rows, size_t *count, slice prefix, uint64_t serial)
{
    size_t up = pins_find(rows, *count, prefix);
    rows[(*count)++] = (struct pins_row){ prefix, up,
                                          up == PINS_NONE ? serial : MIN(serial, rows[up].serial) };
}

/* ---- under the lock ---- */

/* Returns the place of the first row whose prefix is not below. */
static size_t place_of(const struct pins *pins, slice prefix, bool *ret_found)
{
    size_t low = 0, high = pins->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (slice_cmp(pins->rows[middle].prefix, prefix) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_found = low < pins->count && slice_eq(pins->rows[low].prefix, prefix);
    return low;
}

static void changed(struct pins *pins)
{
    size_t count = 0;
    for (size_t i = 0; i < pins->count; i++)
        if (pins->rows[i].pinned)
            add_last(pins->pinned, &count, pins->rows[i].prefix, pins->rows[i].serial);
    atomic_store(&pins->pinned_count, count);
    metric_set(M_PINS, (int64_t)count);
    atomic_fetch_add(&pins->version, 1);
}

/* Forgets the prefix that was unpinned first. Returns false if all are pinned. */
static bool forget_one(struct pins *pins)
{
    size_t found = PINS_NONE;
    for (size_t i = 0; i < pins->count; i++)
        if (!pins->rows[i].pinned &&
            (found == PINS_NONE || pins->rows[i].serial < pins->rows[found].serial))
            found = i;
    if (found == PINS_NONE)
        return false;
    free((char *)(uintptr_t)pins->rows[found].prefix.ptr);
    pins->count--;
    memmove(&pins->rows[found], &pins->rows[found + 1],
            (pins->count - found) * sizeof(pins->rows[0]));
    return true;
}

/* Returns OK, or ERR_LIMIT if the table is full. */
static enum err put(struct pins *pins, slice prefix, bool pinned, uint64_t serial)
{
    bool found;
    size_t at = place_of(pins, prefix, &found);
    if (!found && pins->count == PREFIX_ROWS_MAX) {
        if (!pinned || !forget_one(pins))
            return ERR_LIMIT;
        at = place_of(pins, prefix, &found);
    }
    if (!found) {
        memmove(&pins->rows[at + 1], &pins->rows[at], (pins->count - at) * sizeof(pins->rows[0]));
        pins->rows[at].prefix = (slice){ must_strndup(prefix.ptr, prefix.len), prefix.len };
        pins->count++;
    }
    pins->rows[at].pinned = pinned;
    pins->rows[at].serial = serial;
    pins->serial = MAX(pins->serial, serial);
    return OK;
}

static bool is_pinned(const struct pins *pins, slice prefix)
{
    bool found;
    size_t at = place_of(pins, prefix, &found);
    return found && pins->rows[at].pinned;
}

/* ---- the table ---- */

bool pins_are_none(const struct pins *pins)
{
    return atomic_load_explicit(&pins->pinned_count, memory_order_acquire) == 0;
}

uint64_t pins_version(const struct pins *pins)
{
    return atomic_load(&pins->version);
}

bool pins_have(struct pins *pins, slice name)
{
    if (pins_are_none(pins))
        return false;
    pthread_rwlock_rdlock(&pins->lock);
    bool have = pins_find(pins->pinned, atomic_load(&pins->pinned_count), name) != PINS_NONE;
    pthread_rwlock_unlock(&pins->lock);
    return have;
}

enum err pins_set(struct pins *pins, slice prefix, bool pinned, bool *ret_was)
{
    enum err e = OK;
    check(prefix.len <= PREFIX_BYTES_MAX);
    pthread_rwlock_wrlock(&pins->lock);
    *ret_was = is_pinned(pins, prefix);
    if (*ret_was != pinned)
        e = put(pins, prefix, pinned, pins->serial + 1);
    if (*ret_was != pinned && !e)
        changed(pins);
    pthread_rwlock_unlock(&pins->lock);
    return e;
}

/* A row may find no place: the row of an unpinned prefix, or a row beyond the limit. */
bool pins_merge(struct pins *pins, const struct pin *rows, size_t count, uint64_t serial)
{
    bool takes = false;
    pthread_rwlock_wrlock(&pins->lock);
    for (size_t i = 0; i < count; i++) {
        bool found;
        size_t at = place_of(pins, rows[i].prefix, &found);
        if (!found || pins->rows[at].serial < rows[i].serial)
            takes |= put(pins, rows[i].prefix, rows[i].pinned, rows[i].serial) == OK;
    }
    pins->serial = MAX(pins->serial, serial);
    if (takes)
        changed(pins);
    bool same = pins->count == count && pins->serial == serial;
    for (size_t i = 0; i < count && same; i++) {
        bool found;
        size_t at = place_of(pins, rows[i].prefix, &found);
        same = found && pins->rows[at].serial == rows[i].serial;
    }
    pthread_rwlock_unlock(&pins->lock);
    return same;
}

enum err pins_read(struct pins *pins, int folder, bool *ret_same)
{
    struct arena keep = { 0 };
    struct pin *rows = NULL;
    size_t count = 0;
    uint64_t serial = 0;
    slice bytes;
    enum err e = folder_read(folder, PINS_FILE, PINS_FILE_MAX, &keep, &bytes);
    bool there = e != ERR_NOT_FOUND, given = e != ERR_IO || folder_odd(folder, PINS_FILE);
    if (!e)
        e = pins_decode(bytes, &keep, &rows, &count, &serial);
    *ret_same = given && pins_merge(pins, rows, e ? 0 : count, e ? 0 : serial);
    arena_free(&keep);
    if (!given || !there)
        return e;
    return e ? ERR_GONE : OK;
}

slice pins_file(struct pins *pins, struct arena *keep, uint64_t *ret_version)
{
    pthread_rwlock_rdlock(&pins->lock);
    size_t len = pins_bytes(pins->rows, pins->count);
    uint8_t *bytes = arena_alloc(keep, len);
    pins_encode(pins->rows, pins->count, pins->serial, bytes);
    *ret_version = pins_version(pins);
    pthread_rwlock_unlock(&pins->lock);
    return (slice){ (char *)bytes, len };
}

size_t pins_list(struct pins *pins, slice start, struct arena *keep, struct pins_row **ret)
{
    size_t count = 0;
    pthread_rwlock_rdlock(&pins->lock);
    *ret = arena_alloc(keep, (pins->count + 1) * sizeof(**ret));
    for (size_t i = 0; i < pins->count; i++) {
        const struct pin *row = &pins->rows[i];
        if (row->pinned && slice_starts(row->prefix, start))
            add_last(*ret, &count, arena_copy(keep, row->prefix), row->serial);
    }
    pthread_rwlock_unlock(&pins->lock);
    return count;
}
