/* fsck_repair.c - fsck: repairs the findings. SPDX-License-Identifier: Apache-2.0
 *
 * A repair opens the folder as a start does, as doubted, so the generation rises: all entries are
 * unproved, and Penstock revalidates each object once. This is necessary for two reasons: a removed
 * entry may uncover an older one, and an index that is built anew has entries that were removed.
 * The opening builds a lost index anew, reads unsealed extents, and writes their tables. Then the
 * repair deletes entries, by ordinary transactions, and mends tables of sealed extents and files
 * that are wrong. At the end the folder is closed as by a clean stop.
 *
 * The files bans and pins keep their rows: without them nothing is known to be right. But the
 * opening may have put records of swept purges back into the index, so no purge counts as swept. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "store/extent_inside.h"
#include "store/folder_files.h"
#include "store/format_files.h"
#include "store/fsck_inside.h"
#include "store/installation.h"
#include "store/publish.h"
#include "store/restated.h"

#define ROWS 1000u                    /* deletions in one transaction, at most */

bool fsck_can_repair(const struct fsck_report *report)
{
    return fsck_wrong(report) > fsck_by_hand(report);
}

static bool has(const struct fsck *fsck, enum fsck_kind kind)
{
    return fsck->report->findings[kind].count > 0;
}

/* ---- the index ---- */

/* A damaged index must not be opened. So it gets the note that a crash leaves, and the opening
 * builds a new one. */
static enum err give_index_up(struct fsck *fsck)
{
    if (!has(fsck, FSCK_INDEX) || !fsck_has(fsck, "index"))
        return OK;
    int fd = file_open(fsck->folder, "index/" INDEX_SUSPECT, O_WRONLY | O_CREAT);
    if (fd < 0)
        return ERR_IO;
    close(fd);
    return OK;
}

static enum err delete_rows(struct folder *folder, const struct index_row *rows, uint32_t count)
{
    enum err e = count ? index_begin(folder->index) : OK;
    for (uint32_t i = 0; i < count && !e; i++)
        e = publish_forget(folder->index, &(struct named_entry){
            rows[i].id, rows[i].unit, rows[i].entry.extent, rows[i].entry.ordinal });
    if (!e && count)
        e = index_commit(folder->index);
    index_abort(folder->index);
    return e;
}

/* Moves the rows of wrong entries to the front. Returns their number. */
static uint32_t pick_wrong(struct fsck *fsck, struct index_row *found, uint32_t count,
                           struct fsck_rows *rows)
{
    uint32_t picked = 0;
    for (uint32_t i = 0; i < count; i++)
        if (fsck_judge(fsck, &found[i], rows) != ENTRY_GOOD)
            found[picked++] = found[i];
    return picked;
}

static enum err delete_entries(struct fsck *fsck, struct folder *folder)
{
    struct index_row *found = must_alloc(ROWS * sizeof(*found));
    struct fsck_rows rows = { .extent = 0 };
    struct object_id id = { { 0 } };
    uint32_t unit = 0, count;
    enum err e = OK;
    for (bool more = true; more && !e;) {
        e = index_get_rows(folder->index, &id, unit, ROWS, found, &count);
        more = !e;
        if (!e) {
            id = found[count - 1].id;
            unit = found[count - 1].unit;
            more = entry_key_next(&id, &unit);
            e = delete_rows(folder, found, pick_wrong(fsck, found, count, &rows));
        } else if (e == ERR_NOT_FOUND) {
            e = OK;
        }
    }
    arena_free(&rows.keep);
    free(found);
    return e;
}

/* ---- extents and files ---- */

/* An unusable extent with the highest number keeps that number in use until there is a higher
 * one. An extent goes only if check and repair both read its head page and footer. */
static enum err drop_extents(struct fsck *fsck, struct folder *folder)
{
    struct extents *extents = folder->extents;
    enum err e = OK;
    if (!has(fsck, FSCK_FOREIGN))
        return OK;
    for (size_t i = 0; i < fsck->list_count && !e; i++) {
        uint32_t number = fsck->list[i].number;
        if (!fsck->list[i].unusable || extent_state(extents, number) != ERR_GONE)
            continue;
        if (number == extents_highest(extents))
            e = open_extent_begin(extents, OPEN_LOG);
        if (!e)
            extent_drop(extents, number);
    }
    return e;
}

/* The table comes from the record headers. It is written behind the old one. */
static enum err write_tables(struct fsck *fsck, struct folder *folder)
{
    enum err e = OK;
    for (size_t i = 0; i < fsck->list_count && !e; i++)
        if (fsck->list[i].damaged_table)
            e = extent_seal_old(folder->extents, fsck->list[i].number);
    return e;
}

