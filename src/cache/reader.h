/* reader.h - the rights of readers that do not use HTTP, such as the fill socket.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The fill engine reads objects for processes on this host, and a job reads them for a client
 * that has left. Both may read only the objects that the same client could GET. The S3 endpoint
 * (front/) has the keys, policies and origins. The files of local/ (the fill engine) and jobs/
 * do not include those of front/. So the endpoint implements these functions (front/reader.c),
 * the fill engine and the jobs call them, and cli/ connects them. Any thread. */
#ifndef CACHE_READER_H
#define CACHE_READER_H

#include "cache/get.h"
#include "cache/lists.h"
#include "s3/items.h"

struct client;                        /* known to the endpoint alone */

struct reader {
    const struct client *client;
    slice access_key, session_token;
    slice secret_key;                 /* the secret that proved the key */
    bool quiet;                       /* refusals are counted, but no longer logged */
};

struct reader_judge {
    void *arg;
    /* Reads the presigned URL of a POST of /_/fill. An empty URL is for the anonymous client.
     * Returns OK with *ret, whose slices lie in keep, or an error; *ret_why is then a sentence for
     * people, or empty. */
    enum err (*prove)(void *arg, struct arena *keep, slice presigned, struct reader *ret,
                      slice *ret_why);
    /* Judges again whether key and secret are valid, and finds the client that has the key now.
     * Returns OK, ERR_UNKNOWN_KEY, ERR_BAD_TOKEN, ERR_NO_AUTH or ERR_SIGNATURE. */
    enum err (*renew)(void *arg, struct arena *keep, struct reader *reader);
    /* Returns OK with the get to start, whose slices are those of bucket and item, or the error of
     * a refusal. A refusal is counted, and is logged unless the reader is quiet. */
    enum err (*may_get)(void *arg, struct arena *keep, const struct reader *reader, slice bucket,
                        const struct item *item, struct get_ask *ret);
    /* ---- for work that goes on without its client. Nobody proves a key here, so the caller must
     * have the name from a request that the client signed ---- */
    /* Finds the client of an access key; with an empty name, the client of all lent keys. Returns
     * OK, or ERR_UNKNOWN_KEY if there is no such client now, or more than one. */
    enum err (*find)(void *arg, slice access_key, struct reader *ret);
    /* Returns OK with the list to ask for, which lacks the query, or the error of a refusal. */
    enum err (*may_list)(void *arg, struct arena *keep, const struct reader *reader, slice bucket,
                         slice prefix, struct list_ask *ret);
};

#endif
