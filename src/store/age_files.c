/* age_files.c - the ages of records and the state of the rule, in files.
 * SPDX-License-Identifier: Apache-2.0
 *
 * While the folder is in use, the recycler writes all files each time that L/4 has passed, one file
 * at a time, so that a kill -9 loses little. In a small cache, L/4 may be a few milliseconds. So
 * there are at least 10 s between two such rounds. A second after pinned records have changed, it
 * writes the files of their extents, because a start must keep the same records pinned. The live
 * units in these files are soon wrong. So a file counts as true only if a clean stop wrote it, and
 * nothing was changed since: the file names the opening that stopped.
 *
 * The rule's own file comes last in each round. Its tick is the time of the next process, so no age
 * grows while Penstock does not run. Nothing is synced: a file that a power cut spoils fails its
 * checksum, and counts as lost.
 *
 * Threads: the recycler under its lock; or the committer, while the recycler is paused. */
#include "store/age_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "store/format_files.h"

#define FRESH "fresh"                 /* a file that is being written */
#define ROUND_TICKS (MEAN_AGE_TICKS / 4)
#define ALL_MS 10000u                 /* between two rounds of all files, at least */
#define PINS_MS 1000u                 /* between two rounds for changes of pinned records */

/* ---- small files of the folder ages/ ---- */

