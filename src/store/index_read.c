/* index_read.c - look-ups in the index, on any thread. SPDX-License-Identifier: Apache-2.0
 *
 * A reader takes a slot, which keeps one read transaction and one cursor. It renews them, checks
 * that it reads the tree of the latest commit (index_snapshot.c), copies entries out, resets the
 * transaction, and gives the slot back. That takes no lock and no allocation. If all slots are
 * taken, a reader waits for one. */
#include "store/index_inside.h"

#include <sched.h>
#include <string.h>

#include "base/metric.h"

static struct slot *slot_take(struct index *index)
{
    static atomic_uint threads;
    static _Thread_local unsigned mine;    /* 1 + the slot that this thread tries first */
    if (!mine)
        mine = 1 + atomic_fetch_add(&threads, 1) % SLOTS;
    for (unsigned i = mine - 1;; i = (i + 1) % SLOTS) {
        struct slot *slot = &index->slots[i];
        if (!atomic_load_explicit(&slot->busy, memory_order_relaxed) &&
            !atomic_exchange(&slot->busy, true))
            return slot;
        if (i == (mine - 1 + SLOTS / 2) % SLOTS)    /* once in a round */
            sched_yield();
    }
}

static int slot_renew(struct ask *ask)
{
    struct slot *slot = ask->slot;
    if (slot->txn) {
        int rc = mdb_txn_renew(slot->txn);
        return rc ? rc : mdb_cursor_renew(slot->txn, slot->cursor);
    }
    int rc = mdb_txn_begin(ask->env, NULL, MDB_RDONLY, &slot->txn);
    if (rc) {
        slot->txn = NULL;
        return rc;
    }
    rc = mdb_cursor_open(slot->txn, ask->index->dbi, &slot->cursor);
    if (rc) {
        mdb_txn_abort(slot->txn);
        slot->txn = NULL;
    }
    return rc;
}

/* Begins a transaction that reads the latest commit. */
static int slot_begin(struct ask *ask)
{
    for (;;) {
        uint64_t newest = atomic_load(&ask->index->newest);
        int rc = slot_renew(ask);
        if (rc)
            return rc;
        ask->snapshot.number = mdb_txn_id(ask->slot->txn);
        enum snapshot snapshot = snapshot_judge(ask, newest);
        if (snapshot == SNAPSHOT_RIGHT)
            return MDB_SUCCESS;
        mdb_txn_reset(ask->slot->txn);
        if (snapshot == SNAPSHOT_WRONG || index_is_bad(ask->index))
            return MDB_CORRUPTED;
        sched_yield();    /* the committer is about to publish its commit */
    }
}

/* Calls ask->read in a transaction, and again if commits have overtaken that transaction. */
static int do_read(struct ask *ask)
{
    int rc;
    bool stands;
    do {
        rc = slot_begin(ask);
        if (rc)
            return rc;
        rc = ask->read(ask);
        stands = snapshot_stands(ask);
        mdb_txn_reset(ask->slot->txn);
    } while (!stands);
    return rc;
}

/* Takes a slot, runs the call, and gives the slot back. */
static enum err reading(struct index *index, lmdb_call *call, struct ask *ask)
{
    if (index_is_bad(index))
        return ERR_IO;
    ask->slot = slot_take(index);
    ask->env = atomic_load(&index->env);
    enum err e = ask->env && !index_is_bad(index) ? index_call(index, call, ask) : ERR_IO;
    atomic_store_explicit(&ask->slot->busy, false, memory_order_release);
    return e;
}

MDB_val index_key(struct ask *ask, uint32_t unit)
{
    entry_key(ask->id, unit, ask->key);
    return (MDB_val){ sizeof(ask->key), ask->key };
}

