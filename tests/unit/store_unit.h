/* store_unit.h - a store in a folder of its own, for tests: put, get, cool, spoil.
 * SPDX-License-Identifier: Apache-2.0
 * Calls here wait for the answer, so a test reads like a play. */
#ifndef STORE_UNIT_H
#define STORE_UNIT_H

#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metric.h"
#include "store/folder.h"
#include "store/fsck.h"
#include "store/hash.h"
#include "store/index.h"
#include "store/inside.h"
#include "store/purge.h"
#include "store/store.h"

static enum disk_engine unit_engine = DISK_THREADS;
static enum cold_reads unit_cold = COLD_BUFFERED;

/* ---- folders ---- */

static char unit_folder[64];

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *item; dir && (item = readdir(dir));) {
        char inner[512];
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof(inner), "%s/%s", path, item->d_name);
        struct stat st;
        if (lstat(inner, &st) == 0 && S_ISDIR(st.st_mode))
            remove_tree(inner);
        else
            unlink(inner);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

__attribute__((unused)) static int folder_setup(void **state)
{
    (void)state;
    snprintf(unit_folder, sizeof(unit_folder), "store-unit-XXXXXX");
    return mkdtemp(unit_folder) ? 0 : -1;
}

__attribute__((unused)) static int folder_teardown(void **state)
{
    (void)state;
    remove_tree(unit_folder);
    return 0;
}

static const char *in_folder(const char *name)
{
    static char path[4][300];
    static unsigned turn;
    char *to = path[turn++ % 4];
    int len = snprintf(to, sizeof(path[0]), "%s/%s", unit_folder, name);
    check(len > 0 && (size_t)len < sizeof(path[0]));
    return to;
}

__attribute__((unused)) static enum err find_extents(struct extents *all, const struct format *format)
{
    int folder = folder_dir(unit_folder);
    enum err e = extents_open(all, folder, format);
    close(folder);
    return e;
}

/* ---- one store, one reader ---- */

struct unit_store {
    struct store *store;
    struct mailbox *box;
    struct store_io *io;
    struct arena keep;
    slice why;
};

static struct store_folder unit_one_folder;

static struct store_options options_of(uint64_t size_bytes, uint32_t extent_bytes)
{
    unit_one_folder = (struct store_folder){ unit_folder, size_bytes };
    return (struct store_options){ .folders = &unit_one_folder, .folder_count = 1,
                                   .reserve_bytes = 1, .extent_bytes = extent_bytes,
                                   .metadata_bytes = 4 * MIB,
                                   .queue_bytes_max = 64 * MIB, .commit_ms_max = 5000,
                                   .cold_reads = unit_cold, .memory_bytes = GIB,
                                   .engine = unit_engine };
}

static enum err unit_try(struct unit_store *unit, struct store_options options)
{
    *unit = (struct unit_store){ 0 };
    enum err e = store_open(&options, &unit->keep, &unit->store, &unit->why);
    if (e)
        return e;
    unit->box = mailbox_new();
    unit->io = store_io_new(unit->store, unit->box);
    return OK;
}

__attribute__((unused)) static struct unit_store unit_open_sized(uint64_t size_bytes,
                                                                 uint32_t extent_bytes)
{
    struct unit_store unit;
    ok(unit_try(&unit, options_of(size_bytes, extent_bytes)) == OK);
    same(unit.why, S(""));
    return unit;
}

__attribute__((unused)) static struct unit_store unit_open(void)
{
    return unit_open_sized(64 * MIB, 4 * MIB);
}

__attribute__((unused)) static void unit_close(struct unit_store *unit)
{
    store_io_free(&unit->io);
    store_close(&unit->store);
    mailbox_free(&unit->box);
    arena_free(&unit->keep);
}

static void unit_turn(struct unit_store *unit)
{
    struct pollfd waiting = { .fd = mailbox_fd(unit->box), .events = POLLIN };
    poll(&waiting, 1, 1000);
    mailbox_deliver(unit->box);
    store_io_reap(unit->io);
}

