/* lend.h - key pairs that Penstock lends to local clients. SPDX-License-Identifier: Apache-2.0
 *
 * On a node whose role belongs to Penstock, clients need no lasting secret. They fetch a pair
 * from /_/credentials (AWS_CONTAINER_CREDENTIALS_FULL_URI), as SDKs do from the agent of a
 * container, and renew it before it expires. With it they may do what Penstock's own identity
 * may do at the origin. A pair is random, known to this process alone, and worth nothing at the
 * origin. Any thread. */
#ifndef FRONT_LEND_H
#define FRONT_LEND_H

#include "http/http.h"

struct lend;
struct lend *lend_new(slice token) MUST_USE;    /* the token that clients must send: not empty */
void lend_free(struct lend **lend);

/* Answers a GET of /_/credentials. A client gets a pair only if it is on this machine, used a
 * loopback name as the host, sent the token, and is no browser. A page in a browser could be
 * made to ask, from a foreign host name that leads here, or as an object of this endpoint.
 * Returns NULL and the access key that was lent, or the reason for the refusal. */
const char *lend_answer(struct lend *lend, struct arena *keep, slice peer,
                        const struct request_head *head, int64_t now_s, slice *ret_access_key,
                        struct http_answer *ret) MUST_USE;
/* The secret of a pair that is valid now. It is copied into keep, since the request may outlast the
 * pair. */
bool lend_find(struct lend *lend, struct arena *keep, slice access_key, slice session_token,
               int64_t now_s, slice *ret_secret);

#endif
