/* tls.h - the certificate and key of this server, for TLS. SPDX-License-Identifier: Apache-2.0
 *
 * Two files hold a certificate with its chain, and a key. They are read at the start, and again
 * when they change. The server speaks TLS 1.2 and 1.3, with ECDHE and AEAD ciphers, and http/1.1
 * alone. Every name that a client asks for (SNI) gets the same certificate. A new certificate and
 * key replace the old ones together or not at all; open connections keep the old ones.
 *
 * With a CA file, TLS is mutual: a client needs a certificate of one of these CAs, in which the
 * given name is a DNS name (subjectAltName). The addresses of clients do not count. Such a client
 * gets no session ticket, so each connection is judged by the files of that time. When the files
 * change, a connection that is open ends with its next request, and the client connects again. Any
 * thread may call these functions. */
#ifndef HTTP_TLS_H
#define HTTP_TLS_H


struct http_tls;

struct http_tls_files {
    const char *settings;               /* "tls": messages name tls_cert_file, tls_key_file, ... */
    const char *cert, *key;
    const char *ca, *client_name;       /* NULL: clients need no certificate */
};
/* On failure *ret_why, in keep, says what is wrong with the files. Copies the texts. */
enum err http_tls_open(const struct http_tls_files *files, struct arena *keep,
                       struct http_tls **ret, slice *ret_why) MUST_USE;
/* True if a file has changed since the last read, whether the new file is valid or not. */
bool http_tls_changed(struct http_tls *tls);
/* Reads the files again. *ret_new is true if they hold other certificates, which are used from now
 * on. On failure the old certificate and key stay in use. */
enum err http_tls_reload(struct http_tls *tls, struct arena *keep, bool *ret_new,
                         slice *ret_why) MUST_USE;
/* With a CA file: returns why a server, or a client, with the same settings would refuse this
 * certificate: a sentence without its end. Empty: it would not. The time does not count. */
slice http_tls_why_refused(struct http_tls *tls, struct arena *keep);
int64_t http_tls_expires_s(struct http_tls *tls);    /* the earliest expiry in the chain */
void http_tls_free(struct http_tls **tls);           /* connections may outlive it */

#endif
