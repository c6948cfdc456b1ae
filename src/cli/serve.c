/* serve.c - the life of the daemon: set-up, signals, tear-down.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Set-up is the table of steps read forwards (daemon.c). Tear-down is the same table read
 * backwards, from the last step that succeeded (rule H11 in src/README.md). In between, the main
 * thread waits for signals. The first SIGTERM or SIGINT starts a drain; a second one ends the
 * process at once. SIGHUP reloads the settings. */
#include <assert.h>
#include <config.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/serve.h"
#include "local/local.h"

/* ---- signals: they set flags and wake the main thread ---- */

static atomic_int stop_signals;
static atomic_bool reload_wanted;
static atomic_int reload_pid, reload_uid;    /* of the process that sent the last SIGHUP */
static int wake_fd = -1;

#define UID_NONE -1                          /* the kernel sent it: a terminal was closed */

static void note_reload(const siginfo_t *from)
{
    bool by_process = from->si_code <= 0;
    atomic_store(&reload_pid, by_process ? (int)from->si_pid : 0);
    atomic_store(&reload_uid, by_process ? (int)from->si_uid : UID_NONE);
    atomic_store(&reload_wanted, true);
}

static void on_signal(int number, siginfo_t *from, void *context)
{
    (void)context;
    if (number == SIGHUP)
        note_reload(from);
    else if (atomic_fetch_add(&stop_signals, 1) > 0) {
        log_access_last();
        _exit(EXIT_FAILED);    /* the cache survives this, as it survives kill -9 */
    }
    uint64_t one = 1;
    (void)!write(wake_fd, &one, sizeof(one));
}

static void catch_signals(void)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    check(wake_fd >= 0);
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO };
    for (size_t i = 0; i < countof(numbers); i++)
        check(sigaction(numbers[i], &action, NULL) == 0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);    /* a write beyond RLIMIT_FSIZE fails */
}

bool serve_is_stopping(void)
{
    return atomic_load(&stop_signals) > 0;
}

/* Returns after a signal, or after timeout_ms. */
static void wait_for_signal(int timeout_ms)
{
    struct pollfd waiting = { .fd = wake_fd, .events = POLLIN };
    check(wake_fd >= 0 && timeout_ms > 0);
    poll(&waiting, 1, timeout_ms);
    uint64_t count;
    (void)!read(wake_fd, &count, sizeof(count));
}

/* ---- logging ---- */

/* If the setting "log_format" is "auto", the log is text where people read it (at a terminal or in
 * the journal), and otherwise JSON. */
static void log_begin(const struct config *config)
{
    static const char *const levels[] = { "debug", "info", "warn", "error", "off" };
    static_assert(countof(levels) == LOG_LEVEL_OFF + 1, "a word for each level");
    size_t level = 0;
    while (level < countof(levels) && strcmp(levels[level], config->log_level) != 0)
        level++;
    check(level < countof(levels));
    bool json = strcmp(config->log_format, "json") == 0;
    if (strcmp(config->log_format, "auto") == 0)
        json = !isatty(STDERR_FILENO) && !getenv("JOURNAL_STREAM");
    log_setup((enum log_level)level, json);
}

static void log_warning(void *arg, slice warning)
{
    struct arena keep = { 0 };
    (void)arg;
    log_warn("setting", "why=\"%.*s\"", SLICE_ARG(log_sentence(&keep, warning)));
    arena_free(&keep);
}

enum err serve_log_up(struct serve *serve)
{
    const struct config *config = serve->config;
    log_begin(config);
    log_info("start", "version=%s listen=%s tls_listen=%s admin=%s cache=%s folders=%zu",
             PACKAGE_VERSION, config->listen, config->tls_listen, config->admin_listen,
             config->folders[0].path, config->folder_count);
    serve->memory = memory_of(config, &serve->keep);
    log_info("memory", "bytes=%ju from=\"%.*s\"", (uintmax_t)serve->memory.bytes,
             SLICE_ARG(serve->memory.from));
    cli_warnings(config, &serve->memory, log_warning, NULL);
    if (log_access_start())
        return OK;
    serve->why = S("can't start a thread for the access log: raise the limit of threads "
                   "(ulimit -u, TasksMax)");
    return ERR_LIMIT;
}

void serve_log_down(struct serve *serve)
{
    (void)serve;
    log_access_stop();
    log_info("stopped", "%s", "");
}

/* ---- the steps ---- */

