/* index.c - the index behind LMDB: opened, called, closed. SPDX-License-Identifier: Apache-2.0
 *
 * Only the files of the index (by index_inside.h) use LMDB.
 *
 * LMDB runs in its default durable mode: without WRITEMAP, with which a full disk would be a
 * SIGBUS; without DUPSORT; with NOTLS, so that transactions belong to slots and not to threads. The
 * map gets its size once, far more than the cache can hold (address space costs nothing), so it
 * never grows while a reader uses it.
 *
 * LMDB has no page checksums. Each value has a checksum of its own, and a broken page may fault, or
 * fail an assertion inside LMDB. So every call into LMDB runs in a trap (trap.h). After a fault or
 * a failed assertion the call returns here, the index is bad, and LMDB is never called for it
 * again. The index stays mapped, because LMDB was interrupted. The opening needs no test in a child
 * process, because the trap works at any time. A trap cannot undo a write beyond a page that LMDB
 * copied to the heap. So pages are checked before a write may touch them (index_pages.h). If the
 * process dies of a fault all the same, it leaves a note, and the next opening builds the index
 * anew.
 *
 * Closing first hides the environment from new readers (env = NULL), and then waits for the
 * slots. */
#include "store/index_inside.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/trap.h"

/* An environment in which a fault interrupted LMDB. It stays mapped, and is never used again. */
struct wreck {
    struct wreck *next;
    MDB_env *env;
    MDB_txn *writing, *learning, *txns[SLOTS];
    MDB_cursor *cursors[SLOTS];
};
static _Atomic(struct wreck *) wrecks;

/* ---- every call into LMDB ---- */

static void assertion_failed(MDB_env *env, const char *text)
{
    (void)env;
    (void)text;
    trap_spring();
}

static bool file_sizes_are_limited(void)
{
    struct rlimit files;
    return getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
}

/* If a disk has room for only a part of what LMDB writes, LMDB returns EIO, but no system call has
 * failed. A file at the limit of file sizes has no room either. */
static int call_of(void *arg)
{
    struct ask *ask = arg;
    errno = 0;
    int rc = ask->call(ask);
    bool full = (rc == EIO && errno != EIO) || (rc == EFBIG && file_sizes_are_limited());
    return full ? ENOSPC : rc;
}

static int trapped(lmdb_call *call, struct ask *ask)
{
    int rc;
    ask->call = call;
    if (trap_run(call_of, ask, &rc))
        return rc;
    atomic_store(&ask->index->faulted, true);
    return MDB_CORRUPTED;
}

static enum err answer(struct index *index, int rc)
{
    switch (rc) {
    case MDB_SUCCESS:
        return OK;
    case MDB_NOTFOUND:
        return ERR_NOT_FOUND;
    case MDB_MAP_FULL:
    case MDB_TXN_FULL:
        return ERR_LIMIT;
    case ENOSPC:
    case EDQUOT:
        return ERR_FULL;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_MAP_RESIZED:    /* only this process writes it, so a meta page is broken */
    case MDB_CURSOR_FULL:
    case MDB_PAGE_FULL:
    case MDB_INCOMPATIBLE:
    case MDB_BAD_VALSIZE:
    case MDB_KEYEXIST:       /* the tree claims to be empty (open_tree) */
    case EFBIG:              /* a broken page named a page far beyond the map, to be written */
    case EINVAL:
        atomic_store(&index->bad, true);
        return ERR_IO;
    default:
        return ERR_IO;
    }
}

enum err index_call(struct index *index, lmdb_call *call, struct ask *ask)
{
    ask->index = index;
    return answer(index, trapped(call, ask));
}

/* ---- opening and closing ---- */

#define NOTE_MAX 4096

/* Returns false if the path is too long. */
static bool note_of(const char *path, char ret[NOTE_MAX])
{
    return snprintf(ret, NOTE_MAX, "%s/" INDEX_SUSPECT, path) < NOTE_MAX;
}

struct index *index_new(void)
{
    struct index *index = aligned_alloc(64, round_up(sizeof(*index), 64));
    check(index != NULL);
    memset(index, 0, sizeof(*index));
    return index;
}

void index_free(struct index **index)
{
    if (!*index)
        return;
    index_close(*index);
    free((*index)->changes);
    free(*index);
    *index = NULL;
}

/* A new index gets its first entry, the opening 0. So no index is ever empty. */
static int open_tree(MDB_txn *txn, bool only_read, MDB_dbi *ret_dbi)
{
    uint64_t opening = 0;
    unsigned flags;
    MDB_stat stat;
    MDB_val key = index_opening_key(), value = { sizeof(opening), &opening };
    int rc = mdb_dbi_open(txn, NULL, 0, ret_dbi);
    if (!rc)
        rc = mdb_dbi_flags(txn, *ret_dbi, &flags);
    if (!rc)
        rc = flags ? MDB_CORRUPTED : mdb_stat(txn, *ret_dbi, &stat);
    if (!rc && stat.ms_entries == 0 && only_read)
        rc = MDB_CORRUPTED;
    if (!rc && stat.ms_entries == 0)
        rc = mdb_put(txn, *ret_dbi, &key, &value, MDB_NOOVERWRITE);
    return rc;
}

