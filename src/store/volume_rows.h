/* volume_rows.h - reads all rows of a volume's tables of contents.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_VOLUME_ROWS_H
#define STORE_VOLUME_ROWS_H

#include "store/volume_inside.h"

struct volume_rows {
    struct volume *volume;
    extent_row_visit *visit;          /* an error ends the reading */
    void *arg;                        /* of visit */
    uint32_t extent;                  /* the extent of the present row, and its ages */
    const struct ages *ages;
    uint32_t unread;                  /* extents that are there and could not be read */
    enum err ended;                   /* the error of a visit */
};
/* Visits each row of each extent. The caller sets volume, visit and arg, and the rest to 0. A
 * record that the recycler moves meanwhile may be visited twice, but is not missed. Returns OK, or
 * the error of a visit. Waits for the disk. Any thread. */
enum err volume_rows_read(struct volume_rows *rows) MUST_USE;

/* Copies the entries of the index that name the record of a row, in the order of their units. Returns
 * their number. *ret_failed: the index failed, so entries may be missing. Any thread. */
uint32_t volume_row_entries(struct volume *volume, uint32_t extent, uint32_t ordinal,
                            const struct toc_entry *row, struct entry ret[RECORD_UNITS],
                            bool *ret_failed);

#endif
