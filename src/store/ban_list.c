/* ban_list.c - the purges of the installation. SPDX-License-Identifier: Apache-2.0
 *
 * A serial is at least the time of the purge in microseconds, and has a random part if that time
 * was used already. So two processes that use different folders of one installation at different
 * times never give two purges one serial. */
#include "store/ban_list.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/metric.h"
#include "base/raise.h"

#define SPARE_ROWS (BAN_ROWS_MAX / 8)    /* a merge frees so many, because it takes long */

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

static uint64_t next_serial(const struct ban_list *list)
{
    uint16_t random;
    check(getentropy(&random, sizeof(random)) == 0);
    return MAX(ban_list_serial(list) + 1 + random % 1024, clock_ns(CLOCK_REALTIME) / 1000u);
}

static void set_serial(struct ban_list *list, uint64_t serial)
{
    atomic_store(&list->serial, MAX(serial, ban_list_serial(list)));
}

static void remove_at(struct ban_list *list, size_t at)
{
    free((char *)list->rows[at].prefix.ptr);
    list->count--;
    memmove(&list->rows[at], &list->rows[at + 1], (list->count - at) * sizeof(list->rows[0]));
}

/* `arrived` becomes the serial of the list. */
static void put(struct ban_list *list, uint64_t serial, uint64_t arrived, slice prefix)
{
    size_t at = list->count;
    check(list->count < BAN_ROWS_MAX);
    while (at > 0 && list->rows[at - 1].serial > serial)
        at--;
    memmove(&list->rows[at + 1], &list->rows[at], (list->count - at) * sizeof(list->rows[0]));
    list->rows[at] = (struct ban_row){
        .serial = serial, .arrived = arrived,
        .prefix = { must_strndup(prefix.ptr, prefix.len), prefix.len } };
    list->count++;
    set_serial(list, arrived);
}

/* A ban that covers more than an earlier one replaces it. */
static void remove_narrower(struct ban_list *list, slice prefix)
{
    for (size_t i = list->count; i-- > 0;)
        if (slice_starts(list->rows[i].prefix, prefix))
            remove_at(list, i);
}

/* Gives the rows that a merge made their serials, which are the highest ones. */
static void number_merged(struct ban_list *list)
{
    struct ban_row *merged = must_alloc((list->count + 1) * sizeof(*merged));
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (list->rows[i].unnumbered)
            merged[count++] = list->rows[i];
        else
            list->rows[kept++] = list->rows[i];
    }
    for (size_t i = 0; i < count; i++) {
        merged[i].serial = next_serial(list);
        merged[i].unnumbered = false;
        set_serial(list, merged[i].serial);
        list->rows[kept++] = merged[i];
    }
    free(merged);
}

/* Returns the number of bans that were saved. */
static size_t make_room(struct ban_list *list, size_t more)
{
    size_t before = list->count;
    if (before + more <= BAN_ROWS_MAX)
        return 0;
    list->count = ban_rows_merge(list->rows, before, BAN_ROWS_MAX - SPARE_ROWS - more);
    number_merged(list);
    metric_add(M_STORE_BANS_MERGED, before - list->count);
    return before - list->count;
}

static struct ban_row *find(struct ban_list *list, uint64_t serial)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list->rows[middle].serial < serial)
            low = middle + 1;
        else
            high = middle;
    }
    return low < list->count && list->rows[low].serial == serial ? &list->rows[low] : NULL;
}

/* Returns true if the list has changed. A newer ban of a shorter prefix does not stand for one that
 * the list lacks: it may be a merged one, which other volumes took without that one. */
static bool learn(struct ban_list *list, const struct ban *ban)
{
    struct ban_row *row = find(list, ban->serial);
    size_t len = row ? ban_shared_bytes(row->prefix, ban->prefix) : 0;
    if (row && len == row->prefix.len)
        return false;
    if (row) {    /* two prefixes with one serial: this process made neither */
        row->prefix.len = len;
        row->arrived = next_serial(list);
        row->settled = false;
        set_serial(list, row->arrived);
        return true;
    }
    (void)make_room(list, 1);
    bool is_newest = ban->serial > ban_list_serial(list);
    put(list, ban->serial, is_newest ? ban->serial : next_serial(list), ban->prefix);
    return true;
}

static bool is_in(const uint64_t *serials, size_t count, uint64_t serial)
{
    return count && bsearch(&serial, serials, count, sizeof(serial), serial_order);
}

/* ---- the interface ---- */

