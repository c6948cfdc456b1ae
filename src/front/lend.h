/* lend.h - key pairs that Penstock lends to local clients. SPDX-License-Identifier: Apache-2.0
 *
 * If Penstock has a role at the origin, the clients on its node need no lasting secret. They fetch
 * a pair from /_/credentials (AWS_CONTAINER_CREDENTIALS_FULL_URI), as SDKs do from the agent of a
 * container, and renew it before it expires. With the pair they may do all that Penstock's own
 * identity may do at the origin. A pair is random. Only this process accepts it; the origin does
 * not know it. Any thread. */
#ifndef FRONT_LEND_H
#define FRONT_LEND_H

#include "http/http.h"

struct lend;
struct lend *lend_new(slice token) MUST_USE;    /* the token that clients must send: not empty */
void lend_free(struct lend **lend);

/* Answers a GET of /_/credentials. A client gets a pair only if it is on this machine, used a
 * loopback name as the host, sent the token, and is no browser. A browser must get none, because an
 * attacker's page could send this request: a page of a foreign host name that resolves to this
 * machine, or a page that is an object of this endpoint.
 * Returns NULL and sets *ret_access_key to the lent key, or returns the reason for the refusal. */
const char *lend_answer(struct lend *lend, struct arena *keep, slice peer,
                        const struct request_head *head, int64_t now_s, slice *ret_access_key,
                        struct http_answer *ret) MUST_USE;
/* Finds the secret of a pair. Returns false if the pair is not valid now. The secret is copied into
 * keep, since the pair may expire before the request ends. */
bool lend_find(struct lend *lend, struct arena *keep, slice access_key, slice session_token,
               int64_t now_s, slice *ret_secret);

#endif
