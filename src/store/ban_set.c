/* ban_set.c - the purges that look-ups compare: a set that never changes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/ban_set.h"

#include <stdlib.h>

#include "base/guard.h"

struct ban_set {
    atomic_uint refs;
    size_t count;
    struct bans_row rows[];           /* their prefixes lie behind the rows */
};

void ban_set_place_init(struct ban_set_place *place)
{
    place->epochs = read_epochs_new();
    atomic_init(&place->set, NULL);
}

void ban_set_place_end(struct ban_set_place *place)
{
    struct ban_set *set = atomic_exchange(&place->set, NULL);
    ban_set_unref(&set);
    read_epochs_free(&place->epochs);
}

/* ---- references ---- */

struct ban_set *ban_set_ref(struct ban_set_place *place)
{
    if (!atomic_load_explicit(&place->set, memory_order_acquire))
        return NULL;
    struct read_epoch *epoch = read_epoch_enter(place->epochs);
    struct ban_set *set = atomic_load(&place->set);
    if (set)
        atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    read_epoch_leave(epoch);
    return set;
}

void ban_set_unref(struct ban_set **set)
{
    struct ban_set *mine = *set;
    *set = NULL;
    if (mine && atomic_fetch_sub(&mine->refs, 1) == 1)
        free(mine);
}

/* ---- a new set ---- */

static struct ban_set *make(const struct bans_row *rows, size_t count)
{
    size_t kept = 0, text_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        kept += !rows[i].swept;
        text_bytes += rows[i].swept ? 0 : rows[i].ban.prefix.len;
    }
    if (!kept)
        return NULL;
    struct ban_set *set = must_alloc(sizeof(*set) + kept * sizeof(set->rows[0]) + text_bytes);
    char *text = (char *)&set->rows[kept];
    atomic_init(&set->refs, 1);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].swept)
            continue;
        struct bans_row *row = &set->rows[set->count++];
        *row = rows[i];
        row->ban.prefix.ptr = text;
        text += slice_put(text, rows[i].ban.prefix);
    }
    return set;
}

void ban_set_replace(struct ban_set_place *place, const struct bans_row *rows, size_t count)
{
    struct ban_set *old = atomic_exchange(&place->set, make(rows, count));
    if (old)
        read_epochs_wait(place->epochs);
    ban_set_unref(&old);
}

/* ---- comparing ---- */

bool ban_set_covers(const struct ban_set *set, slice name, uint32_t extent, uint32_t ordinal)
{
    size_t count = set && guard_on(GUARD_BANS) ? set->count : 0;
    for (size_t i = 0; i < count; i++)
        if (slice_starts(name, set->rows[i].ban.prefix) &&
            ban_covers(&set->rows[i].ban, extent, ordinal))
            return true;
    return false;
}

bool bans_row_may_cover(const struct bans_row *row, slice name, uint64_t bucket, uint32_t extent,
                        uint32_t ordinal)
{
    bool is_of = name.len ? slice_starts(name, row->ban.prefix)
                          : !bucket || !row->bucket || bucket == row->bucket;
    return is_of && ban_covers(&row->ban, extent, ordinal);
}

bool ban_set_may_cover(const struct ban_set *set, slice name, uint64_t bucket, uint32_t extent,
                       uint32_t ordinal)
{
    size_t count = set && guard_on(GUARD_BANS) ? set->count : 0;
    for (size_t i = 0; i < count; i++)
        if (bans_row_may_cover(&set->rows[i], name, bucket, extent, ordinal))
            return true;
    return false;
}
