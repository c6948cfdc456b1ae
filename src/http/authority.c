/* authority.c - a certificate authority for the nodes of a fleet. SPDX-License-Identifier: Apache-2.0
 *
 * A certificate begins a day ago, because the clocks of the nodes may differ. Before it is returned,
 * it is verified as a peer would verify it. */
#include "http/authority.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DAY_S (24 * 60 * 60)
#define SERIAL_BYTES 16

struct authority {
    X509 *cert;
    EVP_PKEY *key;
};

static const char *openssl_why(void)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    return why ? why : "OpenSSL gives no reason";
}

static slice bio_text(BIO *bio, struct arena *keep)
{
    char *text;
    long len = BIO_get_mem_data(bio, &text);
    check(len >= 0);
    return arena_copy(keep, (slice){ text, (size_t)len });
}

static void pem_write(BIO *bio, const X509 *cert, const EVP_PKEY *key)
{
    check(bio);
    if (cert)
        check(PEM_write_bio_X509(bio, (X509 *)(uintptr_t)cert) == 1);
    if (key)
        check(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1);
}

static slice pem_of(const X509 *cert, const EVP_PKEY *key, struct arena *keep)
{
    BIO *bio = BIO_new(BIO_s_mem());
    pem_write(bio, cert, key);
    slice text = bio_text(bio, keep);
    BIO_free(bio);
    return text;
}

/* ---- making a certificate ---- */

static bool set_serial(X509 *cert)
{
    unsigned char bytes[SERIAL_BYTES];
    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return false;
    bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40);    /* positive, of the full length */
    BIGNUM *number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    bool good = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));
    BN_free(number);
    return good;
}

static bool set_subject(X509 *cert, const char *subject)
{
    return X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8,
                                      (const unsigned char *)subject, -1, -1, 0) == 1;
}

struct extension {
    int nid;
    const char *value;
};

static bool add_extensions(X509 *cert, X509 *issuer, const struct extension *list)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    X509V3_set_ctx_nodb(&context);
    for (; list->value; list++) {
        X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, list->nid, list->value);
        bool added = extension && X509_add_ext(cert, extension, -1) == 1;
        X509_EXTENSION_free(extension);
        if (!added)
            return false;
    }
    return true;
}

/* Begins a certificate of this key. `issuer` NULL: it signs itself. */
static X509 *begin(EVP_PKEY *key, const char *subject, unsigned days, const X509 *issuer)
{
    X509 *cert = X509_new();
    bool good = cert && X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
                set_subject(cert, subject) && X509_set_pubkey(cert, key) == 1 &&
                X509_set_issuer_name(cert, X509_get_subject_name(issuer ? issuer : cert)) == 1 &&
                X509_gmtime_adj(X509_getm_notBefore(cert), -DAY_S) &&
                X509_time_adj_ex(X509_getm_notAfter(cert), (int)days, 0, NULL);
    if (good && issuer && ASN1_TIME_compare(X509_get0_notAfter(cert),
                                            X509_get0_notAfter(issuer)) > 0)
        good = X509_set1_notAfter(cert, X509_get0_notAfter(issuer)) == 1;
    if (good)
        return cert;
    X509_free(cert);
    return NULL;
}

/* ---- the authority ---- */

struct authority *authority_new(const char *name, unsigned days)
{
    struct authority *authority = must_alloc(sizeof(*authority));
    struct arena keep = { 0 };
    const struct extension extensions[] = {
        { NID_basic_constraints, "critical,CA:TRUE,pathlen:0" },
        { NID_key_usage, "critical,keyCertSign,cRLSign" },
        { NID_name_constraints, arena_printf(&keep, "critical,permitted;DNS:%s", name).ptr },
        { NID_subject_key_identifier, "hash" },
        { 0, NULL },
    };
    slice subject = arena_printf(&keep, "Penstock CA of %.40s", name);    /* 64 bytes at most */
    authority->key = EVP_EC_gen("P-256");
    authority->cert = authority->key ? begin(authority->key, subject.ptr, days, NULL) : NULL;
    bool good = authority->cert &&
                add_extensions(authority->cert, authority->cert, extensions) &&
                X509_sign(authority->cert, authority->key, EVP_sha256()) > 0;
    arena_free(&keep);
    if (!good)
        authority_free(&authority);
    return authority;
}

static int no_password(char *buf, int size, int writing, void *arg)
{
    return 0;
}

