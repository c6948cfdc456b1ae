/* installation.c - what the cache folders of one Penstock have in common.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The id and the weight of a volume lie in its format file, with the list of all volumes that it
 * last ran with. A folder without a format file may be new, or its disk may be missing. If the list
 * of its siblings has a volume that no folder claims, the folder becomes that volume. Thus the
 * volume keeps its share of the objects, and the other volumes keep theirs. Otherwise it is a new
 * volume.
 *
 * A folder with another secret, and a copy of a folder that is listed before it, are not of this
 * installation. Runs once, before the volumes are opened. */
#include "store/installation.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/sizing.h"

bool installation_is_same_list(const struct route_row *a, size_t a_count,
                               const struct route_row *b, size_t b_count)
{
    for (size_t i = 0; i < a_count; i++) {
        const struct route_row *other = route_find(b, b_count, a[i].id);
        if (!other || other->weight != a[i].weight)
            return false;
    }
    return a_count == b_count;
}

/* ---- the format files ---- */

static void read_pages(struct installation *all, const struct store_folder *folders,
                       struct page *pages)
{
    bool known = false;
    for (size_t i = 0; i < all->count; i++) {
        const char *why;
        struct page *page = &pages[i];
        page->there = folder_peek(folders[i].path, &page->format, &why) == OK;
        if (page->there && !known)
            memcpy(all->secret, page->format.secret, sizeof(all->secret));
        known = known || page->there;
        page->ours = page->there &&
                     memcmp(page->format.secret, all->secret, sizeof(all->secret)) == 0;
    }
    if (!known)
        secret_make(all->secret);
}

/* Gives each folder with an id its row, unless a folder before it has the same id. Returns the page
 * with the highest serial, or NULL. */
static const struct page *claim(struct installation *all, const struct page *pages)
{
    const struct page *latest = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const struct format *format = &pages[i].format;
        if (!page_has_volume(&pages[i]) || route_find(all->route, i, format->volume))
            continue;
        all->route[i].weight = format->weight;
        memcpy(all->route[i].id, format->volume, sizeof(all->route[i].id));
        if (!latest || format->serial > latest->format.serial)
            latest = &pages[i];
    }
    return latest;
}

/* ---- folders without an id ---- */

/* Returns the size that a new folder would have, or 0 if its disk is missing. */
static uint64_t size_of(const struct store_folder *folder)
{
    char above[4096];
    size_t len = strlen(folder->path);
    struct store_space space;
    if (folder->size_bytes)
        return folder->size_bytes;
    if (store_space(folder->path, &space) == OK)
        return store_derived_size(folder->path, folder->path);
    while (len > 1 && folder->path[len - 1] != '/')
        len--;
    if (len == 0 || len >= sizeof(above))
        return 0;
    memcpy(above, folder->path, len);
    above[len] = '\0';
    return store_space(above, &space) == OK ? store_derived_size(folder->path, above) : 0;
}

static uint64_t mean_weight(const struct installation *all)
{
    uint64_t sum = 0, count = 0;
    for (size_t i = 0; i < all->count; i++) {
        sum += all->route[i].weight;
        count += all->route[i].weight > 0;
    }
    return count ? MAX(sum / count, 1) : 1;
}

static struct route_row make_row(const struct installation *all, const struct store_folder *folder)
{
    uint64_t bytes = size_of(folder);
    struct route_row row = { .weight = bytes ? MIN(MAX(bytes / GIB, 1), UINT32_MAX)
                                             : mean_weight(all) };
    check(getentropy(row.id, sizeof(row.id)) == 0);
    return row;
}

/* Returns true if the folder may be a volume, and does not know which one. */
static bool lacks_row(const struct installation *all, const struct page *pages, size_t folder)
{
    const struct page *page = &pages[folder];
    bool is_other = page->there && (!page->ours || page->format.version >= 2);
    return !all->route[folder].weight && !is_other;
}

/* Returns the first row of the list, from *at on, that no folder has claimed, or NULL. */
static const struct route_row *unclaimed(const struct installation *all, const struct page *latest,
                                         uint32_t *at)
{
    while (latest && *at < latest->format.volume_count) {
        const struct route_row *row = &latest->format.volumes[(*at)++];
        if (!route_find(all->route, all->count, row->id))
            return row;
    }
    return NULL;
}

/* ---- the whole ---- */

void installation_find(struct installation *all, const struct store_folder *folders, size_t count)
{
    struct page *pages = must_alloc(count * sizeof(*pages));
    uint32_t at = 0;
    all->count = count;
    read_pages(all, folders, pages);
    const struct page *latest = claim(all, pages);
    for (size_t i = 0; i < count; i++) {
        const struct route_row *row = lacks_row(all, pages, i) ? unclaimed(all, latest, &at) : NULL;
        if (row)
            all->route[i] = *row;
    }
    runs_learn(all, pages);
    for (size_t i = 0; i < count; i++)
        if (lacks_row(all, pages, i))
            all->route[i] = make_row(all, &folders[i]);
    for (size_t i = 0; i < count; i++)
        if (all->route[i].weight)
            all->list[all->list_count++] = all->route[i];
    check(all->list_count > 0);
    free(pages);
}
