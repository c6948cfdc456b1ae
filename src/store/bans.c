/* bans.c - the purges of one volume. SPDX-License-Identifier: Apache-2.0
 *
 * A record that a fill from before the purge brings is refused by its serial, before it is written
 * and again before it is published (commit.c). So when the committer takes a ban between two
 * commits, each record of such a fill that is on disk has a lower ordinal than the next one. Copies
 * are compared and get their ordinal under the lock (recycle.c), for the same reason.
 *
 * The rows of a volume are those of the list. A volume that lacks a row missed the purge, for
 * example because its disk was not mounted, and takes it for all records that it has. A row that the
 * list merged of others has a serial of its own. A volume makes that row from its rows if it had all
 * of the others. If it may lack one, it takes the merged row as it would take that one.
 *
 * When no volume needs a row any more, the row is *forgotten*: it leaves the list and all volumes.
 * This happens only while all folders of the settings are in service, and their files have the row.
 * So a volume lacks a forgotten row only if it was not in the settings at that time. Such a volume
 * missed a run (runs.h). Each forgetting makes a new *mark*, a serial that nothing else has, for the
 * files of all volumes. Two volumes with the same mark lack nothing that either of them forgot. If
 * the marks differ, a volume that missed a run may lack forgotten rows. Nobody knows these rows, so a
 * ban of its own, of everything, takes their place. Then the volumes take a common mark. The other
 * volumes lose nothing: for example, marks differ after a crash between the writes of two files.
 *
 * The highest serial of a forgotten row would not do as a mark: rows are not forgotten in the order
 * of their serials, and two volumes may forget rows while each of them is in the settings alone.
 *
 * Marks are compared when a file is read: at the start, and when a folder opens. Volumes in service
 * may lack bans that a late folder forgot. The format files note no shared run with such a volume
 * until its file has the ban of everything. So a crash before that does not hide what it missed.
 *
 * A damaged file has an unknown mark, and the volume gets the ban of everything in any case. */
#include "store/bans.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/guard.h"
#include "base/metric.h"

#define FILE_NAME "bans"
#define FILE_BYTES_MAX (64 * MIB)

