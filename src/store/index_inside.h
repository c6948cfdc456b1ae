/* index_inside.h - what the files of the index share. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_INDEX_INSIDE_H
#define STORE_INDEX_INSIDE_H

#include <lmdb.h>
#include <stdatomic.h>

#include "store/index.h"
#include "store/metas.h"
#include "store/index_pages.h"

#define SLOTS 64u

struct slot {
    _Alignas(64) atomic_bool busy;
    MDB_txn *txn;
    MDB_cursor *cursor;
};

struct index {
    _Atomic(MDB_env *) env;           /* NULL: closed; readers look only after taking a slot */
    MDB_dbi dbi;
    atomic_bool bad;
    atomic_bool faulted;              /* bad, and LMDB was left in the middle of something */
    MDB_txn *writing;
    /* The committer's, but for the map and the list of what is free; map NULL: unguarded. */
    struct index_pages pages;
    /* What was last committed (index_snapshot.c). */
    _Atomic uint64_t newest;          /* its number */
    _Atomic uint64_t committing;      /* the one being committed; 0: none */
    _Atomic uint64_t seals[2];        /* the meta pages of the last even and odd one */
    struct slot slots[SLOTS];
};

/* Everything one call into LMDB may want. */
struct ask {
    int (*call)(struct ask *ask);
    int (*read)(struct ask *ask);     /* do_read: what to do in the transaction */
    struct index *index;
    MDB_env *env;
    struct slot *slot;
    const struct object_id *id;
    uint32_t unit, count;
    const struct entry *put;
    uint64_t number;
    struct index_size size;
    struct entry *entries;            /* what was found: in the caller's memory */
    uint32_t found, found_unit;
    uint64_t snapshot, seal;          /* the transaction whose tree is read, and its meta page's */
    const char *path;
};
typedef int lmdb_call(struct ask *ask);

/* Runs it in a trap. A fault, or an answer that says so, makes the index bad. */
enum err index_call(struct index *index, lmdb_call *call, struct ask *ask) MUST_USE;
/* The one key that is no entry's: shorter than any. */
#define INDEX_OPENING "opening"
static inline MDB_val index_opening_key(void)
{
    static const char name[] = INDEX_OPENING;
    return (MDB_val){ sizeof(name), (void *)(uintptr_t)name };
}
/* MDB_CORRUPTED if its checksum fails, or it lies where the ask's snapshot keeps nothing. */
int index_decode(const struct ask *ask, const MDB_val *key, const MDB_val *value,
                 struct entry *ret);
/* The first entry of ask's object from its unit on. */
int index_cursor_from(MDB_cursor *cursor, struct ask *ask);

/* ---- which tree is read: index_snapshot.c ---- */

/* The index has been opened: what is committed now is believed. In a trap. */
int snapshot_learn(struct index *index, MDB_env *env);
void snapshot_forget(struct index *index);    /* no reader is left */
/* Around mdb_txn_commit; the committer's. */
void snapshot_commits(struct index *index, uint64_t transaction);
int snapshot_committed(struct index *index, uint64_t transaction);
/* A write transaction begins: is it the one after the newest? */
int snapshot_begin(struct index *index, uint64_t transaction);
/* A read transaction of `ask->snapshot` has begun, after `newest` was read. AGAIN: a commit came
 * between, begin anew. */
enum snapshot { SNAPSHOT_RIGHT, SNAPSHOT_AGAIN, SNAPSHOT_WRONG };
enum snapshot snapshot_judge(struct ask *ask, uint64_t newest);
/* All was read; or a commit may have reused what was: read it anew. */
bool snapshot_stands(const struct ask *ask);

#endif
