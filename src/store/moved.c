/* moved.c - entries that belong to another volume since the list of volumes changed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A format file has the list of volumes that the route used when the folder was last in use. All
 * entries of the index are at home in this volume by that list. When the settings name other
 * folders, the route has another list, and gives some of these objects to other volumes. Their
 * entries here would miss removals, and would be found again if a later list gave the objects back.
 * So they are deleted, in batches beside the commits, and only then the format file takes the new
 * list. Until then a record is stored only if it is at home here by both lists: thus all entries
 * are always at home by the list in the format file.
 *
 * If the process ends before that, entries may have missed removals. So the folder has a note of
 * doubt while this work goes on (folder_doubt). A rebuilt index may have entries again that were
 * deleted here; these are unproved. */
#include "store/moved.h"

#include <string.h>

#include "base/metric.h"
#include "store/account.h"
#include "store/installation.h"

#define STEP_ENTRIES 1000u            /* entries that one step looks at */

static bool is_at_home(const struct volume *volume, const struct route_row *list, size_t count,
                       const struct object_id *id, uint32_t unit)
{
    uint32_t stripe = unit == METADATA_UNIT ? 0 : unit / STRIPE_UNITS;
    const struct route_row *home = &list[route_home(list, count, id, stripe)];
    return memcmp(home->id, volume->options.self->id, sizeof(home->id)) == 0;
}

void moved_begin(struct volume *volume)
{
    const struct installation *all = volume->options.installation;
    const struct format *format = &volume->folder.format;
    struct moved *moved = &volume->upkeep.moved;
    pthread_mutex_lock(&volume->queue.lock);
    moved->active = !installation_is_same_list(format->volumes, format->volume_count, all->list,
                                               all->list_count);
    moved->old_count = format->volume_count;
    memcpy(moved->old, format->volumes, moved->old_count * sizeof(moved->old[0]));
    memset(&moved->next, 0, sizeof(moved->next));
    moved->next_unit = 0;
    pthread_mutex_unlock(&volume->queue.lock);
    if (moved->active)
        (void)folder_doubt(&volume->folder, volume->secret);
}

bool moved_may_append(const struct volume *volume, const struct store_append *append)
{
    const struct moved *moved = &volume->upkeep.moved;
    const struct object_id *id = &append->metadata->id;
    return !moved->active ||
           ((!append->with_metadata ||
             is_at_home(volume, moved->old, moved->old_count, id, METADATA_UNIT)) &&
            (!append->bytes.len ||
             is_at_home(volume, moved->old, moved->old_count, id, append->first_unit)));
}

/* Inside a transaction. Sets *ret_more to false if no entry is left to look at. */
static enum err delete_some(struct volume *volume, size_t *ret_deleted, bool *ret_more)
{
    const struct installation *all = volume->options.installation;
    struct moved *moved = &volume->upkeep.moved;
    struct object_id id;
    struct entry entry;
    uint32_t unit;
    *ret_more = true;
    for (uint32_t i = 0; i < STEP_ENTRIES && *ret_more; i++) {
        enum err e = index_find_from(volume->index, &moved->next, moved->next_unit, &id, &unit,
                                     &entry);
        if (e == ERR_NOT_FOUND) {
            *ret_more = false;
            return OK;
        }
        if (!e && !is_at_home(volume, all->list, all->list_count, &id, unit)) {
            e = index_delete(volume->index, &id, unit);
            ++*ret_deleted;
        }
        if (e)
            return e;
        moved->next = id;
        moved->next_unit = unit;
        *ret_more = entry_key_next(&moved->next, &moved->next_unit);
    }
    return OK;
}

static enum err take_list(struct volume *volume)
{
    const struct installation *all = volume->options.installation;
    enum err e = folder_set_list(&volume->folder, all->list, all->list_count);
    if (e)
        return e;
    pthread_mutex_lock(&volume->queue.lock);
    volume->upkeep.moved.active = false;
    pthread_mutex_unlock(&volume->queue.lock);
    /* the note may also stand for rows that the file `restated` lacks (removal.c) */
    if (!atomic_load(&volume->service.unproved) &&
        restated_save(volume->known.restated, &volume->folder) == OK)
        folder_doubt_ends(&volume->folder);
    return OK;
}

enum err moved_step(struct volume *volume)
{
    size_t deleted = 0;
    bool more = true;
    struct moved before = volume->upkeep.moved;
    enum err e = index_begin(volume->index);
    if (!e)
        e = delete_some(volume, &deleted, &more);
    if (!e && deleted)
        e = account_commit(volume);
    index_abort(volume->index);
    if (e == ERR_FULL || e == ERR_LIMIT) {    /* tries again when eviction has made room */
        volume->upkeep.moved.next = before.next;
        volume->upkeep.moved.next_unit = before.next_unit;
        return OK;
    }
    metric_add(M_STORE_MOVED, deleted);
    return e || more ? e : take_list(volume);
}
