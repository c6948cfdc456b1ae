/* provider.c - keeps the credentials of an origin valid. SPDX-License-Identifier: Apache-2.0
 *
 * A look is one search of the source. Credentials are used until they expire, even if later looks
 * fail. After the expiry, calls fail with ERR_NO_KEYS, which makes clients retry, until a look
 * succeeds. Only credentials of an instance are used after their expiry; if the origin then refuses
 * them, calls fail with ERR_NO_KEYS, too.
 *
 * One look runs at a time. The next look comes LEAD_S before the expiry, and up to JITTER_S
 * earlier, so that the hosts of a fleet do not all ask at once. If the credentials are valid only
 * for a short time, the look comes at half of that time. After each failure the pause grows. Looks
 * are scheduled in wall time. The wall clock is read every few seconds, so a changed clock or a
 * machine that slept is noticed. Threads: the first look runs in provider_new, all later looks run
 * on the provider's thread. A lock guards the results of looks, and is never held during a look. */
#include "origin/provider.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/periodic.h"
#include "s3/encode.h"

#define LEAD_S 300
#define JITTER_S 60
#define FILES_EVERY_S 10            /* pause between two reads of credentials in files */
#define CLOCK_EVERY_MS 2000u        /* pause between two reads of the wall clock */
#define PAUSE_S_MAX 30              /* longest pause between two looks that fail */
#define FAILED_MS 1000u    /* for this long after a failure, provider_renew starts no look */
#define SAME_MS 1000u               /* the same, after a look that found the same credentials */
#define GUESS_MS 30000u             /* in place of SAME_MS, if the caller only guesses */

/* The last failed look. The thread that looks writes it, under the provider's lock. */
struct failure {
    unsigned in_a_row;              /* failed looks since the last one that found credentials */
    uint64_t ms;                    /* when it failed; 0: none did since the last good look */
    int64_t s;                      /* the same in wall time; never set back */
    char why[600];
};

struct provider {
    struct arena keep;
    struct credentials_ask ask;
    const char *origin;
    unsigned jitter_s;
    atomic_uint version, looks;
    _Atomic uint64_t owner_changed_ms;
    _Atomic(const slice *) owner;   /* in `keep`, as all earlier ones; NULL: no credentials yet */
    struct periodic look;           /* its lock guards the members below */
    struct arena held;              /* holds the texts of `now` */
    struct credentials now;
    int64_t look_s;                 /* time of the next look; INT64_MAX: only on request */
    struct failure failure;
    uint64_t same_ms;               /* when the last look found nothing new; 0: it found new keys */
    bool wanted;                    /* a call was refused and asks for a look */
    int64_t renewed_s;
    slice from;                     /* in `keep`: the source, even if it never gave credentials */
};

/* ---- the results of looks ---- */

static void log_found(const struct provider *provider, const struct credentials *found)
{
    struct arena keep = { 0 };
    slice from = log_sentence(&keep, found->from), key = log_word(&keep, found->access_key);
    slice expires = iso_date_or_never(&keep, found->expires_s);
    log_info("credentials", "origin=%s access_key=%.*s expires=%.*s from=\"%.*s\"",
             provider->origin, SLICE_ARG(key), SLICE_ARG(expires), SLICE_ARG(from));
    arena_free(&keep);
}

static bool is_past(const struct credentials *credentials, int64_t now_s)
{
    return credentials->expires_s && credentials->expires_s <= now_s;
}

static void log_failed(const struct provider *provider, slice why, int64_t expires_s, bool good)
{
    struct arena keep = { 0 };
    slice text = log_sentence(&keep, why), expires = iso_date_or_never(&keep, expires_s);
    log_warn("credentials_failed", "origin=%s expires=%.*s why=\"%.*s; %s\"", provider->origin,
             SLICE_ARG(expires), SLICE_ARG(text),
             good ? "Penstock keeps using the last credentials that it got, and asks the source "
                    "again"
                  : "Penstock has no valid credentials for this origin now, so clients without an "
                    "origin identity of their own get only cached objects: check the source of the "
                    "credentials. Penstock asks this source again and again");
    arena_free(&keep);
}

