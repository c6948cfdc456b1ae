/* authority.h - a certificate authority for the nodes of a fleet. SPDX-License-Identifier: Apache-2.0
 *
 * The authority signs certificates with one DNS name, which stands for the fleet, for both ends of a
 * connection between peers (tls.h). It may sign for that name alone, so its key is of no use for
 * other servers (name constraints, RFC 5280). Keys are of the curve P-256. Pure: the texts are PEM,
 * and the callers keep the files. */
#ifndef HTTP_AUTHORITY_H
#define HTTP_AUTHORITY_H

#include "base/arena.h"

struct authority;

/* Makes an authority for a name of a-z, 0-9, '-' and '.'. Returns NULL if OpenSSL can't. */
struct authority *authority_new(const char *name, unsigned days) MUST_USE;
/* Reads its certificate and key. Returns NULL if they can't be used, and *ret_why says why. */
struct authority *authority_read(slice cert, slice key, slice *ret_why) MUST_USE;
slice authority_cert(const struct authority *authority, struct arena *keep);
slice authority_key(const struct authority *authority, struct arena *keep);
/* The one name that it signs for; empty: it has no such limit. */
slice authority_name(const struct authority *authority, struct arena *keep);
void authority_free(struct authority **authority);

struct authority_ask {
    const char *name;                 /* the DNS name */
    const char *subject;              /* says which node it is, for people */
    unsigned days;                    /* from now; at most until the authority itself ends */
};
/* Returns a new certificate, and its key behind it. On failure *ret_why is the end of a sentence. */
enum err authority_sign(const struct authority *authority, const struct authority_ask *ask,
                        struct arena *keep, slice *ret_pem, int64_t *ret_ends_s,
                        slice *ret_why) MUST_USE;

#endif
