/* test_store_recover.c - after a kill, a loss, a flip, a stranger: right bytes or none.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include <signal.h>

#include "store/format.h"

/* A fault inside LMDB is left by a jump (trap.c), and what it had just allocated is nobody's. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:mdb_txn_begin\nleak:mdb_env_open\nleak:mdb_cursor_open\n";
}

static bool renew(struct unit_store *unit, const char *key)
{
    struct metadata *metadata = get_metadata(unit, key);
    ok(metadata != NULL);
    struct store_vouch vouch = { metadata->etag_hash, metadata->size, metadata->modified_s,
                                 { NULL, 0 }, 1760000000, 0, NULL, NULL };
    bool renewed = store_renew(unit->store, &metadata->id, &vouch) == STORE_RENEWED;
    metadata_unref(&metadata);
    return renewed;
}

/* ---- kills ---- */

#define ROOM (2048 * MIB)             /* a fast disk takes 256 MiB in these rounds: nothing is evicted */

/* Object n of a round, by turns tiny, one record, many records. */
static uint64_t size_of_nth(unsigned n)
{
    static const uint64_t sizes[] = { 700, 200000, 0, 1048576, 2500000, 65536, 131072 };
    return sizes[n % countof(sizes)];
}

/* Stores objects one after the other and says so, until it is killed. */
static void child_stores(int say, unsigned round)
{
    struct unit_store unit = unit_open_sized(ROOM, 4 * MIB);
    for (unsigned n = 0;; n++) {
        char key[32];
        snprintf(key, sizeof(key), "%u-%u", round, n);
        if (put_object(&unit, key, "\"1\"", size_of_nth(n)) != OK || write(say, &n, sizeof(n)) < 0)
            _exit(1);
    }
}