struct bans *bans_new(const uint8_t *secret, size_t number)
{
    struct bans *bans = must_alloc(sizeof(*bans));
    bans->secret = secret;
    bans->number = number;
    pthread_mutex_init(&bans->lock, NULL);
    pthread_mutex_init(&bans->order, NULL);
    ban_set_place_init(&bans->place);
    atomic_init(&bans->emptied, "");
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

static void free_row(struct bans_row *row)
{
    free((char *)row->ban.prefix.ptr);
}

static void remove_all(struct bans *bans)
{
    while (bans->count)
        free_row(&bans->rows[--bans->count]);
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

/* The row has its own copy of the prefix. */
static void set_prefix(const struct bans *bans, struct bans_row *row, slice prefix)
{
    row->ban.prefix = (slice){ must_strndup(prefix.ptr, prefix.len), prefix.len };
    row->bucket = bucket_of(bans, prefix);
}

/* ---- the file ---- */

static enum err load(int folder, struct arena *keep, struct bans_file *ret)
{
    slice bytes;
    enum err e = folder_read(folder, FILE_NAME, FILE_BYTES_MAX, keep, &bytes);
    if (!e)
        e = bans_decode(bytes, keep, ret);
    if (e)
        *ret = (struct bans_file){ .forgotten = e == ERR_GONE ? MARK_UNKNOWN : 0 };
    return e;
}

/* Writes the file. For the committer, which alone changes rows of the file. */
static enum err store(struct bans *bans, const struct folder *folder)
{
    struct arena keep = { 0 };
    pthread_mutex_lock(&bans->lock);
    struct bans_file file = { .rows = arena_alloc(&keep, (bans->count + 1) * sizeof(*file.rows)),
                              .count = bans->count, .serial = atomic_load(&bans->applied),
                              .forgotten = bans->forgotten };
    for (size_t i = 0; i < file.count; i++) {
        file.rows[i] = bans->rows[i].ban;
        file.rows[i].swept = bans->rows[i].swept;
    }
    size_t len = bans_bytes(&file);
    uint8_t *bytes = arena_alloc(&keep, len);
    bans_encode(&file, bytes);
    pthread_mutex_unlock(&bans->lock);
    enum err e;
    do {
        e = failpoint_err(FAIL_BANS_WRITE);
        if (!e)
            e = folder_write(folder->fd, FILE_NAME, bytes, len);
    } while (e == ERR_LIMIT && folder_frees_file(folder));
    (void)failpoint(FAIL_BANS_WRITTEN);
    arena_free(&keep);
    return e;
}

void bans_peek(const struct bans *bans, const char *path, struct ban_list *list,
               const bool *missed)
{
    struct arena keep = { 0 };
    struct bans_file file;
    int folder = folder_dir(path);
    enum err e = folder < 0 ? ERR_IO : load(folder, &keep, &file);
    if (!e || e == ERR_GONE)
        ban_list_learn(list, bans->number, &file, missed);
    if (folder >= 0)
        close(folder);
    arena_free(&keep);
}

/* ---- following the list ---- */

/* The list, as it was at one moment; and what a ban covers that the volume takes now. */
struct news {
    struct arena keep;
    struct ban_row *rows;
    size_t count;
    uint64_t serial, version, forgotten;
    bool missed;
    struct ban all;
    uint32_t extents;
};

static void read_list(const struct bans *bans, struct ban_list *list, struct news *news)
{
    pthread_mutex_lock(&list->lock);
    news->rows = arena_alloc(&news->keep, (list->count + 1) * sizeof(*news->rows));
    news->count = list->count;
    for (size_t i = 0; i < list->count; i++) {
        news->rows[i] = list->rows[i];
        news->rows[i].prefix = arena_copy(&news->keep, list->rows[i].prefix);
    }
    news->serial = ban_list_serial(list);
    news->version = ban_list_version(list);
    news->forgotten = list->forgotten;
    news->missed = atomic_load(&list->missed[bans->number]);
    pthread_mutex_unlock(&list->lock);
}

/* Under the lock, as all below. Finds the row of a ban. */
static struct bans_row *find(struct bans *bans, uint64_t serial)
{
    size_t low = 0, high = bans->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (bans->rows[middle].ban.serial < serial)
            low = middle + 1;
        else
            high = middle;
    }
    return low < bans->count && bans->rows[low].ban.serial == serial ? &bans->rows[low] : NULL;
}

static struct bans_row take(const struct bans *bans, const struct news *news, uint64_t serial,
                            slice prefix)
{
    struct bans_row row = { .ban = news->all, .extents = news->extents, .left = news->extents };
    row.ban.serial = serial;
    set_prefix(bans, &row, prefix);
    return row;
}

/* Returns the first ordinal of an extent that a ban does not cover. */
static uint32_t end_of(const struct ban *ban, uint32_t extent)
{
    for (size_t i = 0; i < BAN_OPEN_MAX; i++)
        if (ban->open[i].extent == extent)
            return ban->open[i].ordinal;
    return extent <= ban->highest ? UINT32_MAX : 0;
}

/* Adds the records that another ban covers. One of the two bans is older than the other, so the
 * extents that only the older one knows as open are covered as a whole. */
static void cover_both(struct ban *ban, const struct ban *other)
{
    const struct ban *newer = ban->highest < other->highest ? other : ban;
    const struct ban *older = newer == ban ? other : ban;
    struct ban both = { .highest = newer->highest };
    for (size_t i = 0; i < BAN_OPEN_MAX; i++) {
        struct ban_end end = newer->open[i];
        end.ordinal = MAX(end.ordinal, end_of(older, end.extent));
        if (end.extent && end.ordinal < UINT32_MAX)
            both.open[i] = end;
    }
    ban->highest = both.highest;
    memcpy(ban->open, both.open, sizeof(ban->open));
}

/* The rows of the list, for this volume. */
struct followed {
    struct bans_row *rows;
    enum came { KEPT, TAKEN, MERGED } *came;    /* KEPT: the volume had the row; MERGED: its parts */
    size_t count;
};

static bool stands_for(const struct bans_row *row, const struct bans_row *gone)
{
    return row->ban.serial >= gone->ban.serial &&
           slice_starts(gone->ban.prefix, row->ban.prefix);
}

static bool is_taken_anew(const struct followed *followed, const struct bans_row *gone)
{
    for (size_t i = 0; i < followed->count; i++)
        if (followed->came[i] == TAKEN && stands_for(&followed->rows[i], gone))
            return true;
    return false;
}

/* Hands over a row of a ban that the list has no more. If it was not swept, the row that stands for
 * it is compared and swept instead. A merged row gets the records of its parts. */
static void hand_over(struct followed *followed, const struct bans_row *gone)
{
    if (is_taken_anew(followed, gone))    /* that row covers all records, and is not swept */
        return;
    for (size_t i = 0; i < followed->count; i++) {
        struct bans_row *row = &followed->rows[i];
        if (!stands_for(row, gone))
            continue;
        row->swept &= gone->swept;
        if (followed->came[i] == MERGED)
            cover_both(&row->ban, &gone->ban);
    }
}

/* True if the volume has taken all bans for which this one stands. */
static bool took_parts(const struct bans *bans, const struct ban_row *ban)
{
    return ban->merged && atomic_load(&bans->followed) != UINT64_MAX &&
           atomic_load(&bans->applied) >= ban->arrived;
}

/* Keeps the row that the volume has for a ban of the list, or takes the ban. */
static void follow_row(const struct bans *bans, const struct news *news, const struct ban_row *ban,
                       struct bans_row *mine, struct followed *followed)
{
    struct bans_row *row = &followed->rows[followed->count];
    enum came came = mine && mine->ban.prefix.len == ban->prefix.len ? KEPT
                     : !mine && took_parts(bans, ban) ? MERGED : TAKEN;
    if (came == KEPT)
        *row = *mine;
    else
        *row = take(bans, news, ban->serial, ban->prefix);
    if (came == TAKEN && mine)    /* widened, perhaps for bans that this volume lacks */
        free_row(mine);
    if (came == MERGED) {    /* its parts are handed over to it */
        row->ban = (struct ban){ .serial = ban->serial, .prefix = row->ban.prefix };
        row->extents = row->left = 0;
        row->swept = true;
    }
    followed->came[followed->count++] = came;
}

static void followed_begin(struct followed *followed, size_t most)
{
    followed->rows = must_alloc(most * sizeof(*followed->rows));
    followed->came = must_alloc(most * sizeof(*followed->came));
    followed->count = 0;
}

/* Both are in the order of serials. Returns true if the rows have changed. */
static bool follow_rows(struct bans *bans, const struct news *news)
{
    struct followed followed;
    struct bans_row *old = bans->rows;
    size_t old_count = bans->count, i = 0, gone = 0;
    bool changed = false;
    followed_begin(&followed, news->count + 1);
    if (old_count && old[0].ban.serial == 0) {
        followed.came[followed.count] = KEPT;
        followed.rows[followed.count++] = old[i++];
    }
    for (size_t k = 0; k < news->count; k++) {
        while (i < old_count && old[i].ban.serial < news->rows[k].serial)
            old[gone++] = old[i++];
        struct bans_row *mine = i < old_count && old[i].ban.serial == news->rows[k].serial
            ? &old[i++] : NULL;
        follow_row(bans, news, &news->rows[k], mine, &followed);
        changed |= followed.came[followed.count - 1] != KEPT;
    }
    while (i < old_count)
        old[gone++] = old[i++];
    for (i = 0; i < gone; i++) {
        hand_over(&followed, &old[i]);
        free_row(&old[i]);
    }
    free(old);
    free(followed.came);
    bans->rows = followed.rows;
    bans->count = followed.count;
    return changed || gone > 0;
}

/* Bans all names in this volume alone. */
static void ban_everything(struct bans *bans, const struct news *news, const char *why)
{
    struct bans_row row = take(bans, news, 0, S(""));
    size_t first = bans->count && bans->rows[0].ban.serial == 0;
    if (first)
        free_row(&bans->rows[0]);
    struct bans_row *rows = must_alloc((bans->count + 1) * sizeof(*rows));
    rows[0] = row;
    for (size_t i = first; i < bans->count; i++)
        rows[1 + i - first] = bans->rows[i];
    bans->count += 1 - first;
    free(bans->rows);
    bans->rows = rows;
    atomic_store(&bans->emptied, why);
}

/* Makes the rows those of the list. A ban that the volume lacks covers all records that the volume
 * has now. */
static void follow(struct bans *bans, struct ban_list *list, const struct folder *folder)
{
    struct news news = { .extents = extents_count(folder->extents) };
    read_list(bans, list, &news);
    pthread_mutex_lock(&bans->order);
    pthread_mutex_lock(&bans->lock);
    news.all.highest = extents_highest(folder->extents);
    open_extents_ends(folder->extents, news.all.open);
    bool lacks = news.missed && news.forgotten != bans->forgotten && news.all.highest;
    if (follow_rows(bans, &news) || lacks || bans->forgotten != news.forgotten ||
        atomic_load(&bans->applied) != news.serial)
        atomic_store(&bans->dirty, true);
    if (lacks)
        ban_everything(bans, &news, "Penstock no longer knows which purges were made while the "
                                    "folder was out of service");
    bans->forgotten = news.forgotten;
    rows_changed(bans);
    atomic_store(&bans->applied, news.serial);
    atomic_store(&bans->followed, news.version);
    pthread_mutex_unlock(&bans->lock);
    pthread_mutex_unlock(&bans->order);
    arena_free(&news.keep);
    (void)failpoint(FAIL_BAN_TAKEN);
}

/* The file has the rows that the volume took last. If they are still those of the list, the volume
 * lacks nothing any more. */
static void note_written(struct bans *bans, struct ban_list *list)
{
    uint64_t followed = atomic_load(&bans->followed);
    pthread_mutex_lock(&list->lock);
    if (followed == ban_list_version(list))
        atomic_store(&list->missed[bans->number], false);
    atomic_store(&bans->stored, atomic_load(&bans->applied));
    atomic_store(&bans->written, followed);
    pthread_cond_broadcast(&list->changed);
    pthread_mutex_unlock(&list->lock);
}

/* No file descriptor is left. The purges that wait for the file need not wait any longer. */
static void note_refused(struct bans *bans, struct ban_list *list)
{
    pthread_mutex_lock(&list->lock);
    atomic_store(&bans->refused, atomic_load(&bans->applied));
    pthread_cond_broadcast(&list->changed);
    pthread_mutex_unlock(&list->lock);
}

enum err bans_follow(struct bans *bans, struct ban_list *list, const struct folder *folder)
{
    enum err e = OK;
    if (atomic_load(&bans->followed) != ban_list_version(list))
        follow(bans, list, folder);
    if (atomic_exchange(&bans->dirty, false))
        e = store(bans, folder);
    else if (atomic_load(&bans->written) == atomic_load(&bans->followed))
        return OK;
    if (e)
        atomic_store(&bans->dirty, true);
    else
        note_written(bans, list);
    if (e == ERR_LIMIT)
        note_refused(bans, list);
    return e;
}

/* Takes the rows of the file. Returns true if the file says of a purge that it is swept, and the
 * index may have its records again. The file must lose that mark before the folder is used, because
 * the next opening would trust it. */
static bool fill_rows(struct bans *bans, const struct bans_file *file, bool index_stands)
{
    bool lost = false;
    remove_all(bans);
    free(bans->rows);
    bans->rows = must_alloc((file->count + 1) * sizeof(*bans->rows));
    for (size_t i = 0; i < file->count; i++) {
        struct bans_row *row = &bans->rows[bans->count++];
        *row = (struct bans_row){ .ban = file->rows[i],
                                  .swept = file->rows[i].swept && index_stands };
        lost |= file->rows[i].swept && !index_stands;
        set_prefix(bans, row, file->rows[i].prefix);
    }
    bans->forgotten = file->forgotten;
    return lost;
}

static void ban_lost(struct bans *bans, const struct folder *folder)
{
    struct news news = { .extents = extents_count(folder->extents) };
    news.all.highest = extents_highest(folder->extents);
    ban_everything(bans, &news, "the file 'bans' in the folder was damaged, or written by another "
                                "version of Penstock, so Penstock does not know which objects "
                                "of the folder were purged");
}

enum err bans_open(struct bans *bans, struct ban_list *list, const struct folder *folder,
                   const bool *missed)
{
    struct arena keep = { 0 };
    struct bans_file file;
    enum err e = load(folder->fd, &keep, &file);
    bool damaged = e == ERR_GONE;
    if (e && e != ERR_NOT_FOUND && !damaged) {
        arena_free(&keep);
        return e;
    }
    /* An index that is built anew does not know the numbers of lost extents. */
    for (size_t i = 0; i < file.count; i++)
        extents_raise_highest(folder->extents, file.rows[i].highest);
    ban_list_learn(list, bans->number, &file, missed);
    if (folder->lagging)
        ban_list_missed(list, bans->number);
    pthread_mutex_lock(&bans->lock);
    bool lost = fill_rows(bans, &file, folder->index_stands);
    atomic_store(&bans->emptied, "");
    if (damaged)
        ban_lost(bans, folder);
    rows_changed(bans);
    atomic_store(&bans->dirty, damaged || lost);
    atomic_store(&bans->applied, file.serial);
    atomic_store(&bans->stored, damaged ? 0 : file.serial);
    atomic_store(&bans->followed, UINT64_MAX);
    atomic_store(&bans->written, UINT64_MAX);
    atomic_fetch_add(&bans->opening, 1);
    pthread_mutex_unlock(&bans->lock);
    arena_free(&keep);
    return bans_follow(bans, list, folder);
}

bool bans_may_cover(struct bans *bans, slice name, uint64_t bucket, uint32_t extent,
                    uint32_t ordinal)
{
    bool covered = false;
    pthread_mutex_lock(&bans->lock);
    for (size_t i = 0; i < bans->count && guard_on(GUARD_BANS) && !covered; i++)
        covered = bans_row_may_cover(&bans->rows[i], name, bucket, extent, ordinal);
    pthread_mutex_unlock(&bans->lock);
    return covered;
}

/* ---- for the sweep ---- */

bool bans_row_is_of_bucket(const struct bans_row *row)
{
    slice rest = row->ban.prefix;
    (void)slice_cut(&rest, '\0');
    if (rest.ptr)
        (void)slice_cut(&rest, '\0');
    return row->bucket && rest.ptr && !rest.len;
}

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

void bans_progress(struct bans *bans, const struct bans_row *rows, size_t count)
{
    pthread_mutex_lock(&bans->lock);
    for (size_t i = 0; i < count; i++) {
        struct bans_row *row = find(bans, rows[i].ban.serial);
        if (!row)
            continue;
        row->extents = rows[i].extents;
        row->left = rows[i].left;
        row->lacks = 0;
        row->unread = false;
    }
    pthread_mutex_unlock(&bans->lock);
}

/* True if the row has not become another one since it was copied. */
static bool is_same(const struct bans_row *a, const struct bans_row *b)
{
    return a->ban.prefix.len == b->ban.prefix.len && a->ban.highest == b->ban.highest &&
           memcmp(a->ban.open, b->ban.open, sizeof(a->ban.open)) == 0;
}

void bans_sweep_ended(struct bans *bans, unsigned opening, const struct bans_row *rows,
                      size_t count)
{
    pthread_mutex_lock(&bans->lock);
    bool same = atomic_load(&bans->opening) == opening, any = false;
    for (size_t i = 0; same && i < count; i++) {
        struct bans_row *row = find(bans, rows[i].ban.serial);
        if (!row || !is_same(row, &rows[i]))
            continue;
        row->lacks = rows[i].lacks;
        row->unread = rows[i].unread && !rows[i].failed;
        row->swept = !rows[i].failed && !rows[i].unread && !rows[i].lacks;
        any |= row->swept;
    }
    if (any) {
        rows_changed(bans);
        atomic_store(&bans->dirty, true);
    }
    pthread_mutex_unlock(&bans->lock);
}

static bool covers_any(const struct ban *ban, const uint32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count && numbers[i] <= ban->highest; i++)
        if (ban_covers(ban, numbers[i], 0))
            return true;
    return false;
}

