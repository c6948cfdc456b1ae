/* tls.c - the certificate and key of this server. SPDX-License-Identifier: Apache-2.0
 *
 * There is one SSL_CTX at a time. If a reload finds other certificates, it puts a new SSL_CTX in
 * place under the lock; a session keeps the SSL_CTX that it began with. There is no session cache:
 * a client keeps its session in a ticket. A ticket is sealed with keys of its SSL_CTX, so no
 * session is resumed after such a reload or a restart. A ticket carries no identity of the
 * client. */
#include "http/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The state of a file. If it differs from an earlier one, the file has changed. */
struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
};

struct stamps {
    struct stamp of[3];      /* certificate, key, CA */
};

struct http_tls {
    struct arena arena;
    struct http_tls_files files;
    pthread_mutex_t lock;    /* guards the members below */
    SSL_CTX *context;
    int64_t expires_s;
    struct stamps seen;
};

static struct stamp stamp_of(const char *path)
{
    struct stat st;
    if (stat(path, &st))
        return (struct stamp){ 0 };
    return (struct stamp){ st.st_dev, st.st_ino, st.st_size, st.st_ctim };
}

static struct stamps stamps_of(const struct http_tls_files *files)
{
    struct stamps now = { { stamp_of(files->cert), stamp_of(files->key) } };
    if (files->ca)
        now.of[2] = stamp_of(files->ca);
    return now;
}

static bool same_stamp(struct stamp a, struct stamp b)
{
    return a.dev == b.dev && a.ino == b.ino && a.size == b.size &&
           a.changed.tv_sec == b.changed.tv_sec && a.changed.tv_nsec == b.changed.tv_nsec;
}

/* Chooses http/1.1. A client that offers only other protocols gets an alert. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *outlen,
                           const unsigned char *in, unsigned inlen, void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen;
    if (SSL_select_next_proto(&chosen, outlen, ours, sizeof(ours) - 1, in, inlen) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* Gives no password, since nobody can enter one. Records in *arg that the file needs a password. */
static int no_password(char *buf, int size, int writing, void *arg)
{
    if (arg)
        *(bool *)arg = true;
    return 0;
}

static bool set_up(SSL_CTX *context)
{
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);    /* a call reads one record, of any kind */
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    SSL_CTX_set_default_passwd_cb(context, no_password);
    static const unsigned char name[] = "penstock";
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) &&
           SSL_CTX_set_max_proto_version(context, 0) &&
           SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") &&
           SSL_CTX_set_num_tickets(context, 1) &&
           SSL_CTX_set_session_id_context(context, name, sizeof(name) - 1);
}

/* ---- the files ---- */

/* OpenSSL would wait for ever for the writer of a FIFO. */
static bool can_be_read(const struct http_tls_files *files, const char *what, const char *file,
                        struct arena *keep, slice *ret_why)
{
    struct stat st;
    int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool ordinary = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (fd >= 0 && !ordinary)
        *ret_why = arena_printf(keep, "%s_%s_file: can't use %s, which is no ordinary file. Name a "
                                "PEM file", files->settings, what, file);
    if (fd < 0)
        *ret_why = arena_printf(keep, "%s_%s_file: can't read %s: %s. Name a file that Penstock's "
                                "user may read, or give that user the right to read this file",
                                files->settings, what, file, strerror(errno));
    else
        close(fd);
    return ordinary;
}

/* For a certificate of the server itself (what: "cert"), or of a CA. */
static slice no_certificate(const struct http_tls_files *files, const char *what, const char *file,
                            struct arena *keep)
{
    unsigned long first = ERR_peek_error();
    const char *reason = ERR_reason_error_string(first);
    if (ERR_GET_LIB(first) == ERR_LIB_PEM && ERR_GET_REASON(first) == PEM_R_NO_START_LINE)
        return arena_printf(keep, "%s holds no certificate: set %s_%s_file to a PEM file, which "
                            "begins with -----BEGIN CERTIFICATE-----", file, files->settings, what);
    return arena_printf(keep, "a certificate in %s can't be used: %s. Set %s_%s_file to a file "
                        "with a chain of certificates that OpenSSL accepts", file,
                        reason ? reason : "it is damaged", files->settings, what);
}

