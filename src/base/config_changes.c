/* config_changes.c - what differs between two loads of the settings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Groups of the file are the same if they have the same name; rows of keys, the same access key,
 * wherever they stand. One that came or went is one change. */
#include <string.h>

#include "base/config.h"

struct group {
    const char *name;
    const void *values;
    const struct setting_where *where;
};

struct changes {
    struct text *into;
    bool reloadable;             /* these, or those that need a restart */
};

static void name(struct changes *changes, const char *group, const char *setting)
{
    if (changes->into->len)
        text_add(changes->into, S(", "));
    text_add(changes->into, slice_of(group));
    if (*group && *setting)
        text_char(changes->into, '.');
    text_add(changes->into, slice_of(setting));
}

static bool is_same(const struct setting *setting, const void *a, const void *b)
{
    const char *at = (const char *)a + setting->offset, *other = (const char *)b + setting->offset;
    if (setting_is_text(setting))
        return strcmp(*(const char *const *)at, *(const char *const *)other) == 0;
    if (setting_is_number(setting))
        return *(const uint64_t *)at == *(const uint64_t *)other;
    return *(const bool *)at == *(const bool *)other;
}

/* What a group only inherits changes where it is written. */
static void compare(struct changes *changes, enum setting_scope scope, const struct group *before,
                    const struct group *after)
{
    for (size_t i = 0; i < setting_count; i++)
        if (settings[i].scope == scope && settings[i].reloadable == changes->reloadable &&
            (before->where[i].from != FROM_DEFAULT || after->where[i].from != FROM_DEFAULT) &&
            !is_same(&settings[i], before->values, after->values))
            name(changes, after->name, settings[i].name);
}

/* A pair that stands in the settings of their own names is no row. */
static const char *key_name(const struct config_key *key)
{
    return !key->name[0] ? "" : key->anonymous ? "keys.anonymous" : key->access_key;
}

static bool group_at(const struct config *config, enum setting_scope scope, size_t i,
                     struct group *ret)
{
#define AT(list) (struct group){ (list)[i].name, &(list)[i], (list)[i].where }
    if ((scope == SCOPE_GLOBAL || scope == SCOPE_CONSTANT) && i == 0)
        *ret = (struct group){ "", config, config->where };
    else if (scope == SCOPE_ORIGIN && i < config->origin_count)
        *ret = AT(config->origins);
    else if (scope == SCOPE_BUCKET && i < config->bucket_count)
        *ret = AT(config->buckets);
    else if (scope == SCOPE_KEY && i < config->key_count)
        *ret = (struct group){ key_name(&config->keys[i]), &config->keys[i],
                               config->keys[i].where };
    else
        return false;
    return true;
#undef AT
}

static bool group_named(const struct config *config, enum setting_scope scope, const char *name,
                        struct group *ret)
{
    for (size_t i = 0; group_at(config, scope, i, ret); i++)
        if (strcmp(ret->name, name) == 0)
            return true;
    return false;
}

/* Groups of `some` that `others` lacks. */
static void name_lone(struct changes *changes, enum setting_scope scope, const struct config *some,
                      const struct config *others, const char *what)
{
    struct group group, other;
    for (size_t i = 0; group_at(some, scope, i, &group); i++)
        if (*group.name && !group_named(others, scope, group.name, &other))
            name(changes, group.name, what);
}

slice config_changes(const struct config *before, const struct config *after, bool reloadable,
                     struct arena *keep)
{
    struct text text = text_in(keep);
    struct changes changes = { &text, reloadable };
    for (enum setting_scope scope = SCOPE_GLOBAL; scope < SCOPE_COUNT; scope++) {
        struct group was, is;
        for (size_t i = 0; group_at(after, scope, i, &is); i++)
            if ((*is.name || scope != SCOPE_KEY) && group_named(before, scope, is.name, &was))
                compare(&changes, scope, &was, &is);
        if (reloadable == (scope == SCOPE_KEY)) {    /* other groups need a restart */
            name_lone(&changes, scope, after, before, "(new)");
            name_lone(&changes, scope, before, after, "(gone)");
        }
    }
    return text_slice(&text);
}
