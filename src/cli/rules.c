/* rules.c - makes origins, the rules of each bucket, and clients from the settings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The rows of the settings become structs of the front (src/front) once, at the start. The keys of
 * clients are read again at each SIGHUP: all of them are replaced, or none. Threads: the main
 * thread. */
#include <string.h>

#include "base/log.h"
#include "cli/credentials.h"
#include "cli/serve.h"
#include "front/client.h"

/* ---- origins and rules ---- */

struct origin_options rules_origin_options(const struct config *config,
                                           const struct config_origin *from)
{
    return (struct origin_options){
        .name = from->name, .url = from->url, .region = from->region, .style = from->style,
        .ca_file = from->ca_file,
        .access_key = from->access_key, .secret_key = from->secret_key,
        .session_token = from->session_token, .profile = from->profile,
        .secret_key_file = from->where[setting_at(SCOPE_ORIGIN, S("secret_key"))].secret_file,
        .session_token_file =
            from->where[setting_at(SCOPE_ORIGIN, S("session_token"))].secret_file,
        .keys_optional = credentials_may_lack(config, from),
        .connections_max = (unsigned)from->connections,
        .connect_ms = (unsigned)config->origin_connect_time_ms,
        .progress_ms = (unsigned)from->progress_time_ms,
        .answer_ms = (unsigned)config->origin_answer_time_ms,
        .wait_ms = (unsigned)config->origin_wait_time_ms,
        .total_ms = (unsigned)config->origin_total_time_ms,
        .tries_max = (unsigned)config->origin_tries,
        .hedges = config->hedged_requests,
    };
}

static enum err origin_up(struct serve *serve, const struct config_origin *from,
                          struct origin **ret)
{
    struct origin_options options = rules_origin_options(serve->config, from);
    enum err err = origins_add(serve->routing.origins, &options, &serve->keep, ret, &serve->why);
    if (err)
        serve->why = arena_printf(&serve->keep, "origin %s can't be used: %.*s", from->name,
                                  SLICE_ARG(serve->why));
    else
        log_info("origin", "name=%s url=%s", from->name, from->url);
    return err;
}

enum err rules_origins_up(struct serve *serve)
{
    const struct config *config = serve->config;
    check(!serve->routing.origins && !config->mistakes);
    struct routing *routing = &serve->routing;
    routing->origins = origins_new(config->origin_threads ? (unsigned)config->origin_threads : 2);
    routing->origin_of = arena_alloc(&serve->keep,
                                     (config->origin_count + 1) * sizeof(*routing->origin_of));
    for (size_t i = 0; i < config->origin_count; i++) {
        enum err err = origin_up(serve, &config->origins[i], &routing->origin_of[i]);
        if (err) {
            origins_free(&routing->origins);
            return err;
        }
    }
    return OK;
}

static enum grant_scope scope_of(const char *word)
{
    return strcmp(word, "bucket") == 0   ? GRANT_BUCKET
           : strcmp(word, "prefix") == 0 ? GRANT_PREFIX : GRANT_OBJECT;
}

static enum freshness freshness_of(const char *word)
{
    return strcmp(word, "immutable") == 0 ? FRESH_IMMUTABLE
           : strcmp(word, "always") == 0  ? FRESH_ALWAYS : FRESH_TTL;
}

/* `row` has the settings of a bucket, or the global settings, whose members have the same names. */
#define RULES(serve, config_origin, row) ((struct rules){                                          \
    .origin = (serve)->routing.origin_of[(config_origin) - (serve)->config->origins],              \
    .freshness = freshness_of((row)->freshness),                                                   \
    .ttl_s = (int64_t)((row)->ttl_ms / 1000),                                                      \
    .grace_s = (int64_t)((row)->grace_ms / 1000),                                                  \
    .stale_if_error_s = (int64_t)((row)->stale_if_error_ms / 1000),                                \
    .by_listing = strcmp((row)->revalidate, "list") == 0,                                          \
    .cache_writes = (row)->cache_writes,                                                           \
    .grant_ms = (row)->grant_time_ms,                                                              \
    .permission_ms = (row)->permission_time_ms,                                                    \
    .grant_scope = scope_of((row)->grant_scope),                                                   \
})

enum err rules_up(struct serve *serve)
{
    const struct config *config = serve->config;
    struct routing *routing = &serve->routing;
    routing->rules = arena_alloc(&serve->keep,
                                 (config->bucket_count + 1) * sizeof(*routing->rules));
    for (size_t i = 0; i < config->bucket_count; i++) {
        const struct config_bucket *bucket = &config->buckets[i];
        struct bucket_rules *row = &routing->rules[routing->rules_count++];
        check(bucket->from);    /* a bucket without an origin is a mistake in the settings */
        row->bucket = bucket->bucket;
        row->prefix = bucket->prefix;
        row->rules = RULES(serve, bucket->from, bucket);
        row->rules.grant_prefix = bucket->prefix;
    }
    if (config->origin_default) {
        routing->service = RULES(serve, config->origin_default, config);
        routing->rules[routing->rules_count++].rules = routing->service;
    }
    return OK;
}

