/* front.h - the S3 endpoint: HTTP requests become cache reads and origin calls.
 * SPDX-License-Identifier: Apache-2.0
 *
 * judge (the client, before the body is read) -> route (the operation) -> object.c (GET and HEAD
 * through the cache), list.c (lists of keys), batch.c, or pass.c (buckets and writes, by the
 * origin) -> one access line. */
#ifndef FRONT_FRONT_H
#define FRONT_FRONT_H

#include "base/config.h"
#include "cache/cache.h"
#include "cache/reader.h"
#include "http/http.h"

/* The key pair of a client. The pair of the anonymous client is empty. */
struct front_key {
    slice access_key, secret_key, session_token;    /* empty token: no token is expected */
    bool own;                     /* the client has an identity of its own at the origin */
    struct sigv4_credentials as;  /* if own: its keys at the origin; an empty key: unsigned */
    const struct config_policy *policy;    /* if not own: its rights with Penstock's credentials */
    size_t policy_count;
    slice previous_secret_key;    /* also valid, during a rotation; empty: none */
};

/* The rules (origin and freshness) of a bucket, or of a prefix in it. The row with an empty bucket
 * has the rules of every bucket without a row. */
struct bucket_rules {
    slice bucket, prefix;
    struct rules rules;
};

struct clients;
struct jobs;

/* The limits of a batch. */
struct front_batches {
    uint64_t list_bytes;
    size_t items;
    uint64_t bytes;               /* of all objects in one answer */
    unsigned time_ms;             /* after this time no further item begins */
    size_t gets;                  /* number of gets that run at a time */
    size_t ahead_bytes;           /* memory of these gets; if it is used up, no item begins */
    size_t memory_bytes;          /* of all batches, for lists and answers */
};

struct front_options {
    struct cache *cache;
    struct clients *clients;      /* must outlive every origin call: client.h */
    struct jobs *jobs;            /* NULL: requests for jobs are refused */
    bool lend;                    /* lend key pairs at /_/credentials */
    slice lend_token;             /* ... to clients that send this token */
    slice keys_from;              /* text for messages: where the keys of clients are set */
    struct bucket_rules *rules;
    size_t rules_count;
    struct rules *service;        /* the rules of the origin that answers ListBuckets; NULL: no
                                   * origin answers it */
    slice forward_headers;        /* the setting "forward_headers": names, separated by commas */
    slice domains;                /* a host BUCKET.DOMAIN names a bucket; separated by commas */
    bool access_log, no_sigv2;
    slice regions;                /* clients may sign for these regions; empty: for any region */
    /* Memory of answers whose connection to the origin was given to another call, because their
     * readers are slow. */
    uint64_t relays_bytes;
    uint64_t body_bytes_max;      /* of the data in a request body */
    uint64_t form_bytes_max;      /* of a browser's form; 0: forms are off */
    struct front_batches batches;
    uint64_t memory_bytes;        /* the setting "memory" */
};

/* Upper limit of the size of a body whose data has `bytes` bytes. S3's framing adds to the data:
 * a line for each chunk of at least 8 KiB, and a trailer. */
#define FRONT_FRAMED_BYTES(bytes) ((bytes) + (bytes) / 64 + 64 * KIB)

/* Everything that the options point at must outlive the front. Make and free the front while no
 * loop runs. */
struct front;
struct front *front_new(const struct front_options *options) MUST_USE;
void front_free(struct front **front);
void front_access_log(struct front *front, bool on);    /* any time, any thread */
/* The first 8 digits of all request ids of this process. They differ between processes, and after a
 * restart. */
slice front_instance(const struct front *front, struct arena *keep) MUST_USE;
void front_drain(struct front *front);    /* from now on /_/health/ready answers 503 */

/* Returns the functions that verify the key of a reader that does not use HTTP, and judge what it
 * may read. They are valid as long as the front. */
struct reader_judge front_reader_judge(struct front *front) MUST_USE;
/* Sets the function that writes the page /_/fill, as JSON in keep. Any loop may call page(). So set
 * it before the first loop runs, and keep the target of `arg` until the last loop has ended.
 * Without a function the page reports that there is no fill socket. */
void front_fill_page(struct front *front, slice (*page)(void *arg, struct arena *keep), void *arg);

/* The callbacks of an http_app, whose arg is the struct front. */
bool front_judge(void *arg, struct http_loop *loop, struct arena *keep, slice peer,
                 const struct request_head *head, struct http_answer *ret);
void front_refuse(void *arg, struct arena *keep, const struct http_refused *what,
                  struct http_answer *ret);
void front_handle(void *arg, struct http_request *request);
/* The callbacks of each loop. `local` is the struct front_loop that front_loop_begin returned. */
void *front_loop_begin(void *arg, struct http_loop *loop);
void front_loop_end(void *arg, void *local);
void front_loop_turn(void *arg, void *local);

#endif
