/* check.c - the subcommand check: the settings, and what serve would meet with them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * First what is wrong in the settings themselves; where nothing is, what stands in serve's way
 * (probe.c), then what its origins say (probe_origin.c). It changes nothing, and its time is
 * bounded: it is for people and their scripts, and no ExecStartPre, since an origin that is down
 * must keep no service from its cache. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/check.h"
#include "cli/credentials.h"
#include "cli/fills.h"
#include "cli/memory.h"
#include "http/tls.h"
#include "origin/curl.h"
#include "origin/origin.h"
#include "s3/encode.h"

void check_say(struct check *check, enum check_grade grade, slice text)
{
    static const char *const marks[CHECK_GRADES] = { "", "warning: ", "error: ", "" };
    check->count[grade]++;
    printf("%s%.*s\n", marks[grade], SLICE_ARG(text));
}

/* ---- credentials ---- */

static bool is_mistake(enum err err)    /* else the source only fails for now, and serve starts */
{
    return err == ERR_NOT_FOUND || err == ERR_BAD_ARGUMENT;
}

static void say_failure(struct check *check, enum err err, slice why)
{
    check_say(check, is_mistake(err) ? MISTAKEN : WARNED,
              arena_printf(check->keep, "credentials: %.*s", SLICE_ARG(why)));
}

static void say_found(struct check *check, const char *name, const struct credentials *found)
{
    char expires[ISO_DATE_BYTES] = "";
    if (found->expires_s)
        iso_date_write(found->expires_s, expires);
    slice key = found->access_key.len ? found->access_key : S("somebody who is not asked for now");
    check_say(check, NOTED, arena_printf(check->keep, "credentials: origin %s is asked as %.*s, "
                                         "from: %.*s%s%s", name, SLICE_ARG(key),
                                         SLICE_ARG(found->from), *expires ? ", until " : "",
                                         expires));
    if (found->nameless)    /* whose they are decides who is shown what is cached */
        check_say(check, NOTED, arena_printf(check->keep, "credentials: origin %s: their source "
                                             "does not say whose they are: should it give those of "
                                             "another role than before, empty the cache", name));
}

/* Asks for them as serve will, so that what it would be told is told now. */
static void check_origin(struct check *check, const struct config_origin *origin)
{
    struct credentials found;
    slice why;
    enum err err = credentials_at_origin(origin, check->offline ? NULL : check->carriers,
                                         check->keep, &found, &why);
    if (err == ERR_NOT_FOUND && credentials_may_lack(check->config, origin))
        check_say(check, NOTED, arena_printf(check->keep, "credentials: origin %s: none of "
                                             "Penstock's own, and none needed: every client has "
                                             "an origin identity of its own", origin->name));
    else if (err)
        say_failure(check, err, why);
    else
        say_found(check, origin->name, &found);
}

/* Opens it as serve will: for kinds that are not called over a network. */
static void check_opening(struct check *check, const struct config_origin *origin)
{
    struct origins *origins = origins_new(1);
    struct origin_options options = { .name = origin->name, .url = origin->url };
    struct origin *opened;
    slice why;
    enum err err = origins_add(origins, &options, check->keep, &opened, &why);
    slice where = config_where(&origin->where[setting_at(SCOPE_ORIGIN, S("url"))], check->keep);
    if (err)
        check_say(check, MISTAKEN, arena_printf(check->keep, "%.*s: origin %s can't be used: %.*s",
                                                SLICE_ARG(where), origin->name, SLICE_ARG(why)));
    origins_free(&origins);
}

/* What serve would stop at although each setting is right. Half a pair among the settings was said
 * already. */
static void check_credentials(struct check *check)
{
    const struct config *config = check->config;
    struct credentials found;
    slice why;
    enum err err = OK;
    if (config->key_count == 0 && !config->lend)    /* who lends has clients without keys */
        err = credentials_of_clients(config, check->keep, &found, &why);
    if (err)
        check_say(check, MISTAKEN, arena_printf(check->keep, "credentials: %.*s", SLICE_ARG(why)));
    for (size_t i = 0; i < config->origin_count; i++) {
        const struct config_origin *origin = &config->origins[i];
        bool half = !origin->access_key[0] != !origin->secret_key[0];
        if (credentials_are_needed(origin) && !half)
            check_origin(check, origin);
        else if (origin->kind && origin->kind->probe == PROBE_OPEN)
            check_opening(check, origin);
    }
}

