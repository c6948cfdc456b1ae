/* sweep.c - deletes the index entries of purged records. SPDX-License-Identifier: Apache-2.0
 *
 *   covered extents ── rows ──> purged? ──> batches ──> committer: index
 *
 * The sweep reads the tables of contents of the extents that a purge covers. It deletes the entries
 * of each record whose object has the prefix of the purge. A row of units has no name: the metadata
 * of its object gives it, which may lie in another volume. Units without metadata go with the purge
 * of any prefix of their bucket. Otherwise they would come back to life when the object is stored
 * again with the same ETag. Rows of format version 1 have neither names nor bucket hashes. For
 * them, the metadata block of the record gives the name, as for units.
 *
 * When all extents that a purge covers were read, look-ups need not compare it any more. Until then
 * they do, and also if one of these extents could not be opened, or an extent or a name could not
 * be read. If the rows of a damaged table are not all known, the sweep deletes all entries of the
 * records that no row tells of (unlisted.h). If the disk does not give the rows of an extent, the
 * sweep fails and is repeated. After TRIES_MAX sweeps that could not read this extent, the sweep
 * deletes these entries. An extent that can't be opened keeps its entries, because it may be good:
 * the mode bits of its folder may have changed. The sweep deletes them only if its file is gone.
 * Records that neither a row nor the footer counts are never served (extent_hold_record). Records
 * without entries count as dead (account.h), so the recycler takes their extents. Threads: one
 * thread for all volumes; the committer takes the batches between commits, as those of the
 * recycler. */
#include "store/sweep.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/guard.h"
#include "base/metric.h"
#include "store/find_name.h"
#include "store/inside.h"
#include "store/relocation.h"
#include "store/unlisted.h"

#define LOOK_MS 1000u
#define REPEAT_MS 10000u              /* before a sweep that could not decide all is repeated */
#define LATE_MS 600000u               /* before one is repeated that lacks an extent */
#define TRIES_MAX 3u                  /* sweeps before an extent counts as one that stays unread */
#define TRIM_MS 2000u
#define REPORTS 64u                   /* of the progress of a sweep, about */

/* An extent that sweeps could not read, one after the other. */
struct unread {
    uint32_t extent;
    unsigned tries;
};

/* When a volume is swept the next time. */
struct sweep_turn {
    uint64_t version;                 /* of the list of bans that was swept */
    uint64_t again_ms;
    unsigned opening;                 /* of the folder */
    bool failed;                      /* an extent or a name could not be read */
    struct unread *unread;            /* in ascending order of their numbers */
    size_t unread_count;
    uint64_t lacks;                   /* as in bans_row: volumes that have names that are needed */
    bool incomplete;                  /* an extent can't be opened, or was never in the table */
    uint64_t late_ms;                 /* an incomplete sweep is repeated: the extent may be gone */
};

/* The name of an object, by its id. */
struct found_name {
    struct object_id id;
    enum found found;
    struct volume *home;              /* has the name */
    char *text;
    size_t len;
};

struct sweep {
    struct store *store;
    struct volume *volume;
    struct bans_row *rows;            /* the bans that are swept; in keep */
    size_t row_count;
    struct arena keep;
    uint32_t extent;                  /* the extent that is read */
    struct extent *held;              /* a reference to it, for its ages */
    struct relocation_row batch[RELOCATION_ENTRIES];
    size_t count, entries;            /* of the batch; of the index, that it changes */
    struct found_name last;
    struct sweep_turn *turn;
    struct unread *before;            /* of the sweep before this one */
    size_t before_count, before_at;   /* those before this place have lower numbers */
};

static bool is_stopping(struct store *store)
{
    struct ban_list *list = &store->installation.bans;
    pthread_mutex_lock(&list->lock);
    bool stopping = list->stopping;
    pthread_mutex_unlock(&list->lock);
    return stopping;
}

