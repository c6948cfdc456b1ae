/* fsck_files.c - fsck: the small files of a cache folder. SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "store/clean.h"
#include "store/clearing.h"
#include "store/format_files.h"
#include "store/fsck_inside.h"
#include "store/installation.h"
#include "store/names.h"
#include "store/restated.h"


/* ---- what is no ordinary file, or can't be read ---- */

void fsck_note_file(struct fsck *fsck, enum fsck_kind kind, const char *name, enum err err)
{
    if (err == ERR_IO && !file_odd(fsck->folder, name))    /* odd ones were noted */
        fsck_note(fsck, FSCK_UNREAD, "%s", name);
    else if (err && err != ERR_IO && err != ERR_NOT_FOUND)
        fsck_note(fsck, kind, err == ERR_GONE ? "%s" : "%s: %s", name, err_text(err));
}

bool fsck_kinds_are_right(struct fsck *fsck)
{
    for (size_t i = 0; i < FOLDER_NEEDED; i++) {
        const char *name = folder_needed[i], *odd = folder_odd(fsck->folder, name);
        if (odd)
            fsck->report->why = arena_printf(
                fsck->keep, "%s/%s is %s, which fsck does not open. Put the right file or folder "
                "there. If you no longer have it, remove the wrong one: Penstock then makes a new "
                "one, and may lose the cache", fsck->report->path, name, odd);
    }
    return !fsck->report->why.len;
}

static void note_odd(struct fsck *fsck, const char *name)
{
    const char *odd = file_odd(fsck->folder, name);
    if (odd)
        fsck_note(fsck, FSCK_ODD, "%s is %s", name, odd);
}

static void check_kinds_in(struct fsck *fsck, const char *inner)
{
    DIR *dir = fsck_list(fsck, inner);
    struct dirent *item;
    uint32_t number;
    char name[40];
    while (dir && (item = fsck_next(fsck, dir, inner)))
        if (extent_number_of(item->d_name, &number)) {
            snprintf(name, sizeof(name), "%s/%08x", inner, number);
            note_odd(fsck, name);
        }
    if (dir)
        closedir(dir);
}

