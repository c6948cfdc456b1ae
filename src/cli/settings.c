/* settings.c - config and help: the settings as people see them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/credentials.h"
#include "cli/memory.h"

static void show_row(struct cli *cli, const struct setting *setting, const char *path,
                     const void *group, const struct setting_where *where)
{
    struct arena *keep = &cli->arena;
    slice value = setting_show(setting, group, keep);
    slice name = arena_printf(keep, "%s%s", path, setting->name);
    printf("%-34.*s %-34.*s %-10s %.*s\n", SLICE_ARG(name), SLICE_ARG(value.len ? value : S("-")),
           setting->type == TYPE_CHOICE ? "choice" : setting_type_name(setting),
           SLICE_ARG(config_where(&where[setting - settings], keep)));
}

/* Constants that somebody changed. */
static void show_constants(struct cli *cli, const struct config *config)
{
    for (size_t i = 0; i < setting_count; i++)
        if (settings[i].scope == SCOPE_CONSTANT && config->where[i].from != FROM_DEFAULT)
            show_row(cli, &settings[i], config->where[i].from == FROM_TEST ? "test." : "", config,
                     config->where);
}

static void show_group(struct cli *cli, enum setting_scope scope, const char *path,
                       const void *group, const struct setting_where *where)
{
    for (size_t i = 0; i < setting_count; i++)
        if (settings[i].scope == scope)
            show_row(cli, &settings[i], path, group, where);
}

static const char *path_of(struct cli *cli, const char *list, const char *name)
{
    return arena_printf(&cli->arena, "%s%s.", list, name).ptr;
}

static void show_all(struct cli *cli, const struct config *config)
{
    show_group(cli, SCOPE_GLOBAL, "", config, config->where);
    show_constants(cli, config);
    for (size_t i = 0; i < config->origin_count; i++)
        show_group(cli, SCOPE_ORIGIN, path_of(cli, "origins.", config->origins[i].name),
                   &config->origins[i], config->origins[i].where);
    for (size_t i = 0; i < config->bucket_count; i++)
        show_group(cli, SCOPE_BUCKET, path_of(cli, "buckets.", config->buckets[i].name),
                   &config->buckets[i], config->buckets[i].where);
    for (size_t i = 0; i < config->key_count; i++)
        if (config->keys[i].name[0])
            show_group(cli, SCOPE_KEY, path_of(cli, "", config->keys[i].name), &config->keys[i],
                       config->keys[i].where);
}

static void show_credentials(const char *name, enum err err, const struct credentials *found,
                             slice why)
{
    slice key = err || !found->access_key.len ? S("-") : found->access_key;
    slice from = err ? why : found->from;
    printf("%-34s %-34.*s %-10s %.*s\n", name, SLICE_ARG(key), "text", SLICE_ARG(from));
}

/* The keys that are used where the settings name none. */
static void show_all_credentials(struct cli *cli, const struct config *config)
{
    struct credentials found;
    slice why = S("");
    if (config->key_count == 0) {
        enum err err = credentials_of_clients(config, &cli->arena, &found, &why);
        show_credentials("in_force.access_key", err, &found, why);
    }
    for (size_t i = 0; i < config->origin_count; i++) {
        const struct config_origin *origin = &config->origins[i];
        if (!credentials_are_needed(origin) || origin->access_key[0] || origin->secret_key[0])
            continue;
        enum err err = credentials_at_origin(origin, NULL, &cli->arena, &found, &why);
        const char *name = arena_printf(&cli->arena, "in_force.origins.%s.access_key",
                                        origin->name).ptr;
        show_credentials(name, err, &found, why);
    }
}

static bool manual_part(struct text *to, const char *part)
{
    if (strcmp(part, "settings") == 0)
        manual_settings(to);
    else if (strcmp(part, "memory") == 0)
        manual_memory(to);
    else if (strcmp(part, "metrics") == 0)
        manual_metrics(to);
    else if (strcmp(part, "operations") == 0)
        manual_operations(to);
    return to->len > 0;
}

static void show_bytes(struct cli *cli, const char *name, uint64_t bytes, slice text)
{
    slice value = bytes % MIB ? arena_printf(&cli->arena, "%ju", (uintmax_t)bytes)
                              : arena_printf(&cli->arena, "%juMiB", (uintmax_t)(bytes / MIB));
    printf("%-34s %-34.*s %-10s %.*s\n", name, SLICE_ARG(value), "size", SLICE_ARG(text));
}

/* What `memory` is here, and what it is divided into. */
static void show_memory(struct cli *cli, const struct config *config)
{
    struct memory memory = memory_of(config, &cli->arena);
    show_bytes(cli, "in_force.memory", memory.bytes, memory.from);
    for (size_t i = 0; i < BUDGET_COUNT; i++)
        show_bytes(cli, arena_printf(&cli->arena, "in_force.%s", budget_rows[i].name).ptr,
                   memory.budgets.bytes[i],
                   arena_printf(&cli->arena, "%s; when full: %s", budget_rows[i].holds,
                                budget_rows[i].full));
}

static int run_config(struct cli *cli)
{
    struct text text = text_in(&cli->arena);
    const char *shell = cli_option(cli, "--completion");
    if (shell && !completion_script(&text, shell)) {
        fprintf(stderr, "penstock: there is no completion for \"%s\": --completion takes bash, zsh "
                "or fish\n", shell);
        return EXIT_USAGE;
    }
    const char *part = cli_option(cli, "--man");
    if (part && !manual_part(&text, part)) {
        fprintf(stderr, "penstock: no part of the manual is made from a table \"%s\": --man takes settings, "
                "memory, metrics or operations\n", part);
        return EXIT_USAGE;
    }
    if (cli_flag(cli, "--example"))
        generate_example(&text, &cli->arena);
    if (text.len) {
        fwrite(text.ptr, 1, text.len, stdout);
        return EXIT_GOOD;
    }
    struct config *config = cli_load(cli);
    show_all(cli, config);
    show_memory(cli, config);
    show_all_credentials(cli, config);
    fflush(stdout);
    size_t count = cli_mistakes(cli, config, true);
    config_free(&config);
    return count ? EXIT_USAGE : EXIT_GOOD;
}

static const struct command_option options[] = {
    { "--example", NULL, "print a settings file with every setting in it instead" },
    { "--completion", "bash|zsh|fish", "print what that shell needs to complete commands and flags" },
    { "--man", "settings|memory|metrics|operations", "print that part of the manual, in Markdown" },
    { 0 },
};

const struct command command_config = {
    .name = "config", .args = "[SETTINGS]", .run = run_config, .takes_settings = true,
    .help = "show every setting in force and where it came from", .options = options,
    .more = "Completion, for the shell in use:\n"
            "  bash: . <(penstock config --completion bash)\n"
            "  zsh: penstock config --completion zsh >FOLDER/_penstock, a FOLDER of $fpath\n"
            "  fish: penstock config --completion fish | source",
};
