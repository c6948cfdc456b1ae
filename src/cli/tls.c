/* tls.c - the certificates of tls_listen and peer_listen. SPDX-License-Identifier: Apache-2.0
 *
 * The files are read again on SIGHUP, and when they change. The log and `penstock check` warn before
 * a certificate expires. Threads: the main thread. */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "cli/serve.h"
#include "http/tls.h"

#define DAY_S (24 * 60 * 60)
#define SOON_S (21 * DAY_S)    /* programs that renew certificates do that earlier */

static const enum metric expires[CERTIFICATES] = {
    [CERTIFICATE_CLIENTS] = M_TLS_EXPIRES, [CERTIFICATE_PEERS] = M_TLS_PEER_EXPIRES,
};

/* ---- the settings ---- */

struct cli_certificate cli_certificate(const struct config *config, enum certificate_of which)
{
    struct cli_certificate all[CERTIFICATES] = {
        [CERTIFICATE_CLIENTS] = { "tls_listen", config->tls_listen, "tls_cert_file",
                                  config->tls_cert_file, config->tls_key_file },
        [CERTIFICATE_PEERS] = { "peer_listen", config->peer_listen, "peer_tls_cert_file",
                                config->peer_tls_cert_file, config->peer_tls_key_file },
    };
    check(which < CERTIFICATES);
    if (!all[which].key[0])
        all[which].key = all[which].cert;
    return all[which];
}

enum err cli_tls_open(const struct config *config, enum certificate_of which, struct arena *keep,
                      struct http_tls **ret, slice *ret_why)
{
    struct cli_certificate of = cli_certificate(config, which);
    bool peers = which == CERTIFICATE_PEERS;
    struct http_tls_files files = {
        .settings = peers ? "peer_tls" : "tls", .cert = of.cert, .key = of.key,
        .ca = peers ? config->peer_tls_ca_file : NULL,
        .client_name = peers ? config->peer_name : NULL,
    };
    *ret = NULL;
    return strcmp(of.listen, "off") == 0 ? OK : http_tls_open(&files, keep, ret, ret_why);
}

slice cli_tls_warning(const struct config *config, enum certificate_of which, struct http_tls *tls,
                      struct arena *keep)
{
    const char *setting = cli_certificate(config, which).cert_setting;
    const char *who = which == CERTIFICATE_PEERS ? "peers" : "clients";
    check(tls);
    int64_t left_s = http_tls_expires_s(tls) - wall_s();
    if (left_s > SOON_S)
        return S("");
    if (left_s <= 0)
        return arena_printf(keep, "a certificate in %s has expired, so %s may refuse the "
                            "connection: renew it. Penstock reads the new file by itself", setting,
                            who);
    int days = (int)(left_s / DAY_S);
    return arena_printf(keep, "a certificate in %s expires in %s%d day%s: renew it. Penstock reads "
                        "the new file by itself", setting, days ? "" : "less than ", MAX(days, 1),
                        days > 1 ? "s" : "");
}

slice cli_peer_fault(const struct config *config, struct http_tls *tls, struct arena *keep)
{
    slice why = http_tls_why_refused(tls, keep);
    return why.len ? arena_printf(keep, "other nodes with these settings would refuse the certificate "
                                  "in peer_tls_cert_file (%.*s): sign it with a CA of "
                                  "peer_tls_ca_file, for the DNS name %s, as penstock peers keygen "
                                  "does", SLICE_ARG(why), config->peer_name)
                   : S("");
}

/* ---- the service ---- */

static void report_fault(struct serve *serve, enum certificate_of which)
{
    struct arena keep = { 0 };
    slice why = cli_peer_fault(serve->config, serve->certificates[which].tls, &keep);
    if (why.len)
        log_warn("peer_certificate_unfit", "why=\"%.*s\"", SLICE_ARG(why));
    arena_free(&keep);
}

static void report_expiry(struct serve *serve, enum certificate_of which)
{
    struct arena keep = { 0 };
    struct certificate *certificate = &serve->certificates[which];
    slice warning = cli_tls_warning(serve->config, which, certificate->tls, &keep);
    slice file = slice_of(cli_certificate(serve->config, which).cert);
    metric_set(expires[which], http_tls_expires_s(certificate->tls));
    if (warning.len && !certificate->expiry_reported)
        log_warn("tls_expires", "file=%.*s why=\"%.*s\"", SLICE_ARG(log_word(&keep, file)),
                 SLICE_ARG(warning));
    certificate->expiry_reported = warning.len > 0;
    arena_free(&keep);
}

enum err certificates_up(struct serve *serve)
{
    enum err err = OK;
    for (unsigned i = 0; i < CERTIFICATES && !err; i++) {
        struct http_tls **tls = &serve->certificates[i].tls;
        err = cli_tls_open(serve->config, (enum certificate_of)i, &serve->keep, tls, &serve->why);
        if (!err && *tls) {
            report_expiry(serve, (enum certificate_of)i);
            report_fault(serve, (enum certificate_of)i);
        }
    }
    if (err)    /* a step that fails is not undone */
        certificates_down(serve);
    return err;
}

void certificates_down(struct serve *serve)
{
    for (size_t i = 0; i < CERTIFICATES; i++)
        http_tls_free(&serve->certificates[i].tls);
}

/* Certificate, key and CAs are used together. If they can't be used, the old ones stay in use. */
static void reload(struct serve *serve, enum certificate_of which)
{
    struct arena keep = { 0 };
    struct certificate *certificate = &serve->certificates[which];
    slice why, file = slice_of(cli_certificate(serve->config, which).cert);
    bool is_new;
    enum err err = http_tls_reload(certificate->tls, &keep, &is_new, &why);
    if (err)
        log_warn("tls_reload_refused", "why=\"%.*s; the old certificate stays in use\"",
                 SLICE_ARG(why));
    if (!err && is_new)
        report_fault(serve, which);
    if (!err && is_new)
        log_info("tls_reloaded", "file=%.*s", SLICE_ARG(log_word(&keep, file)));
    if (err || is_new)
        metric_add(err ? M_TLS_RELOAD_REFUSED : M_TLS_RELOADED, 1);
    certificate->expiry_reported = false;
    report_expiry(serve, which);
    arena_free(&keep);
}

void certificates_reload(struct serve *serve)
{
    for (unsigned i = 0; i < CERTIFICATES; i++)
        if (serve->certificates[i].tls)
            reload(serve, (enum certificate_of)i);
}

void certificates_watch(struct serve *serve)
{
    for (unsigned i = 0; i < CERTIFICATES; i++) {
        struct http_tls *tls = serve->certificates[i].tls;
        if (tls && http_tls_changed(tls))
            reload(serve, (enum certificate_of)i);
        else if (tls)
            report_expiry(serve, (enum certificate_of)i);
    }
}
