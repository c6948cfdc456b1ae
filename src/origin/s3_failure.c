/* s3_failure.c - the log line of a call that failed, with advice.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The code runs on carriers, the threads that talk to origins. */
#include <string.h>

#include "base/log.h"
#include "origin/s3.h"

#define TRUST "; set origin_ca_file (in origins: ca_file) to a file with the CA certificates " \
              "that you trust"
#define KEPT "; check the disks of the cache folders, which keep large request bodies"
#define NO_TLS "; the origin's port does not speak TLS: check the port in the origin's URL (the " \
               "setting 'origin', or url in 'origins'), and whether this URL must begin with " \
               "http://"

const char *s3_failure_advice(const struct exchange_end *end)
{
    static const struct {
        enum err err;
        const char *words, *advice;
    } rows[] = {
        { ERR_ORIGIN_CERT, "self-signed", TRUST },
        { ERR_ORIGIN_CERT, "issuer", TRUST },
        { ERR_ORIGIN_CONNECT, "wrong version number", NO_TLS },
        { ERR_ORIGIN_CONNECT, "packet length too long", NO_TLS },
        { ERR_IO, "", KEPT },
    };
    for (size_t i = 0; i < countof(rows); i++)
        if (rows[i].err == end->err && strstr(end->why, rows[i].words))
            return rows[i].advice;
    return "";
}

void s3_failure_log(struct s3 *s3, enum s3_op op, unsigned tries, const struct exchange_end *end)
{
    struct arena keep = { 0 };
    uint64_t unlogged;
    if (!s3_may_log(s3, &s3->failures, &unlogged))
        return;
    slice why = log_sentence(&keep, slice_of(end->why));
    const char *more = s3_failure_advice(end);
    log_warn("origin_failed", "origin=%s op=%s err=%s tries=%u not_logged=%llu "
             "why=\"%s%s%.*s%s\"",
             s3->origin.name, s3_op_name(op), err_name(end->err), tries,
             (unsigned long long)unlogged, err_text(end->err), why.len ? ": " : "",
             SLICE_ARG(why), *more ? more : "; to test the origin, run penstock check");
    arena_free(&keep);
}