static uint64_t bit_of(size_t volume)
{
    static_assert(VOLUMES_MAX <= 64, "a bit for each volume");
    return UINT64_C(1) << volume;
}

/* ---- names ---- */

/* The rows of an object's units follow each other, so the last name is kept. */
static const struct found_name *name_of(struct sweep *sweep, const struct object_id *id)
{
    struct found_name *last = &sweep->last;
    if (last->found && memcmp(&last->id, id, sizeof(*id)) == 0)
        return last;
    struct arena keep = { 0 };
    slice name = S("");
    free(last->text);
    *last = (struct found_name){ .id = *id, .found = find_name(sweep->volume, id, &keep, &name),
                                 .home = store_home(sweep->store, id) };
    if (last->found == FOUND_NAME) {
        last->text = must_strndup(name.ptr, name.len);
        last->len = name.len;
    }
    arena_free(&keep);
    return last;
}

static void note_unknown(struct bans_row *ban, const struct found_name *name)
{
    if (volume_is_serving(name->home))
        ban->failed = true;
    else
        ban->lacks |= bit_of(name->home->number);
}

/* ---- rows ---- */

static bool is_covered(const struct sweep *sweep, const struct bans_row *ban,
                       const struct toc_row *row)
{
    uint64_t bucket = row->entry->bucket;
    return (!bucket || !ban->bucket || bucket == ban->bucket) &&
           ban_covers(&ban->ban, sweep->extent, row->ordinal);
}

/* True if the object of a covered record has the prefix. If that can't be decided now, the sweep is
 * repeated. */
static bool has_prefix(struct sweep *sweep, struct bans_row *ban, const struct toc_row *row)
{
    if (row->name.name.len)
        return slice_starts(row->name.name, ban->ban.prefix);
    if (!ban->ban.prefix.len || (row->entry->bucket && bans_row_is_of_bucket(ban)))
        return true;
    const struct found_name *name = name_of(sweep, &row->entry->id);
    if (name->found == FOUND_UNKNOWN || name->found == FOUND_SILENT)
        note_unknown(ban, name);
    return name->found == FOUND_NOTHING ||
           (name->found == FOUND_NAME &&
            slice_starts((slice){ name->text, name->len }, ban->ban.prefix));
}

static enum err flush(struct sweep *sweep)
{
    struct relocation relocation = { .extent = sweep->extent, .rows = sweep->batch,
                                     .row_count = sweep->count, .drop = DROP_NOT };
    if (!sweep->count)
        return OK;
    (void)failpoint(FAIL_SWEEP);
    enum err e = relocation_send(sweep->volume, &relocation);
    if (!e)
        metric_add(M_STORE_SWEPT, sweep->count);
    sweep->count = sweep->entries = 0;
    return e;
}

static enum err visit(struct sweep *sweep, const struct toc_row *row)
{
    bool purged = false;
    if (ages_is_dead(extent_ages_of(sweep->held), row->ordinal))
        return OK;
    for (size_t i = 0; i < sweep->row_count && !purged; i++)
        purged = is_covered(sweep, &sweep->rows[i], row) &&
                 has_prefix(sweep, &sweep->rows[i], row);
    if (!purged)
        return OK;
    events_note(sweep->volume->events, &row->entry->id, row->entry->first_unit, EVENT_PURGED);
    sweep->batch[sweep->count++] = (struct relocation_row){ *row->entry, row->ordinal, false };
    sweep->entries += record_units(&(struct record){ .kind = row->entry->kind,
                                                     .data_len = row->entry->data_len });
    return sweep->entries + RECORD_UNITS > RELOCATION_ENTRIES ? flush(sweep) : OK;
}

/* ---- extents ---- */

static bool covers_extent(const struct bans_row *ban, uint32_t number)
{
    return number <= ban->ban.highest && ban_covers(&ban->ban, number, 0);
}

