/* config_keys.c - the rules about rows of "keys". SPDX-License-Identifier: Apache-2.0
 *
 * A row is an entry of "keys". It describes one client, which has a key pair or is anonymous. A row
 * gives the client either an origin identity of its own or a policy. A row with both is a mistake,
 * because the identity and the policy could allow different reads. */
#include "base/config_inside.h"

#include <string.h>

static const struct {
    const char *word;
    unsigned right;
} rights[] = {
    { "read", RIGHT_READ }, { "list", RIGHT_LIST }, { "write", RIGHT_WRITE },
    { "admin", RIGHT_ADMIN }, { "cache", RIGHT_CACHE }, { "all", RIGHT_ALL },
};

unsigned config_policy_right(slice word)
{
    for (size_t i = 0; i < countof(rights); i++)
        if (slice_eq(word, slice_of(rights[i].word)))
            return rights[i].right;
    return 0;
}

const char *config_policy_on_breaks(slice on, struct arena *keep)
{
    slice rest = on;
    const char *rule = config_bucket_name_breaks(slice_cut(&rest, '/'));
    if (slice_has(on, '*') || slice_has(on, '?'))    /* rare in S3 keys: probably wildcards */
        return arena_printf(keep, "has \"%.*s\" in \"on\", which takes no wildcards: write "
                            "BUCKET, or BUCKET/PREFIX for all keys that begin with PREFIX. For all "
                            "buckets, leave \"on\" out", SLICE_ARG(on)).ptr;
    if (rule)
        return arena_printf(keep, "has \"%.*s\" in \"on\", which is neither BUCKET nor "
                            "BUCKET/PREFIX: %s", SLICE_ARG(on), rule).ptr;
    return NULL;
}

void config_policy_add(struct config *config, struct config_key *key, unsigned allowed, slice on)
{
    struct config_policy row = { .rights = allowed, .prefix = arena_copy(&config->arena, on) };
    row.bucket = slice_cut(&row.prefix, '/');
    key->rows = arena_grow(&config->arena, key->rows, key->row_count, sizeof(*key->rows));
    key->rows[key->row_count++] = row;
}

bool config_shares_identity(const struct config *config, const struct config_key **ret_key)
{
    *ret_key = NULL;
    for (size_t i = 0; i < config->key_count && !*ret_key; i++)
        if (config->keys[i].row_count)
            *ret_key = &config->keys[i];
    return *ret_key || !config->key_count || config->lend;
}

/* ---- rules ---- */

/* Adds at most one mistake for each value. */
static void wrong(struct config *config, const struct config_group *row, const char *member,
                  const char *why)
{
    if (!config_is_reported(config, row, member))
        config_wrong(config, row, member, "%s", why);
}

void config_pair_is_whole(struct config *config, const struct config_group *group,
                          const char *prefix)
{
    const char *access = arena_printf(&config->arena, "%saccess_key", prefix).ptr;
    const char *secret = arena_printf(&config->arena, "%ssecret_key", prefix).ptr;
    bool has_access = config_is_given(group, access);
    const char *given = has_access ? access : secret;
    if (has_access != config_is_given(group, secret) && !config_is_reported(config, group, given))
        config_wrong(config, group, given, "is set without %s: set both, or neither",
                     has_access ? secret : access);
}

static bool is_there_twice(const struct config *config, const struct config_key *key)
{
    for (const struct config_key *other = config->keys; other < key; other++)
        if (strcmp(key->access_key, other->access_key) == 0 &&
            strcmp(key->session_token, other->session_token) == 0 &&
            (key->access_key[0] || (key->anonymous && other->anonymous)))
            return true;
    return false;
}

static void pair_is_right(struct config *config, const struct config_group *row)
{
    const struct config_key *key = row->values;
    bool secret = config_is_given(row, "secret_key");
    bool previous = config_is_given(row, "secret_key_previous");
    if (key->anonymous && (key->access_key[0] || secret || previous || key->session_token[0]))
        wrong(config, row, "anonymous",
              "is for requests without a signature, so this row must not have access_key, "
              "secret_key, secret_key_previous or session_token: remove them, or remove "
              "\"anonymous\"");
    else if (!key->access_key[0] && !secret && !key->anonymous)
        wrong(config, row, "access_key", "is empty: set it, or set \"anonymous\": true for "
              "requests without a signature");
    else
        config_pair_is_whole(config, row, "");
    if (previous && !secret && !key->anonymous)
        wrong(config, row, "secret_key_previous",
              "is set without secret_key: set secret_key to the new secret");
    if (is_there_twice(config, key))
        wrong(config, row, key->anonymous ? "anonymous" : "access_key",
              key->anonymous ? "is in two rows, and only one may have it: remove one"
                             : "is in two rows (the setting access_key counts as a row), and both "
                               "rows have the same session_token or none: give one of the rows "
                               "another access_key");
}

/* Turns the policy "all" into a row like those of an array. */
static void policy_is_read(struct config *config, const struct config_group *row)
{
    struct config_key *key = row->values;
    if (strcmp(key->policy, "all") == 0)
        config_policy_add(config, key, RIGHT_ALL, S(""));
    else if (key->policy[0] && !key->rows_read)
        wrong(config, row, "policy",
              "must be \"all\" or an array: [{ \"allow\": [...], \"on\": [...] }]");
}

static bool no_origin_knows_identities(const struct config *config)
{
    for (size_t i = 0; i < config->origin_count; i++)
        if (!config->origins[i].kind || config->origins[i].kind->knows_identities)
            return false;
    return config->origin_count > 0;
}

static void identity_is_one(struct config *config, const struct config_group *row)
{
    bool is_policy = config_is_given(row, "policy");
    bool access = config_is_given(row, "origin_access_key");
    bool token = config_is_given(row, "origin_session_token");
    if (is_policy && (access || token || config_is_given(row, "origin_secret_key")))
        wrong(config, row, "policy", "is set together with credentials for the origin "
              "(origin_access_key, origin_secret_key or origin_session_token). For a client with a "
              "policy, Penstock uses its own credentials at the origin. So remove either the "
              "policy or these credentials");
    else if (!is_policy && no_origin_knows_identities(config))
        wrong(config, row, "policy", "is missing: all origins are folders, which can't judge what "
              "a client may do. So set a policy here: \"all\", or an array");
    config_pair_is_whole(config, row, "origin_");
    if (token && !access)
        wrong(config, row, "origin_session_token", "is set without origin_access_key: set "
              "origin_access_key, too, or remove origin_session_token");
}

void config_key_rules(struct config *config, const struct config_group *row)
{
    pair_is_right(config, row);
    policy_is_read(config, row);
    identity_is_one(config, row);
}
