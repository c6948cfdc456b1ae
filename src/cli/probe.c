/* probe.c - looks for problems on this machine that the command serve would meet.
 * SPDX-License-Identifier: Apache-2.0
 *
 * There is a table of probes, and each probe is a function. The probes share code with the start of
 * serve, so that check and serve come to the same result. If a running Penstock with these settings
 * already holds a resource, that is only noted, because operators also run check before a reload or
 * a restart. */
#include <jansson.h>
#include <string.h>

#include "cli/ask.h"
#include "cli/check.h"
#include "cli/fills.h"
#include "http/http.h"
#include "store/disk.h"
#include "store/store.h"

/* ---- is Penstock running already? ---- */

static slice get(const struct check *check, const char *address, slice path)
{
    struct answer answer = ask(check->keep, slice_of(address), path,
                               slice_of(check->config->admin_token), ASK_MS);
    return answer.status == 200 ? answer.body : S("");
}

static bool has(const json_t *object, const char *member, const char *value)
{
    const char *found = json_string_value(json_object_get(object, member));
    return found && strcmp(found, value) == 0;
}

/* Finds the folders of the settings that are also in a status document. Returns false if there are
 * none. A reload or restart may add folders, remove them, or change their order. */
static bool find_folders(struct check *check, const json_t *folders)
{
    const json_t *row;
    size_t at;
    bool any = false;
    json_array_foreach((json_t *)(uintptr_t)folders, at, row)
        for (size_t i = 0; i < check->config->folder_count; i++)
            any |= check->uses[i] |= has(row, "path", check->config->folders[i].path);
    return any;
}

/* Finds the folders that a process holds. Returns false if there are none. */
static bool find_held(struct check *check)
{
    slice why;
    bool any = false;
    for (size_t i = 0; i < check->config->folder_count; i++)
        any |= check->uses[i] =
            store_probe(check->config->folders[i].path, check->keep, &why) == ERR_BUSY;
    return any;
}

/* True if a Penstock with these settings is running: its status document has one of the cache folders
 * and the same address for clients. The document may be missing, because it needs another token, or
 * its address is off or has changed. Without it, the result is true if a Penstock answers at `listen`,
 * and a process holds one of the cache folders. */
static bool is_running(struct check *check)
{
    const struct config *config = check->config;
    json_error_t error;
    bool off = strcmp(config->admin_listen, "off") == 0;
    slice document = off ? S("") : get(check, config->admin_listen, S("/status"));
    if (!document.len) {    /* the health document does not contain the folder */
        slice health = get(check, config->listen, S("/_/health/ready"));
        return slice_starts(health, S("{\"status\":\"")) && find_held(check);
    }
    json_t *status = json_loadb(document.ptr, document.len, 0, &error);
    json_t *folders = json_object_get(json_object_get(status, "cache"), "folders");
    bool same = find_folders(check, folders) && has(status, "listen", config->listen);
    json_decref(status);
    return same;
}

/* ---- the probes ---- */

static void engine(struct check *check)
{
    enum disk_engine found;
    const char *why = "";
    if (disk_choose(slice_of(check->config->io), &found, &why))
        check_report(check, STOPPED, "io is uring, which can't be used here: %s. So serve would "
                     "not start. Set io to auto or threads", why);
}

/* Says how serve would start without the folder. */
static const char *without_it(const struct check *check, enum err err)
{
    return err == ERR_FORMAT                   ? "not start"
           : check->config->folder_count == 1 ? "run without a cache"
                                              : "run without this folder";
}

/* Returns the folder before folder `at` that has the same volume id, or NULL. */
static const char *original_of(const struct check *check, size_t at)
{
    const struct config_folder *folders = check->config->folders;
    for (size_t i = 0; i < at; i++)
        if (store_is_copy_of(folders[at].path, folders[i].path))
            return folders[i].path;
    return NULL;
}

static void folder(struct check *check, const struct config_folder *folder, const char *first)
{
    slice why;
    const char *path = folder->path;
    size_t at = (size_t)(folder - check->config->folders);
    const char *original = original_of(check, at);
    bool theirs = check->running && check->uses[at];    /* free when the running Penstock ends */
    enum err err = store_probe(path, check->keep, &why);
    bool usable = !err || (err == ERR_BUSY && theirs);
    if (usable && !store_is_of(path, first)) {
        err = ERR_BUSY;
        why = arena_printf(check->keep, "this folder belongs to another installation than %s, an "
                                        "earlier folder in cache_dirs; empty this folder (not "
                                        "%s), or list "
                           "another folder in its place", first, first);
    } else if (usable && original) {
        err = ERR_BUSY;
        why = arena_printf(check->keep, "this folder and %s, an earlier folder in cache_dirs, "
                           "have the same volume id, so one of the two is a copy; empty the copy, "
                           "or list another folder in place of the copy", original);
    } else if (err == ERR_BUSY && theirs) {
        check_report(check, NOTED, "the running Penstock with these settings uses the cache folder "
                     "%s", path);
        return;
    }
    if (err)
        check_report(check, STOPPED, err == ERR_DENIED
                     ? "this user can't use the cache folder %s. If Penstock runs as another user, run "
                       "this check as that user. If Penstock runs as this user, serve would %s. The "
                       "reason: %.*s"
                     : "the cache folder %s can't be used, so serve would %s: %.*s",
                     path, without_it(check, err), SLICE_ARG(why));
}

