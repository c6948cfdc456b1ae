/* tls.h - the certificate and key of this server, for TLS. SPDX-License-Identifier: Apache-2.0
 *
 * Two files hold a certificate with its chain, and a key. They are read at the start, and again
 * when they change. The server speaks TLS 1.2 and 1.3, with ECDHE and AEAD ciphers, and http/1.1
 * alone. Every name that a client asks for (SNI) gets the same certificate. A new certificate and
 * key replace the old ones together or not at all; open connections keep the old ones. Any thread
 * may call these functions. */
#ifndef HTTP_TLS_H
#define HTTP_TLS_H


struct http_tls;

/* On failure *ret_why, in keep, says what is wrong with the files. */
enum err http_tls_open(const char *cert_file, const char *key_file, struct arena *keep,
                       struct http_tls **ret, slice *ret_why) MUST_USE;
/* True if a file has changed since the last read, whether the new file is valid or not. */
bool http_tls_changed(struct http_tls *tls);
/* Reads the files again. *ret_new is true if they hold other certificates, which are used from now
 * on. On failure the old certificate and key stay in use. */
enum err http_tls_reload(struct http_tls *tls, struct arena *keep, bool *ret_new,
                         slice *ret_why) MUST_USE;
int64_t http_tls_expires_s(struct http_tls *tls);    /* the earliest expiry in the chain */
void http_tls_free(struct http_tls **tls);           /* connections may outlive it */

#endif
