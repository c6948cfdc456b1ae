/* index.c - the only file that knows LMDB. SPDX-License-Identifier: Apache-2.0
 *
 * Default durable mode: no WRITEMAP (a full disk would be SIGBUS), no DUPSORT, NOTLS so that transactions
 * belong to slots and not to threads. A reader takes a slot, which keeps one read transaction and one
 * cursor, renews them, copies out, resets, and leaves: no lock, no allocation. The map is sized once, far
 * above what the cache can hold (address space costs nothing), so it never grows under a reader.
 *
 * LMDB has no page checksums: values carry their own, and a broken page may fault or fail an assertion
 * inside LMDB. So every call into it runs under a trap: SIGBUS, SIGSEGV and its assertions jump back here,
 * the index is bad from then on, and it is never entered again; it stays mapped, because nobody knows
 * what was under way in it. There is no probe in a child process at open: the trap does the same at
 * any time. What no trap can undo: LMDB changes copies of pages on the heap, and a broken one may make it
 * write beyond them. Then the process dies sooner or later; as it dies it leaves a note, and the next
 * opening builds the index anew, instead of dying of it again.
 *
 * Closing: the environment is taken from readers first (env = NULL), then each slot is waited for. */
#include "store/index.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/metric.h"

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
    struct slot slots[SLOTS];
};

/* What was left when a fault jumped out of LMDB: mapped, and never touched again. */
struct wreck {
    struct wreck *next;
    MDB_env *env;
    MDB_txn *writing, *txns[SLOTS];
    MDB_cursor *cursors[SLOTS];
};
static _Atomic(struct wreck *) wrecks;

static const char meta_name[] = "opening";    /* shorter than any entry's key */

/* ---- the trap ---- */

struct trap {
    sigjmp_buf back;
};

static _Thread_local struct trap *volatile armed;
static struct sigaction before_bus, before_segv, before_abrt;
static char suspect_path[4096];       /* of the index opened last; empty: it is closed */

bool index_is_suspect(const char *path)
{
    char note[4096];
    int len = snprintf(note, sizeof(note), "%s/" INDEX_SUSPECT, path);
    return len < (int)sizeof(note) && access(note, F_OK) == 0;
}

static void suspect(void)
{
    int fd = suspect_path[0] ? open(suspect_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0)
        close(fd);
}

static void faulted(int signal, siginfo_t *info, void *context)
{
    if (armed && signal != SIGABRT)
        siglongjmp(armed->back, 1);
    suspect();
    const struct sigaction *before = signal == SIGBUS    ? &before_bus
                                     : signal == SIGSEGV ? &before_segv : &before_abrt;
    if (before->sa_flags & SA_SIGINFO)
        before->sa_sigaction(signal, info, context);
    else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
        before->sa_handler(signal);
    else if (sigaction(signal, before, NULL) == 0)
        raise(signal);    /* ends the process */
}

static void install_for(int signal, struct sigaction *before)
{
    struct sigaction action = { .sa_flags = SA_SIGINFO | SA_NODEFER };
    action.sa_sigaction = faulted;
    sigemptyset(&action.sa_mask);
    struct sigaction now;
    check(sigaction(signal, NULL, &now) == 0);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == faulted)
        return;
    *before = now;
    check(sigaction(signal, &action, NULL) == 0);
}

/* At each opening: somebody may have put another handler in our place. */
static void install(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    install_for(SIGBUS, &before_bus);
    install_for(SIGSEGV, &before_segv);
    install_for(SIGABRT, &before_abrt);
    pthread_mutex_unlock(&lock);
}

static void assertion_failed(MDB_env *env, const char *text)
{
    (void)env;
    check(armed && text);
    siglongjmp(armed->back, 1);
}

