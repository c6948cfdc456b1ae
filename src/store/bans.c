/* bans.c - the purges of one volume. SPDX-License-Identifier: Apache-2.0
 *
 * A record that a fill from before the purge brings is refused by its serial, before it is written
 * and again before it is published (commit.c). So when the committer takes a ban between two
 * commits, each record of such a fill that is on disk has a lower ordinal than the next one. Copies
 * are compared and get their ordinal under the lock (recycle.c), for the same reason.
 *
 * The file does not say which bans are swept: after an opening, all of them are compared and swept
 * again. If the file is damaged, a ban of everything takes its place. */
#include "store/bans.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/metric.h"

#define FILE_NAME "bans"
#define FILE_BYTES_MAX (64 * MIB)

struct bans *bans_new(const uint8_t *secret)
{
    struct bans *bans = must_alloc(sizeof(*bans));
    bans->secret = secret;
    pthread_mutex_init(&bans->lock, NULL);
    pthread_mutex_init(&bans->order, NULL);
    ban_set_place_init(&bans->place);
    return bans;
}

/* ---- rows, under the lock ---- */

/* To be called when rows were added, removed or swept. */
static void rows_changed(struct bans *bans)
{
    unsigned unswept = 0;
    for (size_t i = 0; i < bans->count; i++)
        unswept += !bans->rows[i].swept;
    unsigned before = atomic_exchange(&bans->unswept, unswept);
    metric_gauge_add(M_STORE_BANS, (int64_t)unswept - (int64_t)before);
    ban_set_replace(&bans->place, bans->rows, bans->count);
}

static void remove_at(struct bans *bans, size_t at)
{
    free((char *)bans->rows[at].ban.prefix.ptr);
    bans->rows[at] = bans->rows[--bans->count];
    atomic_store(&bans->dirty, true);
}

static void remove_all(struct bans *bans)
{
    while (bans->count)
        remove_at(bans, bans->count - 1);
    rows_changed(bans);
}

void bans_free(struct bans **bans)
{
    struct bans *mine = *bans;
    *bans = NULL;
    if (!mine)
        return;
    remove_all(mine);
    free(mine->rows);
    ban_set_place_end(&mine->place);
    pthread_mutex_destroy(&mine->order);
    pthread_mutex_destroy(&mine->lock);
    free(mine);
}

/* Returns the hash of the prefix's bucket, or 0 if the prefix ends within the bucket's name. */
static uint64_t bucket_of(const struct bans *bans, slice prefix)
{
    slice rest = prefix, endpoint = slice_cut(&rest, '\0'), bucket = { NULL, 0 };
    if (rest.ptr)
        bucket = slice_cut(&rest, '\0');
    return bucket.ptr && rest.ptr ? bucket_hash(bans->secret, endpoint, bucket) : 0;
}

static void add(struct bans *bans, const struct ban *ban)
{
    if (bans->count == PREFIX_ROWS_MAX)
        return;    /* the list has no more rows either (ban_list.c) */
    bans->rows = realloc(bans->rows, (bans->count + 1) * sizeof(*bans->rows));
    check(bans->rows != NULL);
    struct bans_row *row = &bans->rows[bans->count++];
    *row = (struct bans_row){ .ban = *ban, .bucket = bucket_of(bans, ban->prefix) };
    row->ban.prefix.ptr = must_strndup(ban->prefix.ptr, ban->prefix.len);
}

/* Removes older rows of this prefix, or of a longer one: the new ban covers all that they do. */
static void replace(struct bans *bans, const struct ban *ban)
{
    for (size_t i = bans->count; i-- > 0;)
        if (slice_starts(bans->rows[i].ban.prefix, ban->prefix))
            remove_at(bans, i);
    add(bans, ban);
}

/* ---- the file ---- */

static enum err load(int folder, struct arena *keep, struct ban **ret, size_t *ret_count,
                     uint64_t *ret_serial)
{
    slice bytes;
    enum err e = folder_read(folder, FILE_NAME, FILE_BYTES_MAX, keep, &bytes);
    if (!e)
        e = bans_decode(bytes, keep, ret, ret_count, ret_serial);
    if (e) {
        *ret = NULL;
        *ret_count = 0;
        *ret_serial = 0;
    }
    return e;
}