/* Returns the number of steps that succeeded: all of them, or those before the step that failed. */
static size_t steps_up(struct serve *serve)
{
    for (size_t i = 0; i < daemon_step_count; i++) {
        enum err e = daemon_steps[i].up(serve);
        if (e) {
            log_error("start_failed", "step=%s error=%s why=\"%.*s\"", daemon_steps[i].name,
                      err_name(e), SLICE_ARG(log_sentence(&serve->keep, serve->why)));
            return i;
        }
    }
    return daemon_step_count;
}

static void steps_down(struct serve *serve, size_t standing)
{
    check(standing <= daemon_step_count);
    while (standing-- > 0)
        if (daemon_steps[standing].down)
            daemon_steps[standing].down(serve);
}

/* ---- the life of the daemon ---- */

static slice or_nothing(slice text)
{
    return text.len ? text : S("nothing");
}

/* The line has the form of front/audit.c. It is written under the old log_level, so that a reload
 * that switches the log off leaves it, too. */
static void audit_reload(enum err err)
{
    int uid = atomic_load(&reload_uid), pid = atomic_load(&reload_pid);
    if (uid == UID_NONE)
        log_info("audit", "action=reload who=kernel from=signal result=%s", err_name(err));
    else
        log_info("audit", "action=reload who=uid:%d from=signal pid=%d result=%s", uid, pid,
                 err_name(err));
}

/* Applies all reloadable settings, or none if there is a mistake. Each reload logs the settings
 * that wait for a restart. */
static void reload(struct serve *serve)
{
    struct config *fresh = cli_load(serve->cli, NULL);
    struct arena *keep = &fresh->arena;
    slice why = S("");
    if (fresh->mistakes)
        why = config_mistake_line(fresh->mistakes, keep);
    enum err err = fresh->mistakes ? ERR_BAD_ARGUMENT : rules_keys(serve, fresh, keep, &why);
    audit_reload(err);
    if (err) {
        log_warn("reload_refused", "why=\"%.*s; all old settings stay in force\"",
                 SLICE_ARG(log_sentence(keep, why)));
        config_free(&fresh);
        return;
    }
    slice changed = config_changes(serve->reloaded ? serve->reloaded : serve->config, fresh, true,
                                   keep);
    slice waiting = config_changes(serve->config, fresh, false, keep);
    log_begin(fresh);
    certificates_reload(serve);
    store_set_limits(serve->store, rules_limits(fresh, keep), fresh->bucket_count);
    front_access_log(serve->front, fresh->access_log);
    if (serve->local)
        local_access_log(serve->local, fresh->access_log);
    if (serve->apps.peers)
        peer_server_bandwidth(serve->apps.peers, fresh->peer_bandwidth_bytes);
    log_info("reloaded", "changed=\"%.*s\" needs_restart=\"%.*s\"", SLICE_ARG(or_nothing(changed)),
             SLICE_ARG(or_nothing(waiting)));
    struct memory memory = memory_of(fresh, keep);
    cli_warnings(fresh, &memory, log_warning, NULL);
    config_free(&serve->reloaded);
    serve->reloaded = fresh;
}

static void live(struct serve *serve)
{
    notify("READY=1");
    log_info("ready", "listen=%s tls_listen=%s", serve->config->listen, serve->config->tls_listen);
    while (!serve_is_stopping()) {
        wait_for_signal(1000);
        daemon_watch(serve);
        if (atomic_exchange(&reload_wanted, false))
            reload(serve);
    }
    notify("STOPPING=1");
    log_info("draining", "limit_ms=%ju", (uintmax_t)serve->config->drain_time_ms);
}

static int run_serve(struct cli *cli)
{
    struct serve serve = { .cli = cli, .config = cli_load(cli, NULL) };
    if (cli_mistakes(cli, serve.config, NULL, stderr)) {
        config_free(&serve.config);
        return EXIT_USAGE;
    }
    recent_init(&serve.recent, mono_ms());
    catch_signals();
    size_t standing = steps_up(&serve);
    bool all = standing == daemon_step_count;
    if (all)
        live(&serve);
    steps_down(&serve, standing);
    arena_free(&serve.keep);
    config_free(&serve.reloaded);
    config_free(&serve.config);
    return all ? EXIT_GOOD : EXIT_FAILED;
}

const struct command command_serve = {
    .name = "serve", .args = "[SETTINGS]", .run = run_serve, .takes_settings = true,
    .help = "run the cache in the foreground",
    .more = "SIGTERM stops Penstock cleanly. SIGHUP makes Penstock read the reloadable settings "
            "again.",
};