int index_decode(const struct ask *ask, const MDB_val *key, const MDB_val *value,
                 struct entry *ret)
{
    const struct index_pages *pages = &ask->index->pages;
    slice bytes = { value->mv_data, value->mv_size };
    if (pages->map &&
        !index_pages_is_current(pages, ask->snapshot.number, value->mv_data, ENTRY_KEY_BYTES))
        return MDB_CORRUPTED;
    if (key->mv_size == ENTRY_KEY_BYTES && entry_decode(key->mv_data, bytes, ret) == OK)
        return MDB_SUCCESS;
    metric_add(M_STORE_CRC_BAD, 1);
    atomic_fetch_add(&ask->index->damaged, 1);
    return MDB_CORRUPTED;
}

static int cursor_get(struct ask *ask, uint32_t unit, struct entry *ret)
{
    MDB_val wanted = index_key(ask, unit), key = wanted, value;
    int rc = mdb_cursor_get(ask->slot->cursor, &key, &value, MDB_SET);
    return rc ? rc : index_decode(ask, &wanted, &value, ret);
}

static int find_metadata(struct ask *ask)
{
    *ask->ret_unit = 0;
    int rc = cursor_get(ask, 0, ask->entries);
    if (rc == MDB_NOTFOUND || (!rc && !ask->entries->whole)) {
        *ask->ret_unit = METADATA_UNIT;
        rc = cursor_get(ask, METADATA_UNIT, ask->entries);
    }
    return rc;
}

enum err index_get_metadata(struct index *index, const struct object_id *id, uint32_t *ret_unit,
                            struct entry *ret)
{
    struct ask ask = { .id = id, .entries = ret, .ret_unit = ret_unit, .read = find_metadata };
    return reading(index, do_read, &ask);
}

/* Reads the next entry. Returns MDB_NOTFOUND if it is not that of this object and unit. */
static int cursor_next(struct ask *ask, uint32_t unit, struct entry *ret)
{
    MDB_val wanted = index_key(ask, unit), key, value;
    int rc = mdb_cursor_get(ask->slot->cursor, &key, &value, MDB_NEXT);
    if (rc)
        return rc;
    if (key.mv_size != wanted.mv_size || memcmp(key.mv_data, wanted.mv_data, key.mv_size) != 0)
        return MDB_NOTFOUND;
    return index_decode(ask, &key, &value, ret);
}

static int find_run(struct ask *ask)
{
    ask->found = 0;
    int rc = cursor_get(ask, ask->unit, ask->entries);
    if (rc == MDB_NOTFOUND && ask->unit > 0 && ask->unit < RECORD_UNITS) {
        rc = cursor_get(ask, 0, ask->entries);
        if (!rc && !ask->entries->whole)
            return MDB_NOTFOUND;
    }
    if (rc)
        return rc;
    ask->found = 1;
    while (!ask->entries[0].whole && ask->found < ask->count) {
        rc = cursor_next(ask, ask->unit + ask->found, &ask->entries[ask->found]);
        if (rc)
            return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
        ask->found++;
    }
    return MDB_SUCCESS;
}

uint32_t index_get_run_as_of(struct index *index, const struct object_id *id, uint32_t first,
                             uint32_t count, struct entry *ret, uint64_t *ret_number)
{
    struct ask ask = { .id = id, .unit = first, .count = count, .entries = ret, .read = find_run };
    enum err e = reading(index, do_read, &ask);
    *ret_number = ask.snapshot.number;
    return e == OK ? ask.found : 0;
}

uint32_t index_get_run(struct index *index, const struct object_id *id, uint32_t first,
                       uint32_t count, struct entry *ret)
{
    uint64_t number;
    return index_get_run_as_of(index, id, first, count, ret, &number);
}

int index_cursor_from(MDB_cursor *cursor, struct ask *ask)
{
    MDB_val key = index_key(ask, ask->unit), value;
    int rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    if (rc)
        return rc;
    while (!rc && ask->ret_id && key.mv_size != ENTRY_KEY_BYTES)    /* not an entry */
        rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    if (rc)
        return rc;
    if (key.mv_size != ENTRY_KEY_BYTES)
        return MDB_NOTFOUND;
    if (ask->ret_id)
        memcpy(ask->ret_id->bytes, key.mv_data, sizeof(*ask->ret_id));
    else if (memcmp(key.mv_data, ask->id->bytes, sizeof(*ask->id)) != 0)
        return MDB_NOTFOUND;
    *ask->ret_unit = entry_key_unit(key.mv_data);
    return index_decode(ask, &key, &value, ask->entries);
}