/* ---- files and users ---- */

/* Do its files fit each other? What is missing among the settings was said already. */
static void check_tls(struct check *check)
{
    struct http_tls *tls;
    slice why, warning;
    if (!check->config->tls_cert_file[0])
        return;
    if (cli_tls_open(check->config, check->keep, &tls, &why)) {
        check_say(check, MISTAKEN, arena_printf(check->keep, "tls_cert_file: %.*s",
                                                SLICE_ARG(why)));
        return;
    }
    warning = tls ? cli_tls_warning(tls, check->keep) : S("");
    if (warning.len)
        check_say(check, WARNED, warning);
    http_tls_free(&tls);
}

static void check_fills(struct check *check)
{
    slice why;
    if (!fills_could(check->config, check->keep, &why))
        check_say(check, MISTAKEN, why);
}

static void check_memory(struct check *check)
{
    struct memory memory = memory_of(check->config, check->keep);
    struct text parts = text_in(check->keep);
    for (size_t i = 0; i < BUDGET_COUNT; i++)
        text_printf(&parts, "%s%s %ju", i ? ", " : "", budget_rows[i].name,
                    (uintmax_t)(memory.budgets.bytes[i] / MIB));
    check_say(check, NOTED, arena_printf(check->keep, "memory: %ju MiB (%.*s), divided in MiB: %.*s",
                                         (uintmax_t)(memory.bytes / MIB), SLICE_ARG(memory.from),
                                         SLICE_ARG(text_slice(&parts))));
}

/* ---- the whole ---- */

static struct check *warned;             /* whom a warning of the settings counts for */

static void say_warning(slice warning)
{
    check_say(warned, WARNED, warning);
}

static int verdict(const struct check *check, bool strict)
{
    size_t mistakes = check->count[MISTAKEN];
    if (mistakes)
        printf("settings: %zu mistake%s\n", mistakes, mistakes == 1 ? "" : "s");
    else if (check->count[STOPPED])
        puts("settings: fine, but serve would not start with them, or run without its cache: see "
             "the errors above");
    else
        puts("settings: fine");
    return mistakes ? EXIT_USAGE
         : check->count[STOPPED] || (strict && check->count[WARNED]) ? EXIT_FAILED : EXIT_GOOD;
}

static int run_check(struct cli *cli)
{
    bool strict = cli_flag(cli, "--strict");
    bool offline = cli_flag(cli, "--offline");
    const char *file = cli_word(cli);
    struct config_sources from = {
        .argc = cli->argc, .argv = cli->argv, .env = (const char *const *)environ, .path = file,
        .kinds = origin_url_kind,
    };
    struct check check = { .keep = &cli->arena, .carriers = carriers_new(1) };
    struct config *config = config_load(&from);
    log_setup(LOG_LEVEL_OFF, false);
    check.config = config;
    check.offline = offline;
    check.count[MISTAKEN] = cli_mistakes(cli, config, false);
    if (!config->file_unread) {
        check_credentials(&check);
        check_tls(&check);
        check_fills(&check);
        check_memory(&check);
    }
    warned = &check;
    cli_warnings(config, say_warning);
    if (!check.count[MISTAKEN])
        probe_all(&check);
    if (!check.count[MISTAKEN] && !offline)
        probe_origins(&check);
    carriers_free(&check.carriers);
    int status = verdict(&check, strict);
    config_free(&config);
    return status;
}

static const struct command_option options[] = {
    { "--strict", NULL, "warnings are failures, too: exit 1" },
    { "--offline", NULL, "ask no origin, nor who lends credentials" },
    { 0 },
};

const struct command command_check = {
    .name = "check", .args = "[FILE] [SETTINGS]", .run = run_check, .takes_settings = true,
    .help = "say what is wrong in the settings, and what serve would meet", .words = "FILE",
    .options = options,
    .more = "FILE is read in place of the settings file in force. Nothing is changed.\n"
            "Exits 2 if the settings are wrong, 1 if serve would not start or would run\n"
            "without its cache, else 0, also with warnings, of an origin for instance.\n"
            "Not for an ExecStartPre: a cache must start while its origin is down.",
};
