/* test_store_older.c - no damage of the index, and no copy of a folder, brings an older state back.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     test_store_older [all]         default: some of the bits, a few seconds; all: each
 *
 * LMDB leaves old pages in its file, with entries that were right once. In an index of many such
 * pages, single bits flip: in the meta pages, in the lock file (index_lock.c), in the pointers of branches and in the
 * headers of leaves. Whatever is found afterwards is the latest, or nothing, or the index is bad.
 * With a guard off (meta, leaf, mark, doubt; linked with tests/daemon/testing.c in place of
 * base/testing.c), older ones are found. */
#include "store_unit.h"

#include "base/crc.h"
#include "base/thread.h"
#include "store/index.h"
#include "store/metas.h"

static uint32_t step = 61;            /* one bit of so many; a prime: all kinds of them */

/* ---- an index of which one remembers what was written last ---- */

#define OBJECTS 3000u
#define PAGE 4096u

struct memory {
    struct index *index;
    uint32_t latest[OBJECTS];         /* the version (an entry's extent); 0: deleted, or never there */
    uint32_t version;
    uint32_t older, bad, right;       /* what was found */
};

static uint64_t random_state = 7;

static uint32_t below(uint32_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % limit);
}

/* In the order of their numbers. */
static struct object_id id_of(uint32_t number)
{
    struct object_id id = { { 0 } };
    uint32_t big = __builtin_bswap32(number);
    memcpy(&id, &big, sizeof(big));
    return id;
}

static void put(struct memory *memory, uint32_t object)
{
    struct object_id id = id_of(object);
    struct entry entry = { .extent = ++memory->version, .len = 1000, .whole = true };
    ok(index_put(memory->index, &id, 0, &entry) == OK);
    memory->latest[object] = memory->version;
}

static void drop(struct memory *memory, uint32_t object)
{
    struct object_id id = id_of(object);
    enum err e = index_delete(memory->index, &id, 0);
    ok(e == OK || (e == ERR_NOT_FOUND && !memory->latest[object]));
    memory->latest[object] = 0;
}

static char data_path[300];

static void reopen(struct memory *memory)
{
    index_close(memory->index);
    ok(index_open(memory->index, in_folder("index"), 64 * MIB) == OK);
}

static struct memory memory_new(void)
{
    struct memory memory = { .index = index_new() };
    snprintf(data_path, sizeof(data_path), "%s", in_folder("index/data.mdb"));
    ok(index_open(memory.index, in_folder("index"), 64 * MIB) == OK);
    ok(index_begin(memory.index) == OK && index_set_opening(memory.index, 1) == OK);
    for (uint32_t i = 0; i < OBJECTS; i++)
        put(&memory, i);
    ok(index_commit(memory.index) == OK);
    for (uint32_t round = 0; round < 40; round++) {    /* old copies of most leaves, in free pages */
        ok(index_begin(memory.index) == OK);
        for (uint32_t i = 0; i < 12; i++)
            below(4) ? put(&memory, below(OBJECTS)) : drop(&memory, below(OBJECTS));
        ok(index_commit(memory.index) == OK);
    }
    return memory;
}

/* What is found of an object: the latest, or nothing, or an index that is bad. */
static void look(struct memory *memory, uint32_t object, bool writing)
{
    struct entry entry;
    struct object_id id = id_of(object);
    enum err e = writing ? index_begin(memory->index) : OK;
    if (!e)
        e = writing ? index_find(memory->index, &id, 0, &entry)
                    : find_unit(memory->index, &id, 0, &entry);
    if (writing)
        index_abort(memory->index);
    memory->older += !e && entry.extent != memory->latest[object];
    memory->right += !e && entry.extent == memory->latest[object];
}

static void flip(const char *path, uint64_t bit)
{
    uint8_t byte;
    int fd = open(path, O_RDWR);
    ok(fd >= 0 && pread(fd, &byte, 1, (off_t)(bit / 8)) == 1);
    byte ^= (uint8_t)(1u << bit % 8);
    ok(pwrite(fd, &byte, 1, (off_t)(bit / 8)) == 1);
    close(fd);
}

/* The bit flips, objects are looked for, by a reader and by the committer in turns; it flips back. */
static void damage(struct memory *memory, const char *path, uint64_t bit, const uint32_t *objects,
                   uint32_t count)
{
    flip(path, bit);
    bool writer_first = bit % 2;
    for (uint32_t i = 0; i < 2 * count && !index_is_bad(memory->index); i++)
        look(memory, objects[i / 2], (i % 2) ^ writer_first);
    flip(path, bit);
    if (!index_is_bad(memory->index))
        return;
    memory->bad++;
    reopen(memory);
}

