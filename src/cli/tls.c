/* tls.c - the certificate of tls_listen, and the warning before it expires.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "http/tls.h"

#define DAY_S (24 * 60 * 60)
#define SOON_S (21 * DAY_S)    /* programs that renew certificates do that earlier */

enum err cli_tls_open(const struct config *config, struct arena *keep, struct http_tls **ret,
                      slice *ret_why)
{
    *ret = NULL;
    if (strcmp(config->tls_listen, "off") == 0)
        return OK;
    const char *key = config->tls_key_file[0] ? config->tls_key_file : config->tls_cert_file;
    return http_tls_open(&(struct http_tls_files){ .settings = "tls", .cert = config->tls_cert_file,
                                                   .key = key }, keep, ret, ret_why);
}

slice cli_tls_warning(struct http_tls *tls, struct arena *keep)
{
    check(tls);
    int64_t left_s = http_tls_expires_s(tls) - wall_s();
    if (left_s > SOON_S)
        return S("");
    if (left_s <= 0)
        return S("a certificate in tls_cert_file has expired, so clients may refuse the "
                 "connection: renew it. Penstock reads the new file by itself");
    int days = (int)(left_s / DAY_S);
    return arena_printf(keep, "a certificate in tls_cert_file expires in %s%d day%s: renew it. "
                        "Penstock reads the new file by itself", days ? "" : "less than ",
                        MAX(days, 1), days > 1 ? "s" : "");
}