static unsigned killed_after(unsigned round, unsigned ms)
{
    int pipes[2];
    ok(pipe(pipes) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(pipes[0]);
        child_stores(pipes[1], round);
    }
    close(pipes[1]);
    unsigned count = 0, n;
    /* the first is in: kill in the middle of others */
    ok(read(pipes[0], &n, sizeof(n)) == sizeof(n));
    count = n + 1;
    usleep(ms * 1000);
    ok(kill(child, SIGKILL) == 0);
    int status;
    ok(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    while (read(pipes[0], &n, sizeof(n)) == sizeof(n))
        count = n + 1;
    close(pipes[0]);
    return count;
}

TEST(what_was_committed_before_a_kill_is_there_unproved_and_right)
{
    enum { ROUNDS = 12 };
    unsigned counts[ROUNDS];
    srand(3);
    for (unsigned round = 0; round < ROUNDS; round++) {
        counts[round] = killed_after(round, (unsigned)rand() % 250);
        struct unit_store unit = unit_open_sized(ROOM, 4 * MIB);
        for (unsigned r = round > 2 ? round - 2 : 0; r <= round; r++)
            for (unsigned n = 0; n < counts[r] + 3; n++) {
                char key[32];
                snprintf(key, sizeof(key), "%u-%u", r, n);
                bool here = has_object(&unit, key, "\"1\"", size_of_nth(n));
                ok(here || n >= counts[r]);
                ok(!here || is_unproved(&unit, key));
            }
        unit_close(&unit);
    }
}

TEST(a_renewal_proves_for_this_life_and_the_next)
{
    ok(killed_after(0, 0) > 0);
    struct unit_store unit = unit_open_sized(256 * MIB, 4 * MIB);
    ok(is_unproved(&unit, "0-0"));
    ok(renew(&unit, "0-0"));
    soon(!is_unproved(&unit, "0-0"));
    unit_close(&unit);
    unit = unit_open_sized(256 * MIB, 4 * MIB);
    ok(!is_unproved(&unit, "0-0"));
    unit_close(&unit);
    ok(killed_after(1, 0) > 0);
    unit = unit_open_sized(256 * MIB, 4 * MIB);
    ok(is_unproved(&unit, "0-0"));
    unit_close(&unit);
}

TEST(metadata_in_ram_is_proved_when_the_commit_says_so)
{
    ok(killed_after(0, 0) > 0);
    struct unit_store unit = unit_open_sized(256 * MIB, 4 * MIB);
    struct metadata *metadata = get_metadata(&unit, "0-0");
    ok(atomic_load(&metadata->unproved) && renew(&unit, "0-0"));
    soon(!atomic_load(&metadata->unproved));
    metadata_unref(&metadata);
    unit_close(&unit);
}

/* ---- what is said of a bucket ---- */

static enum err restate(struct unit_store *unit, slice bucket)
{
    struct object_name name = { .endpoint = S("http://origin"), .bucket = bucket };
    struct unit_removal mine;
    removal_prepare(unit, &mine, &name);
    store_restate(unit->store, &mine.removal);
    return removal_wait(&mine);
}

static bool is_restated(struct unit_store *unit, const char *key)
{
    struct metadata *metadata = get_metadata(unit, key);
    ok(metadata != NULL);
    bool restated = metadata->restated;
    metadata_unref(&metadata);
    return restated;
}

static void garble(const char *name)
{
    int fd = open(in_folder(name), O_WRONLY | O_TRUNC);
    ok(fd >= 0 && write(fd, "garbage", 7) == 7);
    close(fd);
}

TEST(the_next_life_knows_which_buckets_were_restated)
{
    struct unit_store unit = unit_open_sized(256 * MIB, 4 * MIB);
    ok(put_object(&unit, "a", "\"1\"", 10) == OK && !is_restated(&unit, "a"));
    ok(restate(&unit, S("other")) == OK);
    unit_close(&unit);
    unit = unit_open_sized(256 * MIB, 4 * MIB);
    ok(!is_restated(&unit, "a"));    /* another bucket was */
    ok(restate(&unit, S("bucket")) == OK);
    unit_close(&unit);
    unit = unit_open_sized(256 * MIB, 4 * MIB);
    ok(is_restated(&unit, "a"));
    struct metadata *metadata = get_metadata(&unit, "a");
    struct object_name name = { .endpoint = S("http://origin"), .bucket = S("bucket") };
    struct object_id bucket;
    store_object_id(unit.store, &name, &bucket);
    struct store_vouch listed = { metadata->etag_hash, metadata->size, metadata->modified_s,
                                  { NULL, 0 }, 1760000000, 0, &bucket, NULL };
    /* a listing won't do, */
    ok(store_renew(unit.store, &metadata->id, &listed) == STORE_CHANGED);
    ok(renew(&unit, "a"));                                               /* ... a HEAD does */
    ok(store_renew(unit.store, &metadata->id, &listed) == STORE_RENEWED);
    metadata_unref(&metadata);
    unit_close(&unit);
    garble("restated");
    unit = unit_open_sized(256 * MIB, 4 * MIB);
    ok(is_restated(&unit, "a"));    /* what can't be read may name any */
    unit_close(&unit);
}

/* ---- losses ---- */

static const struct {
    const char *key;
    uint64_t size;
} things[] = { { "tiny", 300 },        { "one", 200000 },    { "whole", 1048576 },
               { "many", 3 * MIB + 9 }, { "empty", 0 },       { "tiny2", 65536 } };

static void put_things(struct unit_store *unit, const char *etag)
{
    struct unit_put puts[countof(things)];
    for (size_t i = 0; i < countof(things); i++)
        puts[i] = put_begin(unit, things[i].key, etag, things[i].size);
    for (size_t i = 0; i < countof(things); i++)
        ok(put_wait(&puts[i]) == OK);
}

static size_t count_things(struct unit_store *unit, const char *etag)
{
    size_t count = 0;
    for (size_t i = 0; i < countof(things); i++)
        count += has_object(unit, things[i].key, etag, things[i].size);
    return count;
}

TEST(a_lost_index_is_built_again_and_the_later_version_wins)
{
    struct unit_store unit = unit_open();
    put_things(&unit, "\"old\"");
    put_things(&unit, "\"new\"");
    unit_close(&unit);
    remove_tree(in_folder("index"));
    for (int round = 0; round < 2; round++) {
        unit = unit_open();
        ok(count_things(&unit, "\"new\"") == countof(things));
        for (size_t i = 0; i < countof(things); i++)
            ok(is_unproved(&unit, things[i].key));
        unit_close(&unit);
    }
}

static void copy_file(const char *from, const char *to)
{
    static char bytes[MIB];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ok(in >= 0 && out >= 0);
    for (ssize_t n; (n = read(in, bytes, sizeof(bytes))) > 0;)
        ok(write(out, bytes, (size_t)n) == n);
    close(in);
    close(out);
}

TEST(an_older_index_is_not_believed)
{
    struct unit_store unit = unit_open();
    put_things(&unit, "\"old\"");
    unit_close(&unit);
    copy_file(in_folder("index/data.mdb"), in_folder("saved"));
    for (int i = 0; i < 2; i++) {
        unit = unit_open();
        put_things(&unit, i ? "\"new\"" : "\"newer\"");
        unit_close(&unit);
    }
    copy_file(in_folder("saved"), in_folder("index/data.mdb"));
    unlink(in_folder("saved"));
    unit = unit_open();
    ok(count_things(&unit, "\"new\"") == countof(things) && is_unproved(&unit, "tiny"));
    unit_close(&unit);
}

TEST(an_index_of_garbage_is_built_again)
{
    struct unit_store unit = unit_open();
    put_things(&unit, "\"1\"");
    unit_close(&unit);
    int fd = open(in_folder("index/data.mdb"), O_WRONLY | O_TRUNC);
    ok(fd >= 0 && write(fd, "this is no index", 16) == 16);
    close(fd);
    unit = unit_open();
    ok(count_things(&unit, "\"1\"") == countof(things));
    unit_close(&unit);
}

TEST(a_fault_in_the_map_ends_the_index_and_not_the_service)
{
    struct unit_store unit = unit_open();
    put_things(&unit, "\"1\"");
    /* what is mapped behind is SIGBUS now */
    ok(truncate(in_folder("index/data.mdb"), 4096) == 0);
    struct metadata *metadata = get_metadata(&unit, "nothing in ram knows this key");
    ok(!metadata);
    soon(serving(&unit));
    soon(count_things(&unit, "\"1\"") == countof(things));
    ok(is_unproved(&unit, "tiny"));
    unit_close(&unit);
}

/* ---- broken bytes ---- */

static unsigned flips;

static void flip_some(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR);
    ok(fd >= 0 && fstat(fd, &st) == 0);
    for (int i = 0; i < 3 && st.st_size; i++) {
        uint8_t byte;
        off_t at = rand() % st.st_size;
        ok(pread(fd, &byte, 1, at) == 1);
        byte ^= (uint8_t)(1 << rand() % 8);
        ok(pwrite(fd, &byte, 1, at) == 1);
        flips++;
    }
    close(fd);
}

