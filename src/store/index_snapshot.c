/* index_snapshot.c - checks that a reader has the latest tree. SPDX-License-Identifier: Apache-2.0
 *
 * LMDB takes a tree's root from a meta page of its file, and the number of the latest transaction
 * from its lock file. A flipped bit in one of these leads to an older tree, whose entries were right
 * once. So the committer keeps facts of its commits in RAM: a seal (metas.h) of the meta page of
 * the latest even and of the latest odd transaction, and the pages that each of these two trees
 * does not use (free_pages.h). Each reader compares its transaction with these facts. A difference
 * makes the index bad.
 *
 *   committer   committing = N; mdb_txn_commit; pages noted; seals[N & 1]; newest = N;
 *               committing = 0
 *   reader      n = newest; transaction begins: number T; T >= n, its meta page has the seal of T;
 *               look-up; the entry found lies in a page that T uses; the seal of T still stands
 *
 * A reader that begins just as N lands has T = N before the seal of N is there. It waits until the
 * committer has read the list of free pages. If two commits overtake a reader, it begins anew: the
 * second one reuses the meta page and the marks of its transaction. */
#include "store/index_inside.h"

#include "base/guard.h"

static const struct node_shape shapes[] = {
    { ENTRY_KEY_BYTES, ENTRY_BYTES },
    { sizeof(INDEX_OPENING), sizeof(uint64_t) },
};

/* LMDB does not give the address of its map. It is derived from the address of the first entry,
 * because no index is empty. */
static int find_map(struct index *index, MDB_txn *txn, const MDB_envinfo *info, uint32_t page_bytes)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    mdb_filehandle_t file;
    int rc = mdb_env_get_fd(mdb_txn_env(txn), &file);
    if (!rc)
        rc = mdb_cursor_open(txn, index->dbi, &cursor);
    if (rc)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
    mdb_cursor_close(cursor);
    if (rc)
        return rc == MDB_NOTFOUND ? MDB_CORRUPTED : rc;
    index->pages = (struct index_pages){ .map = index_pages_map_of(key.mv_data, page_bytes, file),
                                         .count = info->me_mapsize / page_bytes,
                                         .page_bytes = page_bytes,
                                         .shapes = shapes, .shape_count = countof(shapes) };
    return index->pages.map ? MDB_SUCCESS : MDB_CORRUPTED;
}

static const uint8_t *meta_of(const struct index *index, uint64_t transaction)
{
    return index->pages.map + (transaction & 1) * index->pages.page_bytes;
}

static void take_seal(struct index *index, uint64_t transaction)
{
    atomic_store(&index->seals[transaction & 1],
                 meta_seal(meta_of(index, transaction), transaction));
}

static int learn(struct index *index, MDB_txn *txn, MDB_env *env)
{
    MDB_envinfo info;
    MDB_stat stat;
    uint64_t number = mdb_txn_id(txn);
    int rc = mdb_env_info(env, &info);
    if (!rc)
        rc = mdb_env_stat(env, &stat);
    if (!rc)
        rc = find_map(index, txn, &info, stat.ms_psize);
    if (rc)
        return rc;
    index->pages.free_pages = free_pages_new(index->pages.count);
    if (!index_pages_begin(&index->pages, number + 1))
        return MDB_CORRUPTED;
    take_seal(index, number - 1);
    take_seal(index, number);
    atomic_store(&index->newest, number);
    return MDB_SUCCESS;
}

int snapshot_learn(struct index *index, MDB_env *env)
{
    MDB_txn *txn;
    index->pages = (struct index_pages){ .map = NULL };
    atomic_store(&index->committing, 0);
    if (!guard_on(GUARD_PAGES))
        return MDB_SUCCESS;
    int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
    if (rc)
        return rc;
    index->learning = txn;
    rc = learn(index, txn, env);
    mdb_txn_abort(txn);
    return rc;
}

void snapshot_forget(struct index *index)
{
    free_pages_free(&index->pages.free_pages);
    index->pages = (struct index_pages){ .map = NULL };
}

/* ---- the committer ---- */

int snapshot_committed(struct index *index, uint64_t transaction)
{
    int rc = MDB_SUCCESS;
    /* without a change, LMDB writes no meta page */
    if (index->pages.map && meta_transaction(meta_of(index, transaction)) == transaction) {
        if (!index_pages_begin(&index->pages, transaction + 1))
            rc = MDB_CORRUPTED;
        take_seal(index, transaction);
        atomic_store(&index->newest, transaction);
    }
    return rc;
}

static bool has_seal(const struct index *index, uint64_t transaction)
{
    return atomic_load(&index->seals[transaction & 1]) ==
           meta_seal(meta_of(index, transaction), transaction);
}

int snapshot_begin(struct index *index, uint64_t transaction)
{
    if (!index->pages.map)
        return MDB_SUCCESS;
    if (guard_on(GUARD_META) && (transaction != atomic_load(&index->newest) + 1 ||
                                 !has_seal(index, transaction - 1)))
        return MDB_CORRUPTED;
    return index_pages_begin(&index->pages, transaction) ? MDB_SUCCESS : MDB_CORRUPTED;
}

/* The file `clean` keeps these values (clean.h). */
bool index_metas(struct index *index, struct metas *ret)
{
    uint64_t newest = atomic_load(&index->newest);
    if (!index->pages.map || index_is_bad(index) || !has_seal(index, newest) ||
        !has_seal(index, newest - 1))
        return false;
    metas_read(meta_of(index, 0), meta_of(index, 1), index->pages.page_bytes, ret);
    return ret->transaction == newest;
}

/* ---- readers ---- */

enum snapshot snapshot_judge(struct ask *ask, uint64_t newest)
{
    struct index *index = ask->index;
    if (!index->pages.map || !guard_on(GUARD_META))
        return SNAPSHOT_RIGHT;
    uint64_t number = ask->snapshot.number;
    if (number < newest)
        return SNAPSHOT_WRONG;
    uint64_t seal = ask->snapshot.seal = atomic_load(&index->seals[number & 1]);
    if (seal == meta_seal(meta_of(index, number), number))
        return SNAPSHOT_RIGHT;
    if ((int32_t)((uint32_t)(seal >> 32) - (uint32_t)number) > 0)
        return SNAPSHOT_AGAIN;    /* a later transaction already has the meta page */
    uint64_t committing = atomic_load(&index->committing);
    bool changes = committing == number || committing == number + 2 ||
                   atomic_load(&index->seals[number & 1]) != seal;
    return changes ? SNAPSHOT_AGAIN : SNAPSHOT_WRONG;
}

bool snapshot_stands(const struct ask *ask)
{
    const struct index *index = ask->index;
    const struct read_snapshot *snapshot = &ask->snapshot;
    return !index->pages.map || !guard_on(GUARD_META) ||
           atomic_load(&index->seals[snapshot->number & 1]) == snapshot->seal;
}