static bool is_any_covered(const struct sweep *sweep, uint32_t number)
{
    for (size_t i = 0; i < sweep->row_count; i++)
        if (covers_extent(&sweep->rows[i], number))
            return true;
    return false;
}

/* To be called for an extent whose entries could not all be judged. */
static void note_unswept(struct sweep *sweep, bool unread)
{
    for (size_t i = 0; i < sweep->row_count; i++) {
        struct bans_row *row = &sweep->rows[i];
        if (!covers_extent(row, sweep->extent))
            continue;
        row->unread |= unread;
        row->failed |= !unread;
    }
}

static bool goes_on(void *arg)
{
    struct sweep *sweep = arg;
    return !is_stopping(sweep->store) && volume_is_serving(sweep->volume);
}

/* Deletes the entries of the records behind the first `rows`, because nobody can say whether they
 * are purged. */
static enum err forget_rest(struct sweep *sweep, uint32_t rows)
{
    enum err e = unlisted_forget(sweep->volume, sweep->extent, rows, goes_on, sweep);
    if (!e)
        extent_limit_rows(sweep->held, rows);
    return e;
}

/* Notes that the extent could not be read. Returns true if TRIES_MAX sweeps, one after the other,
 * could not read it. */
static bool is_lasting(struct sweep *sweep)
{
    struct sweep_turn *turn = sweep->turn;
    size_t *at = &sweep->before_at;
    while (*at < sweep->before_count && sweep->before[*at].extent < sweep->extent)
        (*at)++;
    bool known = *at < sweep->before_count && sweep->before[*at].extent == sweep->extent;
    unsigned tries = known ? MIN(sweep->before[*at].tries + 1, TRIES_MAX) : 1;
    turn->unread[turn->unread_count++] = (struct unread){ sweep->extent, tries };
    return tries == TRIES_MAX;
}

/* For an extent that can't be held. If it has no rows left, an earlier sweep deleted its
 * entries. */
static enum err without_rows(struct sweep *sweep)
{
    struct extents *extents = sweep->volume->extents;
    enum err state = extent_state(extents, sweep->extent);
    if (state == ERR_NOT_FOUND || !extent_rows(sweep->held))
        return OK;    /* recycled, or without entries */
    if (state == ERR_GONE || extent_is_lost(extents, sweep->extent))
        return forget_rest(sweep, 0);    /* none of its records can be read */
    if (!is_lasting(sweep))
        return ERR_IO;
    if (state == ERR_IO)    /* since the opening */
        return forget_rest(sweep, 0);
    note_unswept(sweep, true);
    return OK;
}

/* The number of rows is taken before the rows are read, because an open extent may get more rows
 * meanwhile, and may be sealed. */
static enum err read_rows(struct sweep *sweep)
{
    uint32_t rows = extent_rows(sweep->held);
    struct toc toc;
    struct toc_row row;
    enum err e = extent_table(sweep->volume->extents, sweep->extent, &toc);
    if (e)
        return e == ERR_NOT_FOUND ? without_rows(sweep) : e;
    if (toc.partial && !is_lasting(sweep))
        e = ERR_IO;
    for (struct toc_cursor at = toc_begin(&toc); !e && toc_next(&at, &row);)
        e = visit(sweep, &row);
    if (!e)
        e = flush(sweep);
    if (!e && toc.scanned && toc.count < rows)
        e = forget_rest(sweep, toc.count);
    toc_free(&toc);
    return e;
}

static void read_extent(struct sweep *sweep, uint32_t number)
{
    sweep->extent = number;
    sweep->held = extent_ref(sweep->volume->extents, number);
    if (!sweep->held)
        return;    /* recycled */
    enum err e = read_rows(sweep);
    sweep->count = sweep->entries = 0;
    extent_release(&sweep->held);
    if (e && extent_is_there(sweep->volume->extents, number))
        note_unswept(sweep, false);
}