/* ---- objects ---- */

/* Bytes from `at` on of the object `key` in version `etag`. Eight bytes are made at a time, because
 * a sanitizer slows down each store to memory. */
static void object_fill(const char *key, const char *etag, uint64_t at, uint8_t *to, size_t len)
{
    uint64_t seed = metadata_etag_hash(slice_of(key)) ^ metadata_etag_hash(slice_of(etag)) << 1;
    for (size_t done = 0, some; done < len; done += some) {
        size_t skip = (at + done) % 8;
        uint64_t x = (seed + (at + done) / 8) * 0x9E3779B97F4A7C15u;
        x ^= x >> 29;
        some = MIN(8 - skip, len - done);
        memcpy(to + done, (const uint8_t *)&x + skip, some);
    }
}

static const char *unit_bucket = "bucket";

static struct object_name name_of(const char *key)
{
    return (struct object_name){ S("http://origin"), slice_of(unit_bucket), slice_of(key), S("") };
}

static struct metadata *make_metadata(struct unit_store *unit, const char *key, const char *etag,
                                      uint64_t size)
{
    struct object_name name = name_of(key);
    struct object_id id;
    store_object_id(unit->store, &name, &id);
    struct metadata *metadata = metadata_new(&id, &name, slice_of(etag),
                                             S("content-type: text/plain\r\n"), size, 1700000000,
                                             true);
    atomic_store(&metadata->validated_s, 1750000000);
    return metadata;
}

struct unit_append {
    struct store_append append;
    sem_t ended;
    enum err err;
    bool refuse;
    sem_t *hang;                      /* the committer is held up until this is posted */
    sem_t *held;                      /* posted when the committer is held up */
};

/* Waits until no append lies in the folder's queue: the commit has taken them. False after a minute. */
__attribute__((unused)) static bool commit_has_taken(struct unit_store *unit, size_t folder)
{
    struct queue *queue = &unit->store->volumes[folder]->queue;
    size_t waiting = 1;
    for (int i = 0; i < 6000 && waiting; i++) {
        usleep(10000);
        pthread_mutex_lock(&queue->lock);
        waiting = queue->bytes;
        pthread_mutex_unlock(&queue->lock);
    }
    return !waiting;
}

__attribute__((unused)) static bool may_publish(const struct store_append *append)
{
    const struct unit_append *mine = (const struct unit_append *)(const void *)append;
    if (mine->held)
        sem_post(mine->held);
    while (mine->hang && sem_wait(mine->hang) != 0)
        ;
    return !mine->refuse;
}

static void append_done(struct store_append *append, enum err err)
{
    struct unit_append *mine = (struct unit_append *)(void *)append;
    mine->err = err;
    sem_post(&mine->ended);
}

__attribute__((unused)) static void append_begin(struct unit_store *unit,
                                                 struct unit_append *append,
                                                 struct metadata *metadata, uint32_t first_unit,
                                                 slice bytes, bool with_metadata)
{
    append->append = (struct store_append){ .metadata = metadata, .first_unit = first_unit,
                                            .bytes = bytes, .must = true,
                                            .with_metadata = with_metadata,
                                                             .may_publish = may_publish,
                                            .done = append_done };
    sem_init(&append->ended, 0, 0);
    enum err e = store_append(unit->store, &append->append);
    if (e) {    /* else it is done()'s to say */
        append->err = e;
        sem_post(&append->ended);
    }
}

/* A commit would wait 100 ms for more records. */
__attribute__((unused)) static void commit_now(struct unit_store *unit)
{
    for (size_t i = 0; i < unit->store->volume_count; i++)
        volume_wants_turn(unit->store->volumes[i]);
}

static enum err append_wait(struct unit_append *append)
{
    while (sem_wait(&append->ended) != 0)
        ;
    sem_destroy(&append->ended);
    return append->err;
}

