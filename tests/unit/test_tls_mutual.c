/* test_tls_mutual.c - which clients get in where certificates are demanded.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The handshakes are real, over memory; the certificates are made here. */
#include "unit.h"

#include <openssl/ec.h>

#include "http/tls.c"

#define DAY_S (24L * 60 * 60)

/* A key with its certificate. */
struct party {
    EVP_PKEY *key;
    X509 *cert;
    X509 *issuer;    /* that a client sends in its chain; NULL: none */
};

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    ok(extension && X509_add_ext(cert, extension, -1));
    X509_EXTENSION_free(extension);
}

/* san NULL: a CA. The certificate is valid from yesterday to `days` from now. */
static struct party party_new(const struct party *ca, const char *san, const char *common, long days)
{
    static long serial;
    struct party party = { .key = EVP_EC_gen("P-256"), .cert = X509_new() };
    ok(party.key && party.cert && X509_set_version(party.cert, 2));
    ok(ASN1_INTEGER_set(X509_get_serialNumber(party.cert), ++serial));
    X509_gmtime_adj(X509_getm_notBefore(party.cert), -2 * DAY_S);
    X509_gmtime_adj(X509_getm_notAfter(party.cert), days * DAY_S);
    ok(X509_set_pubkey(party.cert, party.key));
    X509_NAME *name = X509_get_subject_name(party.cert);
    ok(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)common, -1, -1, 0));
    ok(X509_set_issuer_name(party.cert, ca ? X509_get_subject_name(ca->cert) : name));
    add_extension(party.cert, ca ? ca->cert : party.cert, NID_basic_constraints,
                  san ? "CA:FALSE" : "critical,CA:TRUE");
    if (san && *san)
        add_extension(party.cert, ca->cert, NID_subject_alt_name, san);
    ok(X509_sign(party.cert, ca ? ca->key : party.key, EVP_sha256()));
    return party;
}

static void party_free(struct party *party)
{
    EVP_PKEY_free(party->key);
    X509_free(party->cert);
}

static void write_files(const struct party *party, const char *cert_file, const char *key_file)
{
    FILE *file = fopen(cert_file, "w");
    ok(file && PEM_write_X509(file, party->cert) && fclose(file) == 0);
    file = key_file ? fopen(key_file, "w") : NULL;
    if (key_file)
        ok(file && PEM_write_PrivateKey(file, party->key, NULL, NULL, 0, NULL, NULL) &&
           fclose(file) == 0);
}

static struct {
    char folder[64], cert[80], key[80], ca[80];
    struct party root, other_root, server;
} all;

static int set_up_all(void **state)
{
    snprintf(all.folder, sizeof(all.folder), "/tmp/penstock-tls-XXXXXX");
    ok(mkdtemp(all.folder) != NULL);
    snprintf(all.cert, sizeof(all.cert), "%s/cert", all.folder);
    snprintf(all.key, sizeof(all.key), "%s/key", all.folder);
    snprintf(all.ca, sizeof(all.ca), "%s/ca", all.folder);
    all.root = party_new(NULL, NULL, "root", 10);
    all.other_root = party_new(NULL, NULL, "other root", 10);
    all.server = party_new(&all.root, "DNS:peer.penstock", "server", 10);
    write_files(&all.server, all.cert, all.key);
    write_files(&all.root, all.ca, NULL);
    return 0;
}

static int tear_down_all(void **state)
{
    struct party *parties[] = { &all.root, &all.other_root, &all.server };
    const char *files[] = { all.cert, all.key, all.ca };
    for (size_t i = 0; i < countof(parties); i++) {
        party_free(parties[i]);
        (void)unlink(files[i]);
    }
    return rmdir(all.folder);
}

static struct http_tls *open_mutual(void)
{
    struct http_tls_files files = { "peer_tls", all.cert, all.key, all.ca, "peer.penstock" };
    struct arena keep = { 0 };
    struct http_tls *tls;
    slice why;
    ok(http_tls_open(&files, &keep, &tls, &why) == OK);
    arena_free(&keep);
    return tls;
}

/* Shakes hands over memory, with both sides in turn. Returns true if the server takes the client.
 * With TLS 1.3, the client has ended its part before the server has judged it. */
static bool is_taken(struct http_tls *tls, const struct party *client, int version)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    ok(context && SSL_CTX_set_max_proto_version(context, version));
    if (client)
        ok(SSL_CTX_use_certificate(context, client->cert) == 1 &&
           SSL_CTX_use_PrivateKey(context, client->key) == 1);
    if (client && client->issuer)
        ok(SSL_CTX_add1_chain_cert(context, client->issuer) == 1);
    SSL *here = tls_new_ssl(tls), *there = SSL_new(context);
    BIO *to_here, *to_there;
    ok(here && there && BIO_new_bio_pair(&to_here, 0, &to_there, 0));
    SSL_set_bio(here, to_here, to_here);
    SSL_set_bio(there, to_there, to_there);
    int taken = 0, error = SSL_ERROR_WANT_READ;
    for (int i = 0; i < 20 && taken != 1 && error == SSL_ERROR_WANT_READ; i++) {
        (void)SSL_connect(there);
        taken = SSL_accept(here);
        error = SSL_get_error(here, taken);
    }
    ok(taken != 1 || SSL_get_verify_result(here) == X509_V_OK);
    ERR_clear_error();
    SSL_free(here);
    SSL_free(there);
    SSL_CTX_free(context);
    return taken == 1;
}

