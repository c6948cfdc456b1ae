/* check.c - the subcommand check: judges the settings, this machine and the origins.
 * SPDX-License-Identifier: Apache-2.0
 *
 * check first reports the mistakes in the settings. If there are none, it looks for problems on
 * this machine that would stop serve (probe.c), and then asks the origins (probe_origin.c) and the
 * other nodes of the fleet (probe_peers.c). It changes nothing, and its time is bounded. It is for
 * people and their scripts, and not for an ExecStartPre, because a service must start with its
 * cache even if an origin is down. */
#include <stdio.h>
#include <sys/resource.h>

#include "base/log.h"
#include "cli/check.h"
#include "cli/credentials.h"
#include "cli/fills.h"
#include "cli/serve.h"
#include "cli/show.h"
#include "http/tls.h"
#include "origin/origin.h"
#include "s3/encode.h"

void check_report(struct check *check, enum check_grade grade, const char *fmt, ...)
{
    static const char *const marks[CHECK_GRADES] = { "", "warning: ", "error: ", "" };
    va_list args;
    check(grade < CHECK_GRADES);
    check->count[grade]++;
    fputs(marks[grade], stdout);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

/* ---- credentials ---- */

static void report_found(struct check *check, const char *name, const struct credentials *found)
{
    slice expires = found->expires_s ? iso_date_text(check->keep, found->expires_s) : S("");
    slice key = found->access_key.len ? found->access_key
                                      : S("a key (not fetched, because of --offline)");
    check_report(check, NOTED, "credentials: Penstock signs requests to origin %s with %.*s, from: "
                 "%.*s%s%.*s", name, SLICE_ARG(key), SLICE_ARG(found->from),
                 expires.len ? "; these credentials expire at " : "", SLICE_ARG(expires));
    /* The source does not say whose credentials these are. So the grants in the cache folder
     * (proofs that an identity may read an object) may be those of another identity. */
    if (found->nameless)
        check_report(check, NOTED, "credentials: origin %s: the source does not say whose "
                     "credentials it gives. If the source changes to another role, stop "
                     "Penstock and empty each cache folder, because cached permissions belong to "
                     "the old role", name);
}

/* Asks for the credentials in the same way as serve, so that a failure of serve shows now. Returns
 * false if the credentials would stop serve. */
static bool check_origin(struct check *check, const struct config_origin *origin)
{
    struct credentials found;
    slice why;
    enum err err = credentials_at_origin(origin, !check->offline, check->keep, &found, &why);
    bool is_mistake = err == ERR_NOT_FOUND || err == ERR_BAD_ARGUMENT;    /* else serve starts */
    if (err == ERR_NOT_FOUND && credentials_may_lack(check->config, origin))
        check_report(check, NOTED, "credentials: origin %s: Penstock has no credentials of its own "
                     "and needs none, since every client has its own origin identity",
                     origin->name);
    else if (err)
        check_report(check, is_mistake ? MISTAKEN : WARNED, "credentials: %.*s", SLICE_ARG(why));
    else
        report_found(check, origin->name, &found);
    return !is_mistake || credentials_may_lack(check->config, origin);
}

/* Opens the origin in the same way as serve, but with keys that never sign, so that no source of
 * credentials is asked. */
static void check_opening(struct check *check, const struct config_origin *origin)
{
    struct origins *origins = origins_new(1);
    struct origin_options options = rules_origin_options(check->config, origin);
    struct origin *opened;
    slice why;
    options.access_key = options.secret_key = "none";
    options.session_token = options.secret_key_file = options.session_token_file = "";
    enum err err = origins_add(origins, &options, check->keep, &opened, &why);
    slice where = config_where(&origin->where[setting_at(SCOPE_ORIGIN, S("url"))], check->keep);
    if (err && origin->kind->probe == PROBE_OPEN)
        check_report(check, MISTAKEN, "%.*s: origin %s can't be used: %.*s", SLICE_ARG(where),
                     origin->name, SLICE_ARG(why));
    else if (err)    /* does not name `where` (the URL): the region may be wrong */
        check_report(check, MISTAKEN, "origin %s can't be used: %.*s", origin->name,
                     SLICE_ARG(why));
    origins_free(&origins);
}

/* Reports missing or failing credentials: they may stop serve although each setting is right. The
 * rules of the settings have already reported a key pair that is only half set. */
static void check_credentials(struct check *check)
{
    const struct config *config = check->config;
    struct credentials found;
    slice why;
    enum err err = OK;
    if (config->key_count == 0 && !config->lend)    /* with "lend", clients need no keys here */
        err = credentials_of_clients(config, check->keep, &found, &why);
    if (err)
        check_report(check, MISTAKEN, "credentials: %.*s", SLICE_ARG(why));
    for (size_t i = 0; i < config->origin_count; i++) {
        const struct config_origin *origin = &config->origins[i];
        bool half = !origin->access_key[0] != !origin->secret_key[0];
        bool keyed = credentials_are_needed(origin);
        bool stopped = keyed && !half && !check_origin(check, origin);
        if (keyed ? !stopped && !config->mistakes
                  : origin->kind && origin->kind->probe == PROBE_OPEN)
            check_opening(check, origin);
    }
}

/* ---- files and users ---- */

/* Checks that certificate and key fit each other. The rules of the settings have already reported a
 * missing certificate, CA file or name. */
static void check_tls(struct check *check, enum certificate_of which)
{
    struct http_tls *tls;
    slice why;
    const struct config *config = check->config;
    bool lacks_peers = which == CERTIFICATE_PEERS &&
                       (!config->peer_tls_ca_file[0] || !config->peer_name[0]);
    if (!cli_certificate(config, which).cert[0] || lacks_peers)
        return;
    if (cli_tls_open(config, which, check->keep, &tls, &why)) {
        check_report(check, MISTAKEN, "%.*s", SLICE_ARG(why));
        return;
    }
    slice warning = tls ? cli_tls_warning(config, which, tls, check->keep) : S("");
    if (warning.len)
        check_report(check, WARNED, "%.*s", SLICE_ARG(warning));
    slice fault = tls ? cli_peer_fault(config, tls, check->keep) : S("");
    if (fault.len)
        check_report(check, WARNED, "%.*s", SLICE_ARG(fault));
    http_tls_free(&tls);
}

static void check_fills(struct check *check)
{
    slice why;
    if (!fills_could(check->config, check->keep, &why))
        check_report(check, MISTAKEN, "%.*s", SLICE_ARG(why));
}

/* The limit is that of the shell that runs the check. The service may have another one. */
static slice locked_limit(struct arena *keep)
{
    struct rlimit locked;
    if (getrlimit(RLIMIT_MEMLOCK, &locked) != 0)
        return S("unknown");
    return locked.rlim_max == RLIM_INFINITY ? S("none") : show_bytes(keep, locked.rlim_max);
}

static void check_memory(struct check *check)
{
    const struct memory *memory = &check->memory;
    struct text parts = text_in(check->keep);
    for (size_t i = 0; i < BUDGET_COUNT; i++)
        text_printf(&parts, "%s%s %ju", i ? ", " : "", budget_rows[i].name,
                    (uintmax_t)(memory->budgets.bytes[i] / MIB));
    check_report(check, NOTED, "memory: %ju MiB (%.*s); budgets in MiB: %.*s; locked memory: at "
                 "most %ju MiB of the cache (memory_locked, or a quarter of the memory), and the "
                 "kernel's limit here is %.*s (ulimit -Hl; the unit has LimitMEMLOCK; a process "
                 "with CAP_IPC_LOCK has no limit)",
                 (uintmax_t)(memory->bytes / MIB), SLICE_ARG(memory->from),
                 SLICE_ARG(text_slice(&parts)), (uintmax_t)(memory->locked_bytes / MIB),
                 SLICE_ARG(locked_limit(check->keep)));
}

/* ---- the whole ---- */

static void report_warning(void *check, slice warning)
{
    check_report(check, WARNED, "%.*s", SLICE_ARG(warning));
}

static int verdict(const struct check *check, bool strict)
{
    size_t mistakes = check->count[MISTAKEN];
    if (mistakes)
        printf("settings: %zu mistake%s\n", mistakes, mistakes == 1 ? "" : "s");
    else if (check->count[STOPPED])
        puts("settings: fine, but serve would not start, or would run without a cache folder: see "
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
    struct config *config = cli_load(cli, cli_word(cli));
    struct check check = { .keep = &cli->arena, .config = config, .offline = offline };
    log_setup(LOG_LEVEL_OFF, false);
    check.memory = memory_of(config, check.keep);
    check.count[MISTAKEN] = cli_mistakes(cli, config, NULL, stdout);
    if (!config->file_unread) {
        check_credentials(&check);
        check_tls(&check, CERTIFICATE_CLIENTS);
        check_tls(&check, CERTIFICATE_PEERS);
        check_fills(&check);
        check_memory(&check);
    }
    cli_warnings(config, &check.memory, report_warning, &check);
    if (!check.count[MISTAKEN])
        probe_all(&check);
    if (!check.count[MISTAKEN] && !offline) {
        probe_origins(&check);
        probe_peers(&check);
    }
    int status = verdict(&check, strict);
    config_free(&config);
    return status;
}

static const struct command_option options[] = {
    { "--strict", NULL, "exit 1 also if there are only warnings" },
    { "--offline", NULL, "call no origin, no other node, and no source of temporary credentials" },
    { 0 },
};

const struct command command_check = {
    .name = "check", .args = "[FILE] [SETTINGS]", .run = run_check, .takes_settings = true,
    .help = "find mistakes in settings, folders, ports and origins before a start",
    .words = "FILE", .options = options,
    .more = "check reads FILE in place of the settings file in force, and changes nothing.\n"
            "The exit status is 2 if the settings are wrong. It is 1 if serve would not\n"
            "start, or would run without one or more of its cache folders. In all other\n"
            "cases it is 0, also after warnings. With --strict, it is 1 after a warning.\n"
            "Don't use check as an ExecStartPre: check waits for other machines. If a cache\n"
            "folder can't be used, check exits 1, but serve may start without that folder.",
};