/* Everything one call into LMDB may want. */
struct ask {
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

/* We left by a jump from inside the handler: what was blocked there may come again. The thread sanitizer blocks
 * everything, whatever our mask says, and a fault that is blocked ends the process. */
static void unblock(void)
{
    sigset_t faults;
    sigemptyset(&faults);
    sigaddset(&faults, SIGBUS);
    sigaddset(&faults, SIGSEGV);
    check(pthread_sigmask(SIG_UNBLOCK, &faults, NULL) == 0);
}

static __attribute__((noinline)) int trapped(lmdb_call *call, struct ask *ask)
{
    struct trap trap;
    if (sigsetjmp(trap.back, 0)) {
        armed = NULL;
        unblock();
        atomic_store(&ask->index->faulted, true);
        return MDB_CORRUPTED;
    }
    armed = &trap;
    int rc = call(ask);
    armed = NULL;
    return rc;
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
    case MDB_CURSOR_FULL:
    case MDB_PAGE_FULL:
    case MDB_INCOMPATIBLE:
    case MDB_BAD_VALSIZE:
    case EFBIG:     /* a broken page named one far beyond the map: it would be written there */
    case EINVAL:
        atomic_store(&index->bad, true);
        return ERR_IO;
    default:
        return ERR_IO;
    }
}

/* ---- opening and closing ---- */

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
    free(*index);
    *index = NULL;
}

static int do_open(struct ask *ask)
{
    MDB_txn *txn;
    int rc = mdb_env_open(ask->env, ask->path, MDB_NOTLS | MDB_NORDAHEAD, 0600);
    if (rc)
        return rc;
    int dead;
    rc = mdb_reader_check(ask->env, &dead);
    if (!rc)
        rc = mdb_txn_begin(ask->env, NULL, 0, &txn);
    if (rc)
        return rc;
    rc = mdb_dbi_open(txn, NULL, 0, &ask->index->dbi);
    if (rc) {
        mdb_txn_abort(txn);
        return rc;
    }
    return mdb_txn_commit(txn);
}

static struct wreck *wreck_new(void)
{
    return must_alloc(sizeof(struct wreck));
}

