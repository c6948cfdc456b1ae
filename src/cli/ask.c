/* ask.c - health, and what stat asks by: one GET to the running service.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A plain socket, two seconds in all: a health check must be cheap and must not hang. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/ask.h"

#define ANSWER_BYTES_MAX (4 * MIB)

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
    if (strcmp(host, "*") == 0)    /* as one listens; on this machine that is here, too */
        snprintf(host, sizeof(host), "127.0.0.1");
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

struct answer ask(struct arena *keep, slice address, slice path, slice token, unsigned ms)
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

bool ask_flags_are_good(struct cli *cli, const struct config *config)
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
    struct answer answer = ask(keep, *ret_address, path, S(""), off ? ASK_MS : ASK_MS / 2);
    if (answer.status || !answer.reached || off)
        return answer;
    struct answer beside = ask(keep, admin, path, S(""), ASK_MS / 2);
    if (!beside.status)
        return answer;
    *ret_address = admin;
    return beside;
}

bool ask_url(const char *url, struct arena *keep, slice *ret_address, slice *ret_path)
{
    if (strncmp(url, "http://", 7) != 0 || !url[7] || url[7] == '/') {
        fprintf(stderr, "penstock: --url must be http://HOST:PORT, not \"%s\"\n", url);
        return false;
    }
    slice rest = slice_of(url + 7);
    *ret_address = slice_cut(&rest, '/');
    if (rest.len)
        *ret_path = arena_printf(keep, "/%.*s", SLICE_ARG(rest));
    return true;
}

/* The service's own word for NAME, on the page that it answered with. */
static slice said_of(slice page, const char *name)
{
    const char *found = memmem(page.ptr, page.len, name, strlen(name));
    if (!found)
        return S("");
    slice rest = slice_from(page, (size_t)(found - page.ptr) + strlen(name));
    while (rest.len && strchr("\":= ", rest.ptr[0]))
        rest = slice_from(rest, 1);
    size_t len = 0;
    while (len < rest.len && !strchr("\",} \r\n", rest.ptr[len]))
        len++;
    return slice_sub(rest, 0, len);
}

static void print_health(slice address, const struct answer *answer)
{
    slice instance = said_of(answer->body, "instance"), pid = said_of(answer->body, "pid");
    if (answer->status == 200 && instance.len)
        printf("ready: %.*s, instance %.*s, pid %.*s\n", SLICE_ARG(address), SLICE_ARG(instance),
               SLICE_ARG(pid));
    else if (answer->status == 200)
        printf("ready: %.*s\n", SLICE_ARG(address));
    else if (answer->status)
        printf("not ready: %.*s answered %d%s%.*s\n", SLICE_ARG(address), answer->status,
               instance.len ? ", instance " : "", SLICE_ARG(instance));
    else
        printf("not ready: %.*s: %s\n", SLICE_ARG(address), answer->why);
}

/* Was the admin address named on the command line or in the environment, and `listen` was not? */
static bool names_admin_alone(const struct config *config)
{
    enum setting_source admin = config->where[setting_at(SCOPE_GLOBAL, S("admin_listen"))].from;
    enum setting_source listen = config->where[setting_at(SCOPE_GLOBAL, S("listen"))].from;
    return admin >= FROM_ENV && admin > listen && strcmp(config->admin_listen, "off") != 0;
}

static int run_health(struct cli *cli)
{
    const char *url = cli_option(cli, "--url");
    struct config *config = cli_load(cli);
    slice address = slice_of(config->listen), path = S("/_/health/ready");
    struct answer answer;
    if (!ask_flags_are_good(cli, config) || (url && !ask_url(url, &cli->arena, &address, &path))) {
        config_free(&config);
        return EXIT_USAGE;
    }
    if (names_admin_alone(config) && !url)
        address = slice_of(config->admin_listen);
    if (url || names_admin_alone(config))
        answer = ask(&cli->arena, address, path, S(""), ASK_MS);
    else
        answer = ask_health(&cli->arena, config, &address);
    print_health(address, &answer);
    config_free(&config);
    return answer.status == 200 ? EXIT_GOOD : EXIT_FAILED;
}

static const struct command_option options[] = {
    { "--url", "URL", "ask this one instead; it must begin with http://" },
    { 0 },
};

const struct command command_health = {
    .name = "health", .args = "[--url URL] [SETTINGS]", .run = run_health, .takes_settings = true,
    .help = "exit 0 if the service at listen (or URL, or --admin-listen) is ready", .options = options,
};