static void memory_end(struct memory *memory, const char *text, uint32_t flips)
{
    printf("%s: %u flips: %u times bad; found: %u right, %u older\n", text, flips, memory->bad,
           memory->right, memory->older);
    ok(memory->older == 0 && memory->bad > 0 && memory->right > 0);
    for (uint32_t i = 0; i < OBJECTS; i++)
        look(memory, i, false);
    ok(memory->older == 0 && !index_is_bad(memory->index));
    index_free(&memory->index);
}

static uint64_t number(const void *at, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

static struct metas metas_now(void)
{
    struct metas metas;
    slice file = whole_file(data_path);
    metas_read((const uint8_t *)file.ptr, (const uint8_t *)file.ptr + PAGE, PAGE, &metas);
    free((char *)(uintptr_t)file.ptr);
    return metas;
}

/* ---- single bits ---- */

/* The last transactions change these two; the roots of the last two differ in one bit. */
static void change_last(struct memory *memory, const uint32_t objects[2])
{
    uint64_t root = 0, before;
    for (uint32_t i = 0; i < 2000; i++) {
        before = root;
        ok(index_begin(memory->index) == OK);
        put(memory, objects[0]);
        if (i % 2)
            put(memory, objects[1]);
        else
            drop(memory, objects[1]);
        for (uint32_t more = below(5); more > 0; more--)    /* so that pages come in another order */
            put(memory, below(OBJECTS));
        ok(index_commit(memory->index) == OK);
        root = metas_now().root;
        if (i % 2 == 0 && __builtin_popcountll(root ^ before) == 1)
            return;
    }
    fail_msg("no two roots differ in one bit");
}

TEST(no_bit_of_the_meta_pages_makes_a_running_index_older)
{
    static const uint32_t objects[] = { 1000, 2000 };
    struct memory memory = memory_new();
    uint32_t flips = 0;
    change_last(&memory, objects);
    for (uint64_t bit = 0; bit < 2 * PAGE * 8; bit += step, flips++)
        damage(&memory, data_path, bit, objects, countof(objects));
    for (uint64_t bit = 0; bit < 64; bit++)    /* the roots */
        for (uint64_t page = 0; page < 2; page++, flips++)
            damage(&memory, data_path, (page * PAGE + 128) * 8 + bit, objects, countof(objects));
    memory_end(&memory, "both meta pages", flips);
}

/* The path of the only file in memory that is a lock file; by the file descriptor of LMDB. */
static void find_lock(char ret[64])
{
    char target[64];
    unsigned found = 0;
    for (int fd = 3; fd < 64; fd++) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t len = readlink(path, target, sizeof(target) - 1);
        if (len > 0 && (target[len] = '\0', strstr(target, "penstock-index-lock"))) {
            snprintf(ret, 64, "%s", path);
            found++;
        }
    }
    ok(found == 1);
}

TEST(no_bit_of_the_last_transactions_number_makes_a_running_index_older)
{
    static const uint32_t objects[] = { 1000, 2000 };
    struct memory memory = memory_new();
    uint32_t flips = 0;
    char lock_path[64];
    find_lock(lock_path);
    change_last(&memory, objects);
    slice file = whole_file(lock_path);
    uint64_t last = metas_now().transaction, at = 0;
    while (at + 8 <= file.len && number(file.ptr + at, 8) != last)
        at += 8;
    ok(at + 8 <= file.len);
    free((char *)(uintptr_t)file.ptr);
    for (uint64_t bit = 0; bit < 64; bit++, flips++)
        damage(&memory, lock_path, at * 8 + bit, objects, countof(objects));
    memory_end(&memory, "the number in the lock file", flips);
}

static uint32_t object_at(const uint8_t *node)
{
    return number(node + 6, 2) == 16 ? __builtin_bswap32((uint32_t)number(node + 8, 4)) : OBJECTS;
}

static const uint8_t *node_of(const uint8_t *page, uint32_t index)
{
    return page + number(page + 16 + 2 * index, 2);
}

static uint32_t count_of(const uint8_t *page)
{
    return (uint32_t)(number(page + 12, 2) - 16) / 2;
}

#define LOOKED_FOR 8u

/* What to look for below this child, if it leads to `target`: objects of which that leaf has an older
 * entry, and a few others. */
