/* client.h - the table of clients. SPDX-License-Identifier: Apache-2.0
 *
 * A client is an access key, perhaps with a session token. Unsigned requests, if the settings allow
 * any, belong to one more client, the anonymous one. A client uses its own identity at the origin,
 * or, as far as its policy allows, the shared identity: Penstock's own credentials. The table is
 * replaced as a whole, at any time. A client that is no longer in the table is refused from its
 * next request on; its current requests end normally. */
#ifndef FRONT_CLIENT_H
#define FRONT_CLIENT_H

#include "cache/grant.h"
#include "front/front.h"

/* Numbers of clients outside the table. Clients in the table have numbers from CLIENT_KNOWN on. */
enum { CLIENT_LENT = 1, CLIENT_FORM, CLIENT_KNOWN };

struct client {
    unsigned number;              /* no other client gets it, as long as the process runs */
    struct front_key key;
    struct identity who;          /* at the origin: that of `key.as` if `key.own` is set, else the
                                   * shared identity */
};

struct clients;
struct clients *clients_new(void) MUST_USE;
void clients_free(struct clients **all);    /* when no call of any client is left */
/* Replaces the table by these keys, which are copied. One thread at a time. A client whose key is
 * unchanged keeps its grants, the proofs of what it may read (cache/grant.h). */
void clients_set(struct clients *all, const struct front_key *keys, size_t count);

/* Finds the client of an access key. Any thread. Returns OK; ERR_UNKNOWN_KEY if there is no such
 * key, or if the key has a session token and none is given; ERR_BAD_TOKEN if a token is given, and
 * the key has another one or none. A client is valid as long as `all`. */
enum err clients_find(const struct clients *all, slice access_key, slice session_token,
                      const struct client **ret) MUST_USE;
/* Finds the only client of an access key, whatever its session token is. Returns OK, or
 * ERR_UNKNOWN_KEY if no client or several clients have the key. Any thread. */
enum err clients_find_only(const struct clients *all, slice access_key,
                           const struct client **ret) MUST_USE;
/* Returns the client of unsigned requests, or NULL if unsigned requests are refused. */
const struct client *clients_nobody(const struct clients *all);
size_t clients_count(const struct clients *all);

/* ---- right.c: the rights that the rows of a policy give. No row takes a right away ---- */
/* One right on one object. For a list request the key is its prefix. */
struct right_ask {
    unsigned right;               /* one of RIGHT_... */
    slice bucket, key;            /* empty bucket: the whole service, as for ListBuckets */
    bool of_bucket;               /* a row for any part of the bucket is enough (HeadBucket) */
};

/* A row that allows everything that Penstock's own identity may do. */
extern const struct config_policy right_everything;

/* Returns true if one of these rows allows `ask`. */
bool right_allows(const struct config_policy *rows, size_t count, const struct right_ask *ask);

#endif