struct authority *authority_read(slice cert, slice key, slice *ret_why)
{
    struct authority *authority = must_alloc(sizeof(*authority));
    BIO *certs = BIO_new_mem_buf(cert.ptr, (int)cert.len);
    BIO *keys = BIO_new_mem_buf(key.ptr, (int)key.len);
    check(certs && keys);
    ERR_clear_error();
    authority->cert = PEM_read_bio_X509(certs, NULL, no_password, NULL);
    authority->key = PEM_read_bio_PrivateKey(keys, NULL, no_password, NULL);
    BIO_free(certs);
    BIO_free(keys);
    *ret_why = !authority->cert ? S("the first has no certificate in PEM")
             : !authority->key ? S("the second has no private key in PEM without a passphrase")
             : X509_check_private_key(authority->cert, authority->key) != 1
                 ? S("the key is not that of the certificate")
             : X509_check_ca(authority->cert) != 1 ? S("the certificate is not that of a CA")
             : X509_cmp_current_time(X509_get0_notAfter(authority->cert)) < 0
                 ? S("the certificate has expired") : S("");
    ERR_clear_error();
    if (ret_why->len)
        authority_free(&authority);
    return authority;
}

slice authority_cert(const struct authority *authority, struct arena *keep)
{
    return pem_of(authority->cert, NULL, keep);
}

slice authority_key(const struct authority *authority, struct arena *keep)
{
    return pem_of(NULL, authority->key, keep);
}

slice authority_name(const struct authority *authority, struct arena *keep)
{
    slice name = S("");
    NAME_CONSTRAINTS *limits = X509_get_ext_d2i(authority->cert, NID_name_constraints, NULL, NULL);
    STACK_OF(GENERAL_SUBTREE) *permitted = limits ? limits->permittedSubtrees : NULL;
    for (int i = 0; i < sk_GENERAL_SUBTREE_num(permitted) && !name.len; i++) {
        const GENERAL_NAME *base = sk_GENERAL_SUBTREE_value(permitted, i)->base;
        if (base->type == GEN_DNS)
            name = arena_copy(keep, (slice){
                (const char *)ASN1_STRING_get0_data(base->d.dNSName),
                (size_t)ASN1_STRING_length(base->d.dNSName) });
    }
    NAME_CONSTRAINTS_free(limits);
    return name;
}

void authority_free(struct authority **authority)
{
    struct authority *mine = *authority;
    *authority = NULL;
    if (!mine)
        return;
    X509_free(mine->cert);
    EVP_PKEY_free(mine->key);
    free(mine);
}

/* ---- signing ---- */

/* Returns NULL if a peer would take the certificate, otherwise why not. */
static const char *why_refused(const struct authority *authority, X509 *cert)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    check(store && context && X509_STORE_add_cert(store, authority->cert) == 1);
    check(X509_STORE_CTX_init(context, store, cert, NULL) == 1);
    const char *why = X509_verify_cert(context) == 1
                          ? NULL : X509_verify_cert_error_string(X509_STORE_CTX_get_error(context));
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    return why;
}

static X509 *make(const struct authority *authority, EVP_PKEY *key,
                  const struct authority_ask *ask)
{
    struct arena keep = { 0 };
    const struct extension extensions[] = {
        { NID_basic_constraints, "critical,CA:FALSE" },
        { NID_key_usage, "critical,digitalSignature" },
        { NID_ext_key_usage, "serverAuth,clientAuth" },
        { NID_subject_alt_name, arena_printf(&keep, "DNS:%s", ask->name).ptr },
        { NID_subject_key_identifier, "hash" },
        { NID_authority_key_identifier, "keyid" },
        { 0, NULL },
    };
    X509 *cert = begin(key, ask->subject, ask->days, authority->cert);
    if (cert && (!add_extensions(cert, authority->cert, extensions) ||
                 X509_sign(cert, authority->key, EVP_sha256()) <= 0)) {
        X509_free(cert);
        cert = NULL;
    }
    arena_free(&keep);
    return cert;
}

static int64_t end_of(const X509 *cert)
{
    struct tm tm;
    check(ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) == 1);
    return (int64_t)timegm(&tm);
}

enum err authority_sign(const struct authority *authority, const struct authority_ask *ask,
                        struct arena *keep, slice *ret_pem, int64_t *ret_ends_s, slice *ret_why)
{
    ERR_clear_error();
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = key ? make(authority, key, ask) : NULL;
    const char *why = cert ? why_refused(authority, cert) : openssl_why();
    if (!why) {
        *ret_pem = pem_of(cert, key, keep);
        *ret_ends_s = end_of(cert);
    } else {
        *ret_why = arena_printf(keep, "%s", why);
    }
    X509_free(cert);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return why ? ERR_BAD_ARGUMENT : OK;
}
