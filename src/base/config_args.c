/* config_args.c - settings from the environment and from flags. SPDX-License-Identifier: Apache-2.0
 *
 * Variables and flags can set the GLOBAL rows and the constants of config.def. The members of
 * "origins", "buckets" and "keys" can be set only in the file. */
#include "base/config_inside.h"

#include <string.h>

/* An orchestrator may set PENSTOCK_SERVICE_HOST and similar variables for a service with the name
 * penstock. So a variable whose name resembles no setting is ignored. An empty variable gives no
 * value. But an empty variable of a secret is a mistake: a substitution has failed. */
void config_read_env(struct config *config, const char *const *env)
{
    struct config_group global = config_group_global(config);
    for (; env && *env; env++) {
        slice value = slice_of(*env), name = slice_cut(&value, '=');
        bool aws = slice_eq(name, S("AWS_ACCESS_KEY_ID")) || slice_eq(name, S("AWS_PROFILE")) ||
                   slice_eq(name, S("AWS_ACCESS_KEY_ID_FILE"));
        if (aws && value.len)
            config->aws_in_env = true;
        if (slice_eq(name, S("AWS_CA_BUNDLE")) && value.len)
            config->aws_ca_bundle = arena_copy(&config->arena, value).ptr;
        if (!slice_starts(name, S("PENSTOCK_")))
            continue;
        struct setting_where where = { FROM_ENV, arena_copy(&config->arena, name).ptr, 0, 0, NULL };
        slice lower = arena_lower(&config->arena, slice_from(name, strlen("PENSTOCK_")));
        bool by_file;
        const struct setting *setting = setting_resolve(SCOPE_GLOBAL, lower, &by_file);
        const char *nearest = setting_nearest(SCOPE_GLOBAL, lower);
        if (!value.len && !(setting && setting->type == TYPE_SECRET))
            continue;
        if (setting)
            config_assign(config, &global, setting, by_file, value, &where);
        else if (nearest)
            config_mistake_unknown(config, &where, "", nearest);
    }
}

/* Reads --name VALUE and --name=VALUE. For a BOOL, also reads --no-name. A BOOL needs no value if
 * no argument follows its name, or if the next argument begins with '-'. */
void config_read_flags(struct config *config, size_t argc, const char *const *argv)
{
    struct config_group global = config_group_global(config);
    for (size_t i = 0; i < argc; i++) {
        slice value = slice_of(argv[i]), name = slice_cut(&value, '=');
        const char *flag = arena_copy(&config->arena, name).ptr;
        struct setting_where where = { FROM_FLAG, flag, 0, 0, NULL };
        if (!slice_starts(name, S("--"))) {
            config_mistake_add(config, &where, "", NULL, "not a flag: write a setting as --name "
                               "VALUE, and the settings file as --config FILE. A setting whose "
                               "value is true or false may also be written as --name or "
                               "--no-name");
            continue;
        }
        name = slice_from(name, 2);
        bool by_file;
        const struct setting *setting = setting_resolve(SCOPE_GLOBAL, name, &by_file);
        const struct setting *no = !setting && slice_starts(name, S("no-"))
                                       ? setting_find(SCOPE_GLOBAL, slice_from(name, 3)) : NULL;
        if (no && no->type == TYPE_BOOL && !value.ptr) {
            config_assign(config, &global, no, false, S("false"), &where);
            continue;
        }
        if (!setting) {
            config_mistake_unknown(config, &where, "", setting_nearest(SCOPE_GLOBAL, name));
            if (!value.ptr && i + 1 < argc && argv[i + 1][0] != '-')
                i++;    /* the next word is probably the value of this flag */
            continue;
        }
        bool is_word = i + 1 < argc && argv[i + 1][0] != '-';
        if (!value.ptr && setting->type == TYPE_BOOL && !is_word)
            value = S("true");
        else if (!value.ptr && i + 1 < argc)
            value = slice_of(argv[++i]);
        if (!value.ptr)
            config_mistake_add(config, &where, "", NULL, "needs a value: write --name VALUE");
        else
            config_assign(config, &global, setting, by_file, value, &where);
    }
}

/* Returns the path of the settings file: from the last --config, else from PENSTOCK_CONFIG, else
 * from->path, else the default path. *ret_given is false only for the default path. */
const char *config_file_path(const struct config_sources *from, bool *ret_given)
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
    *ret_given = path != NULL;
    return path ? path : settings[setting_at(SCOPE_GLOBAL, S("config"))].standard;
}
