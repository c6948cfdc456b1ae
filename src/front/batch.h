/* batch.h - the form of the answer to a batch. SPDX-License-Identifier: Apache-2.0
 *
 * A batch is a request for many objects, or ranges of them: the items. The files listed in
 * batching.h read the objects. A form writes all other bytes of the answer:
 * frames (batch_frames.c) or a tar archive (batch_tar.c). */
#ifndef FRONT_BATCH_H
#define FRONT_BATCH_H

#include <assert.h>

#include "front/inside.h"

/* One item of the answer. */
struct batch_entry {
    size_t index;                 /* in the list of the request */
    slice key, etag;
    slice code;                   /* S3 error code; empty: the item did not fail */
    int status;                   /* 200, 206, or the status of the error */
    uint64_t first, length;       /* the range of the object whose bytes follow */
    uint64_t size;                /* of the whole object */
    int64_t modified_s;
};

struct batch_failure {
    size_t index;
    int status;
    slice code;
};

/* Facts that the end of the answer reports. */
struct batch_end {
    const struct items *items;
    size_t answered, failed;
    struct batch_failure *failures;    /* room for every item; the first `failed` are set */
    uint64_t text_bytes;          /* size of the failures as text; only the form uses it */
    size_t at;                    /* parts of the end written so far; only the form uses it */
    bool over;                    /* the whole end has been written */
};

/* Each function writes to `to` and returns the number of bytes. */
struct batch_form {
    slice content_type;
    size_t (*head)(char *to, const struct batch_entry *entry);    /* before an item's bytes */
    size_t (*tail)(char *to, const struct batch_entry *entry);    /* after the bytes; NULL: none */
    /* For an item that failed. A form that lists failures at the end writes nothing here. */
    size_t (*failure)(struct batch_end *end, char *to, const struct batch_entry *entry);
    /* The next part of the end: 1 to BATCH_END_ROOM bytes. The last part sets `over`. */
    size_t (*end)(struct batch_end *end, char *to);
};
/* Room for all that a form writes around one entry. BATCH_FIXED_ROOM is the part that does not
 * depend on the entry. */
#define BATCH_FIXED_ROOM 3072u
#define BATCH_ROOM(entry) \
    (BATCH_FIXED_ROOM + 2 * (entry)->key.len + (entry)->etag.len + (entry)->code.len)
#define BATCH_END_ROOM (8 * KIB)

extern const struct batch_form batch_frames, batch_tar;

#endif
