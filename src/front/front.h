/* front.h - the S3 endpoint: HTTP requests become cache reads and origin calls.
 * SPDX-License-Identifier: Apache-2.0
 *
 * judge (who is it, before a body is taken in) -> route (which operation) -> object.c (GET and HEAD
 * through the cache) or pass.c (lists, buckets and writes, forwarded) -> one access line. */
#ifndef FRONT_FRONT_H
#define FRONT_FRONT_H

#include "base/config.h"
#include "cache/cache.h"
#include "cache/reader.h"
#include "http/http.h"

/* A client: a key pair, or nobody (both empty: requests without a signature). */
struct front_key {
    slice access_key, secret_key, session_token;    /* token empty: none is expected */
    bool own;                     /* asks the origin in a name of its own: */
    struct sigv4_credentials as;  /* ... this one; an empty key: unsigned */
    const struct config_policy *policy;    /* else: what it may do in Penstock's */
    size_t policy_count;
    slice previous_secret_key;    /* good, too, while it is rotated; empty: there is none */
};

/* Which bucket, or prefix in it, lies where. An empty bucket is every other one. */
struct front_place {
    slice bucket, prefix;
    struct place place;
};

struct clients;

/* Of batch GETs. */
struct front_batches {
    uint64_t list_bytes;          /* of a list */
    size_t items;
    uint64_t bytes;               /* of objects, in an answer */
    unsigned time_ms;             /* so long it may begin further items */
    size_t gets;                  /* that it has under way at once, */
    size_t ahead_bytes;           /* ... and what they may hold before it is their turn */
    size_t memory_bytes;          /* for lists and answers, all together */
};

struct front_options {
    struct cache *cache;
    struct clients *clients;      /* outlive every call of an origin: client.h */
    bool lend;                    /* key pairs at /_/credentials, */
    slice lend_token;             /* ... for who says this */
    slice keys_from;              /* where clients' keys are named, for those who are refused */
    struct front_place *places;
    size_t place_count;
    struct place *service;        /* of the default origin, answers ListBuckets; NULL: none */
    slice forward_headers;        /* that go on beside those that are known, separated by commas */
    slice domains;                /* where BUCKET.DOMAIN is a host, separated by commas */
    bool access_log, no_sigv2;
    slice regions;                /* that clients may sign for; empty: any */
    uint64_t relays_bytes;        /* for answers that wait for clients, without a connection */
    uint64_t body_bytes_max;      /* of data */
    uint64_t form_bytes_max;      /* of a form that a browser posts; 0: none is taken */
    struct front_batches batches;
};

/* At most so much is a body of so many bytes with S3's framing: 8 KiB a chunk, a trailer. */
#define FRONT_FRAMED_BYTES(bytes) ((bytes) + (bytes) / 64 + 64 * KIB)

/* What options point at must outlive the front; it is made and freed while no loop runs. */
struct front;
struct front *front_new(const struct front_options *options) MUST_USE;
void front_free(struct front **front);
/* Who is known from now on: any time, one thread. Copied. */
void front_keys(struct front *front, const struct front_key *keys, size_t count);
void front_access_log(struct front *front, bool on);    /* any time, any thread */
/* The first 8 digits of the ids of this process's requests: they tell it from others, and from
 * itself after a restart. */
slice front_instance(const struct front *front, struct arena *keep) MUST_USE;
void front_drain(struct front *front);    /* /_/health/ready says 503 from now on */

/* How readers by another way than HTTP prove who they are, and what they may read. Good for as long
 * as the front. */
struct reader_judge front_reader_judge(struct front *front) MUST_USE;
/* The function that writes the page /_/fill, as JSON in keep. Called on any loop: set it before the
 * first loop runs, and keep what arg points at until the last has ended. Without one the page says
 * that there is no fill socket. */
void front_fill_page(struct front *front, slice (*page)(void *arg, struct arena *keep), void *arg);

/* The callbacks of its http_app, whose arg is the struct front ... */
bool front_judge(void *arg, struct http_loop *loop, struct arena *keep, slice peer,
                 const struct http_head *head, struct http_answer *ret);
void front_refuse(void *arg, struct arena *keep, const struct http_refused *what,
                  struct http_answer *ret);
void front_handle(void *arg, struct http_request *request);
/* ... and what it keeps on each loop. */
void *front_loop_begin(void *arg, struct http_loop *loop);
void front_loop_end(void *arg, void *local);
void front_loop_turn(void *arg, void *local);

#endif
