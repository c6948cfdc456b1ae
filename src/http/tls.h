/* tls.h - who this server is towards clients that speak TLS. SPDX-License-Identifier: Apache-2.0
 *
 * A certificate with its chain and its key, read from two files and read again when they change.
 * TLS 1.2 and 1.3, ECDHE with AEAD, http/1.1 alone; whatever name a client asks for (SNI) gets the
 * same certificate. A new pair comes whole or not at all; connections that stand keep the old one.
 * Any thread. */
#ifndef HTTP_TLS_H
#define HTTP_TLS_H

#include "base/arena.h"

struct http_tls;

/* On failure *ret_why, in keep, says what is wrong with the files. */
enum err http_tls_open(const char *cert_file, const char *key_file, struct arena *keep,
                       struct http_tls **ret, slice *ret_why) MUST_USE;
/* Others than at the last look, good or bad? */
bool http_tls_changed(struct http_tls *tls);
/* Reads the files again. *ret_new: they hold other certificates, which serve from now on. On
 * failure the old pair serves on. */
enum err http_tls_reload(struct http_tls *tls, struct arena *keep, bool *ret_new,
                         slice *ret_why) MUST_USE;
int64_t http_tls_expires_s(struct http_tls *tls);    /* the first of its chain to expire */
void http_tls_free(struct http_tls **tls);           /* connections may outlive it */

#endif
