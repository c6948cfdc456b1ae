/* index_write.c - the index's one write transaction. SPDX-License-Identifier: Apache-2.0
 *
 * LMDB changes copies of pages on the heap, and a broken page may make it write beyond the copy. So
 * pages are checked first (index_pages.h): the meta page and the tree of free pages when a
 * transaction begins, for each look-up the pages that lead to its key, and for each change the
 * pages that it may touch. A broken page makes the index bad before LMDB uses the page. Look-ups
 * are checked, too: the committer changes an entry that it found (a refusal, a proof) and writes it
 * back. An out-of-date entry would thus become the latest one.
 *
 * Committer only. */
#include "store/index_inside.h"

#include <stdlib.h>
#include <string.h>

static enum err writing(struct index *index, lmdb_call *call, struct ask *ask)
{
    if (index_is_bad(index) || !index->writing)
        return ERR_IO;
    return index_call(index, call, ask);
}

static int do_begin(struct ask *ask)
{
    int rc = mdb_txn_begin(ask->env, NULL, 0, &ask->index->writing);
    if (rc)
        return rc;
    ask->index->next_highest = index_highest(ask->index);
    rc = snapshot_begin(ask->index, mdb_txn_id(ask->index->writing));
    if (rc)
        mdb_txn_abort(ask->index->writing);
    return rc;
}

/* Ignores an entry that fails its checksum. */
static void note_change(struct index *index, const MDB_val *key, const MDB_val *value, bool added)
{
    struct entry entry;
    slice bytes = { value->mv_data, value->mv_size };
    if (key->mv_size != ENTRY_KEY_BYTES || entry_decode(key->mv_data, bytes, &entry) != OK)
        return;
    if (index->change_count == index->change_max) {
        index->change_max = MAX(256, 2 * index->change_max);
        index->changes = realloc(index->changes, index->change_max * sizeof(*index->changes));
        check(index->changes != NULL);
    }
    bool alone = entry_key_unit(key->mv_data) == METADATA_UNIT;
    index->changes[index->change_count++] =
        (struct index_change){ entry.extent, entry.ordinal, entry.len, added,
                               .metadata = entry.whole || alone, .data = !alone,
                               .evicted = index->evicting };
}

void index_set_evicting(struct index *index, bool evicting)
{
    index->evicting = evicting;
}

size_t index_changes(const struct index *index, const struct index_change **ret)
{
    *ret = index->changes;
    return index->change_count;
}

/* Puts the value, or deletes the key if `value` is NULL. Notes the old value, if there is one. */
static int replace(struct index *index, MDB_val *key, MDB_val *value)
{
    MDB_val old;
    int rc = mdb_get(index->writing, index->dbi, key, &old);
    if (!rc)
        note_change(index, key, &old, false);
    if (!value)
        return rc ? rc : mdb_del(index->writing, index->dbi, key, NULL);
    if (!rc || rc == MDB_NOTFOUND)
        rc = mdb_put(index->writing, index->dbi, key, value, 0);
    if (!rc)
        note_change(index, key, value, true);
    return rc;
}

/* Checks the pages that the change may touch, and then makes the change. */
static int change(struct index *index, MDB_val key, MDB_val *value)
{
    struct index_pages *pages = &index->pages;
    check(index->writing != NULL);
    slice name = { key.mv_data, key.mv_size };
    if (pages->map && !(value ? index_pages_put(pages, name) : index_pages_delete(pages, name)))
        return MDB_CORRUPTED;
    index_memos_change(index, name, mdb_txn_id(index->writing));
    int rc = replace(index, &key, value);
    if (!rc && pages->map)
        index_pages_changed(pages);
    return rc;
}

enum err index_begin(struct index *index)
{
    check(index->writing == NULL);
    struct ask ask = { .env = atomic_load(&index->env) };
    index->change_count = 0;
    index->evicting = false;
    if (!ask.env || index_is_bad(index))
        return ERR_IO;
    enum err e = index_call(index, do_begin, &ask);
    if (e)
        index->writing = NULL;
    return e;
}

/* Checks the pages that lead to the key, before LMDB follows them. Their tree is that of the latest
 * commit. */
static bool leads_there(struct ask *ask)
{
    struct index_pages *pages = &ask->index->pages;
    MDB_val key = index_key(ask, ask->unit);
    ask->snapshot.number = mdb_txn_id(ask->index->writing) - 1;
    return !pages->map || index_pages_lead(pages, (slice){ key.mv_data, key.mv_size });
}

static int do_find(struct ask *ask)
{
    MDB_val key = index_key(ask, ask->unit), value;
    if (!leads_there(ask))
        return MDB_CORRUPTED;
    int rc = mdb_get(ask->index->writing, ask->index->dbi, &key, &value);
    return rc ? rc : index_decode(ask, &key, &value, ask->entries);
}

