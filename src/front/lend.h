/* lend.h - a key pair of Penstock's own, for local clients. SPDX-License-Identifier: Apache-2.0
 *
 * On a node whose role is Penstock's, clients need no secret that lasts: they fetch a pair from
 * /_/credentials (AWS_CONTAINER_CREDENTIALS_FULL_URI) as SDKs do from a container's agent, renew it
 * before it expires, and with it do what Penstock's own name at the origin may. A pair is random,
 * is known to this process alone, and means nothing to the origin. Any thread. */
#ifndef FRONT_LEND_H
#define FRONT_LEND_H

#include "http/http.h"

struct lend;
struct lend *lend_new(slice token) MUST_USE;    /* what must be said for it: not empty */
void lend_free(struct lend **lend);

/* Answers a GET of /_/credentials. Only for peers of this machine that ask this machine by name, say
 * the token, and are no browser: a page in one can be made to ask, under a name of its own that
 * leads here, or as an object of this endpoint. Returns NULL, with the access key that was handed
 * out, or why none was. */
const char *lend_answer(struct lend *lend, struct arena *keep, slice peer,
                        const struct http_head *head, int64_t now_s, slice *ret_access_key,
                        struct http_answer *ret) MUST_USE;
/* The secret of a pair that is good now, in keep: what is being verified may outlast the pair. */
bool lend_find(struct lend *lend, struct arena *keep, slice access_key, slice session_token,
               int64_t now_s, slice *ret_secret);

#endif
