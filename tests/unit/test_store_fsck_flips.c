/* test_store_fsck_flips.c - fsck and its repair survive any damage, and cause no wrong byte.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     test_store_fsck_flips [ROUNDS [SEED]]
 *
 * Each round copies a small folder, changes bytes in its files, and runs a check, a repair or both.
 * Then it opens the store and reads all objects. Each byte must be right. An object that was
 * overwritten or removed must not come back, unless it is unproved, so that the origin is asked. A
 * round runs in a process of its own. */
#include "store_unit.h"

#include "store/fsck.h"

#define KEYS 40u
#define HANGS_MS 60000

/* As test_store_flips does. */
static uint32_t state = 1;
static uint32_t below(uint32_t count)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % count;
}

/* ---- the folder ---- */

static const char *key_of(unsigned number)
{
    static char key[32];
    snprintf(key, sizeof(key), "k%u", number);
    return key;
}

static uint64_t size_of_object(unsigned number)
{
    static const uint64_t sizes[] = { 700, 40000, 131072, 300000, 0, 2 * MIB + 5 };
    return sizes[number % countof(sizes)];
}

/* Of four objects one is overwritten, and one is removed. */
static void make_folder(bool stops_cleanly)
{
    struct unit_store unit = unit_open();
    for (unsigned i = 0; i < KEYS; i++)
        ok(put_object(&unit, key_of(i), "\"one\"", size_of_object(i)) == OK);
    for (unsigned i = 0; i < KEYS; i += 4) {
        ok(put_object(&unit, key_of(i), "\"two\"", size_of_object(i)) == OK);
        ok(remove_object(&unit, key_of(i + 1)) == OK);
    }
    if (!stops_cleanly)
        _exit(0);
    unit_close(&unit);
}

/* ---- files in memory ---- */

struct file {
    char name[64];
    slice bytes;
};
static struct file files[64];
static size_t file_count;

static void keep_files(const char *inner)
{
    char path[300], name[300];
    snprintf(path, sizeof(path), "%s/%s", unit_folder, inner);
    DIR *dir = opendir(path);
    ok(dir != NULL);
    for (struct dirent *item; (item = readdir(dir));) {
        struct stat st;
        snprintf(name, sizeof(name), "%s%s%s", inner, *inner ? "/" : "", item->d_name);
        ok(fstatat(dirfd(dir), item->d_name, &st, 0) == 0);
        if (item->d_name[0] == '.' || (S_ISDIR(st.st_mode) && (keep_files(name), true)))
            continue;
        ok(file_count < countof(files) && strlen(name) < sizeof(files[0].name));
        char *bytes = must_alloc((size_t)st.st_size + 1);
        int fd = openat(dirfd(dir), item->d_name, O_RDONLY);
        ok(fd >= 0 && read(fd, bytes, (size_t)st.st_size) == st.st_size);
        close(fd);
        strcpy(files[file_count].name, name);
        files[file_count++].bytes = (slice){ bytes, (size_t)st.st_size };
    }
    closedir(dir);
}

