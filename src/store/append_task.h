/* append_task.h - the records that are made of an append. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_APPEND_TASK_H
#define STORE_APPEND_TASK_H

#include "store/volume_inside.h"

struct append_task {
    struct store_append *append;
    struct append_item items[2];         /* a metadata record and a units record, or one WHOLE */
    uint32_t count;
    bool replaces;                    /* metadata of another version (leftovers.h) */
    uint64_t bucket;                     /* its hash */
    uint16_t tally;
    enum err err;
};

/* True if the append becomes one WHOLE record of a small object, by its own bytes. */
bool append_is_whole(const struct store_append *append) MUST_USE;
/* True if the bytes of the append go to the staging extent. Its metadata goes to the log, unless
 * both are one record: later units of the object may lie in the log, and need the metadata. */
bool append_stages_bytes(const struct store_append *append) MUST_USE;

/* Makes the task, which points into keep and into the append. Sets task->err if the append can't be
 * stored now. */
void append_task_make(struct volume *volume, struct append_task *task, struct store_append *append,
                      struct arena *keep);
/* The open extent that one of the task's items goes to. */
enum open_which append_task_extent(const struct append_task *task, const struct append_item *item)
    MUST_USE;

#endif
