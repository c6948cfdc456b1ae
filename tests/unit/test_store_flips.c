/* test_store_flips.c - bits flip in the index while it is used. SPDX-License-Identifier: Apache-2.0
 *
 *     test_store_flips [ROUNDS [SEED]]        default: 150 rounds, a few seconds
 *
 * A round is a child process with a copy of one index: up to 256 bits of its data file flip,
 * between its transactions and within them, while it puts, deletes one by one and in runs, and
 * reads. An index that is found bad is thrown away and begun anew, as the store does. A child must
 * end by itself: neither die nor hang. With the guard "pages" off (linked with
 * tests/daemon/testing.c in place of base/testing.c), some do. */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/index.h"

#define OBJECTS 1500u
#define UNITS 4u
#define TRANSACTIONS 6
#define CHANGES 60
#define HANGS_MS 60000
enum { LOST = 70, STUCK };            /* how a child may exit */

static uint64_t state;

static uint32_t below(uint32_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % limit);
}

static struct object_id id_of(uint32_t number)
{
    struct object_id id;
    uint64_t mixed = number * 0x9E3779B97F4A7C15u;    /* scattered, like the store's */
    memset(&id, (int)number, sizeof(id));
    memcpy(&id, &mixed, sizeof(mixed));
    return id;
}

static enum err put(struct index *index, uint32_t object, uint32_t unit)
{
    struct object_id id = id_of(object);
    struct entry entry = { .extent = 1 + object / 64, .offset = 4096 * unit, .len = UNIT_BYTES };
    return index_put(index, &id, unit, &entry);
}

/* ---- the index that every round begins with ---- */

static void prepare(const char *path)
{
    struct index *index = index_new();
    ok(index_open(index, path, 64 * MIB) == OK);
    ok(index_begin(index) == OK && index_set_opening(index, 1) == OK);
    for (uint32_t i = 0; i < OBJECTS * UNITS; i++)
        ok(put(index, i / UNITS, i % UNITS) == OK);
    ok(index_commit(index) == OK);
    for (uint32_t at = 0; at < OBJECTS; at += OBJECTS / 5) {    /* so that pages are free */
        ok(index_begin(index) == OK);
        for (uint32_t i = at; i < at + OBJECTS / 15; i++)
            for (uint32_t unit = 0; unit < UNITS; unit++) {
                struct object_id id = id_of(i);
                ok(index_delete(index, &id, unit) == OK);
            }
        ok(index_commit(index) == OK);
    }
    index_free(&index);
}

static void throw_away(const char *path)
{
    static const char *const names[] = { "data.mdb", "lock.mdb", INDEX_SUSPECT };
    for (size_t i = 0; i < countof(names); i++) {
        char file[100];
        snprintf(file, sizeof(file), "%s/%s", path, names[i]);
        unlink(file);
    }
    rmdir(path);
}

static void write_file(const char *path, slice bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ok(fd >= 0 && write(fd, bytes.ptr, bytes.len) == (ssize_t)bytes.len);
    close(fd);
}

/* ---- a round ---- */

struct round {
    struct index *index;
    const char *path;
    uint32_t bits_left;
    bool at_heads;                    /* flips in the first bytes of pages only */
    uint32_t lost;                    /* how often the index was thrown away */
};

static void flip(struct round *round, uint32_t bits)
{
    char file[400];
    snprintf(file, sizeof(file), "%s/data.mdb", round->path);
    int fd = open(file, O_RDWR);
    struct stat st;
    ok(fd >= 0 && fstat(fd, &st) == 0 && st.st_size >= 4096);
    for (; bits && round->bits_left; bits--, round->bits_left--) {
        off_t at = round->at_heads ? (off_t)(below((uint32_t)st.st_size / 4096) * 4096 + below(160))
                                   : (off_t)below((uint32_t)st.st_size);
        uint8_t byte;
        ok(pread(fd, &byte, 1, at) == 1);
        byte = (uint8_t)(byte ^ 1u << below(8));
        ok(pwrite(fd, &byte, 1, at) == 1);
    }
    close(fd);
}

/* 0, or why the round ends here: an index that fails without being bad. */
static int anew(struct round *round)
{
    bool bad = index_is_bad(round->index);
    index_abort(round->index);
    index_close(round->index);
    if (!bad)
        return STUCK;
    throw_away(round->path);
    if (index_open(round->index, round->path, 64 * MIB) != OK)
        return STUCK;
    round->lost++;
    return 0;
}

