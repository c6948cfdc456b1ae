/* settings.c - the subcommand config: the settings in force, and texts made from tables.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/credentials.h"
#include "cli/memory.h"

static void show_line(slice name, slice value, const char *type, slice from)
{
    printf("%-34.*s %-34.*s %-10s %.*s\n", SLICE_ARG(name), SLICE_ARG(value.len ? value : S("-")),
           type, SLICE_ARG(from));
}

/* Shows the settings of a scope. A constant is shown only if a value was given for it. */
static void show_group(struct cli *cli, enum setting_scope scope, const char *path,
                       const void *group, const struct setting_where *where)
{
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        if (setting->scope != scope ||
            (scope == SCOPE_CONSTANT && where[i].from == FROM_DEFAULT))
            continue;
        show_line(arena_printf(&cli->arena, "%s%s", path, setting->name),
                  setting_show(setting, group, &cli->arena),
                  setting->type == TYPE_CHOICE ? "choice" : setting_type_name(setting),
                  config_where(&where[i], &cli->arena));
    }
}

static void show_all(struct cli *cli, const struct config *config)
{
    struct config_group group;
    show_group(cli, SCOPE_GLOBAL, "", config, config->where);
    show_group(cli, SCOPE_CONSTANT, "", config, config->where);
    for (enum setting_scope scope = SCOPE_ORIGIN; scope <= SCOPE_KEY; scope++)
        for (size_t i = 0; config_group_at(config, scope, i, &group); i++)
            /* The settings access_key and secret_key are a key without a name, shown before. */
            if (group.name[0] || scope != SCOPE_KEY)
                show_group(cli, scope, config_path(&group, "", &cli->arena), group.values,
                           group.where);
}

static void show_credentials(slice name, enum err err, const struct credentials *found, slice why)
{
    show_line(name, err ? S("") : found->access_key, "text", err ? why : found->from);
}

/* If the settings have no keys, shows the keys that Penstock found elsewhere, for clients and for
 * itself at each origin. */
static void show_all_credentials(struct cli *cli, const struct config *config)
{
    struct credentials found;
    slice why = S("");
    if (config->key_count == 0) {
        enum err err = credentials_of_clients(config, &cli->arena, &found, &why);
        show_credentials(S("in_force.access_key"), err, &found, why);
    }
    for (size_t i = 0; i < config->origin_count; i++) {
        const struct config_origin *origin = &config->origins[i];
        if (!credentials_are_needed(origin) || origin->access_key[0] || origin->secret_key[0])
            continue;
        enum err err = credentials_at_origin(origin, false, &cli->arena, &found, &why);
        show_credentials(arena_printf(&cli->arena, "in_force.origins.%s.access_key", origin->name),
                         err, &found, why);
    }
}

static void show_bytes(struct arena *keep, const char *name, uint64_t bytes, slice from)
{
    slice value = bytes % MIB ? arena_printf(keep, "%ju", (uintmax_t)bytes)
                              : arena_printf(keep, "%juMiB", (uintmax_t)(bytes / MIB));
    show_line(arena_printf(keep, "in_force.%s", name), value, "size", from);
}

/* Shows the value of `memory` on this machine, and its parts. */
static void show_memory(struct arena *keep, const struct config *config)
{
    struct memory memory = memory_of(config, keep);
    show_bytes(keep, "memory", memory.bytes, memory.from);
    for (size_t i = 0; i < BUDGET_COUNT; i++)
        show_bytes(keep, budget_rows[i].name, memory.budgets.bytes[i],
                   arena_printf(keep, "%s; when full: %s", budget_rows[i].holds,
                                budget_rows[i].full));
}

/* Texts that are made from tables: the words of an option, and the function of each. */
static const struct {
    const char *flag, *word;
    void (*write)(struct text *to);
} texts[] = {
    { "--man", "settings", manual_settings },     { "--man", "memory", manual_memory },
    { "--man", "metrics", manual_metrics },       { "--man", "operations", manual_operations },
    { "--completion", "bash", completion_bash },  { "--completion", "zsh", completion_zsh },
    { "--completion", "fish", completion_fish },
};

/* Writes the text of an option. If the option does not take the word given, reports that and
 * returns false. */
static bool write_text(struct cli *cli, const struct command_option *option, struct text *to)
{
    const char *word = cli_option(cli, option->flag);
    for (size_t i = 0; word && i < countof(texts); i++)
        if (strcmp(texts[i].flag, option->flag) == 0 && strcmp(texts[i].word, word) == 0) {
            texts[i].write(to);
            return true;
        }
    if (word)
        fprintf(stderr, "penstock: the value of %s must be one of %s (given: \"%s\")\n",
                option->flag, option->value, word);
    return !word;
}

static const struct command_option options[] = {
    { "--example", NULL, "print an example of a settings file, with every setting" },
    { "--completion", "bash|zsh|fish", "print the completion script of that shell" },
    { "--complete", "LINE", "print the completions of the last word of LINE (the completion "
      "scripts call this)" },
    { "--man", "settings|memory|metrics|operations", "print this part of the manual, in Markdown" },
    { 0 },
};

static int run_config(struct cli *cli)
{
    struct text text = text_in(&cli->arena);
    const char *line = cli_option(cli, "--complete");
    if (line)
        completion_candidates(&text, line);
    if (cli_flag(cli, "--example"))
        generate_example(&text, &cli->arena);
    for (const struct command_option *option = options; option->flag; option++)
        if (option->value && !write_text(cli, option, &text))
            return EXIT_USAGE;
    if (text.len || line) {
        fwrite(text.ptr, 1, text.len, stdout);
        return EXIT_GOOD;
    }
    struct config *config = cli_load(cli, NULL);
    show_all(cli, config);
    show_memory(&cli->arena, config);
    show_all_credentials(cli, config);
    fflush(stdout);
    size_t count = cli_mistakes(cli, config, NULL, stderr);
    config_free(&config);
    return count ? EXIT_USAGE : EXIT_GOOD;
}

const struct command command_config = {
    .name = "config", .args = "[SETTINGS]", .run = run_config, .takes_settings = true,
    .help = "show every setting in force and where it came from", .options = options,
    .more = "To let a shell complete commands and settings:\n"
            "  bash: . <(penstock config --completion bash)\n"
            "  zsh: penstock config --completion zsh >FOLDER/_penstock (FOLDER: one of $fpath)\n"
            "  fish: penstock config --completion fish | source",
};