/* An append of the test's own. Returns how it ended. */
__attribute__((unused)) static enum err append_now(struct unit_store *unit,
                                                   struct store_append as)
{
    struct unit_append append = { .append = as };
    append.append.may_publish = may_publish;
    append.append.done = append_done;
    sem_init(&append.ended, 0, 0);
    ok(store_append(unit->store, &append.append) == OK);
    commit_now(unit);
    return append_wait(&append);
}

/* An object on its way in. */
struct unit_put {
    struct metadata *metadata;
    uint8_t *bytes;
    struct unit_append *appends;
    size_t count;
};

/* The whole object, in records of at most 8 units; the metadata with the first. */
static struct unit_put put_begin(struct unit_store *unit, const char *key, const char *etag,
                                 uint64_t size)
{
    struct unit_put put = { .metadata = make_metadata(unit, key, etag, size),
                            .bytes = must_alloc(size + 1) };
    object_fill(key, etag, 0, put.bytes, size);
    put.appends = must_alloc((size_t)(size / RECORD_BYTES_MAX + 1) * sizeof(*put.appends));
    for (uint64_t at = 0; at < size || put.count == 0; at += RECORD_BYTES_MAX) {
        slice part = slice_sub((slice){ (char *)put.bytes, size }, at, RECORD_BYTES_MAX);
        append_begin(unit, &put.appends[put.count++], put.metadata, (uint32_t)(at / UNIT_BYTES),
                     part, at == 0);
    }
    return put;
}

static enum err put_wait(struct unit_put *put)
{
    enum err e = OK;
    for (size_t i = 0; i < put->count; i++) {
        enum err one = append_wait(&put->appends[i]);
        e = e ? e : one;
    }
    free(put->appends);
    free(put->bytes);
    metadata_unref(&put->metadata);
    return e;
}

__attribute__((unused)) static enum err put_object(struct unit_store *unit, const char *key,
                                                   const char *etag, uint64_t size)
{
    struct unit_put put = put_begin(unit, key, etag, size);
    commit_now(unit);
    return put_wait(&put);
}

/* ---- finding and reading ---- */

struct unit_answer {
    bool came;
    enum err err;
    struct metadata *metadata;
    struct object_bytes held;
};

static void metadata_came(void *arg, enum err err, struct metadata *metadata)
{
    struct unit_answer *answer = arg;
    answer->came = true;
    answer->err = err;
    answer->metadata = metadata;
}

static void bytes_came(void *arg, enum err err, struct object_bytes held)
{
    struct unit_answer *answer = arg;
    answer->came = true;
    answer->err = err;
    answer->held = held;
}

/* A reference or NULL. */
static struct metadata *get_metadata(struct unit_store *unit, const char *key)
{
    struct object_name name = name_of(key);
    struct object_id id;
    struct unit_answer answer = { 0 };
    struct store_op *op = NULL;
    store_object_id(unit->store, &name, &id);
    enum err e = store_metadata(unit->io, &id, &name, metadata_came, &answer, &answer.metadata,
                                &op);
    while (e == ERR_WAIT && !answer.came)
        unit_turn(unit);
    if (e == ERR_WAIT)
        e = answer.err;
    ok(e == OK || e == ERR_NOT_FOUND);
    return e ? NULL : answer.metadata;
}

