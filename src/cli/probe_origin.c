/* probe_origin.c - sends a ListBuckets to each origin on a network.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The calls use the code and the options of serve, but with one try each and shorter limits of
 * time. They run at the same time, and take at most TIME_MS. The identity need not have the right
 * to list buckets, because a refusal also shows that the origin knows its keys. A failure is only a
 * warning, because serve starts in spite of it and tries again. Threads: a call ends on an origin
 * thread. The main thread reads the results once `open` is 0. */
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "cli/check.h"
#include "cli/credentials.h"
#include "cli/serve.h"
#include "origin/origin.h"

#define TIME_MS 8000u
#define CONNECT_MS 4000u
#define BODY_BYTES 1024u
#define LOOK_MS 10

struct trial {
    struct origin_call call;
    atomic_size_t *open;                 /* number of calls that have not ended */
    struct origin *origin;               /* NULL: the origin was not called, or not opened */
    int status;
    enum err err;
    char body[BODY_BYTES];               /* the first bytes, enough to recognise S3 */
    size_t body_len;
};

static void on_head(struct origin_call *call, const struct origin_reply *reply)
{
    container_of(call, struct trial, call)->status = reply->status;
}

static enum origin_take on_body(struct origin_call *call, slice bytes)
{
    struct trial *trial = container_of(call, struct trial, call);
    size_t len = MIN(bytes.len, sizeof(trial->body) - trial->body_len);
    memcpy(trial->body + trial->body_len, bytes.ptr, len);
    trial->body_len += len;
    return ORIGIN_TAKEN;
}

static void on_done(struct origin_call *call, enum err err)
{
    struct trial *trial = container_of(call, struct trial, call);
    trial->err = err;
    size_t before = atomic_fetch_sub(trial->open, 1);
    check(before > 0);
}

/* Calls the origin. check.c has opened it once without credentials. */
static void start(struct check *check, struct origins *origins, const struct config_origin *from,
                  struct trial *trial)
{
    static const struct origin_events events = { on_head, on_body, on_done };
    static const struct sigv4_credentials nobody = { { "", 0 }, { "", 0 }, { "", 0 } };
    struct origin_options options = rules_origin_options(check->config, from);
    struct credentials found;
    slice why;
    options.connect_ms = MIN(options.connect_ms, CONNECT_MS);
    options.progress_ms = options.answer_ms = options.total_ms = TIME_MS;
    options.tries_max = 1;
    bool lacks = credentials_at_origin(from, false, check->keep, &found, &why) == ERR_NOT_FOUND;
    if (origins_add(origins, &options, check->keep, &trial->origin, &why)) {
        trial->origin = NULL;
        check_report(check, STOPPED, "serve would not start: origin %s can't be used: %.*s",
                     from->name, SLICE_ARG(why));
        return;
    }
    trial->call = (struct origin_call){
        .events = &events, .op = S3_LIST_BUCKETS, .no_retry = true,
        .as = lacks && options.keys_optional ? &nobody : NULL,
    };
    atomic_fetch_add(trial->open, 1);
    origin_start(trial->origin, &trial->call);
}

/* Returns when all calls have ended. Calls that have not ended in time are canceled. */
static void wait_for_all(const atomic_size_t *open, struct trial *trials, size_t count)
{
    uint64_t end_ms = mono_ms() + TIME_MS + 2000;
    while (atomic_load(open) && mono_ms() < end_ms)
        poll(NULL, 0, LOOK_MS);
    bool late = atomic_load(open) > 0;
    for (size_t i = 0; i < count && late; i++)
        if (trials[i].origin)
            origin_cancel(&trials[i].call);
    while (atomic_load(open))
        poll(NULL, 0, LOOK_MS);
}

/* True for a list of buckets, and for a refusal in an error document. A server that is not S3 sends
 * something else, and an https server answers 400 to http. The answer to an unsigned call is not
 * judged, because AWS redirects such a call to a page about S3. */
static bool speaks_s3(const struct trial *trial)
{
    slice body = { trial->body, trial->body_len };
    bool refusal = trial->status >= 300 && trial->status != 400;
    return trial->call.as || slice_find(body, S("<ListAllMyBucketsResult")) < body.len ||
           (refusal && slice_find(body, S("<Error")) < body.len);
}

/* Returns the parts of an origin's URL that may be wrong. They depend on the kind of the origin. */
static const char *parts_of_url(const struct url_kind *kind)
{
    return !kind->schemes[0].port ? "" : !kind->schemes[1].start ? "the host and port of "
                                       : "the host, port and scheme of ";
}

static slice advice(struct arena *keep, enum err err, const struct url_kind *kind,
                    const struct origin_keys *keys)
{
    if (err == ERR_ORIGIN_CONNECT)
        return arena_printf(keep, "Check %sthe URL (the setting \"origin\", or url in "
                            "\"origins\"), and how this machine reaches the origin: DNS, network, "
                            "firewall",
                            parts_of_url(kind));
    if (err == ERR_ORIGIN_CERT)
        return S("The certificate must come from a CA that Penstock trusts (origin_ca_file), must "
                 "name the host in the origin's URL, and must be valid now by this machine's "
                 "clock");
    if (err != ERR_ORIGIN_KEYS)
        return S("");
    return arena_printf(keep, "Check the credentials (origin_access_key and origin_secret_key, or "
                        "their source; the request was signed with %.*s, from: %.*s), and this "
                        "machine's clock",
                        SLICE_ARG(keys->access_key), SLICE_ARG(keys->from));
}

static void report_foreign(struct check *check, const struct config_origin *from, int status)
{
    const struct url_scheme *schemes = from->kind->schemes;
    slice scheme = schemes[1].start
        ? arena_printf(check->keep, ", and is its scheme right (%s or %s)",
                       schemes[0].form, schemes[1].form)
        : S("");
    check_report(check, WARNED, "origin %s, %s: the server answered %d, but not in the form of S3. "
                 "Is this the URL of an S3 endpoint%.*s?", from->name, from->url, status,
                 SLICE_ARG(scheme));
}

static void report(struct check *check, const struct config_origin *from, const struct trial *trial)
{
    struct origin_health health;
    origin_health(trial->origin, check->keep, &health);
    if (!trial->err && trial->status < 500) {
        if (speaks_s3(trial))
            check_report(check, NOTED, "origin %s: %s answers", from->name, from->url);
        else
            report_foreign(check, from, trial->status);
        return;
    }
    slice why = health.why.len ? health.why : slice_of(err_text(trial->err));
    slice more = advice(check->keep, trial->err, from->kind, &health.keys);
    check_report(check, WARNED, "origin %s, %s: %.*s%s%.*s", from->name, from->url, SLICE_ARG(why),
                 more.len ? ". " : "", SLICE_ARG(more));
}

void probe_origins(struct check *check)
{
    const struct config *config = check->config;
    atomic_size_t open = 0;
    struct trial *trials = arena_alloc(check->keep, (config->origin_count + 1) * sizeof(*trials));
    struct origins *origins = origins_new(1);
    check(!check->offline && !check->count[MISTAKEN]);
    for (size_t i = 0; i < config->origin_count; i++) {
        trials[i].open = &open;
        if (config->origins[i].kind->probe == PROBE_CALL)
            start(check, origins, &config->origins[i], &trials[i]);
    }
    wait_for_all(&open, trials, config->origin_count);
    for (size_t i = 0; i < config->origin_count; i++)
        if (trials[i].origin)
            report(check, &config->origins[i], &trials[i]);
    origins_free(&origins);
}
