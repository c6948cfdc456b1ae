/* ask.c - one GET to the running service, and the subcommand health.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A health check takes two seconds at most, because it must not hang. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "cli/ask.h"
#include "origin/web.h"

slice ask_reachable(struct arena *keep, slice address)
{
    slice host = address, port = url_cut_port(&host);
    return config_is_everywhere(address)
         ? arena_printf(keep, "127.0.0.1:%.*s", SLICE_ARG(port)) : address;
}

struct answer ask(struct arena *keep, slice address, slice path, slice token, unsigned ms)
{
    check(address.len && slice_starts(path, S("/")) && ms > 0);
    slice host = ask_reachable(keep, address);
    const struct http_field proof = { S("Authorization"),
                                      arena_printf(keep, "Bearer %.*s", SLICE_ARG(token)) };
    struct web_ask request = {
        .method = "GET", .fields = &proof, .field_count = token.len ? 1 : 0, .time_ms = ms,
        .url = arena_printf(keep, "http://%.*s%.*s", SLICE_ARG(host), SLICE_ARG(path)),
        .body_bytes_max = 4 * MIB,
    };
    struct web_reply reply;
    struct answer answer = { 0 };
    enum err err = web_get(&request, keep, &reply, &answer.why);
    answer.late = err == ERR_TIMEOUT;
    if (!err)
        answer = (struct answer){ .status = reply.status, .body = reply.body };
    return answer;
}

/* ---- health ---- */

/* If as many connections are open as the setting "connections_max" allows, a new connection to
 * `listen` gets no answer in time. The admin address has a limit of its own, so the next request
 * goes there. */
static struct answer ask_health(struct arena *keep, const struct config *config, slice *ret_address)
{
    slice path = S("/_/health/ready"), admin = slice_of(config->admin_listen);
    bool off = slice_eq(admin, S("off"));
    struct answer answer = ask(keep, *ret_address, path, S(""), off ? ASK_MS : ASK_MS / 2);
    if (!answer.late || off)
        return answer;
    struct answer beside = ask(keep, admin, path, S(""), ASK_MS / 2);
    if (!beside.status)
        return answer;
    *ret_address = admin;
    return beside;
}

bool ask_url(const char *url, struct arena *keep, slice *ret_address, slice *ret_path)
{
    const char *why;    /* the message has all rules */
    bool http = slice_starts(slice_of(url), S("http://"));
    slice rest = slice_from(slice_of(url), http ? 7 : 0), host = slice_cut(&rest, '/');
    if (!http || !url_host_is_valid(host, &why)) {
        fprintf(stderr, "penstock: --url must be http://HOST:PORT, with a PORT from 1 to 65535, "
                "not \"%s\" (the admin address has no https)\n", url);
        return false;
    }
    *ret_address = host;
    if (rest.len)
        *ret_path = arena_printf(keep, "/%.*s", SLICE_ARG(rest));
    return true;
}

/* Returns the value of `name` in a health document. The document is JSON at `listen`, and
 * NAME=VALUE at the admin address. */
static slice value_in(slice document, slice name)
{
    slice rest = slice_from(document, slice_find(document, name) + name.len);
    while (rest.len && strchr("\":= ", rest.ptr[0]))
        rest = slice_from(rest, 1);
    size_t len = 0;
    while (len < rest.len && !strchr("\",} \r\n", rest.ptr[len]))
        len++;
    return slice_sub(rest, 0, len);
}

/* Returns what to say after the status of an answer that is not 200. */
static slice health_fault(const struct answer *answer, bool is_penstock)
{
    slice rest = answer->body, line = slice_trim(slice_cut(&rest, '\n'));
    if (answer->status == 503 && is_penstock)
        return S("this service is stopping");
    if (answer->status == 421 && line.len && line.len < 300 && !slice_has_control(line))
        return line;    /* the admin address says which hosts it serves */
    return S("check that this is the address of a Penstock");
}

static void print_health(slice address, const struct answer *answer)
{
    slice instance = value_in(answer->body, S("instance")), pid = value_in(answer->body, S("pid"));
    bool is_penstock = instance.len || slice_starts(answer->body, S("not ready: Penstock"));
    slice fault = health_fault(answer, is_penstock);
    if (answer->status == 200 && instance.len)
        printf("ready: %.*s, instance %.*s, pid %.*s\n", SLICE_ARG(address), SLICE_ARG(instance),
               SLICE_ARG(pid));
    else if (answer->status == 200)
        printf("ready: %.*s\n", SLICE_ARG(address));
    else if (answer->status)
        printf("not ready: %.*s answered %d%s%.*s: %.*s\n", SLICE_ARG(address), answer->status,
               instance.len ? ", instance " : "", SLICE_ARG(instance), SLICE_ARG(fault));
    else
        printf("not ready: %.*s: %.*s. Check that the service runs, and listens at this address\n",
               SLICE_ARG(address), SLICE_ARG(answer->why));
}

/* True if a flag or variable gives the admin address, and `listen` comes from a source of lower
 * precedence. */
static bool gives_admin_alone(const struct config *config)
{
    enum setting_source admin = config->where[setting_at(SCOPE_GLOBAL, S("admin_listen"))].from;
    enum setting_source listen = config->where[setting_at(SCOPE_GLOBAL, S("listen"))].from;
    static_assert(FROM_ENV > FROM_FILE && FROM_FLAG > FROM_ENV, "stronger sources are larger");
    return admin >= FROM_ENV && admin > listen && strcmp(config->admin_listen, "off") != 0;
}

static int run_health(struct cli *cli)
{
    const char *url = cli_option(cli, "--url");
    struct config *config = cli_load(cli, NULL);
    slice address = slice_of(config->listen), path = S("/_/health/ready");
    struct answer answer;
    if (cli_mistakes(cli, config, "command line", stderr) ||
        (url && !ask_url(url, &cli->arena, &address, &path))) {
        config_free(&config);
        return EXIT_USAGE;
    }
    if (gives_admin_alone(config) && !url)
        address = slice_of(config->admin_listen);
    if (url || gives_admin_alone(config))
        answer = ask(&cli->arena, address, path, S(""), ASK_MS);
    else
        answer = ask_health(&cli->arena, config, &address);
    print_health(address, &answer);
    config_free(&config);
    return answer.status == 200 ? EXIT_GOOD : EXIT_FAILED;
}

static const struct command_option options[] = {
    { "--url", "URL", "ask this URL, not the address of the setting \"listen\"; "
                      "the URL must begin with http://" },
    { 0 },
};

const struct command command_health = {
    .name = "health", .args = "[--url URL] [SETTINGS]", .run = run_health, .takes_settings = true,
    .help = "exit 0 if Penstock at --url, --admin-listen or \"listen\" is ready",
    .options = options,
};