/* Reads check every byte they get. */
TEST(flipped_bits_in_extents_are_found_and_never_served)
{
    uint64_t before = metric_read(M_STORE_CRC_BAD);
    size_t here = 0;
    srand(11);
    flips = 0;
    for (unsigned round = 0; round < 15; round++) {
        struct unit_store unit = unit_open();
        put_things(&unit, "\"1\"");
        unit_close(&unit);
        each_extent(flip_some);
        if (round % 5 == 4)
            remove_tree(in_folder("index"));
        unit = unit_open();
        here += count_things(&unit, "\"1\"");
        unit_close(&unit);
    }
    ok(flips > 50 && here > 10 && here < 15 * countof(things));
    ok(metric_read(M_STORE_CRC_BAD) > before);
}

/* One flip in the bytes of a unit: counted once, forgotten, and stored anew. */
TEST(a_flipped_bit_is_counted_forgotten_and_stored_anew)
{
    struct unit_store unit = unit_open();
    uint8_t wanted[16], bytes[4096];
    ok(put_object(&unit, "k", "\"1\"", 2 * MIB) == OK);
    object_fill("k", "\"1\"", 3 * UNIT_BYTES + 4096, wanted, sizeof(wanted));
    int fd = open(in_folder("extents/00000001"), O_RDWR);
    off_t at = 0;
    while (pread(fd, bytes, sizeof(bytes), at) == sizeof(bytes) &&
           memcmp(bytes, wanted, sizeof(wanted)) != 0)
        at += sizeof(bytes);
    bytes[2000] ^= 4;
    ok(pwrite(fd, bytes, sizeof(bytes), at) == sizeof(bytes));
    close(fd);
    uint64_t before = metric_read(M_STORE_CRC_BAD);
    ok(read_range(&unit, "k", 0, UNIT_BYTES) == UNIT_BYTES);
    ok(read_range(&unit, "k", 3 * UNIT_BYTES, 3 * UNIT_BYTES + 1) == 0);
    ok(metric_read(M_STORE_CRC_BAD) == before + 1);
    struct metadata *metadata = get_metadata(&unit, "k");
    soon(store_has_units(unit.store, metadata, 0, 16, RECORDS_ALL) <= 3);
    metadata_unref(&metadata);
    ok(put_object(&unit, "k", "\"1\"", 2 * MIB) == OK);
    ok(has_object(&unit, "k", "\"1\"", 2 * MIB));
    unit_close(&unit);
}