/* Reads the row INDEX_HIGHEST, if there is one. The second number shows damage of the first. */
static int learn_highest(struct index *index, MDB_txn *txn)
{
    uint32_t numbers[2];
    MDB_val key = index_highest_key(), value;
    int rc = mdb_get(txn, index->dbi, &key, &value);
    if (rc)
        return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
    if (value.mv_size != sizeof(numbers))
        return MDB_CORRUPTED;
    memcpy(numbers, value.mv_data, sizeof(numbers));
    if (!numbers[0] || numbers[1] != ~numbers[0])
        return MDB_CORRUPTED;
    atomic_store(&index->highest, numbers[0]);
    return MDB_SUCCESS;
}

/* Without a lock file, and with the kernel's readahead, because all of it will be read. */
#define FLAGS_TO_READ (MDB_RDONLY | MDB_NOLOCK)
#define FLAGS_TO_WRITE MDB_NORDAHEAD

static int do_open(struct ask *ask)
{
    MDB_txn *txn;
    unsigned flags = MDB_NOTLS | (ask->only_read ? FLAGS_TO_READ : FLAGS_TO_WRITE);
    int rc = mdb_env_open(ask->env, ask->path, flags, 0600);
    if (rc)    /* a broken meta page may name a map size beyond all memory */
        return rc == ENOMEM ? MDB_CORRUPTED : rc;
    int dead;
    rc = mdb_reader_check(ask->env, &dead);
    if (!rc)
        rc = mdb_txn_begin(ask->env, NULL, ask->only_read ? MDB_RDONLY : 0, &txn);
    if (rc)
        return rc;
    ask->index->learning = ask->only_read ? txn : NULL;
    rc = open_tree(txn, ask->only_read, &ask->index->dbi);
    if (!rc)
        rc = learn_highest(ask->index, txn);
    if (rc) {
        mdb_txn_abort(txn);
        return rc;
    }
    rc = mdb_txn_commit(txn);
    return rc ? rc : snapshot_learn(ask->index, ask->env);
}

/* Closes the environment and all transactions of its readers. After a fault, keeps both as a
 * wreck. */
static void env_end(struct index *index, MDB_env *env, struct wreck *wreck)
{
    if (atomic_load(&index->faulted)) {
        wreck->env = env;
        wreck->learning = index->learning;
        wreck->next = atomic_load(&wrecks);
        while (!atomic_compare_exchange_weak(&wrecks, &wreck->next, wreck))
            ;
        return;
    }
    for (size_t i = 0; i < SLOTS; i++)
        if (wreck->txns[i]) {
            mdb_cursor_close(wreck->cursors[i]);
            mdb_txn_abort(wreck->txns[i]);
        }
    mdb_env_close(env);
    free(wreck);
}

static enum err open_env(struct index *index, const char *path, uint64_t map_bytes, bool only_read)
{
    check(atomic_load(&index->env) == NULL);
    trap_install();
    atomic_store(&index->bad, false);
    atomic_store(&index->faulted, false);
    atomic_store(&index->highest, 0);
    MDB_env *env;
    if (mdb_env_create(&env))
        return ERR_IO;
    mdb_env_set_assert(env, assertion_failed);
    mdb_env_set_maxreaders(env, SLOTS + 2);
    mdb_env_set_mapsize(env, round_up(map_bytes, MIB));
    struct ask ask = { .env = env, .path = path, .only_read = only_read };
    struct index_lock lock = { .file = -1 };
    if (!only_read)
        index_lock_begin(&lock, path);
    enum err e = index_call(index, do_open, &ask);
    index_lock_end(&lock);
    if (!e) {
        char note[NOTE_MAX];
        index->note = !only_read && note_of(path, note) ? trap_note_add(note) : NULL;
        index_memos_begin(index);
        atomic_store(&index->env, env);
    } else {
        snapshot_forget(index);
        env_end(index, env, must_alloc(sizeof(struct wreck)));
    }
    return e;
}

enum err index_open(struct index *index, const char *path, uint64_t map_bytes)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return file_err(errno);
    return open_env(index, path, map_bytes, false);
}

enum err index_open_to_read(struct index *index, const char *path)
{
    char file[NOTE_MAX];
    struct stat st;
    if (snprintf(file, sizeof(file), "%s/data.mdb", path) >= NOTE_MAX || stat(file, &st) != 0)
        return ERR_NOT_FOUND;
    return open_env(index, path, (uint64_t)st.st_size, true);
}

void index_close(struct index *index)
{
    MDB_env *env = atomic_exchange(&index->env, NULL);
    if (!env)
        return;
    index_memos_end(index);
    trap_note_remove(&index->note);
    struct wreck *wreck = must_alloc(sizeof(*wreck));
    wreck->writing = index->writing;
    index_abort(index);
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &index->slots[i];
        while (atomic_exchange(&slot->busy, true))
            sched_yield();    /* a reader still copies an entry out */
        wreck->txns[i] = slot->txn;
        wreck->cursors[i] = slot->cursor;
        slot->txn = NULL;
        slot->cursor = NULL;
        atomic_store(&slot->busy, false);
    }
    snapshot_forget(index);
    env_end(index, env, wreck);
}

bool index_is_bad(const struct index *index)
{
    return atomic_load_explicit(&index->bad, memory_order_relaxed);
}

uint32_t index_highest(const struct index *index)
{
    return atomic_load(&index->highest);
}

uint64_t index_damaged(const struct index *index)
{
    return atomic_load_explicit(&index->damaged, memory_order_relaxed);
}