static bool is_needed(const struct bans_row *row, const uint32_t *numbers, size_t count)
{
    return !row->swept || covers_any(&row->ban, numbers, count);
}

size_t bans_needed(struct bans *bans, const uint32_t *numbers, size_t count,
                   uint64_t needed[PREFIX_ROWS_MAX])
{
    size_t found = 0;
    pthread_mutex_lock(&bans->lock);
    if (bans->count && !bans->rows[0].ban.serial && !is_needed(&bans->rows[0], numbers, count)) {
        free_row(&bans->rows[0]);
        bans->count--;
        memmove(bans->rows, bans->rows + 1, bans->count * sizeof(*bans->rows));
        atomic_store(&bans->dirty, true);
    }
    for (size_t i = 0; i < bans->count; i++)
        if (bans->rows[i].ban.serial && is_needed(&bans->rows[i], numbers, count))
            needed[found++] = bans->rows[i].ban.serial;
    pthread_mutex_unlock(&bans->lock);
    return found;
}

size_t bans_swept(struct bans *bans, uint64_t ret[PREFIX_ROWS_MAX])
{
    size_t found = 0;
    pthread_mutex_lock(&bans->lock);
    for (size_t i = 0; i < bans->count; i++)
        if (bans->rows[i].swept)
            ret[found++] = bans->rows[i].ban.serial;
    pthread_mutex_unlock(&bans->lock);
    return found;
}
