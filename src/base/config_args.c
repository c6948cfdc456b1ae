/* config_args.c - settings from the environment and from flags. SPDX-License-Identifier: Apache-2.0
 *
 * Both name a GLOBAL row; groups are for the file alone. */
#include "base/config_inside.h"

#include <string.h>

/* An orchestrator may set PENSTOCK_SERVICE_HOST and the like for a service of our name: a name that
 * is near no setting is not meant for us. An empty value is none, but for a secret: there it is a
 * substitution that failed. */
static bool is_secret(slice name)
{
    const struct setting *setting = setting_find(SCOPE_GLOBAL, name);
    return (setting && setting->type == TYPE_SECRET) || setting_find_file(SCOPE_GLOBAL, name);
}

void config_read_env(struct config *config, const char *const *env)
{
    for (; env && *env; env++) {
        slice value = slice_of(*env), name = slice_cut(&value, '=');
        bool aws = slice_eq(name, S("AWS_ACCESS_KEY_ID")) || slice_eq(name, S("AWS_PROFILE"));
        if (aws && value.len)
            config->aws_in_env = true;
        if (slice_eq(name, S("AWS_CA_BUNDLE")) && value.len)
            config->aws_ca_bundle = arena_copy(&config->arena, value).ptr;
        if (!slice_starts(name, S("PENSTOCK_")))
            continue;
        struct setting_where where = { FROM_ENV, arena_copy(&config->arena, name).ptr, 0, 0, NULL };
        char key[64];
        size_t len = MIN(name.len - 9, sizeof(key));
        for (size_t i = 0; i < len; i++)
            key[i] = char_lower(name.ptr[9 + i]);
        slice lower = { key, len };
        if (!value.len && !is_secret(lower))
            continue;
        struct config_group group = config_group_of(config, lower);
        if (config_assign_named(config, &group, lower, value, &where))
            continue;
        const char *nearest = config_nearest(SCOPE_GLOBAL, lower);
        if (nearest)
            config_mistake_add(config, &where, "", nearest, "no such setting");
    }
}

/* --name VALUE, --name=VALUE; for what is true or false also --name (before another flag, or last)
 * and --no-name. */
void config_read_flags(struct config *config, size_t argc, const char *const *argv)
{
    for (size_t i = 0; i < argc; i++) {
        slice value = slice_of(argv[i]), name = slice_cut(&value, '=');
        const char *flag = arena_copy(&config->arena, name).ptr;
        struct setting_where where = { FROM_FLAG, flag, 0, 0, NULL };
        if (!slice_starts(name, S("--"))) {
            config_mistake_add(config, &where, "", NULL, "not a flag: settings are --name VALUE, "
                               "and --name or --no-name what is on or off");
            continue;
        }
        name = slice_from(name, 2);
        struct config_group group = config_group_of(config, name);
        const struct setting *setting = setting_find(group.scope, name);
        const struct setting *no = !setting && slice_starts(name, S("no-"))
                                       ? setting_find(SCOPE_GLOBAL, slice_from(name, 3)) : NULL;
        if (no && no->type == TYPE_BOOL && !value.ptr) {
            config_assign(config, &group, no, S("false"), &where);
            continue;
        }
        if (!setting && !setting_find_file(SCOPE_GLOBAL, name)) {
            config_mistake_add(config, &where, "", config_nearest(SCOPE_GLOBAL, name),
                               "no such setting");
            if (!value.ptr && i + 1 < argc && argv[i + 1][0] != '-')
                i++;    /* most likely its value */
            continue;
        }
        bool is_word = i + 1 < argc && argv[i + 1][0] != '-';
        if (!value.ptr && setting && setting->type == TYPE_BOOL && !is_word)
            value = S("true");
        else if (!value.ptr && i + 1 < argc)
            value = slice_of(argv[++i]);
        if (!value.ptr)
            config_mistake_add(config, &where, "", NULL, "needs a value");
        else if (!config_assign_named(config, &group, name, value, &where))
            check(false && "found above");
    }
}

/* Which file: the last --config, else the variable, else the caller's, else the row's default. */
const char *config_file_path(const struct config_sources *from, bool *ret_named)
{
    const char *path = NULL;
    for (size_t i = 0; i < from->argc; i++) {
        if (strncmp(from->argv[i], "--config=", 9) == 0)
            path = from->argv[i] + 9;
        else if (strcmp(from->argv[i], "--config") == 0 && i + 1 < from->argc)
            path = from->argv[i + 1];
    }
    for (const char *const *env = from->env; !path && env && *env; env++)
        if (strncmp(*env, "PENSTOCK_CONFIG=", 16) == 0 && (*env)[16])
            path = *env + 16;
    if (!path)
        path = from->path;
    *ret_named = path != NULL;
    return path ? path : settings[setting_at(SCOPE_GLOBAL, S("config"))].standard;
}
