/* index_write.c - the index's one write transaction. SPDX-License-Identifier: Apache-2.0
 *
 * LMDB works on copies of pages on the heap, where a broken page may make it write beyond them. So
 * a beginning looks at the meta page and the tree of free pages, and each change at the pages it
 * may touch (pages.h); what is not sound makes the index bad before LMDB has seen it. The map's
 * address is not to be had from LMDB, so it is taken from the first entry found.
 *
 * The committer's thread only. */
#include "store/index_inside.h"

#include <string.h>

#include "base/guard.h"

static const struct node_shape shapes[] = {
    { ENTRY_KEY_BYTES, ENTRY_BYTES },
    { sizeof(INDEX_OPENING), sizeof(uint64_t) },
};

static enum err writing(struct index *index, lmdb_call *call, struct ask *ask)
{
    if (index_is_bad(index) || !index->writing)
        return ERR_IO;
    return index_call(index, call, ask);
}

/* An address in the map: what LMDB finds first. */
static int find_map(struct ask *ask)
{
    struct pages *pages = &ask->index->pages;
    MDB_envinfo info;
    MDB_stat stat;
    MDB_cursor *cursor;
    MDB_val key, value;
    int rc = mdb_env_info(ask->env, &info);
    if (!rc)
        rc = mdb_env_stat(ask->env, &stat);
    if (!rc)
        rc = mdb_cursor_open(ask->index->writing, ask->index->dbi, &cursor);
    if (rc)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
    mdb_cursor_close(cursor);
    if (rc)
        return rc;
    *pages = (struct pages){ .map = pages_map_of(key.mv_data, stat.ms_psize),
                             .count = info.me_mapsize / stat.ms_psize,
                             .page_bytes = stat.ms_psize,
                             .shapes = shapes, .shape_count = countof(shapes) };
    return pages->map ? MDB_SUCCESS : MDB_CORRUPTED;
}

static int look_at_pages(struct ask *ask)
{
    struct index *index = ask->index;
    if (!guard_on(GUARD_PAGES))
        return MDB_SUCCESS;
    int rc = index->pages.map ? MDB_SUCCESS : find_map(ask);
    if (rc)
        return rc == MDB_NOTFOUND ? MDB_CORRUPTED : rc;    /* the opening is there at least */
    return pages_begin(&index->pages, mdb_txn_id(index->writing)) ? MDB_SUCCESS : MDB_CORRUPTED;
}

static int do_begin(struct ask *ask)
{
    int rc = mdb_txn_begin(ask->env, NULL, 0, &ask->index->writing);
    if (rc)
        return rc;
    rc = look_at_pages(ask);
    if (rc)
        mdb_txn_abort(ask->index->writing);
    return rc;
}

/* Puts, or deletes if there is no value; but first the pages are looked at. */
static int change(struct index *index, MDB_val key, MDB_val *value)
{
    struct pages *pages = &index->pages;
    slice name = { key.mv_data, key.mv_size };
    if (pages->map && !(value ? pages_put(pages, name) : pages_delete(pages, name)))
        return MDB_CORRUPTED;
    int rc = value ? mdb_put(index->writing, index->dbi, &key, value, 0)
                   : mdb_del(index->writing, index->dbi, &key, NULL);
    if (!rc && pages->map)
        pages_changed(pages);
    return rc;
}

enum err index_begin(struct index *index)
{
    check(index->writing == NULL);
    struct ask ask = { .env = atomic_load(&index->env) };
    if (!ask.env || index_is_bad(index))
        return ERR_IO;
    enum err e = index_call(index, do_begin, &ask);
    if (e)
        index->writing = NULL;
    return e;
}

static int do_find(struct ask *ask)
{
    uint8_t wanted[ENTRY_KEY_BYTES];
    entry_key(ask->id, ask->unit, wanted);
    MDB_val key = { sizeof(wanted), wanted }, value;
    int rc = mdb_get(ask->index->writing, ask->index->dbi, &key, &value);
    return rc ? rc : index_decode(&key, &value, ask->entries);
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
    struct ask ask = { .id = id, .unit = unit, .entries = ret };
    enum err e = writing(index, do_find_next, &ask);
    if (!e)
        *ret_unit = ask.found_unit;
    return e;
}

static int do_put(struct ask *ask)
{
    uint8_t name[ENTRY_KEY_BYTES], bytes[ENTRY_BYTES];
    entry_key(ask->id, ask->unit, name);
    entry_encode(ask->put, name, bytes);
    MDB_val key = { sizeof(name), name }, value = { sizeof(bytes), bytes };
    return change(ask->index, key, &value);
}

enum err index_put(struct index *index, const struct object_id *id, uint32_t unit,
                   const struct entry *entry)
{
    struct ask ask = { .id = id, .unit = unit, .put = entry };
    return writing(index, do_put, &ask);
}

static int do_delete(struct ask *ask)
{
    uint8_t name[ENTRY_KEY_BYTES];
    entry_key(ask->id, ask->unit, name);
    return change(ask->index, (MDB_val){ sizeof(name), name }, NULL);
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

static int do_commit(struct ask *ask)
{
    MDB_txn *txn = ask->index->writing;
    ask->index->writing = NULL;    /* gone, whatever comes of it */
    return mdb_txn_commit(txn);
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
    if (index->writing && !atomic_load(&index->faulted)) {
        enum err ignored = index_call(index, do_abort, &ask);
        (void)ignored;
    }
    index->writing = NULL;
}
