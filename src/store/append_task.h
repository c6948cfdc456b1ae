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

/* Makes the task, which points into keep and into the append. Sets task->err if the append can't be
 * stored now. */
void append_task_make(struct volume *volume, struct append_task *task, struct store_append *append,
                      struct arena *keep);

#endif
