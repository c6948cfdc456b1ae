/* pin.c - keeps objects in the cache, by a prefix of their names.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   table in RAM ──> each committer writes its file ──> a pass sets the records' bits ──> answer
 *
 * The table changes first, so records that are appended from then on are pinned. The pass begins
 * when each committer has taken a turn (pinned.h), so it finds all records appended before. */
#include "store/pin.h"

#include <string.h>

#include "store/inside.h"
#include "store/pin_pass.h"
#include "store/pinned.h"

/* Returns the prefix in the form that files and metadata->name have. */
static slice whole_prefix(const struct pin_name *name, struct arena *keep)
{
    struct text text = text_in(keep);
    text_add(&text, name->endpoint);
    text_char(&text, '\0');
    text_add(&text, name->bucket);
    text_char(&text, '\0');
    text_add(&text, name->prefix);
    return text_slice(&text);
}

static bool is_noted(struct store *store, uint64_t version)
{
    for (size_t i = 0; i < store->volume_count; i++)
        if (pinned_has_written(store->volumes[i], version))
            return true;
    return false;
}

/* Changes the table. If it is full, it stays as it was. changed[i]: the row i has changed. */
static enum err set_rows(struct pins *pins, const slice *prefixes, size_t count, bool pinned,
                         bool *changed)
{
    enum err e = OK;
    for (size_t i = 0; i < count && !e; i++) {
        bool was = pinned;
        e = prefixes[i].len > PREFIX_BYTES_MAX ? ERR_LIMIT
                                               : pins_set(pins, prefixes[i], pinned, &was);
        changed[i] = !e && was != pinned;
    }
    return e;
}

static void undo_rows(struct pins *pins, const slice *prefixes, size_t count, bool pinned,
                      const bool *changed)
{
    bool was;
    for (size_t i = 0; i < count; i++)
        if (changed[i])
            (void)!pins_set(pins, prefixes[i], !pinned, &was);
}

enum err store_pin(struct store *store, const struct pin_name *names, size_t count, bool pinned,
                   bool *ret_changed)
{
    struct arena keep = { 0 };
    slice prefixes[PIN_NAMES_MAX];
    bool changed[PIN_NAMES_MAX] = { false };
    check(count <= PIN_NAMES_MAX);
    for (size_t i = 0; i < count; i++)
        prefixes[i] = whole_prefix(&names[i], &keep);
    enum err e = set_rows(store->pins, prefixes, count, pinned, changed);
    uint64_t version = pins_version(store->pins);
    if (!e)
        e = pin_pass_wait(store->pin_pass);
    if (!e && !is_noted(store, version))
        e = ERR_IO;
    if (e == ERR_IO || e == ERR_LIMIT) {
        undo_rows(store->pins, prefixes, count, pinned, changed);
        pin_pass_want_now(store->pin_pass);
    }
    *ret_changed = false;
    for (size_t i = 0; i < count; i++)
        *ret_changed |= changed[i];
    arena_free(&keep);
    return e;
}

void store_pin_end(struct store *store)
{
    pin_pass_end(store->pin_pass);
}

void store_pins_missing(struct store *store, bool ret[VOLUMES_MAX])
{
    uint64_t version = pins_version(store->pins);
    for (size_t i = 0; i < VOLUMES_MAX; i++)
        ret[i] = i < store->volume_count && (!volume_is_serving(store->volumes[i]) ||
                                             !pinned_has_written(store->volumes[i], version));
}

size_t store_pins(struct store *store, const struct pin_name *name, struct arena *keep,
                  struct pins_row **ret)
{
    struct pin_name bucket = { name->endpoint, name->bucket, S("") };
    size_t skip = whole_prefix(&bucket, keep).len;
    size_t count = pins_list(store->pins, whole_prefix(name, keep), keep, ret);
    for (size_t i = 0; i < count; i++)
        (*ret)[i].prefix = slice_from((*ret)[i].prefix, skip);
    return count;
}

size_t store_pin_endpoints(struct store *store, slice bucket, slice prefix, bool whole,
                           struct arena *keep, slice **ret)
{
    struct pins_row *rows;
    size_t count = pins_list(store->pins, S(""), keep, &rows), found = 0;
    slice *list = *ret = arena_alloc(keep, (count + 1) * sizeof(*list));
    for (size_t i = 0; i < count; i++) {
        slice key = rows[i].prefix;
        slice endpoint = slice_cut(&key, '\0'), of = slice_cut(&key, '\0');
        bool fits = slice_eq(of, bucket) &&
                    (whole ? slice_eq(key, prefix) : slice_starts(key, prefix));
        if (fits && (!found || !slice_eq(list[found - 1], endpoint)))    /* the rows are sorted */
            list[found++] = endpoint;
    }
    return found;
}

void store_pin_bytes(struct store *store, struct pin_bytes *ret)
{
    *ret = (struct pin_bytes){ 0, 0 };
    for (size_t i = 0; i < store->volume_count; i++) {
        ret->pinned += atomic_load(&store->volumes[i]->pinned.bytes);
        ret->budget += pinned_budget(store->volumes[i]);
    }
}