static bool same(const struct credentials *a, const struct credentials *b)
{
    return slice_eq(a->access_key, b->access_key) && slice_eq(a->secret_key, b->secret_key) &&
           slice_eq(a->session_token, b->session_token) && a->expires_s == b->expires_s;
}

static int64_t next_look(const struct provider *provider, const struct credentials *found,
                         int64_t now_s)
{
    if (found->kind == CREDENTIALS_IN_FILES)
        return now_s + FILES_EVERY_S;
    if (!found->expires_s)
        return INT64_MAX;
    int64_t life_s = found->expires_s - now_s, lead_s = LEAD_S + (int64_t)provider->jitter_s;
    if (life_s <= 0)
        return now_s + lead_s;
    return found->expires_s - MIN(lead_s, life_s / 2);
}

/* Returns the name of the owner of credentials. For temporary credentials, the owner is their
 * source, because the source gives other keys at each renewal. Keys in settings or files may belong
 * to anyone after the next change, with or without a session token. So for these, the owner is the
 * access key. */
static slice owner_of(const struct credentials *found)
{
    bool renewed = found->kind == CREDENTIALS_LENT && found->session_token.len;
    return renewed ? found->from : found->access_key;
}

/* Before a call uses the credentials; under the lock. */
static void note_owner(struct provider *provider, const struct credentials *found)
{
    const slice *before = atomic_load(&provider->owner);
    if (before && slice_eq(*before, owner_of(found)))
        return;
    if (provider->look.running)
        atomic_store(&provider->owner_changed_ms, ageing_ms());
    slice *owner = arena_alloc(&provider->keep, sizeof(*owner));
    *owner = arena_copy(&provider->keep, owner_of(found));
    atomic_store(&provider->owner, owner);
}

static void note_found(struct provider *provider, const struct credentials *found, int64_t now_s)
{
    check(found->access_key.len && found->secret_key.len);
    pthread_mutex_lock(&provider->look.lock);
    bool news = !atomic_load(&provider->version) || !same(found, &provider->now);
    if (news) {
        struct arena held = { 0 };
        note_owner(provider, found);
        provider->now = *found;
        provider->now.access_key = arena_copy(&held, found->access_key);
        provider->now.secret_key = arena_copy(&held, found->secret_key);
        provider->now.session_token = arena_copy(&held, found->session_token);
        provider->now.from = arena_copy(&held, found->from);
        provider->now.region = S("");    /* the provider does not use it */
        arena_free(&provider->held);
        provider->held = held;
        provider->renewed_s = now_s;
        atomic_fetch_add(&provider->version, 1);
    }
    provider->failure.in_a_row = 0;
    provider->failure.ms = 0;
    provider->same_ms = news ? 0 : mono_ms();
    provider->look_s = next_look(provider, found, now_s);
    pthread_mutex_unlock(&provider->look.lock);
    if (news)
        log_found(provider, found);
}

static bool is_good(const struct provider *provider, int64_t now_s)  /* the caller holds the lock */
{
    return atomic_load(&provider->version) &&
           (provider->now.outlasts || !is_past(&provider->now, now_s));
}

static void note_failure(struct provider *provider, slice why, int64_t now_s)
{
    pthread_mutex_lock(&provider->look.lock);
    struct failure *failure = &provider->failure;
    unsigned pause_s = 1u << MIN(failure->in_a_row, 5u);
    failure->in_a_row++;
    provider->look_s = now_s + MIN(pause_s, PAUSE_S_MAX);
    failure->ms = mono_ms();
    failure->s = now_s;
    snprintf(failure->why, sizeof(failure->why), "%.*s", SLICE_ARG(why));
    int64_t expires_s = provider->now.expires_s;
    bool good = is_good(provider, now_s);
    pthread_mutex_unlock(&provider->look.lock);
    metric_add(M_ORIGIN_KEYS_FAILED, 1);
    log_failed(provider, why, expires_s, good);
}