/* Writes the file. For the committer, which alone changes rows of the file. */
static enum err store(struct bans *bans, const struct folder *folder)
{
    struct arena keep = { 0 };
    pthread_mutex_lock(&bans->lock);
    struct ban *rows = arena_alloc(&keep, (bans->count + 1) * sizeof(*rows));
    size_t count = bans->count;
    uint64_t applied = atomic_load(&bans->applied);
    for (size_t i = 0; i < count; i++)
        rows[i] = bans->rows[i].ban;
    size_t len = bans_bytes(rows, count);
    uint8_t *bytes = arena_alloc(&keep, len);
    bans_encode(rows, count, applied, bytes);
    pthread_mutex_unlock(&bans->lock);
    enum err e = folder_write(folder->fd, FILE_NAME, bytes, len);
    arena_free(&keep);
    if (!e)
        atomic_store(&bans->stored, applied);
    return e;
}

void bans_peek(const char *path, struct ban_list *list)
{
    struct arena keep = { 0 };
    struct ban *rows;
    size_t count;
    uint64_t serial;
    int folder = folder_dir(path);
    if (folder >= 0 && load(folder, &keep, &rows, &count, &serial) == OK)
        ban_list_merge(list, rows, count, serial);
    if (folder >= 0)
        close(folder);
    arena_free(&keep);
}

/* ---- taking bans ---- */

/* Copies the bans of the list that are newer. Returns the serial of the list. */
static uint64_t newer(struct ban_list *list, uint64_t since, struct arena *keep,
                      struct ban_row **ret, size_t *ret_count)
{
    *ret_count = 0;
    pthread_mutex_lock(&list->lock);
    *ret = arena_alloc(keep, (list->count + 1) * sizeof(**ret));
    for (size_t i = 0; i < list->count; i++)
        if (list->rows[i].serial > since)
            (*ret)[(*ret_count)++] = (struct ban_row){
                list->rows[i].serial, arena_copy(keep, list->rows[i].prefix) };
    uint64_t serial = ban_list_serial(list);
    pthread_mutex_unlock(&list->lock);
    return serial;
}

/* Adds the newer bans of the list. They cover all records that the volume has now. */
static void take(struct bans *bans, struct ban_list *list, const struct folder *folder)
{
    struct arena keep = { 0 };
    struct ban_row *rows;
    size_t count;
    uint64_t serial = newer(list, atomic_load(&bans->applied), &keep, &rows, &count);
    pthread_mutex_lock(&bans->order);
    pthread_mutex_lock(&bans->lock);
    struct ban ban = { .highest = extents_highest(folder->extents) };
    open_extents_ends(folder->extents, ban.open);
    for (size_t i = 0; i < count; i++) {
        ban.serial = rows[i].serial;
        ban.prefix = rows[i].prefix;
        replace(bans, &ban);
        bans->rows[bans->count - 1].extents = extents_count(folder->extents);
        bans->rows[bans->count - 1].left = extents_count(folder->extents);
    }
    rows_changed(bans);
    atomic_store(&bans->applied, serial);
    pthread_mutex_unlock(&bans->lock);
    pthread_mutex_unlock(&bans->order);
    arena_free(&keep);
}

enum err bans_follow(struct bans *bans, struct ban_list *list, const struct folder *folder)
{
    bool dirty = atomic_exchange(&bans->dirty, false);
    if (atomic_load(&bans->applied) != ban_list_serial(list))
        take(bans, list, folder);
    else if (!dirty && atomic_load(&bans->stored) == atomic_load(&bans->applied))
        return OK;
    enum err e = store(bans, folder);
    pthread_mutex_lock(&list->lock);
    pthread_cond_broadcast(&list->changed);
    pthread_mutex_unlock(&list->lock);
    return e;
}

/* For a damaged file: bans all names, because the purged ones are not known. */
static void ban_everything(struct bans *bans, uint64_t serial, const struct folder *folder)
{
    struct ban ban = { .serial = serial, .highest = extents_highest(folder->extents) };
    ban.prefix = S("");
    add(bans, &ban);
}

