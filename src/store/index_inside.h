/* index_inside.h - what the files of the index share. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_INDEX_INSIDE_H
#define STORE_INDEX_INSIDE_H

#include <lmdb.h>
#include <stdatomic.h>

#include "store/index.h"
#include "store/metas.h"
#include "store/index_pages.h"

#define SLOTS 64u
#define INDEX_MARKS 16384u

struct slot {
    _Alignas(64) atomic_bool busy;
    MDB_txn *txn;
    MDB_cursor *cursor;
};

/* Marks show whether a memo is still right (index_memo.c). */
struct index_marks {
    _Atomic uint32_t opening;         /* the number of this opening; 0: closed */
    _Atomic uint64_t row[INDEX_MARKS];    /* of many objects each: their latest transaction */
};

struct index {
    _Atomic(MDB_env *) env;           /* NULL: closed; readers look only after taking a slot */
    MDB_dbi dbi;
    atomic_bool bad;
    atomic_bool faulted;              /* bad, and a fault interrupted LMDB inside a call */
    MDB_txn *writing;
    MDB_txn *learning;                /* of an opening in progress, which only reads */
    /* For the committer only, except for the map and the list of free pages. If the map is NULL, no
     * page is checked. */
    struct index_pages pages;
    /* The latest commit (index_snapshot.c). */
    _Atomic uint64_t newest;          /* the number of its transaction */
    _Atomic uint64_t committing;      /* the transaction being committed; 0: none */
    _Atomic uint64_t seals[2];        /* seals of the meta pages of the last even and odd one */
    struct slot slots[SLOTS];
    char *note;                       /* path of the note of a crash (trap.h), or NULL */
    /* the changes of the write transaction so far; then those of the latest commit */
    struct index_change *changes;
    size_t change_count, change_max;
    bool evicting;
    _Atomic uint64_t damaged;         /* entries whose checksum failed */
    _Atomic uint32_t highest;         /* row INDEX_HIGHEST of the latest commit; 0: there is none */
    uint32_t next_highest;            /* the same, of the write transaction */
    struct index_marks marks;
};

/* The snapshot of the index that a read transaction reads. The thread that asks writes it when the
 * transaction begins. */
struct read_snapshot {
    uint64_t number;                  /* of the transaction that committed it */
    uint64_t seal;                    /* of its meta page (index_snapshot.c) */
};

/* The arguments and results of one call into LMDB. A call may end at any instruction, if it
 * meets a damaged page. So the results lie here and not on its stack. */
struct ask {
    int (*call)(struct ask *ask);
    int (*read)(struct ask *ask);     /* do_read calls it in its transaction */
    struct index *index;
    MDB_env *env;
    struct slot *slot;
    const struct object_id *id;
    struct object_id *ret_id;         /* the object of the entry found; NULL: only that of `id` */
    uint32_t unit, count;
    const struct entry *put;
    uint64_t number;
    struct index_size size;
    struct entry *entries;            /* the entries found, in the caller's memory */
    uint32_t found;
    uint32_t *ret_unit;               /* the unit of the entry found, in the caller's memory */
    uint8_t key[ENTRY_KEY_BYTES];     /* see index_key */
    struct read_snapshot snapshot;
    struct index_row *rows;           /* the entries of index_get_rows, in the caller's memory */
    const char *path;
    bool only_read;                   /* the index is opened to read */
};
typedef int lmdb_call(struct ask *ask);

/* Runs the call in a trap. A fault, or a result that shows damage, makes the index bad. */
enum err index_call(struct index *index, lmdb_call *call, struct ask *ask) MUST_USE;
/* The keys of the two rows that are no entries. They are shorter than the key of any entry, and of
 * one length. The value of each row has 8 bytes. */
#define INDEX_OPENING "opening"
#define INDEX_HIGHEST "highest"
static inline MDB_val index_opening_key(void)
{
    static const char name[] = INDEX_OPENING;
    return (MDB_val){ sizeof(name), (void *)(uintptr_t)name };
}
static inline MDB_val index_highest_key(void)
{
    static const char name[sizeof(INDEX_OPENING)] = INDEX_HIGHEST;
    return (MDB_val){ sizeof(name), (void *)(uintptr_t)name };
}
/* The key of the object of `ask` and a unit; in `ask`, until the next call. */
MDB_val index_key(struct ask *ask, uint32_t unit);
/* Decodes an entry. Returns MDB_CORRUPTED if its checksum fails, or if it lies in a page that the
 * snapshot of `ask` does not use. */
int index_decode(const struct ask *ask, const MDB_val *key, const MDB_val *value,
                 struct entry *ret);
/* Finds the first entry at or after the key of `ask`: of its object, or, with ret_id, of any. */
int index_cursor_from(MDB_cursor *cursor, struct ask *ask);

/* As index_get_run. *ret_number: of the transaction whose commit was read. */
uint32_t index_get_run_as_of(struct index *index, const struct object_id *id, uint32_t first,
                             uint32_t count, struct entry *ret, uint64_t *ret_number);

/* ---- entries that are kept with metadata: index_memo.c ---- */

/* To be called before readers find the index, and when it is closed. */
void index_memos_begin(struct index *index);
void index_memos_end(struct index *index);
/* To be called before this transaction changes the entry of the key. */
void index_memos_change(struct index *index, slice key, uint64_t transaction);

/* ---- LMDB's lock file: index_lock.c ---- */

struct index_lock {
    int file;                         /* in memory; -1: there is none */
    char path[4096];                  /* the name that LMDB opens */
};
/* The next opening of the index in the folder finds its lock file in memory. Where this is
 * impossible (/proc is not mounted), LMDB makes a file in the folder. */
void index_lock_begin(struct index_lock *lock, const char *folder);
/* To be called after the opening, successful or not. */
void index_lock_end(struct index_lock *lock);

/* ---- the tree that readers must read: index_snapshot.c ---- */

/* To be called after the index was opened, in a trap. From now on the tree that is committed at
 * this time counts as the right one. */
int snapshot_learn(struct index *index, MDB_env *env);
void snapshot_forget(struct index *index);    /* no reader is left */
/* The committer calls it after mdb_txn_commit. */
int snapshot_committed(struct index *index, uint64_t transaction);
/* To be called when a write transaction begins: fails unless it follows the newest commit. */
int snapshot_begin(struct index *index, uint64_t transaction);
/* Judges a read transaction of `ask->snapshot`, which began after the caller had read `newest`.
 * SNAPSHOT_AGAIN: a commit came between the two, and the caller must begin anew. */
enum snapshot { SNAPSHOT_RIGHT, SNAPSHOT_AGAIN, SNAPSHOT_WRONG };
enum snapshot snapshot_judge(struct ask *ask, uint64_t newest);
/* To be called after all was read. Returns false if a later commit may have reused pages that were
 * read; the caller must then read again. */
bool snapshot_stands(const struct ask *ask);

#endif