static void look(struct provider *provider)
{
    struct arena keep = { 0 };
    struct credentials found;
    struct credentials_ask ask = provider->ask;
    slice why = S("");
    ask.now_s = wall_s();
    enum err e = credentials_find(&keep, &ask, &found, &why);
    metric_add(M_ORIGIN_KEYS_LOOKS, 1);
    if (!e)
        note_found(provider, &found, ask.now_s);
    else if (!atomic_load(&provider->look.stop))
        note_failure(provider, why, ask.now_s);
    if (!e && is_past(&found, ask.now_s)) {
        why = arena_printf(&keep, "%.*s gave credentials whose expiry has passed: check the "
                           "metadata service of this instance, and this machine's clock",
                           SLICE_ARG(found.from));
        log_failed(provider, why, found.expires_s, found.outlasts);
    }
    arena_free(&keep);
}

/* ---- the thread ---- */

static void sleep_a_while(struct provider *provider)
{
    uint64_t pause_ms = provider->look_s - wall_s() == 1 ? 1000u : CLOCK_EVERY_MS;
    periodic_wait(&provider->look, mono_ns() + pause_ms * 1000000u);
}

static void *run(void *arg)
{
    struct provider *provider = arg;
    pthread_mutex_lock(&provider->look.lock);
    while (!atomic_load(&provider->look.stop)) {
        if (!provider->wanted && wall_s() < provider->look_s) {
            sleep_a_while(provider);
            continue;
        }
        pthread_mutex_unlock(&provider->look.lock);
        look(provider);
        pthread_mutex_lock(&provider->look.lock);
        provider->wanted = false;
        atomic_fetch_add(&provider->looks, 1);
    }
    pthread_mutex_unlock(&provider->look.lock);
    return NULL;
}

/* ---- for signers ---- */

enum err provider_take(struct provider *provider, struct arena *keep, struct sigv4_credentials *ret,
                       unsigned *ret_version)
{
    pthread_mutex_lock(&provider->look.lock);
    const struct credentials *now = &provider->now;
    *ret_version = atomic_load(&provider->version);
    bool good = is_good(provider, wall_s());
    if (good)
        *ret = (struct sigv4_credentials){ arena_copy(keep, now->access_key),
                                           arena_copy(keep, now->secret_key),
                                           arena_copy(keep, now->session_token) };
    pthread_mutex_unlock(&provider->look.lock);
    return good ? OK : ERR_NO_KEYS;
}

bool provider_is_past(struct provider *provider, unsigned version)
{
    pthread_mutex_lock(&provider->look.lock);
    bool past = version == atomic_load(&provider->version) && is_past(&provider->now, wall_s());
    pthread_mutex_unlock(&provider->look.lock);
    return past;
}

unsigned provider_version(const struct provider *provider)
{
    return atomic_load(&provider->version);
}

uint64_t provider_owner_changed_ms(const struct provider *provider)
{
    return atomic_load(&provider->owner_changed_ms);
}

slice provider_owner(const struct provider *provider)
{
    const slice *owner = atomic_load(&provider->owner);
    return owner ? *owner : S("");
}

unsigned provider_looks(const struct provider *provider)
{
    return atomic_load(&provider->looks);
}

bool provider_renew(struct provider *provider, unsigned version, bool guess)
{
    uint64_t now_ms = mono_ms();
    pthread_mutex_lock(&provider->look.lock);
    bool news = version != atomic_load(&provider->version);
    bool failed = provider->failure.ms && now_ms < provider->failure.ms + FAILED_MS;
    bool same = provider->same_ms && now_ms < provider->same_ms + (guess ? GUESS_MS : SAME_MS);
    bool may = provider->look.running && !failed && !same;
    if (!news && may && !provider->wanted) {
        provider->wanted = true;
        periodic_wake(&provider->look);
    }
    pthread_mutex_unlock(&provider->look.lock);
    return news || may;
}