static void choose(const struct memory *memory, const uint8_t *branch, uint32_t child,
                   const uint8_t *target, uint32_t objects[LOOKED_FOR])
{
    uint32_t from = child ? object_at(node_of(branch, child)) : 0, chosen = 0;
    uint32_t to = child + 1 < count_of(branch) ? object_at(node_of(branch, child + 1)) : OBJECTS;
    for (uint32_t i = 0; target && i < count_of(target) && chosen < LOOKED_FOR / 2; i++) {
        const uint8_t *node = node_of(target, i);
        uint32_t object = object_at(node);
        if (object >= from && object < to && memory->latest[object] != number(node + 24, 4))
            objects[chosen++] = object;
    }
    while (chosen < LOOKED_FOR)
        objects[chosen++] = MIN(from + below(to > from ? to - from : 1), OBJECTS - 1);
}

/* A child's number in a branch page: to another page, most of them free ones. */
TEST(no_bit_of_a_branch_leads_to_an_older_leaf)
{
    struct memory memory = memory_new();
    uint32_t flips = 0, objects[LOOKED_FOR];
    slice file = whole_file(data_path);
    uint64_t root = metas_now().root;
    const uint8_t *page = (const uint8_t *)file.ptr + root * PAGE;
    ok(number(page + 10, 2) == 1 && count_of(page) > 20);    /* a branch, above leaves */
    for (uint32_t child = 0; child < count_of(page); child++)
        for (uint64_t bit = 0; bit < 48; bit += bit < 8 ? 1 : step / 16 + 1, flips++) {
            const uint8_t *node = node_of(page, child);
            uint64_t to = (number(node, 4) | number(node + 4, 2) << 32) ^ 1ull << bit;
            bool leaf = to > 1 && to < file.len / PAGE && number(file.ptr + to * PAGE + 10, 2) == 2;
            choose(&memory, page, child,
                   leaf ? (const uint8_t *)file.ptr + to * PAGE : NULL, objects);
            damage(&memory, data_path, (uint64_t)((const char *)node - file.ptr) * 8 + bit, objects,
                   LOOKED_FOR);
        }
    for (uint64_t bit = 0; bit < 16 * 8; bit++, flips++) {    /* its header */
        choose(&memory, page, (uint32_t)bit % count_of(page), NULL, objects);
        damage(&memory, data_path, root * PAGE * 8 + bit, objects, LOOKED_FOR);
    }
    memory_end(&memory, "branches", flips);
    free((char *)(uintptr_t)file.ptr);
}

/* The last object of a leaf is put and deleted again: its bytes are still there, and a pointer. */
TEST(no_bit_of_a_leafs_header_brings_a_deleted_entry_back)
{
    struct memory memory = memory_new();
    uint32_t flips = 0;
    for (uint32_t round = 0; round < 30; round++) {
        uint32_t object = OBJECTS - 1 - round;
        for (uint32_t i = OBJECTS - 1; i > object; i--) {
            ok(index_begin(memory.index) == OK);
            drop(&memory, i);
            ok(index_commit(memory.index) == OK);
        }
        ok(index_begin(memory.index) == OK);
        drop(&memory, object);
        put(&memory, object);
        ok(index_commit(memory.index) == OK && index_begin(memory.index) == OK);
        drop(&memory, object);
        ok(index_commit(memory.index) == OK);
        slice file = whole_file(data_path);
        for (uint64_t at = 2 * PAGE; at + PAGE <= file.len; at += PAGE)
            for (uint64_t bit = 0; number(file.ptr + at + 10, 2) == 2 && bit < 32; bit++, flips++)
                if (number(file.ptr + at + 24, 2) && below(step) < 3)
                    damage(&memory, data_path, (at + 12) * 8 + bit, &object, 1);
        free((char *)(uintptr_t)file.ptr);
    }
    uint32_t left = 5;
    look(&memory, left, false);
    memory_end(&memory, "leaves", flips);
}

/* ---- readers beside commits ---- */

struct race {
    struct memory *memory;
    atomic_uint published;            /* the version that each later look-up has to find, or a later */
    atomic_uint wrong, reads;
    atomic_bool over;
};

static void *read_on(void *arg)
{
    struct race *race = arg;
    struct object_id id = id_of(42);
    while (!atomic_load(&race->over)) {
        struct entry entry;
        uint32_t least = atomic_load(&race->published);
        enum err e = find_unit(race->memory->index, &id, 0, &entry);
        atomic_fetch_add(&race->wrong, e || entry.extent < least);
        atomic_fetch_add(&race->reads, 1);
    }
    return NULL;
}

