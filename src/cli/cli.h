/* cli.h - what the subcommands share. SPDX-License-Identifier: Apache-2.0
 *
 * A subcommand takes its own options out of argv. The flags that are left are settings. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>

#include "base/config.h"

/* Documented in penstock(1). EXIT_INCOMPLETE: the answer lacks what the service could not read. */
enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INCOMPLETE = 3 };

struct command;
struct cli {
    const struct command *command;
    size_t argc;           /* number of words after the subcommand */
    const char **argv;
    struct arena arena;
};

/* An option of one command. Settings are flags, too; base/config.def has them. */
struct command_option {
    const char *flag;      /* "--json"; NULL ends the list */
    const char *value;     /* "a|b": one of these words; "FILE", "URL" ...; NULL: no value */
    const char *help;
};

struct command {
    const char *name, *args, *help;
    int (*run)(struct cli *cli);
    const struct command_option *options;    /* NULL: it has no options of its own */
    bool takes_settings;   /* it takes settings as flags, in addition to its own options */
    const char *words;     /* its first argument: "a|b" or "FILE"; NULL: no argument */
    const char *more;      /* further sentences of its help, one on a line */
    const char *with;      /* the list of all commands, which fits a screen, has it on the line of
                            * this one; NULL: it has a line of its own */
};
#define COMMAND(name) extern const struct command command_##name;
#include "cli/command.def"
extern const struct command *const commands[];
extern const size_t command_count;

/* Takes "--name" (or "--name VALUE", "--name=VALUE") out of argv. */
bool cli_flag(struct cli *cli, const char *flag);
const char *cli_option(struct cli *cli, const char *flag);    /* NULL: not given */
const char *cli_word(struct cli *cli);    /* the first argument, unless it is a flag; or NULL */

/* Reads the settings. Their file is `path` (NULL: the default file), unless a flag or variable
 * gives another file. */
struct config *cli_load(struct cli *cli, const char *path) MUST_USE;
/* Prints the mistakes, one on a line, and returns their number. `source` is NULL, or "command line"
 * for a command that needs only a few settings: then only mistakes on the command line count. */
size_t cli_mistakes(struct cli *cli, const struct config *config, const char *source, FILE *to);

/* ---- warn.c ---- */
/* Reports a sentence for each setting that is valid, but may be a mistake. */
struct memory;
void cli_warnings(const struct config *config, const struct memory *memory,
                  void (*report)(void *arg, slice warning), void *arg);

/* Returns a sentence if no setting gives the size of the cache folder (`derived`: it comes from the
 * free space), and the size is too small to be useful. Otherwise returns an empty slice. */
slice cli_small_cache(slice folder, uint64_t size_bytes, bool derived, struct arena *keep) MUST_USE;

/* Returns the nearest existing folder at or above a path, and the space of its file system. */
struct store_space;
slice cli_existing_folder(const char *path, struct arena *keep, struct store_space *ret) MUST_USE;

/* ---- tls.c ---- */
struct http_tls;
/* The listeners with a certificate: tls_listen, peer_listen. */
enum certificate_of { CERTIFICATE_CLIENTS, CERTIFICATE_PEERS, CERTIFICATES };
struct cli_certificate {
    const char *setting, *listen;       /* "tls_listen" and its value */
    const char *cert_setting, *cert, *key;    /* "tls_cert_file" and its value; of the key */
};
struct cli_certificate cli_certificate(const struct config *config, enum certificate_of which);
/* Opens a certificate of the settings. If its listener is off, returns OK, and *ret is NULL. */
enum err cli_tls_open(const struct config *config, enum certificate_of which, struct arena *keep,
                      struct http_tls **ret, slice *ret_why) MUST_USE;
/* Returns a sentence if nodes with the same settings would refuse the certificate of this one,
 * otherwise an empty slice. */
slice cli_peer_fault(const struct config *config, struct http_tls *tls, struct arena *keep);
/* Returns a sentence if the certificate expires soon or has expired, otherwise an empty slice. */
slice cli_tls_warning(const struct config *config, enum certificate_of which, struct http_tls *tls,
                      struct arena *keep) MUST_USE;

/* ---- generate.c ---- */
void generate_example(struct text *to, struct arena *keep);    /* a file with every setting */

/* ---- manual.c: texts that are made from tables ---- */
void manual_settings(struct text *to);
void manual_memory(struct text *to);
void manual_metrics(struct text *to);
void manual_operations(struct text *to);
void manual_help_operations(struct text *to);    /* penstock help operations */

/* ---- help.c ---- */
/* Calls `row` for each setting, in the order of the table. Calls `heading` before the first setting
 * of a section, or of a scope that has a title. Constants are left out. */
void help_each_setting(struct text *to, const char *const titles[SCOPE_CONSTANT],
                       void (*heading)(struct text *to, const char *title),
                       void (*row)(struct text *to, const struct setting *setting));
void help_command(struct text *to, const struct command *command);
/* Returns the command with that name, or NULL. *ret_nearest is then a similar name, or NULL. */
const struct command *command_find(const char *name, const char **ret_nearest);

/* ---- completion.c ---- */
/* Writes the completions of the last word of `line`, which is the command line without "penstock".
 * The last word is the one under the cursor, and may be empty. */
void completion_candidates(struct text *to, const char *line);
/* Write the scripts with which shells complete commands, options, settings and their words. */
void completion_bash(struct text *to);
void completion_zsh(struct text *to);
void completion_fish(struct text *to);

/* ---- notify.c ---- */
/* Sends a state ("READY=1") to the service manager, if there is one. */
void notify(const char *state);

#endif
