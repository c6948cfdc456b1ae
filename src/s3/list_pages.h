/* list_pages.h - the pages of an origin's list of keys, one after another.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A list of a bucket (ListObjectsV2) comes in pages. Some origins list keys in another order than
 * that of their bytes, so each call goes on with the token of the page before; without a token, it
 * goes on after the last key. Some origins ignore that token or that key. Then calls might never
 * come to an end, or keys might come twice, so each page is judged. The functions do no I/O and
 * read no clock (rule H9 in src/README.md). */
#ifndef S3_LIST_PAGES_H
#define S3_LIST_PAGES_H

#include "s3/xml.h"

/* Set to zeroes, or by list_pages_begin. The texts belong to this struct. */
struct list_pages {
    slice prefix;                 /* of the keys */
    slice first, last;            /* keys of the last page that had keys; `last` may be given */
    slice token;                  /* where the next page begins; empty: after the key `last` */
    bool more;                    /* the last page was not the end of the list */
    uint64_t count;               /* pages that have come */
    slice mark;                   /* an earlier token; if it comes again, the list has no end */
};

/* The list will have the keys with this prefix that come behind the key `after`, which may be
 * empty. */
void list_pages_begin(struct list_pages *pages, slice prefix, slice after);
/* The list goes on where the last page of `from` ended. */
void list_pages_copy(struct list_pages *pages, const struct list_pages *from);
void list_pages_end(struct list_pages *pages);
/* Returns the query of the call for the next page, of at most keys_max keys. */
slice list_pages_query(const struct list_pages *pages, size_t keys_max, struct arena *keep);
/* Notes the page that has come, and returns LIST_GOES_ON. If the page does not go on where the one
 * before ended, returns the fault, and notes only that the list has no further page. */
enum list_fault { LIST_GOES_ON, LIST_ENDLESS, LIST_REPEATED, LIST_BEFORE, LIST_FAULTS };
enum list_fault list_pages_take(struct list_pages *pages, const struct listing *page) MUST_USE;
/* The faults as sentences for people. */
#define LIST_ENDLESS_TEXT \
    "A page of the origin's list has no keys and no NextContinuationToken, but says that more keys " \
    "follow. So Penstock can't ask for the rest of the list."
#define LIST_REPEATED_TEXT \
    "The origin sent the same page of its list twice, or a NextContinuationToken that it had sent " \
    "before: the origin ignores continuation-token, or its list has no end."
#define LIST_BEFORE_TEXT \
    "Penstock asked the origin for the keys after a certain key (start-after). The origin's list " \
    "begins with that key or an earlier one: the origin ignores start-after, or includes that key."

#endif
