/* unlisted.c - entries of the index that name records which no table of contents lists.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The keys of the index have the order of objects, not of extents, so all entries are read. */
#include "store/unlisted.h"

#include <stdlib.h>

#include "store/relocation.h"

#define BATCH_ENTRIES 500u            /* of one look-up */

struct unlisted {
    struct volume *volume;
    uint32_t extent, from;
    struct relocation_row batch[RELOCATION_ENTRIES];
    size_t count;
};

static enum err flush(struct unlisted *unlisted)
{
    struct relocation relocation = { .extent = unlisted->extent, .rows = unlisted->batch,
                                     .row_count = unlisted->count, .drop = DROP_NOT };
    enum err e = unlisted->count ? relocation_send(unlisted->volume, &relocation) : OK;
    unlisted->count = 0;
    return e;
}

/* The row is that of a record with one unit: it deletes this entry alone. */
static enum err look_at(struct unlisted *unlisted, const struct index_row *row)
{
    if (row->entry.extent != unlisted->extent || row->entry.ordinal < unlisted->from)
        return OK;
    events_note(unlisted->volume->events, &row->id, row->unit, EVENT_DAMAGED);
    unlisted->batch[unlisted->count++] = (struct relocation_row){
        { .id = row->id, .first_unit = row->unit, .kind = KIND_UNITS, .data_len = 1 },
        row->entry.ordinal, false };
    return unlisted->count == RELOCATION_ENTRIES ? flush(unlisted) : OK;
}

enum err unlisted_forget(struct volume *volume, uint32_t extent, uint32_t from,
                         unlisted_goes_on *goes_on, void *arg)
{
    struct unlisted *unlisted = must_alloc(sizeof(*unlisted));
    struct index_row *rows = must_alloc(BATCH_ENTRIES * sizeof(*rows));
    struct object_id id = { { 0 } };
    uint32_t unit = 0, got;
    enum err e = OK;
    unlisted->volume = volume;
    unlisted->extent = extent;
    unlisted->from = from;
    for (bool more = true; more && !e;) {
        e = goes_on(arg) ? index_get_rows(volume->index, &id, unit, BATCH_ENTRIES, rows, &got)
                         : ERR_STOPPING;
        more = !e;
        for (uint32_t i = 0; more && i < got && !e; i++)
            e = look_at(unlisted, &rows[i]);
        if (more) {
            id = rows[got - 1].id;
            unit = rows[got - 1].unit;
            more = entry_key_next(&id, &unit);
        }
    }
    if (!e || e == ERR_NOT_FOUND)    /* that was the last entry */
        e = flush(unlisted);
    free(rows);
    free(unlisted);
    return e;
}