static void check_kinds(struct fsck *fsck)
{
    static const char *const names[] = { "names", "restated", "bans", "pins", "clean", "doubt",
                                         FOLDER_FRESH, FOLDER_FRESH_NAMES, "ages/" RULE_FILE,
                                         "ages/fresh", "index/" INDEX_SUSPECT };
    struct stat st;
    for (size_t i = 0; i < countof(names); i++)
        note_odd(fsck, names[i]);
    /* Anything else there is replaced by a start. */
    if (fstatat(fsck->folder, "index/lock.mdb", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
        fsck_note(fsck, FSCK_LOCK, "index/lock.mdb");
    check_kinds_in(fsck, "extents");
    check_kinds_in(fsck, "ages");
}

/* ---- the end of the last use ---- */

static void check_mark(struct fsck *fsck)
{
    bool there, valid = clean_look(fsck->folder, fsck->format.opening, &there);
    if (!there)
        fsck_note(fsck, FSCK_UNCLEAN, "there is no file 'clean'");
    else if (!valid)
        fsck_note(fsck, FSCK_MARK, "clean");
}

static void check_notes(struct fsck *fsck)
{
    if (fsck_has(fsck, "doubt"))
        fsck_note(fsck, FSCK_DOUBT, "doubt");
    if (fsck_has(fsck, FOLDER_FRESH))
        fsck_note(fsck, FSCK_LEFTOVER, FOLDER_FRESH);
    if (fsck_has(fsck, FOLDER_FRESH_NAMES))
        fsck_note(fsck, FSCK_LEFTOVER, FOLDER_FRESH_NAMES);
    if (fsck_has(fsck, "ages/fresh"))
        fsck_note(fsck, FSCK_LEFTOVER, "ages/fresh");
    if (fsck_has(fsck, "index/" INDEX_SUSPECT))
        fsck_note(fsck, FSCK_SUSPECT, "index/" INDEX_SUSPECT);
}

/* ---- files with a checksum ---- */

static void check_rows(struct fsck *fsck)
{
    enum err names = names_look(fsck->folder), restated = restated_look(fsck->folder);
    fsck_note_file(fsck, FSCK_NAMES, "names", names);
    fsck_note_file(fsck, FSCK_RESTATED, "restated", restated);
}

static void check_prefixes(struct fsck *fsck, struct arena *keep)
{
    slice bytes;
    struct bans_file bans;
    struct pin *pins;
    size_t count;
    uint64_t serial;
    enum err e = folder_read(fsck->folder, "bans", ROWS_FILE_MAX, keep, &bytes);
    if (!e)
        e = bans_decode(bytes, keep, &bans);
    fsck_note_file(fsck, FSCK_BANS, "bans", e);
    e = folder_read(fsck->folder, "pins", ROWS_FILE_MAX, keep, &bytes);
    if (!e)
        e = pins_decode(bytes, keep, &pins, &count, &serial);
    fsck_note_file(fsck, FSCK_PINS, "pins", e);
}

/* ---- files of others ---- */

static bool note_stray(void *arg, const char *inner, const char *name)
{
    struct fsck *fsck = arg;
    slice word = log_word(fsck->keep, slice_of(name));
    fsck_note(fsck, FSCK_STRAY, "%s%s%.*s", inner, *inner ? "/" : "", SLICE_ARG(word));
    return true;
}

void fsck_files(struct fsck *fsck)
{
    struct arena keep = { 0 };
    check_kinds(fsck);
    check_mark(fsck);
    check_notes(fsck);
    check_rows(fsck);
    check_prefixes(fsck, &keep);
    if (clearing_each_stranger(fsck->folder, note_stray, fsck))
        fsck_note(fsck, FSCK_UNREAD, "the list of the files in the folder");
    arena_free(&keep);
}

/* ---- ages/ ---- */

/* Returns OK, ERR_NOT_FOUND if the file has no extent, ERR_GONE or ERR_IO. */
static enum err judge_age(struct fsck *fsck, const char *name)
{
    struct arena keep = { 0 };
    struct ages_file ages;
    struct rule_file rule;
    slice bytes;
    uint32_t number;
    bool is_age = extent_number_of(name, &number);
    const char *path = arena_printf(&keep, "ages/%s", name).ptr;
    enum err e = folder_read(fsck->folder, path, AGES_FILE_MAX, &keep, &bytes);
    if (!e && is_age)
        e = ages_file_decode(bytes, number, &ages);
    else if (!e)
        e = rule_file_decode(bytes, &rule);
    arena_free(&keep);
    return is_age && !fsck_find_extent(fsck, number) ? ERR_NOT_FOUND : e;
}

static void each_age(struct fsck *fsck, bool remove)
{
    DIR *dir = fsck_list(fsck, "ages");
    struct dirent *item;
    uint32_t number;
    char name[24];
    while (dir && (item = fsck_next(fsck, dir, "ages"))) {
        bool judged = extent_number_of(item->d_name, &number) || strcmp(item->d_name, RULE_FILE) == 0;
        enum err e = judged ? judge_age(fsck, item->d_name) : OK;
        snprintf(name, sizeof(name), "ages/%.15s", item->d_name);
        if (remove && e && e != ERR_IO)
            unlinkat(dirfd(dir), item->d_name, 0);
        else if (e == ERR_NOT_FOUND)
            fsck_note(fsck, FSCK_LEFTOVER, "%s", name);
        else if (!remove)
            fsck_note_file(fsck, FSCK_AGES, name, e);
    }
    if (dir)
        closedir(dir);
}

void fsck_ages(struct fsck *fsck)
{
    each_age(fsck, false);
}

void fsck_remove_ages(struct fsck *fsck)
{
    each_age(fsck, true);
}
