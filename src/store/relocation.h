/* relocation.h - batches of index changes for the committer. SPDX-License-Identifier: Apache-2.0
 *
 * Only the committer writes the index. So the recycler and the sweep (sweep.h) send it batches: of
 * copied records, of records to delete, and with the extent to drop. The committer takes one batch
 * between two commits. The sender waits for the answer. */
#ifndef STORE_RELOCATION_H
#define STORE_RELOCATION_H

#include "store/volume_inside.h"

#define RELOCATION_ENTRIES 1000u      /* entries of the index that a batch changes, at most */

/* A record that was copied. */
struct relocation_move {
    struct copied copied;
    struct metadata *metadata;        /* a reference; NULL: the record has no metadata */
    slice name;                       /* of the object, as metadata->name, if it is known; the sender's */
    uint8_t stamp;
    bool pinned;
};
/* A record whose entries are deleted. */
struct relocation_row {
    struct toc_entry row;
    uint32_t ordinal;
    bool evicted;                     /* counts as evicted: not purged, and not damaged */
};

struct relocation {
    struct list link;                 /* in the queue */
    uint32_t extent;                  /* whose records move or are deleted */
    struct relocation_move *moves;
    struct relocation_row *rows;
    size_t move_count, row_count;
    /* DROP: the committer then drops the extent if no entry names it. DROP_UNREAD: it drops the
     * extent in any case, because the extent can't be read. */
    enum drop { DROP_NOT, DROP, DROP_UNREAD } drop;
    bool answered;
    enum err err;                     /* OK; ERR_BUSY: entries name the extent; ERR_IO */
};

/* Sends the relocation and waits for its answer, which is relocation->err. Any thread but the
 * committer. */
enum err relocation_send(struct volume *volume, struct relocation *relocation) MUST_USE;
/* For the committer: takes the oldest relocation, if there is one, and answers it. Returns true if
 * there was one. If the index fails, *ret is the error. */
bool relocation_take(struct volume *volume, enum err *ret);
/* Answers all relocations with ERR_IO: the folder is out of service. */
void relocations_refuse(struct volume *volume);

#endif