static void note_progress(struct sweep *sweep, uint32_t number, int32_t more)
{
    for (size_t i = 0; i < sweep->row_count; i++) {
        if (!covers_extent(&sweep->rows[i], number))
            continue;
        sweep->rows[i].extents += more > 0;
        sweep->rows[i].left = (uint32_t)((int32_t)sweep->rows[i].left + more);
    }
}

static void read_extents(struct sweep *sweep)
{
    struct volume *volume = sweep->volume;
    uint32_t *numbers;
    size_t count = extents_numbers(volume->extents, &sweep->keep, &numbers), covered = 0, seen = 0;
    sweep->turn->unread = must_alloc((count + 1) * sizeof(*sweep->turn->unread));
    for (size_t i = 0; i < count; i++) {
        covered += is_any_covered(sweep, numbers[i]);
        note_progress(sweep, numbers[i], 1);
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_any_covered(sweep, numbers[i]))
            continue;
        if (is_stopping(sweep->store) || !volume_is_serving(volume)) {
            for (size_t row = 0; row < sweep->row_count; row++)
                sweep->rows[row].failed = true;
            return;
        }
        if (seen++ % (covered / REPORTS + 1) == 0)
            bans_progress(volume->bans, sweep->rows, sweep->row_count);
        read_extent(sweep, numbers[i]);
        note_progress(sweep, numbers[i], -1);
    }
    bans_progress(volume->bans, sweep->rows, sweep->row_count);
}

/* Notes what the next sweep waits for. A purge waits for volumes with names only if it has no other
 * work left. */
static void note_end(struct sweep *sweep)
{
    struct sweep_turn *turn = sweep->turn;
    bool unopened = extents_unopened(sweep->volume->extents) > 0;
    for (size_t i = 0; i < sweep->row_count; i++) {
        struct bans_row *row = &sweep->rows[i];
        row->unread |= unopened;
        turn->failed |= row->failed;
        turn->incomplete |= row->unread;
        turn->lacks |= row->lacks;
        if (row->failed || row->unread)
            row->lacks = 0;
    }
    turn->late_ms = ageing_ms() + LATE_MS;
}

/* Returns true if all could be decided. Otherwise the turn says what could not. */
static bool sweep_volume(struct store *store, struct volume *volume, struct sweep_turn *turn)
{
    struct sweep *sweep = must_alloc(sizeof(*sweep));
    unsigned opening = atomic_load(&volume->bans->opening);
    sweep->before = turn->unread;
    sweep->before_count = turn->opening == opening ? turn->unread_count : 0;
    *turn = (struct sweep_turn){ .version = atomic_load(&volume->bans->followed),
                                 .opening = opening };
    sweep->store = store;
    sweep->volume = volume;
    sweep->turn = turn;
    sweep->row_count = bans_unswept(volume->bans, &sweep->keep, &sweep->rows);
    for (size_t i = 0; i < sweep->row_count; i++) {
        struct bans_row *row = &sweep->rows[i];
        *row = (struct bans_row){ .ban = row->ban, .bucket = row->bucket };
    }
    read_extents(sweep);
    note_end(sweep);
    bool done = !turn->failed && !turn->incomplete && !turn->lacks;
    (void)failpoint(FAIL_SWEPT);
    bans_sweep_ended(volume->bans, opening, sweep->rows, sweep->row_count);
    free(sweep->last.text);
    free(sweep->before);
    arena_free(&sweep->keep);
    free(sweep);
    return done;
}

/* ---- bans that are not needed any more ---- */

/* Returns true if each volume of the installation serves, has this version of the list in its file,
 * and has opened all its extents. The extents of a folder out of service are not known. A purge may
 * cover an extent whose file could not be opened, and an index that is built anew after a later
 * opening would have its purged records again. */
static bool follow_all(const struct store *store, uint64_t version)
{
    bool all = true;
    for (size_t i = 0; i < store->volume_count; i++)
        if (store->installation.route[i].weight)
            all &= volume_is_serving(store->volumes[i]) &&
                   atomic_load(&store->volumes[i]->bans->written) == version &&
                   !extents_unopened(store->volumes[i]->extents);
    return all;
}

