/* index_inside.h - what the files of the index share. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_INDEX_INSIDE_H
#define STORE_INDEX_INSIDE_H

#include <lmdb.h>
#include <stdatomic.h>

#include "store/index.h"
#include "store/pages.h"

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
    struct pages pages;               /* the committer's; map NULL: not found yet */
    struct slot slots[SLOTS];
};

/* Everything one call into LMDB may want. */
struct ask {
    int (*call)(struct ask *ask);
    struct index *index;
    MDB_env *env;
    struct slot *slot;
    const struct object_id *id;
    uint32_t unit, count;
    const struct entry *put;
    uint64_t number;
    struct entry *entries;            /* what was found: in the caller's memory */
    uint32_t found, found_unit;
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
/* MDB_CORRUPTED if its checksum fails. */
int index_decode(const MDB_val *key, const MDB_val *value, struct entry *ret);
/* The first entry of ask's object from its unit on. */
int index_cursor_from(MDB_cursor *cursor, struct ask *ask);

#endif
