/* ban_list.c - the purges of the installation. SPDX-License-Identifier: Apache-2.0
 *
 * A serial is at least the time of the purge in milliseconds. So a later purge never gets a serial
 * that a volume which is missing now has already used. */
#include "store/ban_list.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/guard.h"

void ban_list_init(struct ban_list *list)
{
    pthread_mutex_init(&list->lock, NULL);
    pthread_cond_init(&list->changed, NULL);
}

void ban_list_end(struct ban_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free((char *)list->rows[i].prefix.ptr);
    pthread_cond_destroy(&list->changed);
    pthread_mutex_destroy(&list->lock);
}

/* ---- under the lock ---- */

static void remove_at(struct ban_list *list, size_t at)
{
    free((char *)list->rows[at].prefix.ptr);
    list->rows[at] = list->rows[--list->count];
}

static void put(struct ban_list *list, uint64_t serial, slice prefix)
{
    check(list->count < PREFIX_ROWS_MAX);
    list->rows[list->count++] = (struct ban_row){
        serial, { must_strndup(prefix.ptr, prefix.len), prefix.len } };
}

/* A ban that covers more than an earlier one replaces it. */
static void remove_narrower(struct ban_list *list, slice prefix)
{
    for (size_t i = list->count; i-- > 0;)
        if (slice_starts(list->rows[i].prefix, prefix))
            remove_at(list, i);
}

/* Counts the bans that stay if bans of these prefixes are added. */
static size_t count_kept(const struct ban_list *list, const slice *prefixes, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        bool stays = true;
        for (size_t j = 0; j < count && stays; j++)
            stays = !slice_starts(list->rows[i].prefix, prefixes[j]);
        kept += stays;
    }
    return kept;
}

static bool has_serial(const struct ban_list *list, uint64_t serial)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->rows[i].serial == serial)
            return true;
    return false;
}

/* ---- the interface ---- */

enum err ban_list_add(struct ban_list *list, const slice *prefixes, size_t count,
                      uint64_t *ret_serial)
{
    pthread_mutex_lock(&list->lock);
    uint64_t serial = ban_list_serial(list);
    bool fits = count_kept(list, prefixes, count) + count <= PREFIX_ROWS_MAX;
    for (size_t i = 0; fits && i < count; i++) {
        serial = MAX(serial + 1, (uint64_t)wall_s() * 1000u);
        remove_narrower(list, prefixes[i]);
        put(list, serial, prefixes[i]);
    }
    atomic_store(&list->serial, serial);
    pthread_mutex_unlock(&list->lock);
    *ret_serial = serial;
    return fits ? OK : ERR_LIMIT;
}

void ban_list_merge(struct ban_list *list, const struct ban *bans, size_t count, uint64_t serial)
{
    pthread_mutex_lock(&list->lock);
    for (size_t i = 0; i < count && list->count < PREFIX_ROWS_MAX; i++)
        if (!has_serial(list, bans[i].serial) && bans[i].serial > list->forgotten)
            put(list, bans[i].serial, bans[i].prefix);
    if (serial > ban_list_serial(list))
        atomic_store(&list->serial, serial);
    pthread_mutex_unlock(&list->lock);
}

void ban_list_forget(struct ban_list *list, uint64_t least, const uint64_t *kept, size_t count)
{
    pthread_mutex_lock(&list->lock);
    for (size_t i = list->count; i-- > 0;) {
        uint64_t serial = list->rows[i].serial;
        bool stays = serial > least;
        for (size_t j = 0; j < count && !stays; j++)
            stays = kept[j] == serial;
        if (stays)
            continue;
        list->forgotten = MAX(list->forgotten, serial);
        remove_at(list, i);
    }
    pthread_mutex_unlock(&list->lock);
}

bool ban_list_has(struct ban_list *list, slice name, uint64_t since)
{
    if (ban_list_serial(list) <= since || !guard_on(GUARD_BANS))
        return false;
    pthread_mutex_lock(&list->lock);
    bool has = since < list->forgotten;
    for (size_t i = 0; i < list->count && !has; i++)
        has = list->rows[i].serial > since && slice_starts(name, list->rows[i].prefix);
    pthread_mutex_unlock(&list->lock);
    return has;
}

bool ban_list_has_metadata(struct ban_list *list, struct metadata *metadata)
{
    uint64_t since = atomic_load_explicit(&metadata->compared, memory_order_relaxed);
    uint64_t serial = ban_list_serial(list);
    if (since >= serial)
        return false;
    if (ban_list_has(list, metadata->name, since))
        return true;
    while (since < serial && !atomic_compare_exchange_weak(&metadata->compared, &since, serial))
        ;
    return false;
}