static void trim(struct store *store)
{
    struct ban_list *list = &store->installation.bans;
    uint64_t version = ban_list_version(list);
    size_t count = 0;
    struct arena keep = { 0 };
    if (!version || !follow_all(store, version))
        return;
    uint64_t *needed = must_alloc(store->volume_count * PREFIX_ROWS_MAX * sizeof(*needed));
    for (size_t i = 0; i < store->volume_count; i++) {
        struct volume *volume = store->volumes[i];
        uint32_t *numbers;
        size_t extents = extents_numbers(volume->extents, &keep, &numbers);
        count += bans_needed(volume->bans, numbers, extents, needed + count);
    }
    qsort(needed, count, sizeof(*needed), serial_order);
    if (follow_all(store, version) &&    /* none has been closed meanwhile */
        ban_list_forget(list, version, needed, count))
        (void)failpoint(FAIL_BAN_FORGOTTEN);
    free(needed);
    arena_free(&keep);
}

/* ---- the thread ---- */

static bool has_work(const struct volume *volume)
{
    return guard_on(GUARD_BANS) && atomic_load(&volume->service.open) &&
           atomic_load(&volume->bans->unswept) > 0;
}

/* A sweep that lacks names of a folder out of service waits for that folder, or for new bans. It
 * would find nothing else before. A sweep that lacks an extent or rows of it waits for the next
 * opening, for new bans, or until the recycler may have taken the extent. */
static bool is_due(const struct store *store, const struct volume *volume,
                   const struct sweep_turn *turn)
{
    bool due = turn->failed || atomic_load(&volume->bans->followed) != turn->version ||
               atomic_load(&volume->bans->opening) != turn->opening ||
               (turn->incomplete && ageing_ms() >= turn->late_ms);
    for (size_t i = 0; i < store->volume_count; i++)
        due |= turn->lacks & bit_of(i) && volume_is_serving(store->volumes[i]);
    return due && ageing_ms() >= turn->again_ms;
}

/* Sweeps the volumes whose time has come. Returns true if there may be more to do at once. */
static bool sweep_all(struct store *store, struct sweep_turn turns[VOLUMES_MAX])
{
    bool more = false;
    for (size_t i = 0; i < store->volume_count; i++) {
        struct sweep_turn *turn = &turns[i];
        if (!has_work(store->volumes[i]) || !is_due(store, store->volumes[i], turn))
            continue;
        bool done = sweep_volume(store, store->volumes[i], turn);
        if (done)
            turn->failed = true;    /* the next bans are swept at once */
        else
            turn->again_ms = ageing_ms() + REPEAT_MS;
        more |= done;
    }
    return more;
}

void *sweep_run(void *arg)
{
    struct store *store = arg;
    struct ban_list *list = &store->installation.bans;
    uint64_t trimmed_ms = mono_ms();
    struct sweep_turn turns[VOLUMES_MAX];
    for (size_t i = 0; i < VOLUMES_MAX; i++)
        turns[i] = (struct sweep_turn){ .failed = true };
    pthread_mutex_lock(&list->lock);
    while (!list->stopping) {
        pthread_mutex_unlock(&list->lock);
        bool more = sweep_all(store, turns);
        if (mono_ms() >= trimmed_ms + TRIM_MS) {
            trim(store);
            trimmed_ms = mono_ms();
        }
        pthread_mutex_lock(&list->lock);
        if (!more && !list->stopping)
            cond_wait_until(&list->changed, &list->lock, mono_ns() + LOOK_MS * 1000000u);
    }
    pthread_mutex_unlock(&list->lock);
    for (size_t i = 0; i < VOLUMES_MAX; i++)
        free(turns[i].unread);
    return NULL;
}
