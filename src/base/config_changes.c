/* config_changes.c - finds the differences between two loads of the settings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A group is an entry of "origins", "buckets" or "keys" in the settings file, or all general
 * settings together. A group of the first load is compared with the group of the second load that
 * has the same name. Entries of "keys" are compared by access key. The order of the groups does not
 * matter. A group that was added or removed is one change; for entries of "buckets", see
 * name_lone_bucket. */
#include <string.h>

#include "base/config.h"

struct changes {
    const struct config *before, *after;
    struct text *into;
    bool reloadable;             /* true: report reloadable settings; false: the others */
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
    return memcmp(at, other, setting_bytes(setting)) == 0;
}

static bool same_place(const struct setting_where *a, const struct setting_where *b)
{
    return a->from == b->from && a->name == b->name && a->line == b->line && a->column == b->column;
}

/* Returns true if both groups inherit the value from a general setting (a GLOBAL row). A change is
 * then reported for that setting. */
static bool both_inherit(const struct changes *changes, size_t setting,
                         const struct config_group *before, const struct config_group *after)
{
    const char *standard = settings[setting].standard;
    if (standard[0] != '=')
        return false;
    size_t from = setting_at(SCOPE_GLOBAL, slice_of(standard + 1));
    return same_place(&before->where[setting], &changes->before->where[from]) &&
           same_place(&after->where[setting], &changes->after->where[from]);
}

static void compare(struct changes *changes, const struct config_group *before,
                    const struct config_group *after)
{
    for (size_t i = 0; i < setting_count; i++)
        if (setting_belongs(&settings[i], after->scope) &&
            settings[i].reloadable == changes->reloadable &&
            (before->where[i].from != FROM_DEFAULT || after->where[i].from != FROM_DEFAULT) &&
            !is_same(&settings[i], before->values, after->values) &&
            !both_inherit(changes, i, before, after))
            name(changes, after->name, settings[i].name);
}

/* Like config_group_at, but the name of an entry of "keys" is its access key. The key pair of the
 * settings access_key and secret_key keeps its empty name. */
static bool group_at(const struct config *config, enum setting_scope scope, size_t i,
                     struct config_group *ret)
{
    if (!config_group_at(config, scope, i, ret))
        return false;
    const struct config_key *key = ret->values;
    if (scope == SCOPE_KEY && ret->name[0])
        ret->name = key->anonymous ? "keys.anonymous" : key->access_key;
    return true;
}

static bool find_group(const struct config *config, enum setting_scope scope, const char *name,
                        struct config_group *ret)
{
    for (size_t i = 0; group_at(config, scope, i, ret); i++)
        if (strcmp(ret->name, name) == 0)
            return true;
    return false;
}

/* Returns true if the group itself gives the member. */
static bool is_given(const struct config *config, const struct config_group *group, size_t setting)
{
    const char *standard = settings[setting].standard;
    if (group->where[setting].from == FROM_DEFAULT ||
        !setting_belongs(&settings[setting], group->scope))
        return false;
    return standard[0] != '=' ||
           !same_place(&group->where[setting],
                       &config->where[setting_at(SCOPE_GLOBAL, slice_of(standard + 1))]);
}

/* Names the changes of an entry of "buckets" that was added or removed. A reload applies its
 * reloadable members. The entry as a whole is named as a change that needs a restart in three
 * cases:
 * - it has members that are not reloadable;
 * - it has no members;
 * - its name has a prefix, so the keys of that prefix move from one entry to another. */
static void name_lone_bucket(struct changes *changes, const struct config *of,
                             const struct config_group *group, const char *what)
{
    const struct config_bucket *bucket = group->values;
    bool restart = bucket->prefix.len > 0, empty = true;
    for (size_t i = 0; i < setting_count; i++) {
        if (!is_given(of, group, i))
            continue;
        empty = false;
        restart |= !settings[i].reloadable;
        if (settings[i].reloadable && changes->reloadable)
            name(changes, group->name, settings[i].name);
    }
    if (!changes->reloadable && (restart || empty))
        name(changes, group->name, what);
}

/* Names the groups of `some` that do not exist in `others`. */
static void name_lone(struct changes *changes, enum setting_scope scope, const struct config *some,
                      const struct config *others, const char *what)
{
    struct config_group group, other;
    for (size_t i = 0; group_at(some, scope, i, &group); i++)
        if (*group.name && !find_group(others, scope, group.name, &other)) {
            if (scope == SCOPE_BUCKET)
                name_lone_bucket(changes, some, &group, what);
            else
                name(changes, group.name, what);
        }
}

slice config_changes(const struct config *before, const struct config *after, bool reloadable,
                     struct arena *keep)
{
    struct text text = text_in(keep);
    struct changes changes = { before, after, &text, reloadable };
    for (enum setting_scope scope = SCOPE_GLOBAL; scope < SCOPE_CONSTANT; scope++) {
        struct config_group was, is;
        for (size_t i = 0; group_at(after, scope, i, &is); i++)
            if ((*is.name || scope != SCOPE_KEY) && find_group(before, scope, is.name, &was))
                compare(&changes, &was, &is);
        /* a reload applies new entries of "keys"; new entries of "origins" need a restart */
        if (scope == SCOPE_BUCKET || reloadable == (scope == SCOPE_KEY)) {
            name_lone(&changes, scope, after, before, "(new)");
            name_lone(&changes, scope, before, after, "(gone)");
        }
    }
    return text_slice(&text);
}