/* A damaged file `names` is removed, because it counts as missing. A missing file `restated` means
 * that no bucket is restated. So a damaged one is replaced by one with a row for every bucket. */
static enum err write_files(struct fsck *fsck, struct folder *folder)
{
    enum err e = OK;
    if (has(fsck, FSCK_NAMES))
        unlinkat(fsck->folder, "names", 0);
    if (has(fsck, FSCK_RESTATED)) {
        struct restated *restated = restated_new();
        e = restated_open(restated, folder);
        restated_free(&restated);
    }
    return e;
}

/* A damaged file stays: a start bans everything in the folder. */
static enum err unsweep_bans(struct fsck *fsck, struct folder *folder)
{
    struct arena keep = { 0 };
    struct bans_file bans;
    slice bytes;
    enum err e = folder_read(fsck->folder, "bans", ROWS_FILE_MAX, &keep, &bytes);
    if (!e && bans_decode(bytes, &keep, &bans) == OK) {
        for (size_t i = 0; i < bans.count; i++)
            bans.rows[i].swept = false;
        uint8_t *to = arena_alloc(&keep, bans_bytes(&bans));
        bans_encode(&bans, to);
        e = folder_write(folder->fd, "bans", to, bans_bytes(&bans));
    }
    arena_free(&keep);
    return e == ERR_NOT_FOUND ? OK : e;
}

static enum err remove_ages(struct fsck *fsck, struct folder *folder)
{
    (void)folder;
    fsck_remove_ages(fsck);
    return OK;
}

typedef enum err repair_step(struct fsck *fsck, struct folder *folder);

static enum err repair_open(struct fsck *fsck, struct folder *folder)
{
    /* the entries first, even if the opening has built the index anew */
    static repair_step *const steps[] = { unsweep_bans, delete_entries, drop_extents, write_tables,
                                          write_files, remove_ages };
    enum err e = OK;
    for (size_t i = 0; i < countof(steps) && !e; i++) {
        e = failpoint_err(FAIL_REPAIR);
        if (!e)
            e = steps[i](fsck, folder);
    }
    return e ? e : failpoint_err(FAIL_REPAIR);
}

/* ---- the whole ---- */

/* Sizes, list and serial stay as they are in the format file. */
static enum err open_folder(struct fsck *fsck, struct folder *folder, const char **ret_why)
{
    const struct format *format = &fsck->format;
    struct route_row self = { .weight = format->weight };
    memcpy(self.id, format->volume, sizeof(self.id));
    struct folder_wish wish = { .size_bytes = format->size_bytes,
                                .extent_bytes = format->extent_bytes, .unproved = true,
                                .self = &self, .list = format->volumes,
                                .list_count = format->volume_count, .serial = format->serial };
    return folder_open(folder, &wish, format->secret, ret_why);
}

bool fsck_is_owner(const struct fsck *fsck)
{
    struct stat st;
    return fstat(fsck->folder, &st) == 0 && st.st_uid == geteuid();
}

/* A second descriptor shares the lock, so closing it leaves the lock. */
static int second(int fd)
{
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

enum err fsck_repair(struct fsck *fsck, const char **ret_why)
{
    struct folder folder = { .path = (char *)(uintptr_t)fsck->report->path, .fd = -1, .lock_fd = -1,
                             .index = fsck->index, .extents = fsck->extents };
    *ret_why = "the folder has format version 1. Start Penstock once, which changes the folder to "
               "version 2. Then repair the folder";
    if (fsck->format.version != FORMAT_VERSION)
        return ERR_FORMAT;
    *ret_why = "the user who runs fsck is not the owner of the folder. Run the repair as the "
               "owner, so that the service can use the new files (penstock-operating(7))";
    if (!fsck_is_owner(fsck))
        return ERR_DENIED;
    *ret_why = "the folder can't be written to; check its rights, and the health and free space of "
               "the disk";
    enum err e = failpoint_err(FAIL_REPAIR);
    if (!e)
        e = give_index_up(fsck);
    if (e)
        return e;
    folder.fd = second(fsck->folder);
    folder.lock_fd = second(fsck->lock_fd);
    e = open_folder(fsck, &folder, ret_why);
    if (e)
        return e;
    fsck->report->repaired = true;
    e = repair_open(fsck, &folder);
    folder_close(&folder, e == OK);
    free(folder.point);
    *ret_why = e ? "a change of the folder failed; check the health and the free space of the disk" : "";
    return e;
}
