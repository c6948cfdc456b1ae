/* batch.h - what the answer to a batch looks like. SPDX-License-Identifier: Apache-2.0
 *
 * An engine (batch.c) and two forms of what it says (batch_frames.c, batch_tar.c). */
#ifndef FRONT_BATCH_H
#define FRONT_BATCH_H

#include "front/inside.h"

struct batch_entry {
    size_t index;                 /* in the list */
    slice key, etag;
    slice code;                   /* of an error; empty: none */
    int status;                   /* 200, 206, or the error's */
    uint64_t first, length, size; /* these bytes follow, of an object so large */
    int64_t modified_s;
};

struct batch_failure {
    size_t index;
    int status;
    slice code;
};

/* What its end tells. */
struct batch_end {
    const struct items *items;
    size_t answered, failed;
    const struct batch_failure *failures;
    uint64_t text_bytes;          /* of them, as the form has counted; the form's */
    size_t at;                    /* how far it has been written; the form's, from 0 */
    bool over;                    /* all has been */
};

/* Functions write to `to`, and say how much. */
struct batch_form {
    slice content_type;
    size_t (*head)(char *to, const struct batch_entry *entry);    /* before an item's bytes */
    size_t (*tail)(char *to, const struct batch_entry *entry);    /* behind them */
    size_t (*failure)(struct batch_end *end, char *to, const struct batch_entry *entry);
    /* More of the end, at least a byte, at most BATCH_END_ROOM; sets over with the last. */
    size_t (*end)(struct batch_end *end, char *to);
};
/* At most so much is written at a time. */
#define BATCH_ROOM(entry) (3072 + 2 * (entry)->key.len + (entry)->etag.len + (entry)->code.len)
#define BATCH_END_ROOM (8 * KIB)

extern const struct batch_form batch_frames, batch_tar;

#endif