/* Every value in the index that holds this ETag hash gets a bit flipped. */
static unsigned flip_values(uint64_t etag_hash)
{
    struct stat st;
    unsigned count = 0;
    int fd = open(in_folder("index/data.mdb"), O_RDWR);
    ok(fd >= 0 && fstat(fd, &st) == 0);
    uint8_t *bytes = must_alloc((size_t)st.st_size);
    ok(pread(fd, bytes, (size_t)st.st_size, 0) == st.st_size);
    for (off_t at = 16; at + 20 < st.st_size; at++)
        if (memcmp(bytes + at, &etag_hash, sizeof(etag_hash)) == 0) {
            off_t where = at - 16 + rand() % 36;
            uint8_t byte = bytes[where] ^ (uint8_t)(1 << rand() % 8);
            ok(pwrite(fd, &byte, 1, where) == 1);
            count++;
        }
    free(bytes);
    close(fd);
    return count;
}

TEST(flipped_bits_in_index_values_are_found_and_the_index_is_built_again)
{
    srand(5);
    for (unsigned round = 0; round < 2; round++) {
        struct unit_store unit = unit_open();
        put_things(&unit, "\"1\"");
        unit_close(&unit);
        ok(flip_values(metadata_etag_hash(S("\"1\""))) >= countof(things));
        unit = unit_open();
        count_things(&unit, "\"1\"");
        soon(serving(&unit) && count_things(&unit, "\"1\"") == countof(things));
        unit_close(&unit);
        /* old pages keep old values: start each round with none */
        remove_tree(in_folder("index"));
    }
}

static void cut_it(const char *path)
{
    struct stat st;
    ok(stat(path, &st) == 0 && truncate(path, st.st_size * 2 / 3) == 0);
}

TEST(a_truncated_extent_is_a_miss_for_what_it_lost)
{
    for (int lose_index = 0; lose_index < 2; lose_index++) {
        struct unit_store unit = unit_open();
        put_things(&unit, "\"1\"");
        unit_close(&unit);
        each_extent(cut_it);
        if (lose_index)
            remove_tree(in_folder("index"));
        unit = unit_open();
        size_t here = count_things(&unit, "\"1\"");
        ok(here > 0 && here < countof(things));
        unit_close(&unit);
        remove_tree(unit_folder);
    }
}

