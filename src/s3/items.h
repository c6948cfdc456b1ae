/* items.h - a list of items to read: objects, or byte ranges of them.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   "KEY" | [KEY] | [KEY, OFFSET, LENGTH] | [KEY, OFFSET, LENGTH, TO] |
 *   [KEY, OFFSET, LENGTH, TO, {MEMBERS}] |
 *   {"key": K, "offset": N, "length": N, "range": "bytes=a-b", "to": N, "max": N,
 *    "if_match": "\"etag\"", "version_id": V}
 *
 * {MEMBERS} are further members of the object above, such as "if_match". Batches and the fill
 * socket use the same grammar. A LENGTH of -1 reads to the end of the object, but at most `max`
 * bytes. The functions do no I/O and read no clock (rule H9 in src/README.md). */
#ifndef S3_ITEMS_H
#define S3_ITEMS_H

#include "s3/conditions.h"

/* As a length, it means up to the end of the object. As `to` or `max`, it means that the member is
 * absent. */
#define ITEM_OPEN UINT64_MAX

struct item {
    slice key;
    slice version, if_match;         /* empty version: the current one; if_match.ptr NULL: none */
    enum item_kind { ITEM_WHOLE, ITEM_SPAN, ITEM_RANGE } kind;
    struct s3_range range;           /* ITEM_RANGE: as in a Range header */
    uint64_t first, length;          /* ITEM_SPAN: these bytes; first + length <= INT64_MAX */
    uint64_t to, max;                /* offset in the client's buffer; limit of an open length */
};

struct items {
    struct item *list;
    size_t count;
};

struct items_ask {
    slice prefix;                    /* put in front of every key */
    size_t count_max;
    bool ranges;                     /* the list may use "range" */
    bool places;                     /* the list may use TO, "to" and "max" */
};

/* Reads the items of a JSON array into `keep`; `list` is not needed afterwards. Returns OK,
 * ERR_BAD_ARGUMENT, or ERR_LIMIT for more than count_max items. After an error *ret_why is a
 * sentence for people: "items[17]: length must be a whole number of bytes, or -1". */
struct json_t;
enum err items_read(struct arena *keep, const struct json_t *list, const struct items_ask *ask,
                    struct items *ret, slice *ret_why) MUST_USE;

/* True if a JSON text has more values than count_max items can have. Such a text should not be
 * parsed, because many small values take many times the size of the text in memory. */
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
