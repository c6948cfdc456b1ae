/* serve.c - the list of steps up and down, and what signals do. SPDX-License-Identifier: Apache-2.0
 *
 * Setting up is the table of steps read forwards, tearing down is the same table read backwards
 * from the last step that stood (H11). The main thread then waits: SIGTERM or SIGINT drains, a
 * second one ends the process at once, SIGHUP reloads what can be. */
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
#include "cli/fills.h"
#include "cli/serve.h"

/* ---- signals: set flags, wake the main thread ---- */

static atomic_int stop_signals;
static atomic_bool reload_wanted;
static int wake_fd = -1;

static void on_signal(int number)
{
    if (number == SIGHUP)
        atomic_store(&reload_wanted, true);
    else if (atomic_fetch_add(&stop_signals, 1) > 0) {
        log_access_last();
        _exit(EXIT_FAILED);    /* asked twice: at once, the cache is made for that */
    }
    uint64_t one = 1;
    ssize_t ignored = write(wake_fd, &one, sizeof(one));
    (void)ignored;
}

static enum err signals_up(struct serve *serve)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    check(wake_fd >= 0);
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    for (size_t i = 0; i < countof(numbers); i++)
        check(sigaction(numbers[i], &action, NULL) == 0);
    signal(SIGPIPE, SIG_IGN);
    return OK;
}

/* Returns when something was signalled, or after timeout_ms (-1: never). */
static void wait_for_signal(int timeout_ms)
{
    struct pollfd waiting = { .fd = wake_fd, .events = POLLIN };
    poll(&waiting, 1, timeout_ms);
    uint64_t count;
    ssize_t ignored = read(wake_fd, &count, sizeof(count));
    (void)ignored;
}

/* ---- logging ---- */

/* "auto": text for a terminal or the journal, which both are read by people; else JSON. */
static void log_begin(const struct config *config)
{
    static const char *const levels[] = { "debug", "info", "warn", "error", "off" };
    size_t level = 0;
    while (strcmp(levels[level], config->log_level) != 0)
        level++;
    bool json = strcmp(config->log_format, "json") == 0;
    if (strcmp(config->log_format, "auto") == 0)
        json = !isatty(STDERR_FILENO) && !getenv("JOURNAL_STREAM");
    log_setup((enum log_level)level, json);
}

static void log_warning(slice warning)
{
    log_warn("setting", "why=\"%.*s\"", SLICE_ARG(warning));
}

static enum err log_up(struct serve *serve)
{
    log_begin(serve->config);
    log_info("start", "version=%s listen=%s tls_listen=%s admin=%s cache=%s", PACKAGE_VERSION,
             serve->config->listen, serve->config->tls_listen, serve->config->admin_listen,
             serve->config->cache_dir);
    cli_warnings(serve->config, log_warning);
    if (log_access_start())
        return OK;
    serve->why = S("can't start a thread for the access log: see ulimit -u");
    return ERR_LIMIT;
}

static void log_down(struct serve *serve)
{
    log_access_stop();
    log_info("stopped", "%s", "");
}

/* ---- the table ---- */

static const struct step own_steps[] = {
    { "signals", signals_up, NULL },
    { "log", log_up, log_down },
};

/* Our own, then the rooms of the house. */
static const struct step *step_at(size_t i)
{
    return i < countof(own_steps) ? &own_steps[i] : &house_steps[i - countof(own_steps)];
}

static size_t step_count(void)
{
    return countof(own_steps) + house_step_count;
}

/* How many steps stand: all of them, or those before the one that failed. */
static size_t steps_up(struct serve *serve)
{
    for (size_t i = 0; i < step_count(); i++) {
        enum err e = step_at(i)->up(serve);
        if (e) {
            log_error("start_failed", "step=%s error=%s why=\"%.*s\"", step_at(i)->name,
                      err_name(e), SLICE_ARG(serve->why));
            return i;
        }
    }
    return step_count();
}

static void steps_down(struct serve *serve, size_t standing)
{
    while (standing-- > 0)
        if (step_at(standing)->down)
            step_at(standing)->down(serve);
}

/* ---- the life of the service ---- */

static slice or_nothing(slice text)
{
    return text.len ? text : S("nothing");
}

/* All of it or, with one mistake, nothing. What needs a restart is named each time, until that. */
static void reload(struct serve *serve)
{
    struct config *fresh = cli_load(serve->cli);
    if (fresh->mistakes) {
        slice line = config_mistake_line(fresh->mistakes, &fresh->arena);
        line = log_sentence(&fresh->arena, line);
        log_warn("reload_refused", "why=\"%.*s\"", SLICE_ARG(line));
        config_free(&fresh);
        return;
    }
    struct arena *keep = &fresh->arena;
    slice why = S("");
    if (places_keys(serve, fresh, keep, &why)) {
        log_warn("reload_refused", "why=\"%.*s\"", SLICE_ARG(why));
        config_free(&fresh);
        return;
    }
    slice changed = config_changes(serve->reloaded ? serve->reloaded : serve->config, fresh, true,
                                   keep);
    slice waiting = config_changes(serve->config, fresh, false, keep);
    log_begin(fresh);
    house_reload(serve);
    front_access_log(serve->front, fresh->access_log);
    fills_access_log(serve, fresh->access_log);
    log_info("reloaded", "changed=\"%.*s\" needs_restart=\"%.*s\"", SLICE_ARG(or_nothing(changed)),
             SLICE_ARG(or_nothing(waiting)));
    cli_warnings(fresh, log_warning);
    config_free(&serve->reloaded);
    serve->reloaded = fresh;
}

static void live(struct serve *serve)
{
    notify("READY=1");
    log_info("ready", "listen=%s tls_listen=%s", serve->config->listen, serve->config->tls_listen);
    while (atomic_load(&stop_signals) == 0) {
        wait_for_signal(1000);
        house_watch(serve);
        if (atomic_exchange(&reload_wanted, false))
            reload(serve);
    }
    notify("STOPPING=1");
    log_info("draining", "limit_ms=%ju", (uintmax_t)serve->config->drain_time_ms);
}

static int run_serve(struct cli *cli)
{
    struct serve serve = { .cli = cli, .config = cli_load(cli) };
    if (cli_mistakes(cli, serve.config, true)) {
        config_free(&serve.config);
        return EXIT_USAGE;
    }
    recent_init(&serve.recent, mono_ms());
    size_t standing = steps_up(&serve);
    bool all = standing == step_count();
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
    .more = "SIGTERM ends it in order, SIGHUP reads the reloadable settings again.",
};
