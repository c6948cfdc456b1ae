/* probe.c - what serve would meet on this machine, looked for by the code that it starts with.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One function a probe, all in one table. What a running Penstock of these settings holds is no
 * trouble, so that a check before a reload or a restart is of use. */
#include <jansson.h>
#include <string.h>

#include "cli/check.h"
#include "cli/fills.h"
#include "http/http.h"
#include "origin/web.h"
#include "store/disk.h"
#include "store/store.h"

#define ASK_MS 2000u

/* ---- is there a running one? ---- */

/* The address to connect to, for a listener at every address of this machine. */
static slice reachable(struct arena *keep, slice address)
{
    static const char *const everywhere[] = { "0.0.0.0:", "[::]:", "*:" };
    for (size_t i = 0; i < countof(everywhere); i++)
        if (slice_starts(address, slice_of(everywhere[i])))
            return arena_printf(keep, "127.0.0.1:%.*s",
                                SLICE_ARG(slice_from(address, strlen(everywhere[i]))));
    return address;
}

static slice get(const struct check *check, const char *address, const char *path)
{
    struct arena *keep = check->keep;
    slice host = reachable(keep, slice_of(address));
    const struct http_field token = { S("Authorization"), arena_printf(keep, "Bearer %s",
                                                               check->config->admin_token) };
    struct web_ask ask = {
        .method = "GET", .url = arena_printf(keep, "http://%.*s%s", SLICE_ARG(host), path),
        .fields = &token, .field_count = check->config->admin_token[0] ? 1 : 0, .time_ms = ASK_MS,
    };
    struct web_reply reply;
    slice why;
    bool good = web_get(check->carriers, &ask, keep, &reply, &why) == OK && reply.status == 200;
    return good ? reply.body : S("");
}

static bool says(const json_t *status, const char *group, const char *member, const char *value)
{
    const json_t *of = group ? json_object_get(status, group) : status;
    const char *said = json_string_value(json_object_get(of, member));
    return said && strcmp(said, value) == 0;
}

/* By its status page: the same folder, and the same address for clients. Without that page (it takes
 * another token, or its address is off or has changed), a Penstock at `listen` counts as that one
 * if somebody holds the folder. */
static bool is_running(const struct check *check)
{
    const struct config *config = check->config;
    json_error_t error;
    bool off = strcmp(config->admin_listen, "off") == 0;
    slice page = off ? S("") : get(check, config->admin_listen, "/status");
    if (!page.len) {    /* that of health does not name the folder */
        slice why;
        return store_probe(config->cache_dir, check->keep, &why) == ERR_BUSY &&
               slice_starts(get(check, config->listen, "/_/health/ready"), S("{\"status\":\""));
    }
    json_t *status = json_loadb(page.ptr, page.len, 0, &error);
    bool same = says(status, "cache", "folder", config->cache_dir) &&
                says(status, NULL, "listen", config->listen);
    json_decref(status);
    return same;
}

/* ---- the probes ---- */

static void engine(struct check *check)
{
    enum disk_engine found;
    const char *why = "";
    if (disk_choose(slice_of(check->config->io), &found, &why))
        check_say(check, STOPPED, arena_printf(check->keep, "io=uring can't be had: %s; use "
                                               "io=auto or io=threads: serve would not start",
                                               why));
}

static void folder(struct check *check)
{
    slice why;
    const char *path = check->config->cache_dir;
    enum err err = store_probe(path, check->keep, &why);
    if (err == ERR_BUSY && check->running)
        check_say(check, NOTED, arena_printf(check->keep, "cache_dir: %s is held by the running "
                                             "Penstock of these settings", path));
    else if (err)
        check_say(check, STOPPED, arena_printf(check->keep, "the cache folder %s can't be used: "
                                               "%.*s; serve would %s", path, SLICE_ARG(why),
                                               err == ERR_FORMAT ? "not start"
                                                                 : "run without its cache"));
}

/* Of the nearest folder above that is there. */
static void size(struct check *check)
{
    struct store_space space;
    slice on = arena_copy(check->keep, slice_of(check->config->cache_dir));
    while (store_space(on.ptr, &space) && on.len > 1) {
        while (on.len > 1 && on.ptr[on.len - 1] != '/')
            on.len--;
        on = arena_copy(check->keep, on.len > 1 ? slice_sub(on, 0, on.len - 1) : S("/"));
    }
    uint64_t bytes = store_derived_size(check->config->cache_dir, on.ptr);
    slice small = cli_small_cache(bytes, !check->config->cache_size_bytes, check->keep);
    if (small.len)
        check_say(check, WARNED, small);
}

static void ports(struct check *check)
{
    const struct config *config = check->config;
    const struct {
        const char *name, *address;
    } rows[] = { { "listen", config->listen }, { "tls_listen", config->tls_listen },
                 { "admin_listen", config->admin_listen } };
    for (size_t i = 0; i < countof(rows); i++) {
        slice why;
        enum err err = strcmp(rows[i].address, "off") == 0
            ? OK : http_could_listen(rows[i].name, rows[i].address, check->keep, &why);
        if (err == ERR_BUSY && check->running)
            check_say(check, NOTED, arena_printf(check->keep, "%s: the running Penstock of these "
                                                 "settings listens on %s", rows[i].name,
                                                 rows[i].address));
        else if (err)
            check_say(check, STOPPED, arena_printf(check->keep, "%.*s; serve would not start",
                                                   SLICE_ARG(why)));
    }
}

static void fill_socket(struct check *check)
{
    slice why;
    const char *path = check->config->fill_socket;
    enum err err = fills_look(check->config, check->keep, &why);
    bool made_later = err == ERR_NOT_FOUND && strncmp(path, "/run/", 5) == 0;
    if (err == ERR_BUSY && check->running)
        check_say(check, NOTED, arena_printf(check->keep, "fill_socket: the running Penstock of "
                                             "these settings listens at %s", path));
    else if (err)
        check_say(check, made_later ? WARNED : STOPPED,
                  arena_printf(check->keep, "%.*s; serve would not start", SLICE_ARG(why)));
}

void probe_all(struct check *check)
{
    static void (*const probes[])(struct check *check) = {
        engine, folder, size, ports, fill_socket,
    };
    check->running = is_running(check);
    for (size_t i = 0; i < countof(probes); i++)
        probes[i](check);
}