/* One piece; its length, 0 if it is not here. Fails the test if a byte is wrong. */
static size_t read_bytes(struct unit_store *unit, const struct metadata *metadata, const char *key,
                         uint64_t offset, uint64_t end)
{
    struct unit_answer answer = { 0 };
    struct store_op *op = NULL;
    enum err e = store_read(unit->io, metadata, offset, end, (struct store_to){ 0 }, bytes_came, &answer,
                            &answer.held, &op);
    while (e == ERR_WAIT && !answer.came)
        unit_turn(unit);
    if (e == ERR_WAIT)
        e = answer.err;
    ok(e == OK || e == ERR_NOT_FOUND || e == ERR_GONE);
    if (e)
        return 0;
    size_t len = answer.held.bytes.len;
    ok(len > 0 && len <= end - offset && len <= READ_BYTES_MAX);
    uint8_t *want = must_alloc(len);
    char etag[64];
    snprintf(etag, sizeof(etag), "%.*s", SLICE_ARG(metadata->etag));
    object_fill(key, etag, offset, want, len);
    bool right = memcmp(want, answer.held.bytes.ptr, len) == 0;
    free(want);
    object_bytes_release(&answer.held);
    ok(right);
    return len;
}

/* How many of the range's bytes are here, from its start on. */
__attribute__((unused)) static uint64_t read_range(struct unit_store *unit, const char *key,
                                                   uint64_t offset, uint64_t end)
{
    struct metadata *metadata = get_metadata(unit, key);
    uint64_t at = offset;
    for (size_t got = 1; metadata && got && at < end; at += got)
        got = read_bytes(unit, metadata, key, at, end);
    metadata_unref(&metadata);
    return at - offset;
}

__attribute__((unused)) static bool knows(struct unit_store *unit, const char *key)
{
    struct metadata *metadata = get_metadata(unit, key);
    bool known = metadata != NULL;
    metadata_unref(&metadata);
    return known;
}

/* Is the object here, whole, in this version? */
__attribute__((unused)) static bool has_object(struct unit_store *unit, const char *key,
                                               const char *etag, uint64_t size)
{
    struct metadata *metadata = get_metadata(unit, key);
    bool right = metadata && slice_eq(metadata->etag, slice_of(etag)) && metadata->size == size;
    metadata_unref(&metadata);
    return right && read_range(unit, key, 0, size) == size;
}

/* How many of the objects SET0, SET1, ... are here, in version "1". */
__attribute__((unused)) static int count_there(struct unit_store *unit, const char *set, int count,
                                               uint64_t size)
{
    int found = 0;
    char key[32];
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "%s%d", set, i);
        found += has_object(unit, key, "\"1\"", size);
    }
    return found;
}

/* The entry of one unit, as readers find it. */
__attribute__((unused)) static enum err find_unit(struct index *index, const struct object_id *id,
                                                  uint32_t unit, struct entry *ret)
{
    return index_get_run(index, id, unit, 1, ret) ? OK : ERR_NOT_FOUND;
}

/* Purges the keys that begin with `key`. */
__attribute__((unused)) static enum err purge(struct unit_store *unit, const char *key)
{
    struct purge_result result;
    struct arena keep = { 0 };
    slice prefix = purge_prefix(&keep, S("http://origin"), S("bucket"), slice_of(key), false);
    enum err e = store_purge(unit->store, &prefix, 1, &result);
    arena_free(&keep);
    return e;
}

__attribute__((unused)) static uint64_t faults(struct unit_store *unit)
{
    struct store_status status;
    store_status(unit->store, &status);
    return status.faults;
}

struct unit_removal {
    struct store_removal removal;
    struct object_id id;
    sem_t ended;
    enum err err;
};

static void removal_done(struct store_removal *removal, enum err err)
{
    struct unit_removal *mine = (struct unit_removal *)(void *)removal;
    mine->err = err;
    sem_post(&mine->ended);
}

static void removal_prepare(struct unit_store *unit, struct unit_removal *mine,
                            const struct object_name *name)
{
    store_object_id(unit->store, name, &mine->id);
    mine->removal = (struct store_removal){ .ids = &mine->id, .count = 1, .done = removal_done };
    sem_init(&mine->ended, 0, 0);
}

static void removal_begin(struct unit_store *unit, struct unit_removal *mine, const char *key)
{
    struct object_name name = name_of(key);
    removal_prepare(unit, mine, &name);
    store_remove(unit->store, &mine->removal);
}