static int find_next(struct ask *ask)
{
    return index_cursor_from(ask->slot->cursor, ask);
}

enum err index_get_next(struct index *index, const struct object_id *id, uint32_t unit,
                        uint32_t *ret_unit, struct entry *ret)
{
    struct ask ask = { .id = id, .unit = unit, .entries = ret, .ret_unit = ret_unit,
                       .read = find_next };
    return reading(index, do_read, &ask);
}

static int take_row(const struct ask *ask, const MDB_val *key, const MDB_val *value,
                    struct index_row *ret)
{
    memcpy(ret->id.bytes, key->mv_data, sizeof(ret->id));
    ret->unit = entry_key_unit(key->mv_data);
    return index_decode(ask, key, value, &ret->entry);
}

static int find_rows(struct ask *ask)
{
    MDB_cursor *cursor = ask->slot->cursor;
    MDB_val key = index_key(ask, ask->unit), value;
    int rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (ask->found = 0; !rc && ask->found < ask->count;) {
        if (key.mv_size == ENTRY_KEY_BYTES)
            rc = take_row(ask, &key, &value, &ask->rows[ask->found++]);
        else if (key.mv_size != sizeof(INDEX_OPENING))
            rc = MDB_CORRUPTED;
        if (!rc && ask->found < ask->count)
            rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    return rc == MDB_NOTFOUND && ask->found ? MDB_SUCCESS : rc;
}

enum err index_get_rows(struct index *index, const struct object_id *id, uint32_t unit,
                        uint32_t max, struct index_row *ret, uint32_t *ret_count)
{
    struct ask ask = { .id = id, .unit = unit, .count = max, .rows = ret, .read = find_rows };
    enum err e = reading(index, do_read, &ask);
    *ret_count = e ? 0 : ask.found;
    return e;
}

static int find_opening(struct ask *ask)
{
    MDB_val key = index_opening_key(), value;
    int rc = mdb_cursor_get(ask->slot->cursor, &key, &value, MDB_SET_KEY);
    if (rc || value.mv_size != sizeof(ask->number))
        return rc ? rc : MDB_CORRUPTED;
    memcpy(&ask->number, value.mv_data, sizeof(ask->number));
    return MDB_SUCCESS;
}

enum err index_get_opening(struct index *index, uint64_t *ret)
{
    struct ask ask = { .read = find_opening };
    enum err e = reading(index, do_read, &ask);
    *ret = e ? 0 : ask.number;
    return e == ERR_NOT_FOUND ? OK : e;
}

static int do_size(struct ask *ask)
{
    MDB_stat stat;
    MDB_envinfo info;
    int rc = mdb_env_stat(ask->env, &stat);
    if (!rc)
        rc = mdb_env_info(ask->env, &info);
    if (rc)
        return rc;
    size_t others = 1 + (index_highest(ask->index) > 0);    /* rows that are no entries */
    ask->size.entries = stat.ms_entries > others ? stat.ms_entries - others : 0;
    ask->size.bytes = (uint64_t)(info.me_last_pgno + 1) * stat.ms_psize;
    return MDB_SUCCESS;
}

struct index_size index_size(struct index *index)
{
    struct ask ask = { 0 };
    enum err e = reading(index, do_size, &ask);
    return e ? (struct index_size){ 0 } : ask.size;
}

static int do_check_readers(struct ask *ask)
{
    int dead;
    return mdb_reader_check(ask->env, &dead);
}

void index_check_readers(struct index *index)
{
    struct ask ask = { 0 };
    (void)!reading(index, do_check_readers, &ask);
}
