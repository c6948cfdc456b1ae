/* toc.h - a table of contents in memory. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_TOC_H
#define STORE_TOC_H

#include "store/format.h"

struct toc {
    struct toc_entry *entries;
    uint32_t count, capacity;
    uint8_t *names;                   /* of the entries that have one, as in the file */
    size_t names_len, names_capacity;
    bool scanned;                     /* the rows are those of the record headers */
    bool partial;                     /* the disk failed, so records or names may be missing */
};

/* An entry without a name in the file (toc_entry_has_name) ignores `name`. */
void toc_add(struct toc *toc, const struct toc_entry *entry, const struct toc_name *name);
/* Adds only the name. The caller gives the names of all entries that have one, in their order. */
void toc_add_name(struct toc *toc, const struct toc_name *name);
/* Copies the first entries and names. *ret must be empty. */
void toc_copy(const struct toc *toc, uint32_t count, size_t names_len, struct toc *ret);
void toc_free(struct toc *toc);       /* leaves it empty */

/* A reader of a table, from its first entry on. */
struct toc_row {
    const struct toc_entry *entry;
    uint32_t ordinal;
    struct toc_name name;             /* empty: the record has only units, or no known name */
};
struct toc_cursor {
    const struct toc *toc;
    slice names;
    uint32_t ordinal;                 /* of the next row */
};

struct toc_cursor toc_begin(const struct toc *toc);
/* Returns false after the last row. */
bool toc_next(struct toc_cursor *cursor, struct toc_row *ret);
/* Returns true if the names are exactly those of the entries: none is missing, and none is too
 * much. */
bool toc_names_fit(const struct toc *toc) MUST_USE;

#endif
