/* main.c - the table of subcommands. SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <config.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "origin/origin.h"

static int run_version(struct cli *cli)
{
    puts("penstock " PACKAGE_VERSION);
    return EXIT_GOOD;
}

static const struct command_option config_options[] = {
    { "--example", NULL, "print a settings file with every setting in it instead" },
    { "--completion", "bash|zsh|fish", "print what that shell needs to complete commands and flags" },
    { "--man", "settings|memory|metrics|operations", "print that part of the manual, in Markdown" },
    { 0 },
};
static const struct command_option stat_options[] = {
    { "--json", NULL, "as JSON, as the service said it" },
    { "--watch", NULL, "again every 2 s, only what answers: does it work, is it worth it" },
    { "--url", "URL", "ask this one (http://HOST:PORT of its admin_listen)" },
    { 0 },
};
static const struct command_option check_options[] = {
    { "--strict", NULL, "warnings are failures, too: exit 1" },
    { "--offline", NULL, "ask no origin, nor who lends credentials" },
    { 0 },
};
static const struct command_option health_options[] = {
    { "--url", "URL", "ask this one instead; it must begin with http://" },
    { 0 },
};

const struct command commands[] = {
    { .name = "serve", .args = "[SETTINGS]", .run = run_serve, .takes_settings = true,
      .help = "run the cache in the foreground",
      .more = "SIGTERM ends it in order, SIGHUP reads the reloadable settings again." },
    { .name = "check", .args = "[FILE] [SETTINGS]", .run = run_check, .takes_settings = true,
      .help = "say what is wrong in the settings, and what serve would meet", .words = "FILE",
      .options = check_options,
      .more = "FILE is read in place of the settings file in force. Nothing is changed.\n"
              "Exits 2 if the settings are wrong, 1 if serve would not start or would run\n"
              "without its cache, else 0, also with warnings, of an origin for instance.\n"
              "Not for an ExecStartPre: a cache must start while its origin is down." },
    { .name = "config", .args = "[SETTINGS]", .run = run_config, .takes_settings = true,
      .help = "show every setting in force and where it came from", .options = config_options,
      .more = "Completion, for the shell in use:\n"
              "  bash: . <(penstock config --completion bash)\n"
              "  zsh: penstock config --completion zsh >FOLDER/_penstock, a FOLDER of $fpath\n"
              "  fish: penstock config --completion fish | source" },
    { .name = "stat", .args = "[--json] [--watch] [--url URL] [SETTINGS]", .run = run_stat, .takes_settings = true,
      .help = "show whether the running service works, and whether it is worth it",
      .options = stat_options,
      .more = "Where these settings are not the service's, name its admin_listen by\n"
              "--admin-listen HOST:PORT, PENSTOCK_ADMIN_LISTEN or --url. If it wants a token,\n"
              "admin_token_file (PENSTOCK_ADMIN_TOKEN_FILE) names the file." },
    { .name = "health", .args = "[--url URL] [SETTINGS]", .run = run_health, .takes_settings = true,
      .help = "exit 0 if the service at listen (or URL, or --admin-listen) is ready", .options = health_options },
    { .name = "help", .args = "[COMMAND|SETTING|settings|operations]", .run = run_help,
      .help = "show this, or a command, a setting, all of them", .words = "settings|operations" },
    { .name = "version", .args = "", .run = run_version, .help = "show the version" },
};
const size_t command_count = countof(commands);

bool cli_flag(struct cli *cli, const char *flag)
{
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

struct config *cli_load(struct cli *cli)
{
    struct config_sources from = {
        .argc = cli->argc, .argv = cli->argv, .env = (const char *const *)environ,
        .kinds = origin_url_kind,
    };
    return config_load(&from);
}

size_t cli_mistakes(struct cli *cli, const struct config *config, bool to_stderr)
{
    size_t count = 0;
    for (const struct config_mistake *m = config->mistakes; m; m = m->next, count++)
        fprintf(to_stderr ? stderr : stdout, "%.*s\n",
                SLICE_ARG(config_mistake_line(m, &cli->arena)));
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
    if (command)
        return command->run(cli);
    fprintf(stderr, "penstock: no such command: %s", name);
    fprintf(stderr, nearest ? " (did you mean \"%s\"?)\n" : "\n", nearest);
    fputs(*name == '-' ? "The command comes first, as in penstock serve --origin URL. Try: penstock help\n"
                       : "Try: penstock help\n", stderr);
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
    if (fflush(stdout) != 0)
        status = EXIT_FAILED;
    return argc > 1 ? status : EXIT_USAGE;
}