static EVP_PKEY *read_key(const struct http_tls_files *files, struct arena *keep, slice *ret_why)
{
    bool locked = false;
    BIO *bio = BIO_new_file(files->key, "r");
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, &locked) : NULL;
    BIO_free(bio);
    if (!key && locked)
        *ret_why = arena_printf(keep, "the private key in %s has a passphrase, which Penstock "
                                "can't enter: write a copy of the key without a passphrase "
                                "(openssl pkey -in KEY -out NEW), and name the copy in "
                                "%s_key_file", files->key, files->settings);
    else if (!key)
        *ret_why = arena_printf(keep, "%s holds no private key that can be read: set %s_key_file "
                                "to a PEM file with a private key, which begins with "
                                "-----BEGIN PRIVATE KEY-----", files->key, files->settings);
    return key;
}

static bool take_own(SSL_CTX *context, const struct http_tls_files *files, struct arena *keep,
                     slice *ret_why)
{
    if (!can_be_read(files, "cert", files->cert, keep, ret_why) ||
        !can_be_read(files, "key", files->key, keep, ret_why))
        return false;
    if (SSL_CTX_use_certificate_chain_file(context, files->cert) != 1) {
        *ret_why = no_certificate(files, "cert", files->cert, keep);
        return false;
    }
    EVP_PKEY *key = read_key(files, keep, ret_why);
    if (!key)
        return false;
    bool fits = SSL_CTX_use_PrivateKey(context, key) == 1 &&
                SSL_CTX_check_private_key(context) == 1;
    EVP_PKEY_free(key);
    if (!fits)
        *ret_why = arena_printf(keep, "the private key in %s does not belong to the first "
                                "certificate in %s: set %s_cert_file and %s_key_file to files "
                                "that belong together", files->key, files->cert, files->settings,
                                files->settings);
    return fits;
}

/* A ticket would let a client in whose certificate has expired or lost its CA. */
static bool demand_certificates(SSL_CTX *context, const struct http_tls_files *files,
                                struct arena *keep, slice *ret_why)
{
    X509_VERIFY_PARAM *param = SSL_CTX_get0_param(context);
    if (!can_be_read(files, "ca", files->ca, keep, ret_why))
        return false;
    if (SSL_CTX_load_verify_file(context, files->ca) != 1) {
        *ret_why = no_certificate(files, "ca", files->ca, keep);
        return false;
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
                                               X509_CHECK_FLAG_NO_WILDCARDS);
    check(SSL_CTX_set_num_tickets(context, 0) == 1);
    check(X509_VERIFY_PARAM_set1_host(param, files->client_name, 0) == 1);
    return true;
}

static SSL_CTX *load(const struct http_tls_files *files, struct arena *keep, slice *ret_why)
{
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    bool good = context && set_up(context);
    if (!good)
        *ret_why = S("OpenSSL can't make a TLS context: check the OpenSSL configuration of this "
                     "machine (openssl.cnf)");
    good = good && take_own(context, files, keep, ret_why) &&
           (!files->ca || demand_certificates(context, files, keep, ret_why));
    ERR_clear_error();
    if (good)
        return context;
    SSL_CTX_free(context);
    return NULL;
}

static STACK_OF(X509) *chain_of(SSL_CTX *context)
{
    STACK_OF(X509) *chain = NULL;
    SSL_CTX_get0_chain_certs(context, &chain);
    return chain;
}

/* If the certificates are the same, the key is, too, because it fits the first certificate. */
static bool same_certificates(SSL_CTX *a, SSL_CTX *b)
{
    STACK_OF(X509) *left = chain_of(a), *right = chain_of(b);
    bool same = sk_X509_num(left) == sk_X509_num(right) &&
                X509_cmp(SSL_CTX_get0_certificate(a), SSL_CTX_get0_certificate(b)) == 0;
    for (int i = 0; same && i < sk_X509_num(left); i++)
        same = X509_cmp(sk_X509_value(left, i), sk_X509_value(right, i)) == 0;
    return same;
}

static int64_t end_of(const X509 *cert)
{
    struct tm tm;
    if (!cert || !ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm))
        return INT64_MAX;
    return (int64_t)timegm(&tm);
}

static int64_t first_end(SSL_CTX *context)
{
    int64_t first = end_of(SSL_CTX_get0_certificate(context));
    STACK_OF(X509) *chain = chain_of(context);
    for (int i = 0; i < sk_X509_num(chain); i++)
        first = MIN(first, end_of(sk_X509_value(chain, i)));
    return first;
}

