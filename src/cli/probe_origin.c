/* probe_origin.c - what each origin says to a ListBuckets as serve would send it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All are asked at once, by the code that serve asks with, one try each, within TIME_MS. Whether
 * the identity may list buckets does not matter: a refusal shows that the origin knows the keys.
 * What goes wrong is a warning: serve starts, and tries again.
 * Threads: calls end on an origin thread; what both touch is under the lock. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/check.h"
#include "cli/credentials.h"
#include "cli/serve.h"
#include "origin/origin.h"

#define TIME_MS 8000u
#define CONNECT_MS 4000u
#define BODY_BYTES 1024u

struct asked;
struct asking {
    pthread_mutex_t lock;
    pthread_cond_t change;
    size_t open;
};
struct asked {
    struct origin_call call;
    struct asking *all;
    struct origin *origin;               /* NULL: it could not be made, which was said */
    int status;
    enum err err;
    char body[BODY_BYTES];               /* as much of it as tells S3 from others */
    size_t body_len;
};

static void on_head(struct origin_call *call, const struct origin_reply *reply)
{
    container_of(call, struct asked, call)->status = reply->status;
}

static enum origin_take on_body(struct origin_call *call, slice bytes)
{
    struct asked *asked = container_of(call, struct asked, call);
    size_t len = MIN(bytes.len, sizeof(asked->body) - asked->body_len);
    memcpy(asked->body + asked->body_len, bytes.ptr, len);
    asked->body_len += len;
    return ORIGIN_TAKEN;
}

static void on_done(struct origin_call *call, enum err err)
{
    struct asked *asked = container_of(call, struct asked, call);
    pthread_mutex_lock(&asked->all->lock);
    asked->err = err;
    asked->all->open--;
    pthread_cond_signal(&asked->all->change);
    pthread_mutex_unlock(&asked->all->lock);
}

/* False: its credentials are the trouble, which was said. */
static bool start(struct check *check, struct origins *origins, const struct config_origin *from,
                  struct asked *asked)
{
    static const struct origin_events events = { on_head, on_body, on_done };
    static const struct sigv4_credentials nobody = { { "", 0 }, { "", 0 }, { "", 0 } };
    struct origin_options options = places_options(check->config, from);
    struct credentials found;
    slice why;
    options.connect_ms = MIN(options.connect_ms, CONNECT_MS);
    options.progress_ms = options.answer_ms = options.total_ms = TIME_MS;
    options.tries_max = 1;
    bool nameless = credentials_at_origin(from, NULL, check->keep, &found, &why) == ERR_NOT_FOUND;
    if (origins_add(origins, &options, check->keep, &asked->origin, &why)) {
        asked->origin = NULL;
        return false;
    }
    asked->call = (struct origin_call){
        .events = &events, .op = S3_LIST_BUCKETS, .no_retry = true,
        .as = nameless && options.keys_optional ? &nobody : NULL,
    };
    origin_start(asked->origin, &asked->call);
    return true;
}

/* Until all have ended; those that have not in time are canceled, which ends them. */
static void wait_for_all(struct asking *all, struct asked *asked, size_t count)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += TIME_MS / 1000 + 2;
    pthread_mutex_lock(&all->lock);
    int late = 0;
    while (all->open && !late)
        late = pthread_cond_timedwait(&all->change, &all->lock, &until);
    pthread_mutex_unlock(&all->lock);
    for (size_t i = 0; i < count && late; i++)
        if (asked[i].origin)
            origin_cancel(&asked[i].call);
    pthread_mutex_lock(&all->lock);
    while (all->open)
        pthread_cond_wait(&all->change, &all->lock);
    pthread_mutex_unlock(&all->lock);
}

/* Its list of buckets, or a refusal in an error document. Anything else, and a 400, comes from
 * another kind of server, or from one that was asked by http where it speaks https. Not judged where
 * the question is unsigned: AWS sends that to a page about S3. */
static bool speaks_s3(const struct asked *asked)
{
    slice body = { asked->body, asked->body_len };
    bool refusal = asked->status >= 300 && asked->status != 400;
    return asked->call.as || memmem(body.ptr, body.len, "<ListAllMyBucketsResult", 23) ||
           (refusal && memmem(body.ptr, body.len, "<Error", 6));
}

static slice advice(struct arena *keep, enum err err, const struct origin_keys *keys)
{
    if (err == ERR_ORIGIN_CONNECT)
        return S("Check the host, port and scheme of its URL (the setting origin, or url in "
                 "origins), and this machine's way there: names, network, firewall");
    if (err == ERR_ORIGIN_CERT)
        return S("Its URL must name the host as the certificate does, and the certificate must be "
                 "good on the date of this machine");
    if (err != ERR_ORIGIN_KEYS)
        return S("");
    return arena_printf(keep, "Check origin_access_key and origin_secret_key (it was asked as "
                        "%.*s, from: %.*s), and this machine's clock", SLICE_ARG(keys->access_key),
                        SLICE_ARG(keys->from));
}

static void tell(struct check *check, const struct config_origin *from, const struct asked *asked)
{
    struct arena *keep = check->keep;
    struct origin_health health;
    origin_health(asked->origin, keep, &health);
    if (!asked->err && asked->status < 500) {
        if (speaks_s3(asked))
            check_say(check, NOTED, arena_printf(keep, "origin %s: %s answers", from->name,
                                                 from->url));
        else
            check_say(check, WARNED, arena_printf(keep, "origin %s, %s: it answered %d, and not as "
                                                  "S3 does. Is this the URL of an S3 endpoint, and "
                                                  "the scheme (http, https) that it speaks there?",
                                                  from->name, from->url, asked->status));
        return;
    }
    slice why = health.why.len ? health.why : slice_of(err_text(asked->err));
    slice more = advice(keep, asked->err, &health.keys);
    check_say(check, WARNED, arena_printf(keep, "origin %s, %s: %.*s%s%.*s", from->name,
                                          from->url, SLICE_ARG(why), !more.len ? "" :
                                          slice_ends(why, S("?")) ? " " : ". ", SLICE_ARG(more)));
}

void probe_origins(struct check *check)
{
    const struct config *config = check->config;
    struct asking all = { .lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER };
    struct asked *asked = arena_alloc(check->keep, (config->origin_count + 1) * sizeof(*asked));
    struct origins *origins = origins_new(1);
    for (size_t i = 0; i < config->origin_count; i++) {
        asked[i].all = &all;
        pthread_mutex_lock(&all.lock);
        all.open++;
        pthread_mutex_unlock(&all.lock);
        if (config->origins[i].kind->probe != PROBE_CALL ||
            !start(check, origins, &config->origins[i], &asked[i])) {
            pthread_mutex_lock(&all.lock);
            all.open--;
            pthread_mutex_unlock(&all.lock);
        }
    }
    wait_for_all(&all, asked, config->origin_count);
    for (size_t i = 0; i < config->origin_count; i++)
        if (asked[i].origin)
            tell(check, &config->origins[i], &asked[i]);
    origins_free(&origins);
}