TEST(a_reader_beside_commits_finds_the_last_or_the_one_that_lands)
{
    enum { THREADS = 4, COMMITS = 400 };
    struct memory memory = memory_new();
    struct race race = { .memory = &memory };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ok(pthread_create(&threads[i], NULL, read_on, &race) == 0);
    for (int i = 0; i < COMMITS; i++) {
        ok(index_begin(memory.index) == OK);
        put(&memory, 42);
        put(&memory, below(OBJECTS));
        memory.latest[42] = memory.version - 1;
        ok(index_commit(memory.index) == OK);
        atomic_store(&race.published, memory.latest[42]);
    }
    atomic_store(&race.over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ok(atomic_load(&race.reads) > 0 && atomic_load(&race.wrong) == 0);
    ok(!index_is_bad(memory.index));
    index_free(&memory.index);
}

/* ---- the mark of a clean stop ---- */

enum { MARK_BYTES = 232, MARK_BOOT = 16, MARK_INDEX = 64 + 3 * 32 };

static void read_mark(uint8_t mark[MARK_BYTES])
{
    int fd = open(in_folder("clean"), O_RDONLY);
    ok(fd >= 0 && read(fd, mark, MARK_BYTES) == MARK_BYTES);
    close(fd);
}

/* In place, and with a checksum that fits. */
static void write_mark(uint8_t mark[MARK_BYTES])
{
    uint32_t crc = crc32c(0, mark, MARK_BYTES - 4);
    memcpy(mark + MARK_BYTES - 4, &crc, sizeof(crc));
    int fd = open(in_folder("clean"), O_WRONLY);
    ok(fd >= 0 && write(fd, mark, MARK_BYTES) == MARK_BYTES);
    close(fd);
}

/* A disk that loses a bit leaves no time behind. We do: the mark is told of it. */
static void flip_unnoticed(uint64_t bit)
{
    struct stat st;
    uint8_t mark[MARK_BYTES];
    flip(in_folder("index/data.mdb"), bit);
    ok(stat(in_folder("index/data.mdb"), &st) == 0);
    read_mark(mark);
    uint64_t place[] = { st.st_dev, st.st_ino, (uint64_t)st.st_ctim.tv_sec,
                         (uint64_t)st.st_ctim.tv_nsec };
    memcpy(mark + MARK_INDEX, place, sizeof(place));
    write_mark(mark);
}

/* Committed at once: a removal closes the batch. */
static void put_now(struct unit_store *unit, const char *key)
{
    struct unit_put one = put_begin(unit, key, "\"1\"", 100);
    ok(remove_object(unit, "nothing") == OK && put_wait(&one) == OK);
}

/* A removal is the last transaction; a bit flips; then the object is not here, or unproved. */
static bool comes_back(uint64_t bit)
{
    struct unit_store unit = unit_open_sized(8 * MIB, 2 * MIB);
    soon(serving(&unit));
    put_now(&unit, "k");
    ok(has_object(&unit, "k", "\"1\"", 100) && remove_object(&unit, "k") == OK);
    unit_close(&unit);
    flip_unnoticed(bit);
    ok(unit_try(&unit, options_of(8 * MIB, 2 * MIB)) == OK);
    if (unit.why.len)
        printf("bit %d: %.*s\n", (int)bit, SLICE_ARG(unit.why));
    struct metadata *metadata = get_metadata(&unit, "k");
    bool older = metadata && (!atomic_load(&metadata->unproved) || !metadata->unshared);
    metadata_unref(&metadata);
    unit_close(&unit);
    return older;
}

TEST(no_bit_of_the_meta_pages_makes_a_folder_at_rest_older)
{
    uint32_t flips = 0, older = 0;
    for (uint64_t page = 0; page < 2; page++) {
        for (uint64_t bit = 0; bit < META_BYTES * 8; bit += step, flips++)
            older += comes_back(page * PAGE * 8 + bit);
        for (uint64_t bit = 0; bit < 8; bit++, flips++)
            older += comes_back((page * PAGE + 144) * 8 + bit);
    }
    printf("at rest: %u flips: %u older\n", flips, older);
    ok(older == 0);
}

static bool opens_clean(void)
{
    struct unit_store unit = unit_open_sized(8 * MIB, 2 * MIB);
    struct metadata *metadata = get_metadata(&unit, "k");
    ok(metadata);
    bool clean = !atomic_load(&metadata->unproved);
    ok(clean != metadata->unshared);
    metadata_unref(&metadata);
    put_now(&unit, "k");    /* proved again */
    unit_close(&unit);
    return clean;
}

TEST(a_mark_holds_for_the_folder_as_it_was_left_and_for_no_other)
{
    uint8_t mark[MARK_BYTES];
    struct unit_store unit = unit_open_sized(8 * MIB, 2 * MIB);
    put_now(&unit, "k");
    unit_close(&unit);
    ok(opens_clean() && opens_clean());
    flip_unnoticed(META_BYTES * 8);    /* behind what LMDB reads */
    ok(opens_clean());
    ok(truncate(in_folder("clean"), 0) == 0 && !opens_clean());    /* as version 0.1 left it */
    ok(truncate(in_folder("clean"), 100) == 0 && !opens_clean());
    for (unsigned at = 0; at < MARK_BYTES; at += 3) {
        flip(in_folder("clean"), at * 8 + at % 8);
        ok(!opens_clean());
    }
    read_mark(mark);
    mark[MARK_BOOT] ^= 1;    /* another boot of the machine */
    write_mark(mark);
    ok(!opens_clean() && opens_clean());
    ok(chmod(in_folder("format"), 0600) == 0 && !opens_clean());    /* it has another change time */
    ok(mkdir(in_folder("lost+found"), 0700) == 0 && !opens_clean() && opens_clean());
}

/* ---- what an unclean opening believes ---- */

static void open_unclean(struct unit_store *unit)
{
    unlink(in_folder("clean"));
    *unit = unit_open_sized(8 * MIB, 2 * MIB);
}

static bool is_unshared(struct unit_store *unit, const char *key)
{
    struct metadata *metadata = get_metadata(unit, key);
    ok(metadata != NULL);
    bool unshared = metadata->unshared;
    metadata_unref(&metadata);
    return unshared;
}

/* Vouched for; `granted`: to the shared identity. */
static void vouch(struct unit_store *unit, const char *key, uint32_t granted)
{
    struct metadata *metadata = get_metadata(unit, key);
    struct store_vouch said = { .etag_hash = metadata->etag_hash, .size = metadata->size,
                                .modified_s = metadata->modified_s, .when_s = 1760000000 };
    ok(store_renew(unit->store, &metadata->id, &said) == STORE_RENEWED);
    if (granted)
        (void)store_grant(unit->store, &metadata->id, metadata, granted, true);
    soon(!is_unproved(unit, key));
    metadata_unref(&metadata);
}

TEST(metadata_found_by_an_unclean_opening_counts_as_refused_until_a_grant)
{
    struct unit_store unit = unit_open_sized(8 * MIB, 2 * MIB);
    put_now(&unit, "k");
    put_now(&unit, "other");
    ok(!is_unshared(&unit, "k"));
    unit_close(&unit);
    unit = unit_open_sized(8 * MIB, 2 * MIB);
    ok(!is_unshared(&unit, "k") && !is_unproved(&unit, "k"));
    unit_close(&unit);
    open_unclean(&unit);
    ok(is_unshared(&unit, "k") && is_unshared(&unit, "other"));
    vouch(&unit, "k", 4);
    vouch(&unit, "other", 0);    /* by a listing, or to a client of its own rights */
    unit_close(&unit);
    unit = unit_open_sized(8 * MIB, 2 * MIB);
    ok(!is_unproved(&unit, "k") && !is_unshared(&unit, "k"));
    ok(!is_unproved(&unit, "other") && is_unshared(&unit, "other"));
    unit_close(&unit);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        step = 1;
    if (argc > 2 - (step > 1))
        cmocka_set_test_filter(argv[step == 1 ? 2 : 1]);
    const struct CMUnitTest tests[] = {
        STORE_TEST(no_bit_of_the_meta_pages_makes_a_running_index_older),
        STORE_TEST(no_bit_of_the_last_transactions_number_makes_a_running_index_older),
        STORE_TEST(no_bit_of_a_branch_leads_to_an_older_leaf),
        STORE_TEST(no_bit_of_a_leafs_header_brings_a_deleted_entry_back),
        STORE_TEST(a_reader_beside_commits_finds_the_last_or_the_one_that_lands),
        STORE_TEST(no_bit_of_the_meta_pages_makes_a_folder_at_rest_older),
        STORE_TEST(a_mark_holds_for_the_folder_as_it_was_left_and_for_no_other),
        STORE_TEST(metadata_found_by_an_unclean_opening_counts_as_refused_until_a_grant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
