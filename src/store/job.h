/* job.h - the records that an append becomes. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_JOB_H
#define STORE_JOB_H

#include "store/inside.h"

struct job {
    struct store_append *append;
    struct tail_item items[2];         /* the head by itself, and units; or one WHOLE */
    uint32_t count;
    enum err err;
};

/* What it points at is in keep, or the append's. Sets err if that can't be stored just now. */
void job_make(struct store *store, struct job *job, struct store_append *append,
              struct arena *keep);

#endif