static bool takes(struct http_tls *tls, const struct party *client)
{
    bool taken = is_taken(tls, client, TLS1_3_VERSION);
    ok(is_taken(tls, client, TLS1_2_VERSION) == taken);
    return taken;
}

/* Makes a client's certificate, and returns whether it gets in. */
static bool takes_new(struct http_tls *tls, const struct party *ca, const char *san,
                      const char *common, long days)
{
    struct party client = party_new(ca, san, common, days);
    bool taken = takes(tls, &client);
    party_free(&client);
    return taken;
}

TEST(only_a_certificate_of_the_ca_with_the_name_gets_in)
{
    struct http_tls *tls = open_mutual();
    ok(takes_new(tls, &all.root, "DNS:peer.penstock", "any", 10));
    ok(takes_new(tls, &all.root, "DNS:a.example,DNS:PEER.penstock,IP:10.0.0.1", "any", 10));
    ok(!takes(tls, NULL));
    ok(!takes_new(tls, &all.other_root, "DNS:peer.penstock", "any", 10));
    ok(!takes_new(tls, &all.root, "DNS:peer.penstock.example", "any", 10));
    ok(!takes_new(tls, &all.root, "DNS:*.penstock", "any", 10));
    ok(!takes_new(tls, &all.root, "IP:10.0.0.1", "any", 10));
    ok(!takes_new(tls, &all.root, "", "peer.penstock", 10));            /* the CN is no name */
    ok(!takes_new(tls, &all.root, "DNS:peer.penstock", "any", -1));     /* expired */
    ok(!takes(tls, &all.other_root));
    http_tls_free(&tls);
}

TEST(a_certificate_that_was_issued_by_a_client_does_not_get_in)
{
    struct http_tls *tls = open_mutual();
    struct party client = party_new(&all.root, "DNS:peer.penstock", "any", 10);
    struct party other = party_new(&client, "DNS:peer.penstock", "other", 10);
    other.issuer = client.cert;
    ok(takes(tls, &client) && !takes(tls, &other));
    party_free(&client);
    party_free(&other);
    http_tls_free(&tls);
}

TEST(a_new_ca_file_counts_for_new_connections)
{
    struct http_tls *tls = open_mutual();
    struct party old = party_new(&all.root, "DNS:peer.penstock", "any", 10);
    struct party new = party_new(&all.other_root, "DNS:peer.penstock", "any", 10);
    struct arena keep = { 0 };
    slice why;
    bool is_new;
    ok(takes(tls, &old) && !takes(tls, &new) && !http_tls_changed(tls));
    SSL *open = tls_new_ssl(tls);
    ok(open && !tls_is_outdated(tls, open));
    write_files(&all.other_root, all.ca, NULL);
    ok(http_tls_changed(tls) && http_tls_reload(tls, &keep, &is_new, &why) == OK && is_new);
    ok(!takes(tls, &old) && takes(tls, &new) && !http_tls_changed(tls));
    ok(tls_is_outdated(tls, open));
    SSL_free(open);
    open = tls_new_ssl(tls);
    FILE *file = fopen(all.ca, "w");
    ok(file && fputs("no certificate\n", file) > 0 && fclose(file) == 0);
    ok(http_tls_reload(tls, &keep, &is_new, &why) == ERR_BAD_ARGUMENT && !is_new);
    ok(slice_has(why, ':') && slice_find(why, S("peer_tls_ca_file")) < why.len);
    ok(takes(tls, &new) && !tls_is_outdated(tls, open));    /* the old files stay in use */
    SSL_free(open);
    write_files(&all.root, all.ca, NULL);
    party_free(&old);
    party_free(&new);
    arena_free(&keep);
    http_tls_free(&tls);
}

TEST(without_a_ca_file_no_certificate_is_asked_for)
{
    struct http_tls_files files = { .settings = "tls", .cert = all.cert, .key = all.key };
    struct arena keep = { 0 };
    struct http_tls *tls;
    slice why;
    ok(http_tls_open(&files, &keep, &tls, &why) == OK && takes(tls, NULL));
    http_tls_free(&tls);
    files.cert = "/nonexistent";
    ok(http_tls_open(&files, &keep, &tls, &why) != OK && !tls && slice_starts(why, S("tls_cert_file")));
    arena_free(&keep);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_certificate_of_the_ca_with_the_name_gets_in),
        cmocka_unit_test(a_certificate_that_was_issued_by_a_client_does_not_get_in),
        cmocka_unit_test(a_new_ca_file_counts_for_new_connections),
        cmocka_unit_test(without_a_ca_file_no_certificate_is_asked_for),
    };
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
