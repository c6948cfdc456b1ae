/* purge.c - purges a prefix or a key. SPDX-License-Identifier: Apache-2.0
 *
 *   list ──> committers: covered records ──> file `bans`, synced ──> answer ──> sweep
 *
 * The purge is in the list of the installation first. From then on, fills and metadata from before
 * are refused by their notes (ban_list.h). Then the committer of each volume notes which records
 * are covered. A volume that is out of service finds the purge in the list when it returns, or, in
 * a later process, in the file of another volume. If a commit hangs, its folder goes out of
 * service, as for a removal.
 *
 * If a folder can't write its file because no file descriptor is left, the purge fails. It stays in
 * the list and in force, because nothing tells which bans it replaced. The committer writes the file
 * later. */
#include "store/purge.h"

#include <stdlib.h>

#include "base/failpoint.h"
#include "store/inside.h"

#define LOOK_MS 100u                  /* a committer that hangs sends no signal */

slice purge_prefix(struct arena *keep, slice endpoint, slice bucket, slice key, bool whole)
{
    struct text text = text_in(keep);
    text_add(&text, endpoint);
    text_char(&text, '\0');
    text_add(&text, bucket);
    text_char(&text, '\0');
    text_add(&text, key);
    if (whole)
        text_char(&text, '\0');
    return text_slice(&text);
}

uint64_t store_compared(const struct store *store)
{
    return ban_list_serial(&store->installation.bans);
}

bool store_is_purged(struct store *store, const struct object_name *name, uint64_t compared)
{
    struct ban_list *list = &store->installation.bans;
    if (ban_list_serial(list) <= compared)
        return false;
    char *text = must_alloc(object_name_bytes(name));
    bool purged = ban_list_has(list, object_name_write(name, text), compared);
    free(text);
    return purged;
}

/* ---- a purge ---- */

enum purge_step { STEP_WAIT, STEP_DONE, STEP_REFUSED, STEP_OUT };

/* Under the lock of the list. A folder opens under that lock, and only with the newest purge. */
static enum purge_step look(struct volume *volume, uint64_t serial)
{
    if (!atomic_load(&volume->service.open))
        return STEP_OUT;
    if (atomic_load(&volume->bans->stored) >= serial)
        return STEP_DONE;
    if (atomic_load(&volume->bans->refused) >= serial)
        return STEP_REFUSED;
    if (volume_takes_removals(volume))
        return STEP_WAIT;
    atomic_store(&volume->service.unproved, true);    /* it hangs; the committer closes it */
    return STEP_OUT;
}

static void wake(struct store *store)
{
    for (size_t i = 0; i < store->volume_count; i++) {
        struct queue *queue = &store->volumes[i]->queue;
        pthread_mutex_lock(&queue->lock);
        pthread_cond_signal(&queue->more);
        pthread_mutex_unlock(&queue->lock);
    }
}

/* Returns ERR_WAIT while a folder in service has neither stored nor refused the purge. The other
 * results are those of store_purge. */
static enum err look_at_all(struct store *store, struct purge_result *ret)
{
    size_t steps[STEP_OUT + 1] = { 0 };
    for (size_t i = 0; i < store->volume_count; i++) {
        enum purge_step step = look(store->volumes[i], ret->serial);
        steps[step]++;
        ret->folders[i] = step == STEP_OUT;
    }
    ret->any_out = steps[STEP_OUT] > 0;
    return steps[STEP_WAIT] ? ERR_WAIT : steps[STEP_REFUSED] ? ERR_BUSY
         : steps[STEP_DONE] ? OK : ERR_IO;
}

/* If the list may have no room, tells it which bans are swept in each folder that takes purges, so
 * that it merges these first. A folder out of service compares a merged ban when it returns. */
static void settle(struct store *store, size_t count)
{
    struct ban_list *list = &store->installation.bans;
    size_t swept = 0, settled = 0, volumes = 0;
    if (!ban_list_is_full(list, count))
        return;
    uint64_t *serials = must_alloc(store->volume_count * PREFIX_ROWS_MAX * sizeof(*serials));
    for (size_t i = 0; i < store->volume_count; i++) {
        if (!volume_takes_removals(store->volumes[i]))
            continue;
        swept += bans_swept(store->volumes[i]->bans, serials + swept);
        volumes++;
    }
    qsort(serials, swept, sizeof(*serials), serial_order);
    for (size_t i = 0, same = 0; i < swept; i++) {
        same = i && serials[i] == serials[i - 1] ? same + 1 : 1;
        if (same == volumes)
            serials[settled++] = serials[i];
    }
    ban_list_settle(list, serials, settled);
    free(serials);
}