enum err ban_list_add(struct ban_list *list, const slice *prefixes, size_t count,
                      uint64_t *ret_serial, size_t *ret_merged)
{
    if (count > BAN_ROWS_MAX / 2)
        return ERR_LIMIT;
    pthread_mutex_lock(&list->lock);
    for (size_t i = 0; i < count; i++)
        remove_narrower(list, prefixes[i]);
    *ret_merged = make_room(list, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t serial = next_serial(list);
        remove_narrower(list, prefixes[i]);    /* one of the new ones */
        put(list, serial, serial, prefixes[i]);
    }
    *ret_serial = ban_list_serial(list);
    atomic_fetch_add(&list->version, 1);
    pthread_mutex_unlock(&list->lock);
    return OK;
}

bool ban_list_is_full(struct ban_list *list, size_t more)
{
    pthread_mutex_lock(&list->lock);
    bool is = list->count + more > BAN_ROWS_MAX;
    pthread_mutex_unlock(&list->lock);
    return is;
}

void ban_list_settle(struct ban_list *list, const uint64_t *serials, size_t count)
{
    pthread_mutex_lock(&list->lock);
    for (size_t i = 0; i < list->count; i++)
        list->rows[i].settled = is_in(serials, count, list->rows[i].serial);
    pthread_mutex_unlock(&list->lock);
}

void ban_list_missed(struct ban_list *list, size_t volume)
{
    pthread_mutex_lock(&list->lock);
    atomic_store(&list->missed[volume], true);
    pthread_mutex_unlock(&list->lock);
}

/* Each mark stands for the same forgotten bans in all files that have it. */
static bool knows_mark(const struct ban_list *list, size_t volume, uint64_t mark)
{
    if (mark == MARK_UNKNOWN)
        return list->learned[volume] == mark;
    bool knows = !mark || mark == list->forgotten;
    for (size_t i = 0; i < VOLUMES_MAX && !knows; i++)
        knows = list->learned[i] == mark;
    return knows;
}

/* The list gets a new mark, or that of the file if it had none. Metadata in RAM may be of volumes
 * that lack bans, so it can't be compared with earlier bans any more. */
static void learn_mark(struct ban_list *list, uint64_t mark, const bool *missed)
{
    set_serial(list, next_serial(list));
    list->unknown = ban_list_serial(list);
    list->forgotten = list->forgotten || mark == MARK_UNKNOWN ? list->unknown : mark;
    for (size_t i = 0; i < VOLUMES_MAX && missed; i++)
        if (missed[i])
            atomic_store(&list->missed[i], true);
}

void ban_list_learn(struct ban_list *list, size_t volume, const struct bans_file *file,
                    const bool *missed)
{
    bool changed = false;
    pthread_mutex_lock(&list->lock);
    for (size_t i = 0; i < file->count; i++)
        if (file->rows[i].serial)    /* 0: of its volume alone */
            changed |= learn(list, &file->rows[i]);
    changed |= file->serial > ban_list_serial(list);
    set_serial(list, file->serial);
    if (!knows_mark(list, volume, file->forgotten)) {
        learn_mark(list, file->forgotten, missed);
        changed = true;
    }
    list->learned[volume] = file->forgotten;
    atomic_fetch_add(&list->version, changed);
    pthread_mutex_unlock(&list->lock);
}

bool ban_list_forget(struct ban_list *list, uint64_t version, const uint64_t *needed, size_t count)
{
    pthread_mutex_lock(&list->lock);
    bool changed = false, same = ban_list_version(list) == version;
    for (size_t i = list->count; same && i-- > 0;) {
        if (is_in(needed, count, list->rows[i].serial))
            continue;
        list->unknown = MAX(list->unknown, list->rows[i].arrived);
        remove_at(list, i);
        changed = true;
    }
    if (changed) {
        list->forgotten = next_serial(list);
        set_serial(list, list->forgotten);
    }
    atomic_fetch_add(&list->version, changed);
    pthread_mutex_unlock(&list->lock);
    return changed;
}

bool ban_list_has(struct ban_list *list, slice name, uint64_t since)
{
    if (ban_list_serial(list) <= since || !guard_on(GUARD_BANS))
        return false;
    pthread_mutex_lock(&list->lock);
    bool has = since < list->unknown;
    for (size_t i = 0; i < list->count && !has; i++)
        has = list->rows[i].arrived > since && slice_starts(name, list->rows[i].prefix);
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
    raise_64(&metadata->compared, serial);
    return false;
}