TEST(a_torn_tail_is_left_out)
{
    ok(killed_after(0, 500) > 2);
    char path[300];
    snprintf(path, sizeof(path), "%s", in_folder("extents/00000001"));
    struct stat st;
    ok(stat(path, &st) == 0 && truncate(path, st.st_size - 5000) == 0);
    remove_tree(in_folder("index"));
    struct unit_store unit = unit_open_sized(256 * MIB, 4 * MIB);
    ok(has_object(&unit, "0-0", "\"1\"", size_of_nth(0)));
    unit_close(&unit);
}

TEST(a_missing_extent_is_a_miss)
{
    struct unit_store unit = unit_open();
    put_things(&unit, "\"1\"");
    ok(put_object(&unit, "last", "\"1\"", 4 * MIB) == OK);
    unit_close(&unit);
    ok(unlink(in_folder("extents/00000001")) == 0);
    unit = unit_open();
    ok(count_things(&unit, "\"1\"") < countof(things));
    put_things(&unit, "\"2\"");
    ok(count_things(&unit, "\"2\"") == countof(things));
    unit_close(&unit);
}

/* ---- strangers ---- */

static enum err open_fails(slice *ret_why, struct arena *keep)
{
    struct store *store = NULL;
    struct store_options options = options_of(64 * MIB, 0);
    enum err e = store_open(&options, keep, &store, ret_why);
    ok(e != OK);
    return e;
}

TEST(a_foreign_folder_is_refused)
{
    struct arena keep = { 0 };
    slice why;
    int fd = open(in_folder("thesis.tex"), O_CREAT | O_WRONLY, 0600);
    close(fd);
    ok(open_fails(&why, &keep) == ERR_FORMAT && slice_ends(why, S(SET_EMPTY)));
    ok(access(in_folder("thesis.tex"), F_OK) == 0);
    remove_tree(unit_folder);
    fd = open(unit_folder, O_CREAT | O_WRONLY, 0600);
    close(fd);
    ok(open_fails(&why, &keep) == ERR_FORMAT);
    unlink(unit_folder);
    arena_free(&keep);
}

static void raise_version(uint32_t by)
{
    uint8_t bytes[FORMAT_BYTES_MAX];
    uint32_t version, crc;
    int fd = open(in_folder("format"), O_RDWR);
    ssize_t len = pread(fd, bytes, sizeof(bytes), 0);
    ok(fd >= 0 && len > 64);
    memcpy(&version, bytes + 8, sizeof(version));
    version += by;
    memcpy(bytes + 8, &version, sizeof(version));
    crc = crc32c(0, bytes, (size_t)len - sizeof(crc));
    memcpy(bytes + len - sizeof(crc), &crc, sizeof(crc));
    ok(pwrite(fd, bytes, (size_t)len, 0) == len);
    close(fd);
}

TEST(a_newer_format_is_refused_and_left_alone)
{
    struct arena keep = { 0 };
    slice why;
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"1\"", 1000) == OK);
    unit_close(&unit);
    raise_version(1);
    ok(open_fails(&why, &keep) == ERR_FORMAT &&
       slice_find(why, S("in a format that this version")) < why.len);
    raise_version(UINT32_MAX);
    unit = unit_open();
    ok(has_object(&unit, "k", "\"1\"", 1000));
    unit_close(&unit);
    arena_free(&keep);
}