enum err store_purge(struct store *store, const slice *prefixes, size_t count,
                     struct purge_result *ret)
{
    struct ban_list *list = &store->installation.bans;
    *ret = (struct purge_result){ .serial = 0 };
    for (size_t i = 0; i < count; i++)
        if (prefixes[i].len > PREFIX_BYTES_MAX)
            return ERR_TOO_LARGE;
    settle(store, count);
    enum err e = ban_list_add(list, prefixes, count, &ret->serial, &ret->merged);
    if (e)
        return e;
    (void)failpoint(FAIL_BAN_LISTED);
    wake(store);
    pthread_mutex_lock(&list->lock);
    while ((e = look_at_all(store, ret)) == ERR_WAIT)
        cond_wait_until(&list->changed, &list->lock, mono_ns() + LOOK_MS * 1000000u);
    pthread_mutex_unlock(&list->lock);
    return e;
}

/* ---- purges in force ---- */

/* Adds the progress of a purge in one volume. Returns true if the volume still compares it, or has
 * not taken it yet. *ret_lacks and *ret_unread are those of its sweep. */
static bool add_volume(struct volume *volume, struct purge_state *state, uint64_t *ret_lacks,
                       bool *ret_unread)
{
    struct bans *bans = volume->bans;
    bool taken = false, swept = true;
    *ret_lacks = 0;
    *ret_unread = false;
    pthread_mutex_lock(&bans->lock);
    for (size_t i = 0; i < bans->count; i++) {
        const struct bans_row *row = &bans->rows[i];
        if (row->ban.serial != state->serial)
            continue;
        taken = true;
        swept &= row->swept;
        state->extents += row->extents;
        state->left += row->left;
        *ret_lacks = row->lacks;
        *ret_unread = row->unread;
    }
    pthread_mutex_unlock(&bans->lock);
    return !taken || !swept;
}

/* True if the sweep of a volume that lacks names has ended, and begins again only when one of the
 * volumes with these names is back in service (is_due in sweep.c). Adds the volumes to `out`. */
static bool is_waiting(const struct store *store, uint64_t lacks, bool out[VOLUMES_MAX])
{
    bool waits = lacks != 0;
    for (size_t i = 0; i < store->volume_count; i++)
        waits &= !(lacks >> i & 1 && volume_is_serving(store->volumes[i]));
    for (size_t i = 0; i < store->volume_count && waits; i++)
        out[i] |= lacks >> i & 1;
    return waits;
}

/* Adds the progress of a purge in all folders. Returns true if it is in progress in any of them. */
static bool add_folders(struct store *store, struct purge_state *state)
{
    bool any = false, unread;
    uint64_t lacks;
    for (size_t i = 0; i < store->volume_count; i++) {
        struct volume *volume = store->volumes[i];
        if (!store->installation.route[i].weight || !add_volume(volume, state, &lacks, &unread))
            continue;
        any = state->folders[i] = true;
        bool serves = volume_is_serving(volume);
        state->out[i] |= !serves;
        state->unread[i] = serves && unread;
        state->waiting[i] = serves && is_waiting(store, lacks, state->out);
    }
    return any;
}

size_t store_purges(struct store *store, struct arena *keep, struct purge_state **ret)
{
    struct ban_list *list = &store->installation.bans;
    size_t count = 0, in_force = 0;
    pthread_mutex_lock(&list->lock);
    struct purge_state *states = arena_alloc(keep, (list->count + 1) * sizeof(*states));
    for (; count < list->count; count++)
        states[count] = (struct purge_state){ .serial = list->rows[count].serial,
                                              .prefix = arena_copy(keep, list->rows[count].prefix) };
    pthread_mutex_unlock(&list->lock);
    for (size_t i = 0; i < count; i++)
        if (add_folders(store, &states[i]))
            states[in_force++] = states[i];
    *ret = states;
    return in_force;
}
