/* index_write.c - the index's one write transaction. SPDX-License-Identifier: Apache-2.0
 *
 * The committer's thread only. */
#include "store/index_inside.h"

#include <string.h>

static const char meta_name[] = "opening";    /* shorter than any entry's key */

static enum err writing(struct index *index, lmdb_call *call, struct ask *ask)
{
    if (index_is_bad(index) || !index->writing)
        return ERR_IO;
    return index_call(index, call, ask);
}

static int do_begin(struct ask *ask)
{
    return mdb_txn_begin(ask->env, NULL, 0, &ask->index->writing);
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
    return mdb_put(ask->index->writing, ask->index->dbi, &key, &value, 0);
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
    MDB_val key = { sizeof(name), name };
    return mdb_del(ask->index->writing, ask->index->dbi, &key, NULL);
}

enum err index_delete(struct index *index, const struct object_id *id, uint32_t unit)
{
    struct ask ask = { .id = id, .unit = unit };
    return writing(index, do_delete, &ask);
}

static MDB_val meta_key(void)
{
    return (MDB_val){ sizeof(meta_name), (void *)(uintptr_t)meta_name };
}

static int do_opening(struct ask *ask)
{
    MDB_val key = meta_key(), value;
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
    MDB_val key = meta_key(), value = { sizeof(ask->number), &ask->number };
    return mdb_put(ask->index->writing, ask->index->dbi, &key, &value, 0);
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
