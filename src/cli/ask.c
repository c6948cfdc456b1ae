/* ask.c - health and stat: one GET to the running service. SPDX-License-Identifier: Apache-2.0
 *
 * A plain socket, two seconds in all: a health check must be cheap and must not hang. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

#define TIMEOUT_MS 2000u
#define ANSWER_BYTES_MAX (4 * MIB)

struct answer {
    int status;
    slice body;
    const char *why;    /* status 0: what went wrong */
    bool reached;       /* somebody listens there */
};

/* Waits until the socket can be read or written, or time is up. */
static bool wait_for(int fd, short what, uint64_t end_ms)
{
    uint64_t now_ms = mono_ms();
    struct pollfd waiting = { .fd = fd, .events = what };
    return now_ms < end_ms && poll(&waiting, 1, (int)(end_ms - now_ms)) > 0;
}

static int connect_to(const struct addrinfo *to, uint64_t end_ms)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int error = connect(fd, to->ai_addr, to->ai_addrlen) < 0 ? errno : 0;
    socklen_t size = sizeof(error);
    if (error == EINPROGRESS) {
        error = ETIMEDOUT;
        if (wait_for(fd, POLLOUT, end_ms))
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error) {
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* "127.0.0.1:9000", "[::1]:9000", "host" (port 80) */
static int dial(slice address, uint64_t end_ms, const char **ret_why)
{
    char host[256], port[8] = "80";
    slice rest = address, name = slice_cut(&rest, ':');
    if (slice_starts(address, S("["))) {
        rest = slice_from(address, 1);
        name = slice_cut(&rest, ']');
        rest = slice_from(rest, 1);
    }
    snprintf(host, sizeof(host), "%.*s", SLICE_ARG(name));
    if (rest.len)
        snprintf(port, sizeof(port), "%.*s", SLICE_ARG(rest));
    struct addrinfo hint = { .ai_socktype = SOCK_STREAM }, *all;
    int error = getaddrinfo(host, port, &hint, &all);
    if (error) {
        *ret_why = gai_strerror(error);
        return -1;
    }
    int fd = -1;
    for (struct addrinfo *one = all; one && fd < 0; one = one->ai_next)
        fd = connect_to(one, end_ms);
    *ret_why = strerror(errno);
    freeaddrinfo(all);
    return fd;
}

static bool send_all(int fd, slice bytes, uint64_t end_ms)
{
    while (bytes.len) {
        ssize_t sent = send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        if (sent > 0)
            bytes = slice_from(bytes, (size_t)sent);
        else if (errno != EAGAIN || !wait_for(fd, POLLOUT, end_ms))
            return false;
    }
    return true;
}

/* Everything until the end of the connection. */
static bool receive_all(int fd, struct text *to, uint64_t end_ms)
{
    char bytes[16384];
    while (to->len < ANSWER_BYTES_MAX) {
        ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
        if (got > 0)
            text_add(to, (slice){ bytes, (size_t)got });
        else if (got == 0)
            return true;
        else if (errno != EAGAIN || !wait_for(fd, POLLIN, end_ms))
            return false;
    }
    return false;
}

/* token: admin_token, or empty. */
static struct answer ask(struct arena *keep, slice address, slice path, slice token, unsigned ms)
{
    struct answer answer = { .why = "no answer in time" };
    uint64_t end_ms = mono_ms() + ms;
    int fd = dial(address, end_ms, &answer.why);
    if (fd < 0)
        return answer;
    answer.reached = true;
    slice proof = token.len ? arena_printf(keep, "Authorization: Bearer %.*s\r\n", SLICE_ARG(token))
                            : S("");
    slice head = arena_printf(keep, "GET %.*s HTTP/1.1\r\nHost: %.*s\r\n%.*sConnection: close\r\n"
                              "\r\n", SLICE_ARG(path), SLICE_ARG(address), SLICE_ARG(proof));
    struct text got = text_in(keep);
    bool good = send_all(fd, head, end_ms) && receive_all(fd, &got, end_ms);
    close(fd);
    answer.why = "no whole answer in time";
    slice all = text_slice(&got);
    const char *blank = good ? memmem(all.ptr, all.len, "\r\n\r\n", 4) : NULL;
    uint64_t status;
    if (!blank || !slice_starts(all, S("HTTP/1.")) || !slice_u64(slice_sub(all, 9, 3), &status))
        return answer;
    answer.status = (int)status;
    answer.body = slice_from(all, (size_t)(blank + 4 - all.ptr));
    return answer;
}

/* Mistakes elsewhere don't make the service unhealthy; a flag that is none is a mistake here. */
static bool flags_are_good(struct cli *cli, const struct config *config)
{
    bool good = true;
    for (const struct config_mistake *m = config->mistakes; m; m = m->next) {
        if (strcmp(m->file, "command line") != 0)
            continue;
        fprintf(stderr, "%.*s\n", SLICE_ARG(config_mistake_line(m, &cli->arena)));
        good = false;
    }
    return good;
}

/* ---- health ---- */

/* Where all of connections_max are busy, whoever comes to `listen` has to wait; the admin address
 * has places of its own. */
static struct answer ask_health(struct arena *keep, const struct config *config, slice *ret_address)
{
    slice path = S("/_/health/ready"), admin = slice_of(config->admin_listen);
    bool off = slice_eq(admin, S("off"));
    struct answer answer = ask(keep, *ret_address, path, S(""), off ? TIMEOUT_MS : TIMEOUT_MS / 2);
    if (answer.status || !answer.reached || off)
        return answer;
    struct answer beside = ask(keep, admin, path, S(""), TIMEOUT_MS / 2);
    if (!beside.status)
        return answer;
    *ret_address = admin;
    return beside;
}

int run_health(struct cli *cli)
{
    const char *url = cli_option(cli, "--url");
    struct config *config = cli_load(cli);
    slice address = slice_of(config->listen);
    struct answer answer;
    bool http = !url || strncmp(url, "http://", 7) == 0;
    if (!http)
        fprintf(stderr, "penstock: --url must begin with http://\n");
    if (!flags_are_good(cli, config) || !http) {
        config_free(&config);
        return EXIT_USAGE;
    }
    if (url) {
        slice rest = slice_of(url + 7), path = S("/_/health/ready");
        address = slice_cut(&rest, '/');
        if (rest.len)
            path = slice_from(slice_of(url + 7), address.len);
        answer = ask(&cli->arena, address, path, S(""), TIMEOUT_MS);
    } else {
        answer = ask_health(&cli->arena, config, &address);
    }
    if (answer.status == 200)
        puts("ready");
    else if (answer.status)
        printf("not ready: %.*s answered %d\n", SLICE_ARG(address), answer.status);
    else
        printf("not ready: %.*s: %s\n", SLICE_ARG(address), answer.why);
    config_free(&config);
    return answer.status == 200 ? EXIT_GOOD : EXIT_FAILED;
}

/* ---- stat ---- */

static slice human_bytes(struct arena *keep, json_int_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < countof(units); unit++)
        value /= 1024;
    return arena_printf(keep, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static slice shown(struct arena *keep, slice name, json_t *value)
{
    if (json_is_string(value) && json_string_length(value))
        return slice_of(json_string_value(value));
    if (json_is_integer(value) && slice_ends(name, S("bytes")))
        return human_bytes(keep, json_integer_value(value));
    if (json_is_integer(value))
        return arena_printf(keep, "%jd", (intmax_t)json_integer_value(value));
    if (json_is_real(value))
        return arena_printf(keep, "%.3g", json_real_value(value));
    return json_is_true(value) ? S("yes") : json_is_false(value) ? S("no") : S("-");
}

/* Objects within objects become NAME.MEMBER; an array's elements NAME.0, NAME.1. */
static void print_value(struct arena *keep, slice name, json_t *value, int depth)
{
    const char *member, *dot = name.len ? "." : "";
    json_t *inner;
    size_t index;
    if (json_is_object(value) && depth < 8) {
        json_object_foreach(value, member, inner)
            print_value(keep, arena_printf(keep, "%.*s%s%s", SLICE_ARG(name), dot, member), inner,
                        depth + 1);
    } else if (json_is_array(value) && depth < 8) {
        json_array_foreach(value, index, inner)
            print_value(keep, arena_printf(keep, "%.*s%s%zu", SLICE_ARG(name), dot, index), inner,
                        depth + 1);
    } else {
        printf("%-32.*s %.*s\n", SLICE_ARG(name), SLICE_ARG(shown(keep, name, value)));
    }
}

static int print_page(struct cli *cli, slice body)
{
    json_error_t error;
    json_t *root = json_loadb(body.ptr, body.len, 0, &error);
    if (!json_is_object(root)) {
        fprintf(stderr, "penstock: the status is not a JSON object\n");
        json_decref(root);
        return EXIT_FAILED;
    }
    print_value(&cli->arena, S(""), root, 0);
    json_decref(root);
    return EXIT_GOOD;
}

int run_stat(struct cli *cli)
{
    bool raw = cli_flag(cli, "--json");
    struct config *config = cli_load(cli);
    slice address = arena_copy(&cli->arena, slice_of(config->admin_listen));
    slice token = arena_copy(&cli->arena, slice_of(config->admin_token));
    bool good = flags_are_good(cli, config);
    config_free(&config);
    if (!good)
        return EXIT_USAGE;
    if (slice_eq(address, S("off"))) {
        fprintf(stderr, "penstock: there is nobody to ask: admin_listen is off\n");
        return EXIT_FAILED;
    }
    struct answer answer = ask(&cli->arena, address, S("/status"), token, TIMEOUT_MS);
    if (answer.status != 200) {
        if (answer.status == 401)
            fprintf(stderr, "penstock: %.*s refuses to tell: %.*s%s", SLICE_ARG(address),
                    SLICE_ARG(answer.body), token.len ? "(the admin_token that was sent is another)\n"
                                                      : "");
        else if (answer.status)
            fprintf(stderr, "penstock: %.*s answered %d\n", SLICE_ARG(address), answer.status);
        else
            fprintf(stderr, "penstock: can't ask %.*s: %s. Is the service running, and is this its "
                    "admin_listen?\n", SLICE_ARG(address), answer.why);
        return EXIT_FAILED;
    }
    if (!raw)
        return print_page(cli, answer.body);
    fwrite(answer.body.ptr, 1, answer.body.len, stdout);
    return EXIT_GOOD;
}
