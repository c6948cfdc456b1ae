/* client.h - who clients are. SPDX-License-Identifier: Apache-2.0
 *
 * A client is an access key and, if it has one, a session token; whoever signs nothing at all is
 * one, too, where that is allowed. It asks the origin in its own name, or in the shared one as far
 * as its policy goes. The table of them is replaced as a whole, at any time; a client that is out
 * of it is refused from its next request on, and what it has under way ends as it would have. */
#ifndef FRONT_CLIENT_H
#define FRONT_CLIENT_H

#include "cache/grant.h"
#include "front/allow.h"
#include "front/front.h"

/* Numbers of those who are in no table; who is in it has one from CLIENT_KNOWN on. */
enum { CLIENT_LENT = 1, CLIENT_FORM, CLIENT_KNOWN };

struct client {
    unsigned number;              /* tells it apart from others; stays with it */
    slice access_key, secret_key, session_token;    /* all empty: who signs nothing */
    slice previous_secret_key;    /* good, too; empty: there is none */
    bool own;                     /* an identity of its own at the origin */
    struct sigv4_credentials as;  /* own: what it signs with there; an empty key: nothing */
    struct identity who;
    const struct config_policy *policy;    /* not own: what it may do in the shared name */
    size_t policy_count;
};

struct clients;
struct clients *clients_new(void) MUST_USE;
void clients_free(struct clients **all);    /* no call of anybody's is left */
/* The keys that are known from now on. Copies all; one thread at a time. A key that stays as it was
 * keeps its grants. */
void clients_set(struct clients *all, const struct front_key *keys, size_t count);

/* Any thread. OK; ERR_UNKNOWN_KEY: no such access key, or it needs a session token; ERR_BAD_TOKEN:
 * not with this one. Lives as long as clients. */
enum err clients_find(const struct clients *all, slice access_key, slice session_token,
                      const struct client **ret) MUST_USE;
const struct client *clients_nobody(const struct clients *all);    /* unsigned; or NULL */
size_t clients_count(const struct clients *all);

#endif
