/* dir_walk.h - the keys of a directory tree in order, a page at a time.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ORIGIN_DIR_WALK_H
#define ORIGIN_DIR_WALK_H

#include "origin/dir.h"

struct dir_ask {                    /* what a client asked for, decoded */
    bool v2, url;                   /* url: encoding-type=url */
    slice prefix, delimiter, marker, start_after, token;
    uint64_t max;                   /* keys and rolled-up prefixes on a page */
};

struct dir_item {
    slice key;                      /* or a rolled-up prefix */
    bool rolled;
    struct stat file;               /* not of a rolled-up prefix */
};

struct dir_page {
    struct dir_item *items;         /* in the order of their keys */
    size_t count;
    bool more;                      /* others follow */
};

/* Fills a page from the bucket, an open directory. ERR_BAD_ARGUMENT: the token is none of ours;
 * ERR_DENIED, ERR_IO; ERR_CANCELED once *stopped is set. */
enum err dir_walk(struct arena *keep, int bucket, const struct dir_ask *ask,
                  _Atomic enum err *stopped, struct dir_page *ret) MUST_USE;
/* The continuation token behind this item: "k", or "p" for a rolled-up prefix, and the key in hex,
 * which is safe in XML and URLs whatever the key. */
slice dir_token(struct arena *keep, const struct dir_item *last) MUST_USE;

#endif
