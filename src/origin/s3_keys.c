/* s3_keys.c - refusals of Penstock's own credentials. SPDX-License-Identifier: Apache-2.0
 *
 * Penstock has verified the client's signature. So if an origin complains about a key or a
 * signature, the complaint is about Penstock's own. The log tells the operator so, in a line that
 * names what to check. AccessDenied is different: the keys are valid but lack a permission, so the
 * answer goes to the caller like any other. The refusal of a HEAD gives no reason, so the last
 * answer with a reason decides.
 *
 * If a request signed as a client (call->as) is refused, the refusal goes to that client, and says
 * nothing about Penstock's own credentials. But a wrong signature or clock is Penstock's fault in
 * such a request, too.
 * The code runs on carriers. */
#include "base/clock.h"
#include "base/log.h"
#include "origin/s3.h"
#include "s3/xml.h"

#define SOURCE " (if neither is set, check the source of the credentials: penstock stat names it)"
#define PROXY ", or a proxy between Penstock and the origin changes requests"
#define CLOCKS "the clocks of the origin and of this machine differ: set the clock that is wrong"

static const struct {
    const char *code, *why;
    bool renew;            /* the source of the credentials may have newer ones */
    const char *why_as;    /* for a request signed as a client; NULL: the client gets the answer */
} rows[] = {
    { "SignatureDoesNotMatch", "the secret key is wrong" PROXY ": check origin_secret_key, or "
      "secret_key in 'origins'" SOURCE, true,
      "the secret key is wrong" PROXY ": in the setting 'keys', check the entry that has this "
      "access key as access_key or origin_access_key" },
    { "InvalidAccessKeyId", "the origin does not know the access key: check origin_access_key, or "
      "access_key in 'origins'" SOURCE, true, NULL },
    { "ExpiredToken", "the session token has expired, and the source of the credentials gives no "
      "newer one: renew the token at that source (penstock stat names the source)", true, NULL },
    { "InvalidToken", "the session token is wrong: check origin_session_token, or session_token in "
      "'origins'" SOURCE, true, NULL },
    { "RequestTimeTooSkewed", CLOCKS, false, CLOCKS },
};

bool s3_keys_in_doubt(int status)
{
    return status == 400 || status == 401 || status == 403;
}

void s3_keys_taken(struct s3 *s3)
{
    if (!atomic_load_explicit(&s3->keys_taken, memory_order_relaxed))
        atomic_store(&s3->keys_taken, true);
    if (atomic_load_explicit(&s3->keys_refused, memory_order_relaxed))
        atomic_store(&s3->keys_refused, false);
}

bool s3_may_log(struct s3 *s3, struct seldom *which, uint64_t *ret_unlogged)
{
    uint64_t now_ms = mono_ms();
    pthread_mutex_lock(&s3->lock);
    bool may = now_ms >= which->logged_ms + 1000 || which->logged_ms == 0;
    *ret_unlogged = which->unlogged;
    which->unlogged = may ? 0 : which->unlogged + 1;
    which->logged_ms = may ? now_ms : which->logged_ms;
    pthread_mutex_unlock(&s3->lock);
    return may;
}

static void warn(struct s3 *s3, enum s3_op op, int status, const char *code, const char *why)
{
    uint64_t unlogged;
    if (s3_may_log(s3, &s3->refusals, &unlogged))
        log_warn("origin_refused", "origin=%s op=%s status=%d code=%s not_logged=%llu why=\"the "
                 "origin refuses Penstock's own credentials: %s\"",
                 s3->origin.name, s3_op_name(op), status, code, (unsigned long long)unlogged, why);
}

static bool of_head(struct s3 *s3, enum s3_op op, int status)
{
    if (atomic_load(&s3->keys_refused)) {
        warn(s3, op, status, "-", "a HEAD response gives no reason. The reason is in the latest "
             "log line origin_refused with a code other than '-'");
        return true;
    }
    /* Logged only once, because the cause may be no more than a missing permission. */
    if (!atomic_exchange(&s3->keys_taken, true))
        log_warn("origin_refused", "origin=%s op=%s status=%d code=- not_logged=0 why=\"the origin "
                 "refused the first request that was signed with Penstock's own credentials. A "
                 "HEAD response gives no reason. If all other requests fail, too, check the source "
                 "of these credentials, which penstock stat names\"",
                 s3->origin.name, s3_op_name(op), status);
    return false;
}

/* Returns the index of the row that the document names, or countof(rows) if it names none. */
static size_t row_of(slice document)
{
    struct arena keep = { 0 };
    slice code = S(""), message;
    size_t row = 0;
    if (xml_read_error(&keep, document, &code, &message) != OK)
        code = S("");
    while (row < countof(rows) && !slice_eq(code, slice_of(rows[row].code)))
        row++;
    arena_free(&keep);
    return row;
}

bool s3_keys_refused(struct s3 *s3, enum s3_op op, int status, slice document)
{
    if (!document.len)
        return of_head(s3, op, status);
    size_t row = row_of(document);
    if (row == countof(rows)) {
        s3_keys_taken(s3);
        return false;
    }
    atomic_store(&s3->keys_refused, true);
    warn(s3, op, status, rows[row].code, rows[row].why);
    return true;
}

bool s3_keys_may_be_old(int status, slice document)
{
    if (!document.len)
        return status == 400;    /* a HEAD gets 400 for an expired token, 403 for a missing
                                  * permission */
    size_t row = row_of(document);
    return row < countof(rows) && rows[row].renew;
}

bool s3_signing_refused(struct s3 *s3, const struct origin_call *asked, int status, slice document)
{
    struct arena keep = { 0 };
    uint64_t unlogged;
    bool is_signed = asked->as->access_key.len > 0;
    size_t row = is_signed && document.len ? row_of(document) : countof(rows);
    if (row == countof(rows) || !rows[row].why_as)
        return false;
    slice key = log_word(&keep, asked->as->access_key);
    if (s3_may_log(s3, &s3->refusals, &unlogged))
        log_warn("origin_refused", "origin=%s op=%s status=%d code=%s access_key=%.*s "
                 "not_logged=%llu why=\"the origin refuses requests that Penstock signs for a "
                 "client: %s\"",
                 s3->origin.name, s3_op_name(asked->op), status, rows[row].code, SLICE_ARG(key),
                 (unsigned long long)unlogged, rows[row].why_as);
    arena_free(&keep);
    return true;
}
