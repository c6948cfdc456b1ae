/* main.c - runs a subcommand; reads options and settings, and prints mistakes, for all subcommands.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <config.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "origin/origin.h"
#include "peers/members.h"

static int run_version(struct cli *cli)
{
    puts("penstock " PACKAGE_VERSION);
    return EXIT_GOOD;
}

const struct command command_version = {
    .name = "version", .args = "", .run = run_version, .help = "show the version",
    .with = "help",
};

/* All commands (command.def), in the order of the help. */
const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "cli/command.def"
};
const size_t command_count = countof(commands);

bool cli_flag(struct cli *cli, const char *flag)
{
    check(flag[0] == '-' && flag[1] == '-');
    for (size_t i = 0; i < cli->argc; i++) {
        if (strcmp(cli->argv[i], flag) != 0)
            continue;
        memmove(cli->argv + i, cli->argv + i + 1, (--cli->argc - i) * sizeof(*cli->argv));
        return true;
    }
    return false;
}

const char *cli_option(struct cli *cli, const char *flag)
{
    size_t len = strlen(flag);
    check(len > 2 && flag[0] == '-' && flag[1] == '-');
    for (size_t i = 0; i < cli->argc; i++) {
        const char *value = NULL;
        size_t taken = 1;
        if (strncmp(cli->argv[i], flag, len) == 0 && cli->argv[i][len] == '=') {
            value = cli->argv[i] + len + 1;
        } else if (strcmp(cli->argv[i], flag) == 0) {
            value = i + 1 < cli->argc ? cli->argv[i + 1] : "";
            taken = MIN(cli->argc - i, 2);
        }
        if (!value)
            continue;
        cli->argc -= taken;
        memmove(cli->argv + i, cli->argv + i + taken, (cli->argc - i) * sizeof(*cli->argv));
        return value;
    }
    return NULL;
}

const char *cli_word(struct cli *cli)
{
    if (!cli->argc || cli->argv[0][0] == '-')
        return NULL;
    const char *word = cli->argv[0];
    cli->argv++;
    cli->argc--;
    return word;
}

struct config *cli_load(struct cli *cli, const char *path)
{
    struct config_sources from = {
        .argc = cli->argc, .argv = cli->argv, .env = (const char *const *)environ,
        .path = path, .kinds = origin_url_kind, .judge_peers = members_may_be,
    };
    return config_load(&from);
}

/* Returns the option of the command with this name, else one with a similar name, else NULL. */
static const struct command_option *option_near(const struct command *command, slice flag)
{
    const struct command_option *near = NULL;
    for (const struct command_option *o = command ? command->options : NULL; o && o->flag; o++) {
        if (slice_eq(slice_of(o->flag), flag))
            return o;
        if (name_distance(slice_of(o->flag), flag) <= (flag.len > 7 ? 2 : 1))
            near = o;
    }
    return near;
}

static bool is_setting(slice flag)
{
    bool by_file;
    return slice_starts(flag, S("--")) &&
           setting_resolve(SCOPE_GLOBAL, slice_from(flag, 2), &by_file) != NULL;
}

/* A command takes its options out of argv before the settings are read. So if an option is still in
 * argv then, it was given twice, or has a value although it takes none. */
static void print_mistake(struct cli *cli, const struct config_mistake *m, FILE *to)
{
    bool typed = strcmp(m->file, "command line") == 0, is_flag = typed && m->key[0] == '-';
    const struct command_option *near = is_flag && !is_setting(slice_of(m->key))
                                            ? option_near(cli->command, slice_of(m->key)) : NULL;
    if (typed && !is_flag && cli->command && strstr(cli->command->args, "s3://"))
        fprintf(to, "command line: %s: %s takes one s3:// URL, and no other word. See penstock %s "
                "--help\n", m->key, cli->command->name, cli->command->name);
    else if (!near)
        fprintf(to, "%.*s\n", SLICE_ARG(config_mistake_line(m, &cli->arena)));
    else if (strcmp(near->flag, m->key) != 0)
        fprintf(to, "command line: %s: no such option (did you mean \"%s\"?)\n", m->key,
                near->flag);
    else
        fprintf(to, "command line: %s: %s\n", m->key, near->value ? "give it only once"
                : "give it only once, and without a value");
}

size_t cli_mistakes(struct cli *cli, const struct config *config, const char *source, FILE *to)
{
    size_t count = 0;
    for (const struct config_mistake *m = config->mistakes; m; m = m->next) {
        if (source && strcmp(m->file, source) != 0)
            continue;
        print_mistake(cli, m, to);
        count++;
    }
    return count;
}

static int run(struct cli *cli, const char *name)
{
    const char *nearest;
    const struct command *command = command_find(name, &nearest);
    if (command && cli_flag(cli, "--help")) {
        struct text text = text_in(&cli->arena);
        help_command(&text, command);
        fwrite(text.ptr, 1, text.len, stdout);
        return EXIT_GOOD;
    }
    cli->command = command;
    if (command)
        return command->run(cli);
    fprintf(stderr, "penstock: no such command: %s", name);
    fprintf(stderr, nearest ? " (did you mean \"%s\"?)\n" : "\n", nearest);
    if (*name == '-')
        fputs("The command comes first, as in penstock serve --origin URL. ", stderr);
    fputs("Try: penstock help\n", stderr);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    struct cli cli = { 0 };
    const char *name = argc > 1 ? argv[1] : "help";
    if (argc > 2) {
        cli.argc = (size_t)argc - 2;
        cli.argv = (const char **)argv + 2;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    int status = run(&cli, name);
    arena_free(&cli.arena);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("penstock: the output could not be written: check the file or program that takes "
              "it\n", stderr);
        status = EXIT_FAILED;
    }
    return argc > 1 ? status : EXIT_USAGE;
}
