/* config_keys.c - what the rows of "keys" say together. SPDX-License-Identifier: Apache-2.0
 *
 * A row is a client: a pair, or nobody (anonymous), with a name of its own at the origin or with a
 * policy. Both at once is a mistake: which of them it meant would decide who reads what. */
#include "base/config_inside.h"

#include <string.h>

static const struct {
    const char *word;
    unsigned right;
} rights[] = {
    { "read", RIGHT_READ }, { "list", RIGHT_LIST }, { "write", RIGHT_WRITE },
    { "admin", RIGHT_ADMIN }, { "all", RIGHT_ALL },
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
    if (slice_has(on, '*') || slice_has(on, '?'))    /* S3 allows them in keys; nobody means that */
        return arena_printf(keep, "must be on BUCKET or BUCKET/PREFIX, and \"%.*s\" has a "
                            "wildcard: a prefix covers all that begins so: leave it out",
                            SLICE_ARG(on)).ptr;
    if (rule)
        return arena_printf(keep, "must be on BUCKET or BUCKET/PREFIX, not on \"%.*s\": %s",
                            SLICE_ARG(on), rule).ptr;
    return NULL;
}

void config_policy_add(struct config *config, struct config_key *key, unsigned allowed, slice on)
{
    struct config_policy row = { .rights = allowed, .prefix = arena_copy(&config->arena, on) };
    struct config_policy *rows = arena_alloc(&config->arena, (key->row_count + 1) * sizeof(*rows));
    row.bucket = slice_cut(&row.prefix, '/');
    if (key->row_count)
        memcpy(rows, key->rows, key->row_count * sizeof(*rows));
    rows[key->row_count++] = row;
    key->rows = rows;
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

struct row {
    struct config *config;
    struct config_key *key;
};

static void wrong(const struct row *row, const char *member, const char *why)
{
    const char *path = row->key->name[0] ? arena_printf(&row->config->arena, "%s.%s",
                                                        row->key->name, member).ptr : member;
    const struct setting_where *at = &row->key->where[setting_at(SCOPE_KEY, slice_of(member))];
    if (!config_is_said(row->config, at, path))
        config_mistake_add(row->config, at, path, NULL, "%s", why);
}

static bool is_there_twice(const struct row *row)
{
    const struct config_key *key = row->key;
    for (const struct config_key *other = row->config->keys; other < key; other++)
        if (strcmp(key->access_key, other->access_key) == 0 &&
            strcmp(key->session_token, other->session_token) == 0 &&
            (key->access_key[0] || (key->anonymous && other->anonymous)))
            return true;
    return false;
}

static bool is_given(const struct row *row, const char *member, const char *value)
{
    return config_is_given(value, &row->key->where[setting_at(SCOPE_KEY, slice_of(member))]);
}

static void pair_is_whole(const struct row *row)
{
    const struct config_key *key = row->key;
    bool secret = is_given(row, "secret_key", key->secret_key);
    bool previous = is_given(row, "secret_key_previous", key->secret_key_previous);
    const char *named = key->access_key[0] || !secret ? "access_key" : "secret_key";
    if (key->anonymous && (key->access_key[0] || secret || previous || key->session_token[0]))
        wrong(row, "anonymous", "is for requests without a signature: such a row has no keys");
    else if (!key->access_key[0] != !secret)
        wrong(row, named, key->access_key[0] ? "has no secret_key beside it"
                                             : "has no access_key beside it");
    else if (!key->access_key[0] && !key->anonymous)
        wrong(row, "access_key", "is empty");
    if (previous && !secret && !key->anonymous)
        wrong(row, "secret_key_previous", "has no secret_key beside it: the one that follows it");
    if (is_there_twice(row))
        wrong(row, key->anonymous ? "anonymous" : "access_key", "is there twice");
}

/* "all" is a row like others. */
static void policy_is_read(const struct row *row)
{
    struct config_key *key = row->key;
    if (strcmp(key->policy, "all") == 0)
        config_policy_add(row->config, key, RIGHT_ALL, S(""));
    else if (key->policy[0] && !key->rows_read)
        wrong(row, "policy", "must be \"all\" or an array: [{ \"allow\": [...], \"on\": [...] }]");
}

static bool has_origin_keys(const struct row *row)
{
    const struct config_key *key = row->key;
    return key->origin_access_key[0] || key->origin_session_token[0] ||
           is_given(row, "origin_secret_key", key->origin_secret_key);
}

static bool none_knows_identities(const struct config *config)
{
    for (size_t i = 0; i < config->origin_count; i++)
        if (!config->origins[i].kind || config->origins[i].kind->knows_identities)
            return false;
    return config->origin_count > 0;
}

static void name_is_one(const struct row *row)
{
    const struct config_key *key = row->key;
    bool is_policy = key->policy[0] != '\0';
    if (is_policy && has_origin_keys(row))
        wrong(row, "policy", "stands beside keys for the origin: a client asks there with its "
              "own credentials or, by a policy, with Penstock's; take one of them away");
    else if (!is_policy && none_knows_identities(row->config))
        wrong(row, "policy", "is missing: a folder does not know whose key this is, so say here "
              "what it may do (\"all\", or an array)");
    bool secret = is_given(row, "origin_secret_key", key->origin_secret_key);
    if (has_origin_keys(row) && !key->origin_access_key[0] != !secret)
        wrong(row, key->origin_access_key[0] ? "origin_access_key" : "origin_secret_key",
              key->origin_access_key[0] ? "has no origin_secret_key beside it"
                                        : "has no origin_access_key beside it");
    else if (key->origin_session_token[0] && !key->origin_access_key[0])
        wrong(row, "origin_session_token", "has no origin_access_key beside it");
}

void config_key_rules(struct config *config)
{
    for (size_t i = 0; i < config->key_count; i++) {
        struct row row = { config, &config->keys[i] };
        pair_is_whole(&row);
        policy_is_read(&row);
        name_is_one(&row);
    }
}