static enum err removal_wait(struct unit_removal *mine)
{
    while (sem_wait(&mine->ended) != 0)
        ;
    sem_destroy(&mine->ended);
    return mine->err;
}

__attribute__((unused)) static enum err remove_object(struct unit_store *unit, const char *key)
{
    struct unit_removal mine;
    removal_begin(unit, &mine, key);
    return removal_wait(&mine);
}

/* ---- the disk's side ---- */

/* Calls `with` for each extent's path; how many there are. */
__attribute__((unused)) static size_t each_extent(void (*with)(const char *path))
{
    DIR *dir = opendir(in_folder("extents"));
    size_t count = 0;
    for (struct dirent *item; dir && (item = readdir(dir));) {
        char path[600];
        if (strlen(item->d_name) != 8)
            continue;
        snprintf(path, sizeof(path), "%s/%s", in_folder("extents"), item->d_name);
        count++;
        if (with)
            with(path);
    }
    if (dir)
        closedir(dir);
    return count;
}

static void cool_one(const char *path)
{
    (void)cool_file(path);    /* a file system that keeps its pages is the test's business */
}

/* Out of the page cache: what follows is read from the disk. */
__attribute__((unused)) static void cool(void)
{
    each_extent(cool_one);
}

__attribute__((unused)) static void flip_at(uint32_t number, off_t at)
{
    char name[32];
    uint8_t byte;
    snprintf(name, sizeof(name), "extents/%08x", number);
    int fd = open(in_folder(name), O_RDWR);
    at += at < 0 ? lseek(fd, 0, SEEK_END) : 0;
    ok(pread(fd, &byte, 1, at) == 1);
    byte ^= 16;
    ok(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

/* Reads the footer of a sealed extent. */
__attribute__((unused)) static struct toc_footer footer_of(uint32_t number)
{
    uint8_t bytes[TOC_FOOTER_BYTES];
    struct toc_footer footer = { .count = 0 };
    char name[32];
    snprintf(name, sizeof(name), "extents/%08x", number);
    int fd = open(in_folder(name), O_RDONLY);
    ok(fd >= 0 && lseek(fd, -(off_t)sizeof(bytes), SEEK_END) > 0);
    ok(read(fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes));
    ok(toc_footer_decode(bytes, &footer) == OK);
    close(fd);
    return footer;
}

/* Damages the header of this record. The table of contents still tells of it. */
__attribute__((unused)) static void flip_header(uint32_t number, uint32_t ordinal)
{
    struct toc_footer footer = footer_of(number);
    struct toc_entry row;
    char name[32];
    snprintf(name, sizeof(name), "extents/%08x", number);
    int fd = open(in_folder(name), O_RDONLY);
    ok(fd >= 0 && pread(fd, &row, sizeof(row), (off_t)(footer.offset + ordinal * sizeof(row))) ==
       (ssize_t)sizeof(row));
    close(fd);
    flip_at(number, (off_t)row.offset + 9);
}

/* Damages the table of contents, and the header of this record. Without both, nobody can list this
 * record and those behind it. */
__attribute__((unused)) static void hide_rows(uint32_t number, uint32_t ordinal)
{
    flip_header(number, ordinal);
    flip_at(number, (off_t)footer_of(number).offset + 5);
}

__attribute__((unused)) static bool is_unproved(struct unit_store *unit, const char *key)
{
    struct metadata *metadata = get_metadata(unit, key);
    ok(metadata != NULL);
    bool unproved = atomic_load(&metadata->unproved);
    metadata_unref(&metadata);
    return unproved;
}

__attribute__((unused)) static bool serving(struct unit_store *unit)
{
    struct store_status status;
    store_status(unit->store, &status);
    return status.serving;
}

/* Becomes true within a minute? No fact depends on how long that is. */
#define soon(condition)                                                                        \
    do {                                                                                       \
        uint64_t soon_ms = mono_ms() + 60000;                                                  \
        bool soon_came;                                                                        \
        while (!(soon_came = (condition)) && mono_ms() < soon_ms)                              \
            usleep(10000);                                                                     \
        ok_as(soon_came, #condition);                                                          \
    } while (0)

/* Waits for a child. Returns its exit status: the step that failed, or 0. */
static int step_of(pid_t child)
{
    int status;
    ok(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Runs `play` in a child whose folder is a tmpfs of this size; false: not allowed here. */
__attribute__((unused)) static bool on_disk_of(const char *size, int (*play)(void))
{
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("tmpfs", unit_folder, "tmpfs", 0, size) != 0)
            _exit(77);
        _exit(play());
    }
    int step = step_of(child);
    if (step == 77)
        return false;
    if (step)
        fail_msg("step %d", step);
    return true;
}

__attribute__((unused)) static bool on_small_disk(int (*play)(void))
{
    return on_disk_of("size=6m", play);
}

#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)

/* Under both engines, where the kernel allows both, or under the one that UNIT_ENGINE names. They
 * mostly wait, so both run at once: threads in a child, whose output comes behind. An argument names
 * one test. */
__attribute__((unused)) static int run_engines(int argc, char **argv,
                                               int (*run)(const char *engine))
{
    const char *why, *only = getenv("UNIT_ENGINE");
    int status = 0;
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    if (only) {
        check(disk_choose(slice_of(only), &unit_engine, &why) == OK);
        return run(only);
    }
    if (disk_choose(S("uring"), &unit_engine, &why) != OK)
        return run("threads");
    FILE *said = tmpfile();
    pid_t child = said ? fork() : -1;
    if (child < 0)
        return 1;
    if (child == 0) {
        unit_engine = DISK_THREADS;
        exit(dup2(fileno(said), 1) < 0 || dup2(fileno(said), 2) < 0 || run("threads"));
    }
    puts("---- uring ----");
    int failed = run("uring");
    failed += waitpid(child, &status, 0) != child || status;
    puts("---- threads ----");
    char line[512];
    for (rewind(said); fgets(line, sizeof(line), said);)
        fputs(line, stdout);
    fclose(said);
    return failed;
}

#define RUN_STORE(...)                                                                         \
    static int run(const char *engine)                                                         \
    {                                                                                          \
        const struct CMUnitTest tests[] = { __VA_ARGS__ };                                     \
        return cmocka_run_group_tests_name(engine, tests, NULL, NULL);                         \
    }                                                                                          \
    int main(int argc, char **argv)                                                            \
    {                                                                                          \
        return run_engines(argc, argv, run);                                                   \
    }
/* And past the page cache too. */
#define RUN_STORE_COLD(...)                                                                    \
    static int run(const char *engine)                                                         \
    {                                                                                          \
        const struct CMUnitTest tests[] = { __VA_ARGS__ };                                     \
        char names[2][32];                                                                     \
        snprintf(names[0], sizeof(names[0]), "%s, buffered", engine);                          \
        snprintf(names[1], sizeof(names[1]), "%s, direct", engine);                            \
        unit_cold = COLD_BUFFERED;                                                             \
        int failed = cmocka_run_group_tests_name(names[0], tests, NULL, NULL);                 \
        unit_cold = COLD_DIRECT;                                                               \
        return failed + cmocka_run_group_tests_name(names[1], tests, NULL, NULL);              \
    }                                                                                          \
    int main(int argc, char **argv)                                                            \
    {                                                                                          \
        return run_engines(argc, argv, run);                                                   \
    }

/* Checks the unit's folder. The report is valid until the next call. */
static inline struct fsck_report unit_fsck(bool repair)
{
    static struct arena keep;
    const char *folder = unit_folder;
    struct fsck_ask ask = { .folders = &folder, .count = 1, .repair = repair };
    struct fsck_report report;
    arena_free(&keep);
    fsck_run(&ask, &keep, &report);
    return report;
}

#endif