void provider_health(struct provider *provider, struct arena *keep, struct origin_keys *ret)
{
    pthread_mutex_lock(&provider->look.lock);
    slice from = provider->now.from.len ? provider->now.from : provider->from;
    *ret = (struct origin_keys){
        .access_key = arena_copy(keep, provider->now.access_key),
        .from = arena_copy(keep, from),
        .expires_s = provider->now.expires_s,
        .renewed_s = provider->renewed_s, .failed_s = provider->failure.s,
        .why = arena_copy(keep, slice_of(provider->failure.why)),
    };
    pthread_mutex_unlock(&provider->look.lock);
}

/* ---- making a provider ---- */

static void keep_ask(struct provider *provider, const struct credentials_ask *ask)
{
    struct arena *keep = &provider->keep;
    provider->ask = *ask;
    provider->ask.stop = &provider->look.stop;
    slice *const texts[] = {
        &provider->ask.access_key, &provider->ask.secret_key, &provider->ask.session_token,
        &provider->ask.region, &provider->ask.profile, &provider->ask.secret_key_file,
        &provider->ask.session_token_file,
    };
    for (size_t i = 0; i < countof(texts); i++)
        *texts[i] = arena_copy(keep, *texts[i]);
}

/* Returns true if the lack of credentials is accepted: the caller allows it, and the settings name
 * no profile. */
static bool is_nothing(const struct credentials_ask *ask, enum err e)
{
    return e == ERR_NOT_FOUND && ask->optional && !ask->profile.len;
}

/* A mistake remains until somebody changes the configuration; any other failure may end by
 * itself. */
static bool is_mistake(enum err e)
{
    return e == ERR_NOT_FOUND || e == ERR_BAD_ARGUMENT;
}

static void begin(struct provider *provider)
{
    periodic_init(&provider->look);
    uint32_t chance = 0;
    if (getrandom(&chance, sizeof(chance), GRND_NONBLOCK) != sizeof(chance))
        chance = (uint32_t)mono_ns();
    provider->jitter_s = chance % (JITTER_S + 1);
}

enum err provider_new(const struct credentials_ask *ask, const char *origin, struct arena *keep,
                      struct provider **ret, slice *ret_region, slice *ret_why)
{
    struct provider *provider = must_alloc(sizeof(*provider));
    struct credentials found;
    begin(provider);
    keep_ask(provider, ask);
    provider->ask.now_s = wall_s();
    provider->origin = arena_copy(&provider->keep, slice_of(origin)).ptr;
    enum err e = credentials_find(keep, &provider->ask, &found, ret_why);
    bool nothing = is_nothing(ask, e);
    if (is_mistake(e) && !nothing) {
        provider_free(&provider);
        return e;
    }
    *ret_region = found.region;
    *ret = provider;
    if (nothing) {
        log_info("credentials", "origin=%s access_key=- why=\"Penstock has no credentials of its "
                 "own for this origin, and needs none: every client has its own origin "
                 "identity\"", origin);
        return OK;
    }
    provider->ask.source = found.source;
    provider->from = arena_copy(&provider->keep, found.from);
    if (e)
        note_failure(provider, *ret_why, provider->ask.now_s);
    else
        note_found(provider, &found, provider->ask.now_s);
    if (e || found.kind != CREDENTIALS_FIXED) {
        bool started = periodic_start(&provider->look, run, provider, "credentials");
        check(started);
    }
    return OK;
}

void provider_free(struct provider **provider)
{
    struct provider *mine = *provider;
    *provider = NULL;
    if (!mine)
        return;
    periodic_end(&mine->look);
    arena_free(&mine->held);
    arena_free(&mine->keep);
    free(mine);
}
