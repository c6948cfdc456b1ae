/* fsck_inside.h - what the files of fsck share. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_FSCK_INSIDE_H
#define STORE_FSCK_INSIDE_H

#include <dirent.h>

#include "store/folder.h"
#include "store/fsck.h"
#include "store/index.h"
#include "store/verify.h"

#define ROWS_FILE_MAX (64 * MIB)      /* more than bans or pins ever take */

/* The state of a record, a byte for each. */
#define RECORD_BAD 0x80u              /* it is damaged */
#define RECORD_ODD 0x40u              /* entries that do not belong to it name it */
#define RECORD_MATCHED 0x0fu          /* the number of entries under its keys that name it */

struct fsck_extent {
    uint32_t number, count, room;
    uint8_t *records;                 /* count bytes */
    uint8_t *named;                   /* the number of entries that name the record, at most 255 */
    bool damaged_table;
    bool unusable;                    /* head page and footer were read, and are not right */
};

/* The check of one folder. */
struct fsck {
    const struct fsck_ask *ask;
    struct fsck_report *report;
    struct arena *keep;               /* for the texts of the report */
    bool quick;
    struct format format;
    int folder;                       /* descriptor of the folder */
    int lock_fd;                      /* -1: no lock */
    struct extents *extents;
    struct index *index;
    bool index_usable;
    struct fsck_extent *list;         /* in the order of numbers */
    size_t list_count;
    uint64_t odd_records;
    struct cold cold;
    uint64_t done_bytes, all_bytes;
};

/* Counts a finding; the first ones keep their text. */
void fsck_note(struct fsck *fsck, enum fsck_kind kind, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Opens the folder `inner` of the cache folder to list it. Returns NULL if that fails. */
DIR *fsck_list(const struct fsck *fsck, const char *inner) MUST_USE;
/* Returns the next entry of this folder, or NULL. Notes it if the list breaks off. */
struct dirent *fsck_next(struct fsck *fsck, DIR *dir, const char *inner) MUST_USE;
bool fsck_has(const struct fsck *fsck, const char *name) MUST_USE;    /* a file with this name */
/* Notes what the failed reading of a file means: it is damaged (`kind`), it is no ordinary file, or
 * the disk failed. */
void fsck_note_file(struct fsck *fsck, enum fsck_kind kind, const char *name, enum err err);

/* ---- fsck_files.c ---- */
/* Checks all files of the folder except extents and index. Needs fsck->format. */
void fsck_files(struct fsck *fsck);
/* Returns false, with a reason in the report, if something in the folder must not be opened. */
bool fsck_kinds_are_right(struct fsck *fsck) MUST_USE;
/* Checks the files in ages/. Needs the extents. */
void fsck_ages(struct fsck *fsck);
void fsck_remove_ages(struct fsck *fsck);    /* removes the files that fsck_ages found wrong */

/* ---- fsck_extents.c ---- */
/* Checks all extents, and their records against the index if it can be used. Fills in
 * fsck->list. */
void fsck_extents(struct fsck *fsck);
struct fsck_extent *fsck_find_extent(const struct fsck *fsck, uint32_t number);

/* ---- fsck_index.c ---- */
void fsck_open_index(struct fsck *fsck);
/* Notes that the index is damaged. It is not used from then on. */
void fsck_index_fails(struct fsck *fsck, const char *why);
/* Looks up the entries under the keys of a good record, and compares them with it. */
void fsck_match(struct fsck *fsck, struct fsck_extent *extent, const struct record *record,
                uint32_t offset);
/* Returns the number of entries under the keys of a row that name this record. */
uint32_t fsck_count_named(struct fsck *fsck, const struct fsck_extent *extent,
                          const struct toc_entry *row, uint32_t ordinal);
/* Checks all entries. Needs fsck->list. */
void fsck_entries(struct fsck *fsck);

/* The judgement of an entry. */
enum fsck_entry { ENTRY_GOOD, ENTRY_OF_BAD, ENTRY_NOWHERE, ENTRY_ELSEWHERE };
/* The rows of the extent that was needed last. */
struct fsck_rows {
    uint32_t extent;
    struct toc_entry *rows;
    uint32_t count;
    struct arena keep;
};
/* Judges an entry. The judgement is final when all entries were counted. */
enum fsck_entry fsck_judge(const struct fsck *fsck, const struct index_row *row,
                           struct fsck_rows *rows) MUST_USE;

/* ---- fsck_repair.c ---- */
/* Files that another user makes would keep the service out. */
bool fsck_is_owner(const struct fsck *fsck) MUST_USE;
/* Repairs the findings. Extents and index are closed before and afterwards; the lock is kept. */
enum err fsck_repair(struct fsck *fsck, const char **ret_why) MUST_USE;
/* Returns true if something was found that a repair can remove. */
bool fsck_can_repair(const struct fsck_report *report);

/* ---- holder.c ---- */
/* Finds the process that holds an flock on this file. Returns 0 if it is not known. ret_name has
 * room for 16 bytes and a NUL. */
pid_t lock_holder(int fd, char ret_name[17]);

#endif
