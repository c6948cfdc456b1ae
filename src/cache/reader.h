/* reader.h - who reads objects by another way than HTTP, and what they may read.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The fill engine reads objects for processes on this host, and may read for each only what the same
 * client could GET. Keys, policies and origins are the S3 endpoint's, and neither room includes the
 * other. So the endpoint implements these functions (front/reader.c), the fill engine calls them,
 * and cli/ hands the one to the other. Any thread. */
#ifndef CACHE_READER_H
#define CACHE_READER_H

#include "cache/get.h"
#include "s3/items.h"

struct client;                        /* known to the endpoint alone */

struct reader {
    const struct client *client;
    slice access_key, session_token;
    slice secret_key;                 /* the one that proved it */
    bool quiet;                       /* refusals are counted, but no longer logged */
};

struct reader_judge {
    void *arg;
    /* Reads the presigned URL of a POST of /_/fill; an empty one is a reader that signs nothing. OK
     * with *ret, whose slices lie in keep, or the reason; then *ret_why is a sentence for people, or
     * empty. */
    enum err (*prove)(void *arg, struct arena *keep, slice presigned, struct reader *ret,
                      slice *ret_why);
    /* Asks again whether key and secret are good, and finds the client that has that key now.
     * ERR_UNKNOWN_KEY, ERR_BAD_TOKEN, ERR_NO_AUTH, ERR_SIGNATURE. */
    enum err (*renew)(void *arg, struct arena *keep, struct reader *reader);
    /* OK with the get to start; its slices are those of bucket and item. A refusal is counted, and
     * logged unless the reader is quiet. */
    enum err (*may_get)(void *arg, struct arena *keep, const struct reader *reader, slice bucket,
                        const struct item *item, struct get_ask *ret);
};

#endif