static void write_files(void)
{
    remove_tree(unit_folder);
    ok(mkdir(unit_folder, 0700) == 0 && mkdir(in_folder("extents"), 0700) == 0 &&
       mkdir(in_folder("index"), 0700) == 0 && mkdir(in_folder("ages"), 0700) == 0);
    for (size_t i = 0; i < file_count; i++) {
        int fd = open(in_folder(files[i].name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        ok(fd >= 0 && write(fd, files[i].bytes.ptr, files[i].bytes.len) ==
                          (ssize_t)files[i].bytes.len);
        close(fd);
    }
}

/* ---- damage ---- */

static void change_bytes(int fd, off_t at, uint32_t count)
{
    uint8_t bytes[64];
    ssize_t len = pread(fd, bytes, MIN(count, sizeof(bytes)), at);
    for (ssize_t i = 0; i < len; i++)
        bytes[i] = below(4) ? (uint8_t)(bytes[i] ^ 1u << below(8)) : (uint8_t)below(256);
    ok(len <= 0 || pwrite(fd, bytes, (size_t)len, at) == len);
}

/* The beginning and the end of a file tell most: heads, meta pages, footers. */
static off_t place_in(off_t size)
{
    switch (below(4)) {
    case 0:
        return (off_t)below((uint32_t)MIN(size, 400));
    case 1:
        return size - 1 - (off_t)below((uint32_t)MIN(size, 400));
    case 2:
        return (off_t)(below((uint32_t)(size / 4096 + 1)) * 4096 + below(160));
    default:
        return (off_t)below((uint32_t)size);
    }
}

static void damage(void)
{
    for (uint32_t i = 1 + below(6); i > 0; i--) {
        const struct file *file = &files[below((uint32_t)file_count)];
        int fd = open(in_folder(file->name), O_RDWR);
        struct stat st;
        if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0)
            continue;
        switch (below(12)) {
        case 0:
            ok(ftruncate(fd, (off_t)below((uint32_t)st.st_size)) == 0);
            break;
        case 1:
            unlink(in_folder(file->name));
            break;
        default:
            change_bytes(fd, place_in(st.st_size), 1 + below(64));
        }
        close(fd);
    }
}

/* ---- a round ---- */

static bool fsck(bool repair)
{
    struct arena keep = { 0 };
    const char *folder = unit_folder;
    struct fsck_ask ask = { .folders = &folder, .count = 1, .repair = repair,
                            .quick = below(4) == 0 };
    struct fsck_report report;
    fsck_run(&ask, &keep, &report);
    bool clean = report.checked && !report.why.len && fsck_wrong(&report) == 0;
    bool by_hand = report.findings[FSCK_FORMAT].count;
    arena_free(&keep);
    return clean || by_hand;
}

/* Reads each object. read_range fails the test if a byte is wrong. */
static bool reads_right(struct unit_store *unit)
{
    for (unsigned i = 0; i < KEYS; i++) {
        struct metadata *metadata = get_metadata(unit, key_of(i));
        bool old = metadata && !atomic_load(&metadata->unproved) &&
                   (i % 4 == 1 || (i % 4 == 0 && !slice_eq(metadata->etag, S("\"two\""))));
        metadata_unref(&metadata);
        if (old)
            return false;
        read_range(unit, key_of(i), 0, MAX(size_of_object(i), 1));
    }
    return true;
}

enum { RIGHT, OLD = 11, NOT_REPAIRED, NOT_OPENED };

static int play(void)
{
    struct unit_store unit;
    bool repair = below(3) > 0;
    write_files();
    damage();
    if (below(2))
        (void)fsck(false);
    if (repair && !fsck(true))
        return NOT_REPAIRED;
    if (unit_try(&unit, options_of(64 * MIB, 4 * MIB)) != OK)
        return NOT_OPENED;
    bool right = reads_right(&unit);
    unit_close(&unit);
    return right ? RIGHT : OLD;
}

/* Returns false if anything went wrong. */
static bool round_run(uint32_t number)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        state = number * 0x9E3779B9u | 1;
        _exit(play());
    }
    if (child_ended(child, HANGS_MS, &status) && WIFEXITED(status) && WEXITSTATUS(status) == RIGHT)
        return true;
    printf("round %u: %s %d\n", number, WIFEXITED(status) ? "exit" : "signal",
           WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return false;
}

/* Half of the rounds begin with the folder of a clean stop, half with that of a killed process. */
static uint32_t rounds_run(uint32_t rounds, uint32_t seed, bool stops_cleanly)
{
    uint32_t failed = 0;
    int status;
    file_count = 0;
    ok(mkdir(unit_folder, 0700) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        make_folder(stops_cleanly);
        _exit(0);
    }
    ok(waitpid(child, &status, 0) == child && status == 0);
    keep_files("");
    for (uint32_t i = 0; i < rounds; i++)
        failed += !round_run(seed + i);
    for (size_t i = 0; i < file_count; i++)
        free((char *)(uintptr_t)files[i].bytes.ptr);
    remove_tree(unit_folder);
    return failed;
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 1 ? (uint32_t)atoi(argv[1]) : 40;
    uint32_t seed = argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
    snprintf(unit_folder, sizeof(unit_folder), "store-unit-fsck-%d", getpid());
    uint32_t failed = rounds_run(rounds - rounds / 2, seed, true) +
                      rounds_run(rounds / 2, seed + 1000000, false);
    printf("%u rounds: %u failed\n", rounds, failed);
    return failed > 0;
}
