/* fsck.h - checks cache folders that no process uses, and repairs them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A check changes nothing, so that a clean folder stays clean. Calls wait for the disk; one
 * thread. */
#ifndef STORE_FSCK_H
#define STORE_FSCK_H

#include "base/arena.h"

#define FSCK_EXAMPLES 3u

enum fsck_kind {
#define FSCK(id, name, grade, what, start) FSCK_##id,
#include "store/fsck.def"
    FSCK_KINDS
};

struct fsck_words {
    const char *name;                 /* "record_damaged": for machines */
    enum fsck_grade { FSCK_NOTED, FSCK_WRONG, FSCK_BY_HAND } grade;
    const char *what, *start;         /* sentences without the last dot */
};
extern const struct fsck_words fsck_words[FSCK_KINDS];

struct fsck_finding {
    uint64_t count;
    slice examples[FSCK_EXAMPLES];    /* the first ones */
};
struct fsck_totals {
    uint64_t extents, extent_bytes;
    uint64_t records, record_bytes;
    uint64_t dead_records;            /* the index does not name them: normal */
    uint64_t entries;
    uint64_t proved_entries;          /* their objects need no revalidation after a clean start */
};
struct fsck_report {
    const char *path;
    slice why;                        /* why there was no check or repair; or empty */
    bool checked;
    bool repaired;                    /* something was changed */
    uint32_t version, generation;     /* of the format file */
    struct fsck_totals totals;
    struct fsck_finding findings[FSCK_KINDS];
    uint64_t left[FSCK_KINDS];        /* the findings that are left after a repair */
};

struct fsck_ask {
    const char *const *folders;
    size_t count;
    bool repair;
    bool quick;                       /* checksums of data are not verified */
    /* Called now and then; `all` are the bytes of the folder's extents. May be NULL. */
    void (*progress)(void *arg, const char *folder, uint64_t done, uint64_t all);
    void *arg;
};

/* Checks all folders, and repairs each of them if need be. Fills in ask->count reports, whose texts
 * are in keep. */
void fsck_run(const struct fsck_ask *ask, struct arena *keep, struct fsck_report *ret);
/* Each returns the number of findings that are wrong: all that the check found; those that are left,
 * after a repair; of these, those that --repair does not change. */
uint64_t fsck_found_wrong(const struct fsck_report *report);
uint64_t fsck_wrong(const struct fsck_report *report);
uint64_t fsck_by_hand(const struct fsck_report *report);

#endif
