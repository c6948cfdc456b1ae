/* s3.c - opens and frees an origin that speaks S3. SPDX-License-Identifier: Apache-2.0
 *
 * s3_call.c runs its calls. Threads: any thread may start a call; an origin is opened and freed
 * while no call is in progress. */
#include "origin/s3.h"

#include <pthread.h>
#include <stdlib.h>

static void s3_free(struct origin *origin)
{
    struct s3 *s3 = container_of(origin, struct s3, origin);
    provider_free(&s3->provider);
    regions_end(&s3->regions);
    limiter_end(&s3->limiter);
    pthread_mutex_destroy(&s3->lock);
    sigv4_free(&s3->sigv4);
    arena_free(&s3->keep);
    free(s3);
}

static void s3_health(struct origin *origin, struct arena *keep, struct origin_keys *ret)
{
    provider_health(container_of(origin, struct s3, origin)->provider, keep, ret);
}

static uint64_t s3_owner_changed_ms(const struct origin *origin)
{
    return provider_owner_changed_ms(container_of(origin, const struct s3, origin)->provider);
}

static slice s3_owner(const struct origin *origin)
{
    return provider_owner(container_of(origin, const struct s3, origin)->provider);
}

static const char *env(const char *name)
{
    return getenv(name);
}

/* Says where the region comes from: the setting, a variable, or the profile. Looks in the order of
 * find_region (credentials.c). */
static const char *region_place(const struct origin_options *options)
{
    static const char *const variables[] = { "AWS_REGION", "AWS_DEFAULT_REGION" };
    if (slice_of(options->region).len)
        return "the setting origin_region (in origins: region)";
    for (size_t i = 0; i < countof(variables); i++)
        if (slice_of(env(variables[i])).len)
            return variables[i];
    return "the profile";
}

static enum err s3_open(void *shared, const struct origin_options *options, struct arena *keep,
                        struct origin **ret, slice *ret_why)
{
    struct s3 *s3 = must_alloc(sizeof(*s3));
    slice region = S("");
    struct credentials_ask ask = {
        .secret_key_file = slice_of(options->secret_key_file),
        .session_token_file = slice_of(options->session_token_file), .may_lend = true,
        .access_key = slice_of(options->access_key), .secret_key = slice_of(options->secret_key),
        .session_token = slice_of(options->session_token), .region = slice_of(options->region),
        .profile = slice_of(options->profile), .env = env, .optional = options->keys_optional,
    };
    slice url = arena_copy(&s3->keep, slice_of(options->url));
    enum err e = endpoint_read(&s3->keep, url, slice_of(options->style), &s3->endpoint, ret_why);
    if (!e)
        e = provider_new(&ask, options->name, &s3->keep, &s3->provider, &region, ret_why);
    if (!e && region.len && !region_valid(region)) {
        *ret_why = arena_printf(&s3->keep, "the region of this origin, '%.*s', must have only "
                                "lower-case letters, digits and '-', and at most %d bytes: correct "
                                "it. It comes from %s", SLICE_ARG(region), REGION_BYTES_MAX - 1,
                                region_place(options));
        e = ERR_BAD_ARGUMENT;
    }
    if (e) {
        *ret_why = arena_copy(keep, *ret_why);
        provider_free(&s3->provider);
        arena_free(&s3->keep);
        free(s3);
        return e;
    }
    s3->region = region.len ? region : S("us-east-1");
    s3->ca_file = arena_copy(&s3->keep, slice_of(options->ca_file)).ptr;
    s3->timeouts = (struct s3_timeouts){
        .connect_ms = options->connect_ms, .progress_ms = options->progress_ms,
        .answer_ms = options->answer_ms,
        .wait_ms = options->wait_ms, .total_ms = options->total_ms,
    };
    s3->tries_max = MAX(options->tries_max, 1u);
    s3->hedges[0].off = s3->hedges[1].off = !options->hedges;
    s3->carriers = shared;
    limiter_init(&s3->limiter, options->connections_max);
    pthread_mutex_init(&s3->lock, NULL);
    s3->sigv4 = sigv4_new();
    retry_budget_init(&s3->budget);
    regions_init(&s3->regions);
    slice endpoint = endpoint_url(&s3->keep, &s3->endpoint);
    s3->origin.endpoint = must_strndup(endpoint.ptr, endpoint.len);
    *ret = &s3->origin;
    return OK;
}

/* ---- the kind ---- */

const struct origin_kind s3_kind = {
    .url = {
        .schemes = { { "http://", "http://HOST[:PORT]", 80 },
                     { "https://", "https://HOST[:PORT]", 443 } },
        .judge = url_judge_host, .knows_identities = true, .probe = PROBE_CALL,
    },
    .shared_new = carriers_new, .shared_free = carriers_free, .open = s3_open,
    .start = s3_call_start, .resume = s3_call_resume, .cancel = s3_call_cancel,
    .ask_again = s3_call_ask_again,
    .health = s3_health, .owner_changed_ms = s3_owner_changed_ms, .owner = s3_owner,
    .free = s3_free,
};
