/* dir_walk.h - the keys of a directory tree in order, a page at a time, for the listings of a
 * directory origin.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ORIGIN_DIR_WALK_H
#define ORIGIN_DIR_WALK_H

#include "origin/dir.h"

struct dir_ask {                    /* the decoded parameters of a listing */
    bool v2, url;                   /* url: the client asked for encoding-type=url */
    slice prefix, delimiter, marker, start_after, token;
    uint64_t max;                   /* limit of keys and rolled-up prefixes on a page */
};

struct dir_item {
    slice key;                      /* or a rolled-up prefix: an entry of CommonPrefixes */
    bool rolled;
    struct stat file;               /* undefined for a rolled-up prefix */
};

struct dir_list {
    struct dir_item *items;         /* in the order of their keys */
    size_t count;
    bool more;                      /* more keys follow after this page */
};

/* Fills a page from the bucket, which is an open directory. Errors: ERR_BAD_ARGUMENT (the
 * continuation token is not valid), ERR_CANCELED (*stopped was set), ERR_DENIED, ERR_IO. */
enum err dir_walk(struct arena *keep, int bucket, const struct dir_ask *ask,
                  _Atomic enum err *stopped, struct dir_list *ret) MUST_USE;
/* Returns the continuation token of the page that ends with this item: "k", or "p" for a rolled-up
 * prefix, and then the key in hex. Hex is safe in XML and URLs, whatever the key is. */
slice dir_token(struct arena *keep, const struct dir_item *last) MUST_USE;

#endif
