/* format_files.h - encodes and decodes the files in ages/, and the files `bans` and `pins`.
 * SPDX-License-Identifier: Apache-2.0
 *
 * As in format.h, all functions are pure and accept any bytes. Decoding copies no text: its results
 * point into the bytes of its argument. The files are always replaced as a whole. */
#ifndef STORE_FORMAT_FILES_H
#define STORE_FORMAT_FILES_H

#include "base/arena.h"
#include "store/format.h"

/* ---- ages/%08x ---- */

#define AGES_RECORDS_MAX (1u << 20)   /* more than the largest extent has */
#define AGES_FILE_MAX (40 + 2 * AGES_RECORDS_MAX)    /* bytes */

/* For each record of an extent, in the order of ordinals: the low byte of the tick in which the
 * record was last read; and the number of its units to which the index still points (WHOLE and
 * HEAD: 0 or 1), with AGES_HEAD if it is a HEAD record, and AGES_PINNED if it was pinned. */
#define AGES_UNITS 0x0fu
#define AGES_HEAD 0x10u
#define AGES_PINNED 0x20u
struct ages_file {
    uint32_t extent, count;
    uint64_t tick;                    /* when the file was written */
    uint64_t live_bytes;              /* of the data to which the index points */
    /* The opening whose clean stop wrote the file, its low 32 bits: the units are true if nothing
     * came after that stop. 0: the file was written while the folder was in use. */
    uint32_t stop;
    const uint8_t *stamps, *live;
};

size_t ages_file_bytes(uint32_t count);
void ages_file_encode(const struct ages_file *ages, uint8_t *ret);
/* Returns OK, or ERR_GONE if the bytes are not the ages of this extent. */
enum err ages_file_decode(slice bytes, uint32_t extent, struct ages_file *ret) MUST_USE;

/* ---- ages/rule ---- */

#define RULE_FILE_BYTES 48u
#define RULE_FILE "rule"
/* The state of the rule of eviction (mean_age.h). */
struct rule_file {
    double m1, m2;
    uint64_t tick;
    bool known, moved;
};
void rule_file_encode(const struct rule_file *rule, uint8_t ret[RULE_FILE_BYTES]);
/* Returns OK, or ERR_GONE for damaged bytes. The numbers may have any value. */
enum err rule_file_decode(slice bytes, struct rule_file *ret) MUST_USE;

/* ---- bans and pins ---- */

#define PREFIX_ROWS_MAX 4096u         /* H8: rows of one file */
#define PREFIX_BYTES_MAX 8192u
#define BAN_OPEN_MAX 4u               /* extents of a volume that may be open at a time */

/* A purge of all names that begin with the prefix: endpoint NUL bucket NUL start of the key. */
struct ban {
    uint64_t serial;
    uint32_t highest;                 /* the highest extent number of the volume at the purge */
    /* The extents that were open at the purge, with the ordinal of the next record. Extent 0: the
     * place is unused. */
    struct ban_end {
        uint32_t extent, ordinal;
    } open[BAN_OPEN_MAX];
    bool swept;                       /* no entry of the index needs to be compared */
    slice prefix;
};
/* The file `bans`. A row with the serial 0 is of this volume alone. */
struct bans_file {
    struct ban *rows;                 /* in ascending order of their serials */
    size_t count;
    uint64_t serial;                  /* the highest one that the volume has ever had */
    uint64_t forgotten;               /* the mark of the last forgetting (bans.c); 0: none */
};
struct pin {
    uint64_t serial;
    bool pinned;                      /* false: the prefix is no longer pinned */
    slice prefix;
};

/* Returns true if the volume had this record at the time of the purge. */
bool ban_covers(const struct ban *ban, uint32_t extent, uint32_t ordinal) MUST_USE;

/* `serial` is the highest one that the volume has ever had, at least that of each row. A file has
 * at most PREFIX_ROWS_MAX rows. The functions that decode put the rows in keep, and return OK, or
 * ERR_GONE for damaged bytes and for a layout that this version does not know. */
size_t bans_bytes(const struct bans_file *file);
void bans_encode(const struct bans_file *file, uint8_t *ret);
enum err bans_decode(slice bytes, struct arena *keep, struct bans_file *ret) MUST_USE;
size_t pins_bytes(const struct pin *pins, size_t count);
void pins_encode(const struct pin *pins, size_t count, uint64_t serial, uint8_t *ret);
enum err pins_decode(slice bytes, struct arena *keep, struct pin **ret, size_t *ret_count,
                     uint64_t *ret_serial) MUST_USE;

/* Orders serials (uint64_t) for qsort and bsearch, the lowest first. */
int serial_order(const void *a, const void *b);

#endif