TEST(a_folder_held_by_another_process_is_taken_when_it_is_free)
{
    int pipes[2];
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"1\"", 1000) == OK);
    unit_close(&unit);
    ok(pipe(pipes) == 0);
    pid_t child = fork();
    if (child == 0) {
        unit = unit_open();
        (void)!write(pipes[1], "x", 1);
        pause();
    }
    char byte;
    ok(read(pipes[0], &byte, 1) == 1);
    ok(unit_try(&unit, options_of(64 * MIB, 4 * MIB)) == OK);
    ok(slice_ends(unit.why, S(SET_ANOTHER)) && !serving(&unit));
    ok(!get_metadata(&unit, "k") && put_object(&unit, "k2", "\"1\"", 10) == ERR_IO);
    ok(remove_object(&unit, "k") == ERR_IO);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    soon(serving(&unit));
    ok(has_object(&unit, "k", "\"1\"", 1000) && is_unproved(&unit, "k"));
    ok(put_object(&unit, "k2", "\"1\"", 10) == OK);
    unit_close(&unit);
    close(pipes[0]);
    close(pipes[1]);
}

/* ---- file systems that fail: each in a mount name space of its own ---- */

static int play_full(void)
{
    struct unit_store unit = unit_open_sized(64 * MIB, 2 * MIB);    /* far more than there is */
    char key[32];
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        enum err e = put_object(&unit, key, "\"1\"", 300000);
        if (e != OK && e != ERR_FULL)
            return 1;
        if (!e && !has_object(&unit, key, "\"1\"", 300000))
            return 2;
        if (!serving(&unit))
            return 3;
    }
    if (!has_object(&unit, key, "\"1\"", 300000))
        return 4;    /* it went on by recycling */
    if (remove_object(&unit, key) != OK || get_metadata(&unit, key))
        return 5;
    unit_close(&unit);
    return 0;
}

TEST(a_full_disk_is_lived_with)
{
    if (!on_small_disk(play_full))
        skip();
}

