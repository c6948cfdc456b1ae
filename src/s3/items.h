/* items.h - a list of what is to be read: keys, or pieces of them.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   "KEY" | [KEY] | [KEY, OFFSET, LENGTH] | [KEY, OFFSET, LENGTH, TO] |
 *   [KEY, OFFSET, LENGTH, TO, {more}] |
 *   {"key": K, "offset": N, "length": N, "range": "bytes=a-b", "to": N, "max": N,
 *    "if_match": "\"etag\"", "version_id": V}
 *
 * One grammar for a batch of GETs, and for what fills memory. LENGTH -1 is to the object's end, and
 * then at most `max`. Pure (H9). */
#ifndef S3_ITEMS_H
#define S3_ITEMS_H

#include "base/arena.h"
#include "s3/conditions.h"

#define ITEM_OPEN UINT64_MAX    /* a length: to the end; to, max: not said */

struct item {
    slice key, version, if_match;    /* version empty: what is current; if_match.ptr NULL: none */
    enum item_kind { ITEM_WHOLE, ITEM_SPAN, ITEM_RANGE } kind;
    struct s3_range range;           /* ITEM_RANGE: as a Range header has it */
    uint64_t first, length;          /* ITEM_SPAN: exactly these; first + length <= INT64_MAX */
    uint64_t to, max;
};

struct items {
    struct item *list;
    size_t count;
};

struct items_ask {
    slice prefix;                    /* stands before every key */
    size_t count_max;
    bool ranges;                     /* "range" may be said */
    bool places;                     /* TO, "to" and "max" may be said */
};

/* The items of a JSON array, in `keep`; nothing of `list` is needed after. ERR_BAD_ARGUMENT, or
 * ERR_LIMIT: more than count_max; then *ret_why is a sentence for people:
 * "items[17]: length must be a whole number of bytes, or -1". */
struct json_t;
enum err items_read(struct arena *keep, const struct json_t *list, const struct items_ask *ask,
                    struct items *ret, slice *ret_why) MUST_USE;

/* A JSON text is read into memory many times its size if it is one of many small things. Has this
 * one more of them than so many items can have? Then it should not be. */
bool items_are_dense(slice document, size_t count_max) MUST_USE;

/* ---- the list of a batch of GETs ----
 * {"items": [...], "prefix": "", "form": "tar" | "frames", "on_error": "continue" | "end"} */
struct items_batch {
    struct items items;
    enum { BATCH_TAR, BATCH_FRAMES } form;
    bool end_on_error;
};
enum err items_read_batch(struct arena *keep, slice document, size_t count_max,
                          struct items_batch *ret, slice *ret_why) MUST_USE;

#endif