enum err http_tls_reload(struct http_tls *tls, struct arena *keep, bool *ret_new, slice *ret_why)
{
    /* The stamps are taken before the files are read. If a file changes during the read, the next
     * look at the stamps shows it. */
    struct stamps seen = stamps_of(&tls->files);
    SSL_CTX *fresh = load(&tls->files, keep, ret_why), *old = fresh;
    pthread_mutex_lock(&tls->lock);
    tls->seen = seen;
    *ret_new = fresh && (!tls->context || tls->files.ca ||    /* the CAs may be others */
                         !same_certificates(tls->context, fresh));
    if (*ret_new) {    /* otherwise the old context stays, so its tickets stay valid */
        old = tls->context;
        tls->context = fresh;
        tls->expires_s = first_end(fresh);
    }
    pthread_mutex_unlock(&tls->lock);
    SSL_CTX_free(old);
    return fresh ? OK : ERR_BAD_ARGUMENT;
}

static const char *copy(struct http_tls *tls, const char *text)
{
    return text ? arena_copy(&tls->arena, slice_of(text)).ptr : NULL;
}

enum err http_tls_open(const struct http_tls_files *files, struct arena *keep,
                       struct http_tls **ret, slice *ret_why)
{
    struct http_tls *tls = must_alloc(sizeof(*tls));
    check(!files->ca == !files->client_name && (!files->client_name || *files->client_name));
    tls->files = (struct http_tls_files){ copy(tls, files->settings), copy(tls, files->cert),
                                          copy(tls, files->key), copy(tls, files->ca),
                                          copy(tls, files->client_name) };
    pthread_mutex_init(&tls->lock, NULL);
    bool is_new;
    enum err err = http_tls_reload(tls, keep, &is_new, ret_why);
    if (err)
        http_tls_free(&tls);
    *ret = tls;
    return err;
}

bool http_tls_changed(struct http_tls *tls)
{
    struct stamps now = stamps_of(&tls->files);
    bool same = true;
    pthread_mutex_lock(&tls->lock);
    for (size_t i = 0; i < countof(now.of); i++)
        same = same && same_stamp(now.of[i], tls->seen.of[i]);
    pthread_mutex_unlock(&tls->lock);
    return !same;
}

int64_t http_tls_expires_s(struct http_tls *tls)
{
    pthread_mutex_lock(&tls->lock);
    int64_t expires_s = tls->expires_s;
    pthread_mutex_unlock(&tls->lock);
    return expires_s;
}

/* Returns NULL if the certificate is good for this purpose. */
static const char *why_unfit(SSL_CTX *context, int purpose)
{
    X509_STORE_CTX *verify = X509_STORE_CTX_new();
    check(verify && X509_STORE_CTX_init(verify, SSL_CTX_get_cert_store(context),
                                        SSL_CTX_get0_certificate(context), chain_of(context)) == 1);
    X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(verify);
    check(X509_VERIFY_PARAM_set1(param, SSL_CTX_get0_param(context)) == 1);    /* has the name */
    check(X509_VERIFY_PARAM_set_purpose(param, purpose) == 1);
    X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_NO_CHECK_TIME);
    const char *why = X509_verify_cert(verify) == 1
                          ? NULL : X509_verify_cert_error_string(X509_STORE_CTX_get_error(verify));
    X509_STORE_CTX_free(verify);
    ERR_clear_error();
    return why;
}

slice http_tls_why_refused(struct http_tls *tls, struct arena *keep)
{
    if (!tls->files.ca)
        return S("");
    SSL *ssl = tls_new_ssl(tls);    /* keeps the context */
    check(ssl);
    const char *why = why_unfit(SSL_get_SSL_CTX(ssl), X509_PURPOSE_SSL_SERVER);
    if (!why)
        why = why_unfit(SSL_get_SSL_CTX(ssl), X509_PURPOSE_SSL_CLIENT);
    SSL_free(ssl);
    return why ? arena_copy(keep, slice_of(why)) : S("");
}

void http_tls_free(struct http_tls **tls)
{
    struct http_tls *mine = *tls;
    *tls = NULL;
    if (!mine)
        return;
    SSL_CTX_free(mine->context);
    pthread_mutex_destroy(&mine->lock);
    arena_free(&mine->arena);
    free(mine);
}

bool tls_is_outdated(struct http_tls *tls, const SSL *ssl)
{
    if (!tls->files.ca)
        return false;
    pthread_mutex_lock(&tls->lock);
    bool outdated = SSL_get_SSL_CTX(ssl) != tls->context;
    pthread_mutex_unlock(&tls->lock);
    return outdated;
}

SSL *tls_new_ssl(struct http_tls *tls)
{
    pthread_mutex_lock(&tls->lock);
    SSL *ssl = SSL_new(tls->context);
    pthread_mutex_unlock(&tls->lock);
    return ssl;
}
