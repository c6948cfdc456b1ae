/* settings.c - check, config and help: the settings as people see them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

int run_check(struct cli *cli)
{
    const char *file = cli_word(cli);
    struct config_sources from = {
        .argc = cli->argc, .argv = cli->argv, .env = (const char *const *)environ, .path = file,
    };
    struct config *config = config_load(&from);
    size_t count = cli_mistakes(cli, config, false);
    config_free(&config);
    if (count == 0)
        puts("settings: fine");
    else
        printf("settings: %zu mistake%s\n", count, count == 1 ? "" : "s");
    return count ? EXIT_USAGE : EXIT_GOOD;
}

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

int run_config(struct cli *cli)
{
    struct text text = text_in(&cli->arena);
    const char *shell = cli_option(cli, "--completion");
    if (shell && strcmp(shell, "bash") != 0) {
        fprintf(stderr, "penstock: completion is there for bash only, not for \"%s\"\n", shell);
        return EXIT_USAGE;
    }
    if (shell)
        generate_completion(&text);
    else if (cli_flag(cli, "--example"))
        generate_example(&text, &cli->arena);
    else if (cli_flag(cli, "--man"))
        generate_man(&text);
    if (text.len) {
        fwrite(text.ptr, 1, text.len, stdout);
        return EXIT_GOOD;
    }
    struct config *config = cli_load(cli);
    show_all(cli, config);
    fflush(stdout);
    size_t count = cli_mistakes(cli, config, true);
    config_free(&config);
    return count ? EXIT_USAGE : EXIT_GOOD;
}

int run_help(struct cli *cli)
{
    struct text text = text_in(&cli->arena);
    const char *what = cli_word(cli);
    if (what && strcmp(what, "settings") == 0)
        generate_help_settings(&text);
    else
        generate_help(&text);
    fwrite(text.ptr, 1, text.len, stdout);
    return EXIT_GOOD;
}
