/* cli.h - what the subcommands share. SPDX-License-Identifier: Apache-2.0
 *
 * A subcommand takes its own options out of argv; what is left are settings. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/config.h"

enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };    /* documented in penstock(1) */

struct cli {
    size_t argc;           /* of what stands behind the subcommand */
    const char **argv;
    struct arena arena;
};

/* An option of one command; settings are flags, too, and stand in base/config.def. */
struct command_option {
    const char *flag;      /* "--json"; NULL ends the list */
    const char *value;     /* NULL: it takes none; "a|b": one of these words; "FILE", "URL" ... */
    const char *help;
};

struct command {
    const char *name, *args, *help;
    int (*run)(struct cli *cli);
    const struct command_option *options;    /* NULL: it has none of its own */
    bool takes_settings;                     /* as flags, behind its own options */
    const char *words;     /* what its first argument may be: "a|b"; "FILE"; NULL: it takes none */
    const char *more;      /* sentences for its help, a line each */
};
#define COMMAND(name) extern const struct command command_##name;
#include "cli/command.def"
extern const struct command *const commands[];
extern const size_t command_count;

/* Takes "--name" (or "--name VALUE", "--name=VALUE") out of argv. */
bool cli_flag(struct cli *cli, const char *flag);
const char *cli_option(struct cli *cli, const char *flag);    /* NULL: not there */
const char *cli_word(struct cli *cli);    /* a first argument that is no flag, or NULL */

struct config *cli_load(struct cli *cli) MUST_USE;
/* Prints them, one a line; how many there were. */
size_t cli_mistakes(struct cli *cli, const struct config *config, bool to_stderr);

/* ---- warn.c ---- */
/* Tells a sentence for each setting that is right and perhaps not what was meant. */
void cli_warnings(const struct config *config, void (*tell)(slice warning));

/* A sentence if a derived size of the cache makes little sense, else empty. */
slice cli_small_cache(uint64_t size_bytes, bool derived, struct arena *keep) MUST_USE;

/* ---- tls.c ---- */
struct http_tls;
/* As the settings say; OK with NULL where tls_listen is off. */
enum err cli_tls_open(const struct config *config, struct arena *keep, struct http_tls **ret,
                      slice *ret_why) MUST_USE;
/* A sentence if its certificate expires soon or has done so, else empty. */
slice cli_tls_warning(struct http_tls *tls, struct arena *keep) MUST_USE;

/* ---- generate.c: texts that are kept in the tree, and the operations ---- */
void generate_example(struct text *to, struct arena *keep);
void generate_help_operations(struct text *to);    /* of S3, as s3/op.def has them */

/* ---- manual.c: the parts of man/ that are made from tables ---- */
void manual_settings(struct text *to);
void manual_memory(struct text *to);
void manual_metrics(struct text *to);
void manual_operations(struct text *to);

/* ---- help.c ---- */
void help_commands(struct text *to);
void help_command(struct text *to, const struct command *command);
void help_settings(struct text *to);
void help_setting(struct text *to, const struct setting *setting);
/* The command of that name, or NULL and the nearest one, or NULL. */
const struct command *command_find(const char *name, const char **ret_nearest);

/* ---- completion.c ---- */
/* The script by which that shell completes commands, options, settings and their words. False:
 * there is none for it. */
bool completion_script(struct text *to, const char *shell);

/* ---- notify.c ---- */
/* Tells the service manager, if there is one ("READY=1"). */
void notify(const char *state);

#endif