enum err bans_open(struct bans *bans, struct ban_list *list, const struct folder *folder)
{
    struct arena keep = { 0 };
    struct ban *rows;
    size_t count;
    uint64_t serial;
    enum err e = load(folder->fd, &keep, &rows, &count, &serial);
    bool damaged = e == ERR_GONE;
    if (e && e != ERR_NOT_FOUND && !damaged) {
        arena_free(&keep);
        return e;
    }
    ban_list_merge(list, rows, count, serial);
    pthread_mutex_lock(&bans->lock);
    remove_all(bans);
    for (size_t i = 0; i < count; i++)
        add(bans, &rows[i]);
    if (damaged)
        ban_everything(bans, serial = ban_list_serial(list), folder);
    atomic_store(&bans->dirty, damaged);
    atomic_store(&bans->applied, serial);
    atomic_store(&bans->stored, damaged ? 0 : serial);
    atomic_fetch_add(&bans->opening, 1);
    rows_changed(bans);
    pthread_mutex_unlock(&bans->lock);
    arena_free(&keep);
    return bans_follow(bans, list, folder);
}

bool bans_row_is_of_bucket(const struct bans_row *row)
{
    slice rest = row->ban.prefix;
    (void)slice_cut(&rest, '\0');
    if (rest.ptr)
        (void)slice_cut(&rest, '\0');
    return row->bucket && rest.ptr && !rest.len;
}

/* ---- for the sweep ---- */

size_t bans_unswept(struct bans *bans, struct arena *keep, struct bans_row **ret)
{
    size_t count = 0;
    pthread_mutex_lock(&bans->lock);
    *ret = arena_alloc(keep, (bans->count + 1) * sizeof(**ret));
    for (size_t i = 0; i < bans->count; i++) {
        if (bans->rows[i].swept)
            continue;
        (*ret)[count] = bans->rows[i];
        (*ret)[count++].ban.prefix = arena_copy(keep, bans->rows[i].ban.prefix);
    }
    pthread_mutex_unlock(&bans->lock);
    return count;
}

/* Finds the row of a ban; most rows lie where they lay when they were copied. */
static struct bans_row *find(struct bans *bans, uint64_t serial, size_t hint)
{
    if (hint < bans->count && bans->rows[hint].ban.serial == serial)
        return &bans->rows[hint];
    for (size_t i = 0; i < bans->count; i++)
        if (bans->rows[i].ban.serial == serial)
            return &bans->rows[i];
    return NULL;
}

void bans_progress(struct bans *bans, const struct bans_row *rows, size_t count)
{
    pthread_mutex_lock(&bans->lock);
    for (size_t i = 0; i < count; i++) {
        struct bans_row *row = find(bans, rows[i].ban.serial, i);
        if (!row)
            continue;
        row->extents = rows[i].extents;
        row->left = rows[i].left;
    }
    pthread_mutex_unlock(&bans->lock);
}

void bans_are_swept(struct bans *bans, unsigned opening, const struct bans_row *rows, size_t count)
{
    pthread_mutex_lock(&bans->lock);
    bool same = atomic_load(&bans->opening) == opening;
    for (size_t i = 0; same && i < count; i++) {
        struct bans_row *row = find(bans, rows[i].ban.serial, i);
        if (row)
            row->swept = true;
    }
    rows_changed(bans);
    pthread_mutex_unlock(&bans->lock);
}

static bool covers_any(const struct ban *ban, const uint32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count && numbers[i] <= ban->highest; i++)
        if (ban_covers(ban, numbers[i], 0))
            return true;
    return false;
}

size_t bans_trim(struct bans *bans, uint64_t least, const uint32_t *numbers, size_t count,
                 uint64_t kept[PREFIX_ROWS_MAX])
{
    pthread_mutex_lock(&bans->lock);
    for (size_t i = bans->count; i-- > 0;) {
        const struct bans_row *row = &bans->rows[i];
        if (row->swept && row->ban.serial <= least && !covers_any(&row->ban, numbers, count))
            remove_at(bans, i);
    }
    for (size_t i = 0; i < bans->count; i++)
        kept[i] = bans->rows[i].ban.serial;
    size_t stay = bans->count;
    pthread_mutex_unlock(&bans->lock);
    return stay;
}