static void size(struct check *check, const struct config_folder *folder)
{
    struct store_space space;
    slice on = cli_existing_folder(folder->path, check->keep, &space);
    slice small = cli_small_cache(slice_of(folder->path), store_derived_size(folder->path, on.ptr),
                                  !folder->size_bytes, check->keep);
    if (small.len)
        check_report(check, WARNED, "%.*s", SLICE_ARG(small));
}

static void folders(struct check *check)
{
    const struct config *config = check->config;
    const char *first = NULL;    /* has a secret; serve refuses a folder whose secret differs */
    for (size_t i = 0; i < config->folder_count; i++) {
        if (!first && store_has_secret(config->folders[i].path))
            first = config->folders[i].path;
        folder(check, &config->folders[i], first);
        size(check, &config->folders[i]);
    }
}

/* Sockets that another process passes to serve; check gets them only in the place of serve
 * (systemd-socket-activate penstock check). Returns true if any were passed. */
static bool sockets(struct check *check)
{
    slice why;
    enum err err = inherited_find(check->config, check->keep, &check->inherited, &why);
    if (err)
        check_report(check, STOPPED, "serve would not start: %.*s", SLICE_ARG(why));
    if (check->inherited.ignored.len)
        check_report(check, WARNED, "%.*s", SLICE_ARG(check->inherited.ignored));
    if (check->inherited.count)
        check_report(check, NOTED, "sockets: %zu of the sockets of these settings are open "
                     "already, and were passed to this process (LISTEN_FDS)",
                     check->inherited.count);
    return err || check->inherited.count;
}

static void ports(struct check *check)
{
    const struct config *config = check->config;
    const struct {
        const char *name, *address;
        enum listener which;
    } rows[] = { { "listen", config->listen, LISTENER_S3 },
                 { "tls_listen", config->tls_listen, LISTENER_TLS },
                 { "admin_listen", config->admin_listen, LISTENER_ADMIN },
                 { "peer_listen", config->peer_listen, LISTENER_PEER } };
    for (size_t i = 0; i < countof(rows); i++) {
        slice why;
        bool is_open = check->inherited.fds[rows[i].which] > 0;
        enum err err = strcmp(rows[i].address, "off") == 0 || is_open
            ? OK : http_could_listen(rows[i].name, rows[i].address, check->keep, &why);
        if (err == ERR_BUSY && check->running)
            check_report(check, NOTED, "%s: the running Penstock with these settings listens on %s",
                         rows[i].name, rows[i].address);
        else if (err)
            check_report(check, STOPPED, "serve would not start: %.*s%s", SLICE_ARG(why),
                         err == ERR_BUSY ? ". If that process is systemd, with the socket units of "
                         "Penstock (systemctl list-sockets), serve starts as their service" : "");
    }
}

/* A missing folder below /run is only a warning: systemd makes it when it starts the service. */
static void fill_socket(struct check *check)
{
    slice why;
    const char *path = check->config->fill_socket;
    enum err err = check->inherited.fds[LISTENER_FILL]
        ? OK : fills_look(check->config, check->keep, &why);
    bool made_later = err == ERR_NOT_FOUND && strncmp(path, "/run/", 5) == 0;
    if (err == ERR_BUSY && check->running)
        check_report(check, NOTED, "fill_socket: the running Penstock with these settings listens "
                     "at %s", path);
    else if (made_later)
        check_report(check, WARNED, "fill_socket %s: the folder of this path does not exist now, "
                     "and serve needs it. systemd makes the folder if the unit has "
                     "RuntimeDirectory. Without systemd, make the folder before you start serve",
                     path);
    else if (err)
        check_report(check, STOPPED, "serve would not start: %.*s", SLICE_ARG(why));
}

void probe_all(struct check *check)
{
    static void (*const probes[])(struct check *check) = {
        engine, folders, ports, fill_socket,
    };
    check(!check->count[MISTAKEN]);    /* the settings are those that serve would use */
    /* A question to a socket that was passed to this process would get no answer. */
    check->running = !sockets(check) && is_running(check);
    for (size_t i = 0; i < countof(probes); i++)
        probes[i](check);
}