/* Fills the disk, except for some pages. */
static void fill_but(size_t pages)
{
    static char page[4096];
    struct stat st;
    int fd = open(in_folder("filler"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    while (write(fd, page, sizeof(page)) == sizeof(page))
        ;
    ok(fstat(fd, &st) == 0 && ftruncate(fd, st.st_size - (off_t)(pages * sizeof(page))) == 0);
    close(fd);
}

static enum err try_in(struct unit_store *unit, const char *cache)
{
    struct store_options options = options_of(64 * MIB, 2 * MIB);
    unit_one_folder.path = cache;
    return unit_try(unit, options);
}

static bool serves_soon(struct unit_store *unit)
{
    for (int i = 0; i < 6000 && !serving(unit); i++)
        usleep(10000);
    return serving(unit);
}

/* A new folder has no extent that could go. */
static int play_full_and_new(void)
{
    char cache[96];
    size_t pages = 0;
    snprintf(cache, sizeof(cache), "%s/cache", unit_folder);
    for (bool serves = false; !serves; pages++) {
        struct unit_store unit;
        fill_but(pages);
        if (try_in(&unit, cache) != OK || pages > 100)
            return 1;
        serves = serving(&unit);
        if (!serves && slice_find(unit.why, S("file system is full")) == unit.why.len)
            return 2;
        if (unlink(in_folder("filler")) != 0 || (pages == 3 && !serves_soon(&unit)))
            return 3;
        unit_close(&unit);
        remove_tree(cache);
    }
    return pages > 4 ? 0 : 4;    /* the format file found room, but not the index */
}

TEST(a_new_folder_on_a_full_disk_says_so_and_comes_when_there_is_room)
{
    if (!on_small_disk(play_full_and_new))
        skip();
}

/* Each opening gives extents for its index. */
static int play_full_and_old(void)
{
    char cache[96], name[128];
    snprintf(cache, sizeof(cache), "%s/cache", unit_folder);
    for (size_t pages = 0; pages < 12; pages++) {
        struct unit_store unit;
        if (try_in(&unit, cache) != OK || !serving(&unit))
            return 1;
        for (int i = 0; i < 12; i++)    /* two extents */
            if (put_object(&unit, (char[]){ (char)('a' + i), 0 }, "\"1\"", 300000) != OK)
                return 2;
        unit_close(&unit);
        snprintf(name, sizeof(name), "%s/index", cache);
        remove_tree(name);
        fill_but(pages);
        if (try_in(&unit, cache) != OK || !serving(&unit))
            return 3;
        unit_close(&unit);
        if (unlink(in_folder("filler")) != 0)
            return 4;
        remove_tree(cache);
    }
    return 0;
}

TEST(an_old_folder_on_a_full_disk_gives_an_extent_for_its_index)
{
    if (!on_small_disk(play_full_and_old))
        skip();
}

static int play_read_only(void)
{
    struct unit_store unit = unit_open_sized(4 * MIB, 2 * MIB);
    if (put_object(&unit, "k", "\"1\"", 1000) != OK)
        return 1;
    unit_close(&unit);
    if (mount(NULL, unit_folder, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0)
        return 2;
    if (unit_try(&unit, options_of(4 * MIB, 2 * MIB)) != OK || serving(&unit))
        return 3;
    if (slice_find(unit.why, S("the folder's file system is mounted read-only")) == unit.why.len)
        return 4;
    if (put_object(&unit, "k", "\"2\"", 10) != ERR_IO || get_metadata(&unit, "k"))
        return 5;
    if (mount(NULL, unit_folder, NULL, MS_REMOUNT, "size=6m") != 0)
        return 6;
    for (int i = 0; i < 6000 && !serving(&unit); i++)
        usleep(10000);
    if (!has_object(&unit, "k", "\"1\"", 1000))
        return 7;
    unit_close(&unit);
    return 0;
}

TEST(a_read_only_folder_is_served_without_and_taken_when_it_can_be_written)
{
    if (!on_small_disk(play_read_only))
        skip();
}

TEST(a_folder_that_cannot_be_made_is_served_without)
{
    struct unit_store unit;
    struct store_options options = options_of(4 * MIB, 0);
    unit_one_folder.path = "/proc/no/such/folder";
    ok(unit_try(&unit, options) == OK && unit.why.len && !serving(&unit));
    ok(!get_metadata(&unit, "k") && put_object(&unit, "k", "\"1\"", 10) == ERR_IO);
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(what_was_committed_before_a_kill_is_there_unproved_and_right),
          STORE_TEST(a_renewal_proves_for_this_life_and_the_next),
          STORE_TEST(metadata_in_ram_is_proved_when_the_commit_says_so),
          STORE_TEST(the_next_life_knows_which_buckets_were_restated),
          STORE_TEST(a_lost_index_is_built_again_and_the_later_version_wins),
          STORE_TEST(an_older_index_is_not_believed),
          STORE_TEST(an_index_of_garbage_is_built_again),
          STORE_TEST(a_fault_in_the_map_ends_the_index_and_not_the_service),
          STORE_TEST(flipped_bits_in_extents_are_found_and_never_served),
          STORE_TEST(a_flipped_bit_is_counted_forgotten_and_stored_anew),
          STORE_TEST(flipped_bits_in_index_values_are_found_and_the_index_is_built_again),
          STORE_TEST(a_truncated_extent_is_a_miss_for_what_it_lost),
          STORE_TEST(a_torn_tail_is_left_out), STORE_TEST(a_missing_extent_is_a_miss),
          STORE_TEST(a_foreign_folder_is_refused),
          STORE_TEST(a_newer_format_is_refused_and_left_alone),
          STORE_TEST(a_folder_held_by_another_process_is_taken_when_it_is_free),
          STORE_TEST(a_full_disk_is_lived_with),
          STORE_TEST(a_new_folder_on_a_full_disk_says_so_and_comes_when_there_is_room),
          STORE_TEST(an_old_folder_on_a_full_disk_gives_an_extent_for_its_index),
          STORE_TEST(a_read_only_folder_is_served_without_and_taken_when_it_can_be_written),
          STORE_TEST(a_folder_that_cannot_be_made_is_served_without))