static enum err change(struct round *round)
{
    uint32_t object = below(OBJECTS), unit = below(UNITS + 2), found;
    struct object_id id = id_of(object);
    struct entry entry;
    enum err e = OK;
    switch (below(8)) {
    case 0 ... 2:
        return put(round->index, object, unit);
    case 3:
        return put(round->index, OBJECTS + below(1u << 30), unit);
    case 4 ... 5:
        return index_delete(round->index, &id, unit);
    case 6:                           /* as recycling does: what is there, in a row */
        for (int i = 0; !e && i < 8; i++) {
            e = index_find_next(round->index, &id, 0, &found, &entry);
            e = e ? e : index_delete(round->index, &id, found);
        }
        return e;
    default:
        return index_find(round->index, &id, unit, &entry);
    }
}

static enum err transaction(struct round *round)
{
    enum err e = index_begin(round->index);
    for (int i = 0; !e && i < CHANGES; i++) {
        e = change(round);
        e = e == ERR_NOT_FOUND ? OK : e;
        if (below(16) == 0)
            flip(round, 1 + below(4));
    }
    if (!e)
        e = index_commit(round->index);
    index_abort(round->index);
    return e;
}

static void read_some(struct round *round)
{
    struct entry entries[RECORD_UNITS];
    uint32_t unit;
    for (int i = 0; i < CHANGES; i++) {
        struct object_id id = id_of(below(OBJECTS));
        (void)index_get_run(round->index, &id, below(UNITS), UNITS, entries);
        (void)!index_get_metadata(round->index, &id, &unit, entries);
        (void)!index_get_next(round->index, &id, below(UNITS), &unit, entries);
    }
}

static int play(struct round *round)
{
    int rc = 0;
    if (index_open(round->index, round->path, 64 * MIB) != OK)
        rc = anew(round);
    for (int i = 0; !rc && i < TRANSACTIONS; i++) {
        enum err e = transaction(round);
        read_some(round);
        if (e || index_is_bad(round->index))
            rc = anew(round);
        if (!rc)
            flip(round, 1 + below(64));
    }
    index_free(&round->index);
    return rc;
}

/* ---- rounds ---- */

struct tally {
    uint32_t rounds, died, hung, stuck, lost;
};

static void round_run(uint32_t number, slice data, struct tally *tally)
{
    throw_away("round");
    ok(mkdir("round", 0700) == 0);
    write_file("round/data.mdb", data);
    state = number * 0x9E3779B97F4A7C15u;
    struct round round = { .path = "round", .at_heads = number % 2, .bits_left = 1u << below(9) };
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        round.index = index_new();
        if (below(2))
            flip(&round, round.bits_left / 2 + 1);
        int rc = play(&round);
        _exit(rc ? rc : round.lost ? LOST : 0);
    }
    int status;
    tally->rounds++;
    if (!child_ended(child, HANGS_MS, &status))
        tally->hung++;
    else if (!WIFEXITED(status))
        tally->died++;
    else if (WEXITSTATUS(status) == STUCK)
        tally->stuck++;
    else if (WEXITSTATUS(status) == LOST)
        tally->lost++;
    else if (WEXITSTATUS(status))
        tally->died++;    /* of a sanitizer */
    if (!WIFEXITED(status) || (WEXITSTATUS(status) && WEXITSTATUS(status) != LOST))
        printf("round %u: %s %d\n", number, WIFEXITED(status) ? "exit" : "signal",
               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 1 ? (uint32_t)atoi(argv[1]) : 150;
    uint32_t seed = argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
    struct tally tally = { 0 };
    char folder[] = "store-unit-XXXXXX";
    ok(mkdtemp(folder) && chdir(folder) == 0);
    prepare("index");
    slice data = whole_file("index/data.mdb");
    throw_away("index");
    for (uint32_t i = 0; i < rounds; i++)
        round_run(seed + i, data, &tally);
    throw_away("round");
    free((char *)(uintptr_t)data.ptr);
    ok(chdir("..") == 0 && rmdir(folder) == 0);
    printf("%u rounds: %u died, %u hung, %u could not go on, %u found their index bad\n",
           tally.rounds, tally.died, tally.hung, tally.stuck, tally.lost);
    return tally.died || tally.hung || tally.stuck;
}