enum err index_find(struct index *index, const struct object_id *id, uint32_t unit,
                    struct entry *ret)
{
    struct ask ask = { .id = id, .unit = unit, .entries = ret };
    return writing(index, do_find, &ask);
}

static int do_find_next(struct ask *ask)
{
    MDB_cursor *cursor;
    if (!leads_there(ask))
        return MDB_CORRUPTED;
    int rc = mdb_cursor_open(ask->index->writing, ask->index->dbi, &cursor);
    if (rc)
        return rc;
    rc = index_cursor_from(cursor, ask);
    mdb_cursor_close(cursor);
    return rc;
}

enum err index_find_next(struct index *index, const struct object_id *id, uint32_t unit,
                         uint32_t *ret_unit, struct entry *ret)
{
    struct ask ask = { .id = id, .unit = unit, .entries = ret, .ret_unit = ret_unit };
    return writing(index, do_find_next, &ask);
}

static int raise_highest(struct index *index, uint32_t extent)
{
    uint32_t numbers[2] = { extent, ~extent };
    MDB_val value = { sizeof(numbers), numbers };
    if (extent <= index->next_highest)
        return MDB_SUCCESS;
    int rc = change(index, index_highest_key(), &value);
    if (!rc)
        index->next_highest = extent;
    return rc;
}

/* The transaction that names an extent first also notes its number. */
static int do_put(struct ask *ask)
{
    int rc = raise_highest(ask->index, ask->put->extent);
    if (rc)
        return rc;
    uint8_t bytes[ENTRY_BYTES];
    MDB_val key = index_key(ask, ask->unit), value = { sizeof(bytes), bytes };
    entry_encode(ask->put, ask->key, bytes);
    return change(ask->index, key, &value);
}

enum err index_find_from(struct index *index, const struct object_id *id, uint32_t unit,
                         struct object_id *ret_id, uint32_t *ret_unit, struct entry *ret)
{
    struct ask ask = { .id = id, .unit = unit, .entries = ret, .ret_unit = ret_unit,
                       .ret_id = ret_id };
    return writing(index, do_find_next, &ask);
}

enum err index_put(struct index *index, const struct object_id *id, uint32_t unit,
                   const struct entry *entry)
{
    struct ask ask = { .id = id, .unit = unit, .put = entry };
    return writing(index, do_put, &ask);
}

static int do_delete(struct ask *ask)
{
    return change(ask->index, index_key(ask, ask->unit), NULL);
}

enum err index_delete(struct index *index, const struct object_id *id, uint32_t unit)
{
    struct ask ask = { .id = id, .unit = unit };
    return writing(index, do_delete, &ask);
}

static int do_opening(struct ask *ask)
{
    MDB_val key = index_opening_key(), value;
    int rc = mdb_get(ask->index->writing, ask->index->dbi, &key, &value);
    if (rc || value.mv_size != sizeof(ask->number))
        return rc ? rc : MDB_CORRUPTED;
    memcpy(&ask->number, value.mv_data, sizeof(ask->number));
    return MDB_SUCCESS;
}

enum err index_opening(struct index *index, uint64_t *ret)
{
    struct ask ask = { 0 };
    enum err e = writing(index, do_opening, &ask);
    if (e == ERR_NOT_FOUND)
        e = OK;
    if (!e)
        *ret = ask.number;
    return e;
}

static int do_set_opening(struct ask *ask)
{
    MDB_val key = index_opening_key(), value = { sizeof(ask->number), &ask->number };
    return change(ask->index, key, &value);
}

enum err index_set_opening(struct index *index, uint64_t opening)
{
    struct ask ask = { .number = opening };
    return writing(index, do_set_opening, &ask);
}

static int do_raise_highest(struct ask *ask)
{
    return raise_highest(ask->index, (uint32_t)ask->number);
}

enum err index_raise_highest(struct index *index, uint32_t extent)
{
    struct ask ask = { .number = extent };
    return writing(index, do_raise_highest, &ask);
}

static int do_commit(struct ask *ask)
{
    struct index *index = ask->index;
    MDB_txn *txn = index->writing;
    uint64_t number = mdb_txn_id(txn);
    index->writing = NULL;    /* mdb_txn_commit frees it even if it fails */
    atomic_store(&index->committing, number);
    int rc = mdb_txn_commit(txn);
    if (!rc) {
        atomic_store(&index->highest, index->next_highest);
        rc = snapshot_committed(index, number);
    }
    atomic_store(&index->committing, 0);
    return rc;
}

enum err index_commit(struct index *index)
{
    struct ask ask = { 0 };
    return writing(index, do_commit, &ask);
}

static int do_abort(struct ask *ask)
{
    MDB_txn *txn = ask->index->writing;
    ask->index->writing = NULL;
    mdb_txn_abort(txn);
    return MDB_SUCCESS;
}

void index_abort(struct index *index)
{
    struct ask ask = { 0 };
    if (index->writing && !atomic_load(&index->faulted))
        (void)!index_call(index, do_abort, &ask);
    index->writing = NULL;
}