/* Closes it with all its readers' transactions, or leaves it as the wreck it is. */
static void env_end(struct index *index, MDB_env *env, struct wreck *wreck)
{
    if (atomic_load(&index->faulted)) {
        wreck->env = env;
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

enum err index_open(struct index *index, const char *path, uint64_t map_bytes)
{
    check(atomic_load(&index->env) == NULL);
    install();
    atomic_store(&index->bad, false);
    atomic_store(&index->faulted, false);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return errno == ENOSPC ? ERR_FULL : ERR_IO;
    MDB_env *env;
    if (mdb_env_create(&env))
        return ERR_IO;
    mdb_env_set_assert(env, assertion_failed);
    mdb_env_set_maxreaders(env, SLOTS + 2);
    mdb_env_set_mapsize(env, round_up(map_bytes, MIB));
    struct ask ask = { .index = index, .env = env, .path = path };
    enum err e = answer(index, trapped(do_open, &ask));
    if (!e) {
        if (snprintf(suspect_path, sizeof(suspect_path), "%s/" INDEX_SUSPECT, path) >= (int)sizeof(suspect_path))
            suspect_path[0] = '\0';
        atomic_store(&index->env, env);
    } else {
        env_end(index, env, wreck_new());
    }
    return e;
}

void index_close(struct index *index)
{
    MDB_env *env = atomic_exchange(&index->env, NULL);
    if (!env)
        return;
    suspect_path[0] = '\0';
    struct wreck *wreck = wreck_new();
    wreck->writing = index->writing;
    index_abort(index);
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &index->slots[i];
        while (atomic_exchange(&slot->busy, true))
            sched_yield();    /* a reader copies out an entry */
        wreck->txns[i] = slot->txn;
        wreck->cursors[i] = slot->cursor;
        slot->txn = NULL;
        slot->cursor = NULL;
        atomic_store(&slot->busy, false);
    }
    env_end(index, env, wreck);
}

bool index_is_bad(const struct index *index)
{
    return atomic_load_explicit(&index->bad, memory_order_relaxed);
}

/* ---- reading ---- */

static struct slot *slot_take(struct index *index)
{
    static atomic_uint threads;
    static _Thread_local unsigned mine;    /* 1 + where this thread begins to look */
    if (!mine)
        mine = 1 + atomic_fetch_add(&threads, 1) % SLOTS;
    for (unsigned i = mine - 1;; i = (i + 1) % SLOTS) {
        struct slot *slot = &index->slots[i];
        if (!atomic_load_explicit(&slot->busy, memory_order_relaxed) &&
            !atomic_exchange(&slot->busy, true))
            return slot;
        if (i == mine - 1 + SLOTS / 2)
            sched_yield();
    }
}

static int slot_begin(struct ask *ask)
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

/* Takes a slot, runs the call in a read transaction, leaves. */
static enum err reading(struct index *index, lmdb_call *call, struct ask *ask)
{
    if (index_is_bad(index))
        return ERR_IO;
    ask->index = index;
    ask->slot = slot_take(index);
    ask->env = atomic_load(&index->env);
    enum err e = ask->env && !index_is_bad(index) ? answer(index, trapped(call, ask)) : ERR_IO;
    atomic_store_explicit(&ask->slot->busy, false, memory_order_release);
    return e;
}

static int decode(const MDB_val *key, const MDB_val *value, struct entry *ret)
{
    slice bytes = { value->mv_data, value->mv_size };
    if (key->mv_size == ENTRY_KEY_BYTES && entry_decode(key->mv_data, bytes, ret) == OK)
        return MDB_SUCCESS;
    metric_add(M_STORE_CRC_BAD, 1);
    return MDB_CORRUPTED;
}

static int cursor_get(MDB_cursor *cursor, const struct object_id *id, uint32_t unit, struct entry *ret)
{
    uint8_t wanted[ENTRY_KEY_BYTES];
    entry_key(id, unit, wanted);
    MDB_val key = { sizeof(wanted), wanted }, value;
    int rc = mdb_cursor_get(cursor, &key, &value, MDB_SET);
    key = (MDB_val){ sizeof(wanted), wanted };
    return rc ? rc : decode(&key, &value, ret);
}

static int do_get(struct ask *ask)
{
    int rc = slot_begin(ask);
    if (!rc) {
        rc = cursor_get(ask->slot->cursor, ask->id, ask->unit, ask->entries);
        mdb_txn_reset(ask->slot->txn);
    }
    return rc;
}

enum err index_get(struct index *index, const struct object_id *id, uint32_t unit, struct entry *ret)
{
    struct ask ask = { .id = id, .unit = unit, .entries = ret };
    return reading(index, do_get, &ask);
}

static int do_get_head(struct ask *ask)
{
    int rc = slot_begin(ask);
    if (rc)
        return rc;
    rc = cursor_get(ask->slot->cursor, ask->id, 0, ask->entries);
    if (rc == MDB_NOTFOUND || (!rc && !ask->entries->whole)) {
        ask->found_unit = HEAD_UNIT;
        rc = cursor_get(ask->slot->cursor, ask->id, HEAD_UNIT, ask->entries);
    }
    mdb_txn_reset(ask->slot->txn);
    return rc;
}

enum err index_get_head(struct index *index, const struct object_id *id, uint32_t *ret_unit,
                        struct entry *ret)
{
    struct ask ask = { .id = id, .entries = ret };
    enum err e = reading(index, do_get_head, &ask);
    if (!e)
        *ret_unit = ask.found_unit;
    return e;
}

/* The next entry, if it is of this object and unit. */
static int cursor_next(MDB_cursor *cursor, const struct object_id *id, uint32_t unit, struct entry *ret)
{
    uint8_t wanted[ENTRY_KEY_BYTES];
    entry_key(id, unit, wanted);
    MDB_val key, value;
    int rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    if (rc)
        return rc;
    if (key.mv_size != sizeof(wanted) || memcmp(key.mv_data, wanted, sizeof(wanted)) != 0)
        return MDB_NOTFOUND;
    return decode(&key, &value, ret);
}

static int find_run(struct ask *ask)
{
    MDB_cursor *cursor = ask->slot->cursor;
    int rc = cursor_get(cursor, ask->id, ask->unit, ask->entries);
    if (rc == MDB_NOTFOUND && ask->unit > 0 && ask->unit < RECORD_UNITS) {
        rc = cursor_get(cursor, ask->id, 0, ask->entries);
        if (!rc && !ask->entries->whole)
            return MDB_NOTFOUND;
    }
    if (rc)
        return rc;
    ask->found = 1;
    while (!ask->entries[0].whole && ask->found < ask->count) {
        rc = cursor_next(cursor, ask->id, ask->unit + ask->found, &ask->entries[ask->found]);
        if (rc)
            return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
        ask->found++;
    }
    return MDB_SUCCESS;
}

static int do_get_run(struct ask *ask)
{
    int rc = slot_begin(ask);
    if (!rc) {
        rc = find_run(ask);
        mdb_txn_reset(ask->slot->txn);
    }
    return rc;
}

uint32_t index_get_run(struct index *index, const struct object_id *id, uint32_t first, uint32_t count,
                       struct entry *ret)
{
    struct ask ask = { .id = id, .unit = first, .count = count, .entries = ret };
    return reading(index, do_get_run, &ask) == OK ? ask.found : 0;
}

static int cursor_from(MDB_cursor *cursor, struct ask *ask)
{
    uint8_t wanted[ENTRY_KEY_BYTES];
    entry_key(ask->id, ask->unit, wanted);
    MDB_val key = { sizeof(wanted), wanted }, value;
    int rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    if (rc)
        return rc;
    if (key.mv_size != sizeof(wanted) || memcmp(key.mv_data, ask->id->bytes, sizeof(*ask->id)) != 0)
        return MDB_NOTFOUND;
    ask->found_unit = entry_key_unit(key.mv_data);
    return decode(&key, &value, ask->entries);
}

static int do_get_next(struct ask *ask)
{
    int rc = slot_begin(ask);
    if (!rc) {
        rc = cursor_from(ask->slot->cursor, ask);
        mdb_txn_reset(ask->slot->txn);
    }
    return rc;
}

enum err index_get_next(struct index *index, const struct object_id *id, uint32_t unit,
                        uint32_t *ret_unit, struct entry *ret)
{
    struct ask ask = { .id = id, .unit = unit, .entries = ret };
    enum err e = reading(index, do_get_next, &ask);
    if (!e)
        *ret_unit = ask.found_unit;
    return e;
}

static int do_stat(struct ask *ask)
{
    MDB_stat stat;
    int rc = mdb_env_stat(ask->env, &stat);
    if (rc)
        return rc;
    ask->number = stat.ms_entries ? stat.ms_entries - 1 : 0;    /* the opening's is none */
    ask->found = stat.ms_psize;
    return MDB_SUCCESS;
}

uint64_t index_entries(struct index *index)
{
    struct ask ask = { 0 };
    return reading(index, do_stat, &ask) == OK ? ask.number : 0;
}

static int do_info(struct ask *ask)
{
    MDB_envinfo info;
    int rc = do_stat(ask);
    if (!rc)
        rc = mdb_env_info(ask->env, &info);
    if (!rc)
        ask->number = (uint64_t)(info.me_last_pgno + 1) * ask->found;
    return rc;
}

uint64_t index_bytes(struct index *index)
{
    struct ask ask = { 0 };
    return reading(index, do_info, &ask) == OK ? ask.number : 0;
}

static int do_check_readers(struct ask *ask)
{
    int dead;
    return mdb_reader_check(ask->env, &dead);
}

void index_check_readers(struct index *index)
{
    struct ask ask = { 0 };
    enum err ignored = reading(index, do_check_readers, &ask);
    (void)ignored;
}

/* ---- writing ---- */

static enum err writing(struct index *index, lmdb_call *call, struct ask *ask)
{
    if (index_is_bad(index) || !index->writing)
        return ERR_IO;
    ask->index = index;
    return answer(index, trapped(call, ask));
}

static int do_begin(struct ask *ask)
{
    return mdb_txn_begin(ask->env, NULL, 0, &ask->index->writing);
}

enum err index_begin(struct index *index)
{
    check(index->writing == NULL);
    struct ask ask = { .index = index, .env = atomic_load(&index->env) };
    if (!ask.env || index_is_bad(index))
        return ERR_IO;
    enum err e = answer(index, trapped(do_begin, &ask));
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
    return rc ? rc : decode(&key, &value, ask->entries);
}

enum err index_find(struct index *index, const struct object_id *id, uint32_t unit, struct entry *ret)
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
    rc = cursor_from(cursor, ask);
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
    struct ask ask = { .index = index };
    if (index->writing && !atomic_load(&index->faulted))
        (void)trapped(do_abort, &ask);
    index->writing = NULL;
}