/* ---- limits ---- */

static enum store_admission admission_of(const char *word)
{
    return strcmp(word, "always") == 0  ? ADMISSION_ALWAYS
           : strcmp(word, "never") == 0 ? ADMISSION_NEVER : ADMISSION_HOT;
}

const struct store_limits *rules_limits(const struct config *config, struct arena *keep)
{
    struct store_limits *rows = arena_alloc(keep, (config->bucket_count + 1) * sizeof(*rows));
    for (size_t i = 0; i < config->bucket_count; i++) {
        const struct config_bucket *bucket = &config->buckets[i];
        rows[i] = (struct store_limits){
            .bucket = bucket->bucket, .prefix = bucket->prefix,
            .quota_bytes = bucket->quota_bytes, .object_bytes_max = bucket->max_object_bytes,
            .expire_ms = bucket->expire_ms, .admission = admission_of(bucket->admit),
        };
    }
    return rows;
}

/* ---- clients ---- */

static struct front_key client_of(const struct config_key *key)
{
    struct front_key client = {
        .access_key = slice_of(key->access_key), .secret_key = slice_of(key->secret_key),
        .session_token = slice_of(key->session_token),
        .policy = key->rows, .policy_count = key->row_count,
        .own = !key->row_count,    /* without a policy, the client has its own identity */
        .previous_secret_key = slice_of(key->secret_key_previous),
    };
    if (!client.own)
        return client;
    client.as = key->origin_access_key[0]
        ? (struct sigv4_credentials){ slice_of(key->origin_access_key),
                                      slice_of(key->origin_secret_key),
                                      slice_of(key->origin_session_token) }
        : (struct sigv4_credentials){ client.access_key, client.secret_key, client.session_token };
    return client;
}

/* serve may have started without own credentials at an origin, because no client needed them. A
 * reload then can't add a client that needs them. */
static enum err judge_shared(const struct serve *serve, const struct config *config,
                             struct arena *keep, slice *ret_why)
{
    const struct config_key *key;
    bool shares = config_shares_identity(config, &key);
    for (size_t i = 0; shares && i < serve->config->origin_count; i++) {
        struct origin_health health;
        origin_health(serve->routing.origin_of[i], keep, &health);
        if (!origin_knows_identities(serve->routing.origin_of[i]) || health.keys.from.len)
            continue;
        *ret_why = arena_printf(keep, "%s needs Penstock's own credentials, and Penstock was "
                                "started without credentials for origin %s: set origin_access_key "
                                "and origin_secret_key, and restart Penstock",
                                !key ? "the setting 'lend'"
                                     : key->name[0] ? key->name : "the setting 'access_key'",
                                serve->config->origins[i].name);
        return ERR_NO_KEYS;
    }
    return OK;
}

slice rules_keys_from(const struct config *config, struct arena *keep)
{
    size_t row = setting_at(SCOPE_KEY, S("access_key"));
    for (size_t i = 0; i < config->key_count; i++) {
        if (!config->keys[i].access_key[0])
            continue;
        slice place = config_where(&config->keys[i].where[row], keep);
        return arena_printf(keep, "a key of Penstock's own list (access_key and keys in the "
                            "settings: %.*s), not with a key of the origin", SLICE_ARG(place));
    }
    return S("the AWS credentials of Penstock's own environment, mounted files or profile, since "
             "neither access_key nor keys is set");
}

enum err rules_keys(struct serve *serve, const struct config *config, struct arena *keep,
                    slice *ret_why)
{
    check(serve->routing.clients && !config->mistakes);
    struct front_key *keys = arena_alloc(keep, (config->key_count + 1) * sizeof(*keys));
    size_t count = config->key_count;
    for (size_t i = 0; i < count; i++)
        keys[i] = client_of(&config->keys[i]);
    struct credentials found;
    enum err err = judge_shared(serve, config, keep, ret_why);
    if (err)
        return err;
    err = count ? OK : credentials_of_clients(config, keep, &found, ret_why);
    if (err && !config->lend)
        return err;
    if (!count && !err)
        keys[count++] = (struct front_key){ found.access_key, found.secret_key, found.session_token,
                                            .policy = &right_everything, .policy_count = 1 };
    clients_set(serve->routing.clients, keys, count);
    return OK;
}