/* Returns -1 if there is no such folder. */
static int open_folder(const struct volume *volume, bool make)
{
    int folder = volume->folder.fd;
    if (make && mkdirat(folder, "ages", 0700) != 0 && errno != EEXIST)
        return -1;
    return openat(folder, "ages", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Returns false if the file can't be written. The old file then stays, and is as valid as
 * before. */
static bool write_file(int dir, const char *name, const void *bytes, size_t len)
{
    int fd = file_make_new(dir, FRESH);
    if (fd < 0)
        return false;
    bool good = !failpoint(FAIL_AGES_WRITE) && write(fd, bytes, len) == (ssize_t)len;
    good = close(fd) == 0 && good;
    good = good && !failpoint(FAIL_AGES_RENAME) && renameat(dir, FRESH, dir, name) == 0;
    if (!good)
        unlinkat(dir, FRESH, 0);
    return good;
}

/* Returns the bytes of a file, which the caller must free; none if it can't be read. */
static slice read_file(int dir, const char *name)
{
    struct stat st;
    slice bytes = { NULL, 0 };
    int fd = file_open(dir, name, O_RDONLY);
    if (fd < 0)
        return bytes;
    if (fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= (off_t)AGES_FILE_MAX) {
        char *to = must_alloc((size_t)st.st_size);
        if (read(fd, to, (size_t)st.st_size) == st.st_size)
            bytes = (slice){ to, (size_t)st.st_size };
        else
            free(to);
    }
    close(fd);
    return bytes;
}

/* ---- writing ---- */

/* Marks the pinned records as unsaved, so that a later round writes the file. */
static void leave_unsaved(struct volume *volume, struct ages *ages)
{
    ages_pins_unsaved(ages);
    atomic_store(&volume->pinned.unsaved, true);
}

/* The tick is read after the stamps, so that no stamp is later than the tick. Pins count as saved
 * before the copy is made. So pins that change during the copy, or later, are unsaved again. */
static void write_ages(struct volume *volume, int dir, uint32_t number, uint32_t stop)
{
    char name[16];
    struct extent *extent = extent_ref(volume->extents, number);
    if (!extent)
        return;
    struct ages *ages = extent_ages_of(extent);
    bool unsaved = ages_are_pins_unsaved(ages);
    ages_pins_saved(ages);
    struct ages_file file = { .extent = number, .stop = stop };
    file.count = MIN(ages_counted(ages), AGES_RECORDS_MAX);
    uint8_t *body = must_alloc(2 * (size_t)file.count + 1);
    uint8_t *bytes = must_alloc(ages_file_bytes(file.count));
    file.live_bytes = ages_live_bytes(ages);
    file.stamps = body;
    file.live = body + file.count;
    ages_copy(ages, file.count, body, body + file.count);
    file.tick = mean_age_tick(volume->rule.policy);
    ages_file_encode(&file, bytes);
    snprintf(name, sizeof(name), "%08x", number);
    bool saved = !ages_are_counting(ages) &&
                 write_file(dir, name, bytes, ages_file_bytes(file.count));
    if (unsaved && !saved)
        leave_unsaved(volume, ages);
    free(body);
    free(bytes);
    extent_release(&extent);
    extent = extent_ref(volume->extents, number);
    if (!extent)    /* the extent was dropped meanwhile, so its file must not stay */
        unlinkat(dir, name, 0);
    extent_release(&extent);
}

static void write_rule(struct volume *volume, int dir)
{
    struct mean_age_saved saved;
    uint8_t bytes[RULE_FILE_BYTES];
    pthread_mutex_lock(&volume->rule.lock);
    mean_age_save(volume->rule.policy, &saved);
    pthread_mutex_unlock(&volume->rule.lock);
    rule_file_encode(&(struct rule_file){ saved.m1, saved.m2, saved.tick, saved.known,
                                          saved.moved }, bytes);
    (void)!write_file(dir, RULE_FILE, bytes, sizeof(bytes));    /* the next round tries again */
}

void age_files_write(struct volume *volume)
{
    struct arena keep = { 0 };
    uint32_t *numbers;
    int dir = open_folder(volume, true);
    if (dir < 0)
        return;
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++)
        write_ages(volume, dir, numbers[i], (uint32_t)volume->folder.format.opening);
    write_rule(volume, dir);
    close(dir);
    arena_free(&keep);
}

static bool are_all_due(struct volume *volume)
{
    const struct age_round *round = &volume->recycler.round;
    return mean_age_tick(volume->rule.policy) >= atomic_load(&round->begun) + ROUND_TICKS &&
           mono_ms() >= round->all_ms + ALL_MS;
}

bool age_files_are_due(struct volume *volume)
{
    const struct age_round *round = &volume->recycler.round;
    return round->count || are_all_due(volume) ||
           (atomic_load(&volume->pinned.unsaved) && mono_ms() >= round->begun_ms + PINS_MS);
}

static bool is_due(struct volume *volume, uint32_t number)
{
    struct extent *extent = extent_ref(volume->extents, number);
    bool due = extent && (!volume->recycler.round.pins ||
                          ages_are_pins_unsaved(extent_ages_of(extent)));
    extent_release(&extent);
    return due;
}

static void end_round(struct age_round *round)
{
    arena_free(&round->keep);
    round->count = round->at = 0;
}

static void begin_round(struct volume *volume, struct age_round *round)
{
    round->pins = !are_all_due(volume);
    round->begun_ms = mono_ms();
    if (!round->pins) {
        atomic_store(&round->begun, mean_age_tick(volume->rule.policy));
        round->all_ms = round->begun_ms;
    }
    atomic_store(&volume->pinned.unsaved, false);
    round->count = extents_numbers(volume->extents, &round->keep, &round->numbers);
}

/* Under the recycler's lock. */
static void step(struct volume *volume)
{
    struct age_round *round = &volume->recycler.round;
    int dir = open_folder(volume, true);
    if (!round->count)
        begin_round(volume, round);
    while (round->at < round->count && !is_due(volume, round->numbers[round->at]))
        round->at++;
    if (dir >= 0 && round->at < round->count)
        write_ages(volume, dir, round->numbers[round->at], 0);
    else if (dir >= 0)
        write_rule(volume, dir);
    if (dir < 0)    /* a round of all files may have had pins to save, too */
        atomic_store(&volume->pinned.unsaved, true);
    if (dir < 0 || round->at++ == round->count)
        end_round(round);
    if (dir >= 0)
        close(dir);
}

void age_files_step(struct volume *volume)
{
    if (!age_files_are_due(volume))
        return;
    pthread_mutex_lock(&volume->recycler.lock);
    if (atomic_load(&volume->recycler.paused))
        end_round(&volume->recycler.round);
    else
        step(volume);
    pthread_mutex_unlock(&volume->recycler.lock);
}

/* ---- reading ---- */

static void read_rule(struct volume *volume, int dir)
{
    struct rule *rule = &volume->rule;
    struct rule_file file;
    slice bytes = read_file(dir, RULE_FILE);
    pthread_mutex_lock(&rule->lock);
    if (mean_age_now(rule->policy) == 0 && rule_file_decode(bytes, &file) == OK)
        (void)!mean_age_restore(rule->policy, &(struct mean_age_saved){
            file.m1, file.m2, file.tick, file.known, file.moved });
    atomic_store(&volume->recycler.round.begun, mean_age_tick(rule->policy));
    pthread_mutex_unlock(&rule->lock);
    free((char *)bytes.ptr);
}

/* Returns true if a clean stop wrote the file, for all records of the extent. */
static bool is_true(struct volume *volume, const struct ages_file *file)
{
    const struct folder *folder = &volume->folder;
    struct toc_footer footer;
    return folder->index_stands && file->stop == (uint32_t)(folder->format.opening - 1) &&
           extent_footer(volume->extents, file->extent, &footer) == OK &&
           footer.count == file->count;
}

/* Makes stamps for the rule's present tick: ages grow by the ticks since the file was written. */
static void shift(uint8_t *stamps, const struct ages_file *file, uint64_t tick)
{
    uint64_t since = tick > file->tick ? MIN(tick - file->tick, MEAN_AGE_CAP) : 0;
    for (uint32_t i = 0; i < file->count; i++) {
        uint64_t age = mean_age_of_stamp(file->tick, file->stamps[i]) + since;
        stamps[i] = (uint8_t)(tick - MIN(age, MEAN_AGE_CAP));
    }
}

static void read_ages(struct volume *volume, int dir, const char *name, struct extent *extent,
                      uint32_t number)
{
    struct ages *ages = extent_ages_of(extent);
    struct ages_file file;
    slice bytes = read_file(dir, name);
    if (bytes.len && ages_file_decode(bytes, number, &file) == OK) {
        uint8_t *stamps = must_alloc(file.count + 1);
        bool counts = is_true(volume, &file);
        shift(stamps, &file, mean_age_tick(volume->rule.policy));
        ages_restore(ages, file.count, stamps, counts ? file.live : NULL, file.live_bytes);
        if (ages_restore_pins(ages, file.count, file.live))
            atomic_store(&volume->pinned.held, true);
        ages_set_counting(ages, !counts);
        free(stamps);
    }
    free((char *)bytes.ptr);
}

static void count_all(struct volume *volume)
{
    struct arena keep = { 0 };
    uint32_t *numbers;
    size_t count = extents_numbers(volume->extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++)
        ages_set_counting(extent_ages(volume->extents, numbers[i]), true);
    arena_free(&keep);
}

void age_files_read(struct volume *volume)
{
    int fd = open_folder(volume, false);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *item;
    uint32_t number;
    enum err e = OK;
    count_all(volume);
    if (!dir)
        return;
    read_rule(volume, fd);
    while ((item = file_next(dir, &e))) {
        if (!extent_number_of(item->d_name, &number))
            continue;
        struct extent *extent = extent_ref(volume->extents, number);
        if (extent)
            read_ages(volume, fd, item->d_name, extent, number);
        else
            unlinkat(fd, item->d_name, 0);
        extent_release(&extent);
    }
    (void)e;    /* the ages of the other extents are unknown, as without a file */
    closedir(dir);
}

void age_files_read_pins(int folder, struct extents *extents)
{
    struct arena keep = { 0 };
    uint32_t *numbers;
    int dir = openat(folder, "ages", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    size_t count = dir < 0 ? 0 : extents_numbers(extents, &keep, &numbers);
    for (size_t i = 0; i < count; i++) {
        char name[16];
        struct ages_file file;
        struct ages *ages = extent_ages(extents, numbers[i]);
        snprintf(name, sizeof(name), "%08x", numbers[i]);
        slice bytes = read_file(dir, name);
        if (ages && bytes.len && ages_file_decode(bytes, numbers[i], &file) == OK)
            (void)ages_restore_pins(ages, file.count, file.live);
        free((char *)bytes.ptr);
    }
    if (dir >= 0)
        close(dir);
    arena_free(&keep);
}
