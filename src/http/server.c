/* server.c - the loops as a whole: addresses, start, drain, stop.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A test socket first binds every address without SO_REUSEPORT. With that option, a port that
 * another Penstock listens on would look free, and each process would get a part of the clients.
 *
 * An app may bring a socket that another process has opened and keeps open (systemd). Connections
 * then wait in the queue of this socket while no Penstock runs. So a restart refuses none. */
#include "http/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 4096

/* Returns a socket that is bound, or -1 with errno. With `shared`, the socket also listens, and the
 * loops share the port. */
static int bind_to(const struct address *address, bool shared)
{
    int on = 1, fd = socket(address->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (shared)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (bind(fd, (const struct sockaddr *)&address->at, address->len) == 0 &&
        (!shared || listen(fd, BACKLOG) == 0))
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* Within one host no packet is lost, and no packet needs pacing. With bbr, which a host may use for
 * all connections, a long answer would take up to twice as long. Linux paces a connection that
 * has begun with bbr to its end, whatever is chosen later. So all connections begin with reno, and
 * conn_open gives those of other hosts the host's congestion control back. */
static void begin_unpaced(int listen_fd, const char *host, char ret_congestion[CONGESTION_BYTES])
{
    bool begun = setsockopt(listen_fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0;
    snprintf(ret_congestion, CONGESTION_BYTES, "%s", begun ? host : "");
}

/* Reads the host's congestion control from a new socket: an inherited one has that of the process
 * before. */
static void read_congestion(char ret[CONGESTION_BYTES])
{
    socklen_t len = CONGESTION_BYTES - 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memset(ret, 0, CONGESTION_BYTES);
    if (fd < 0)
        return;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, ret, &len) != 0)
        ret[0] = '\0';
    close(fd);
}

static enum err cannot_resolve(const struct http_app *app, struct arena *keep, slice *ret_why)
{
    *ret_why = arena_printf(keep, "%s: '%s' is not HOST:PORT, or this machine can't resolve HOST: "
                            "write an address, such as 127.0.0.1:9000", app->setting, app->listen);
    return ERR_BAD_ARGUMENT;
}

static enum err cannot_listen(const struct http_app *app, struct arena *keep, slice *ret_why)
{
    int saved = errno;
    const char *advice = "set another address";
    enum err err = ERR_IO;
    if (saved == EADDRINUSE) {
        advice = "another process listens there, or has a connection from this port: find it by "
                 "ss -tanp, and stop it, or set another address";
        err = ERR_BUSY;
    } else if (saved == EACCES) {
        advice = "ports below 1024 need the privilege CAP_NET_BIND_SERVICE: give it to "
                 "Penstock (systemd: AmbientCapabilities), or set another port";
        err = ERR_DENIED;
    } else if (saved == EADDRNOTAVAIL) {
        advice = "this machine does not have that address: set an address of this machine";
        err = ERR_BAD_ARGUMENT;
    }
    *ret_why = arena_printf(keep, "%s: can't listen on %s: %s; %s", app->setting, app->listen,
                            strerror(saved), advice);
    return err;
}

/* Returns OK if `app` could listen on its address now. The test socket only binds, so no client can
 * connect. */
static enum err could_listen(const struct http_app *app, struct arena *keep,
                             struct address *ret_address, slice *ret_why)
{
    if (!address_resolve(app->listen, ret_address))
        return cannot_resolve(app, keep, ret_why);
    int fd = bind_to(ret_address, false);
    if (fd < 0)
        return cannot_listen(app, keep, ret_why);
    close(fd);
    return OK;
}

enum err http_could_listen(const char *setting, const char *listen_on, struct arena *keep,
                           slice *ret_why)
{
    const struct http_app app = { .setting = setting, .listen = listen_on };
    struct address address = { 0 };
    return could_listen(&app, keep, &address, ret_why);
}

/* One loop listens for all, another one for each app (accept.c). */
static void take_inherited(struct http *http, size_t app, const char *congestion)
{
    struct bound *bound = &http->bounds[app];
    unsigned loops = http->options.loops, loop = (unsigned)app % loops;
    int fd = bound->app.inherited_fd, flags = fcntl(fd, F_GETFL);
    check(flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
    check(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
    http->listen_fds[app * loops + loop] = fd;
    begin_unpaced(fd, congestion, bound->congestion);
}

static enum err bind_app(struct http *http, size_t app, struct arena *keep, slice *ret_why)
{
    struct bound *bound = &http->bounds[app];
    const struct http_app *of = &bound->app;
    unsigned loops = http->options.loops;
    struct address address = { 0 };
    char congestion[CONGESTION_BYTES];
    read_congestion(congestion);
    if (of->inherited_fd) {
        take_inherited(http, app, congestion);
        return OK;
    }
    enum err err = could_listen(of, keep, &address, ret_why);
    for (unsigned loop = 0; loop < loops && !err; loop++) {
        int fd = bind_to(&address, true);
        http->listen_fds[app * loops + loop] = fd;
        if (fd < 0)
            err = cannot_listen(of, keep, ret_why);
        else
            begin_unpaced(fd, congestion, bound->congestion);
    }
    return err;
}

static struct http *make(const struct http_options *options)
{
    struct http *http = must_alloc(sizeof(*http));
    http->options = *options;
    http->bounds = must_alloc(options->app_count * sizeof(*http->bounds));
    for (size_t app = 0; app < options->app_count; app++) {
        struct bound *bound = &http->bounds[app];
        bound->http = http;
        bound->app = options->apps[app];
        bool own = bound->app.connections_max > 0;
        bound->open = own ? &bound->own_open : &http->open;
        bound->connections_max = own ? bound->app.connections_max : options->connections_max;
    }
    http->listen_fds = must_alloc(options->app_count * options->loops * sizeof(int));
    for (size_t i = 0; i < options->app_count * options->loops; i++)
        http->listen_fds[i] = -1;
    http->loops = must_alloc(options->loops * sizeof(*http->loops));
    for (unsigned i = 0; i < options->loops; i++)
        loop_init(&http->loops[i], http, i);
    signal(SIGPIPE, SIG_IGN);
    return http;
}

static enum err cannot_thread(struct arena *keep, slice *ret_why)
{
    *ret_why = arena_printf(keep, "can't start a thread: raise the limit of threads (ulimit -u, "
                            "TasksMax)");
    return ERR_LIMIT;
}

enum err http_start(const struct http_options *options, struct arena *keep, struct http **ret,
                    slice *ret_why)
{
    check(options->loops > 0 && options->app_count > 0 && options->connections_max > 0);
    check(options->loop_begin && options->loop_turn && options->loop_end);
    check(options->bodies.spill_folder);
    struct http *http = make(options);
    enum err err = OK;
    for (size_t app = 0; app < options->app_count && !err; app++)
        err = bind_app(http, app, keep, ret_why);
    *ret = http;    /* set before the apps run */
    if (!err && !(http->spill = spill_new()))
        err = cannot_thread(keep, ret_why);
    for (unsigned i = 0; i < options->loops && !err; i++)
        if (!loop_start(&http->loops[i]))
            err = cannot_thread(keep, ret_why);
    if (err)
        http_stop(ret);
    return err;
}

void http_drain(struct http *http)
{
    if (atomic_exchange(&http->draining, true))
        return;
    for (unsigned i = 0; i < http->options.loops; i++)
        mailbox_post(http->loops[i].box, &http->loops[i].drain);
}

/* Reads the number of loops first: after that, no connection comes that is not counted. */
bool http_is_draining(struct http *http)
{
    return atomic_load(&http->drained) < http->options.loops || http_connections(http) > 0;
}

size_t http_connections(struct http *http)
{
    size_t open = atomic_load(&http->open);
    for (size_t app = 0; app < http->options.app_count; app++)
        open += atomic_load(&http->bounds[app].own_open);
    return open;
}

size_t http_open_requests(struct http *http)
{
    return atomic_load(&http->requests);
}

static void close_unused(struct http *http)
{
    unsigned loops = http->options.loops;
    for (size_t app = 0; app < http->options.app_count; app++)
        for (unsigned loop = 0; loop < loops; loop++)
            if (!http->loops[loop].started && http->listen_fds[app * loops + loop] >= 0)
                close(http->listen_fds[app * loops + loop]);
}

void http_stop(struct http **http)
{
    struct http *mine = *http;
    *http = NULL;
    if (!mine)
        return;
    close_unused(mine);
    for (unsigned i = 0; i < mine->options.loops; i++)
        mailbox_post(mine->loops[i].box, &mine->loops[i].end);
    for (unsigned i = 0; i < mine->options.loops; i++)
        if (mine->loops[i].started)
            pthread_join(mine->loops[i].thread, NULL);
    workers_free(&mine->spill);
    for (unsigned i = 0; i < mine->options.loops; i++)
        loop_free(&mine->loops[i]);
    free(mine->loops);
    free(mine->listen_fds);
    free(mine->bounds);
    free(mine);
}

#ifdef __has_feature
#define CLANG_ASAN __has_feature(address_sanitizer)
#else
#define CLANG_ASAN 0
#endif
#if defined(__SANITIZE_ADDRESS__) || CLANG_ASAN
/* libh2o keeps some buffers for each thread, and has no call that frees them at the thread's
 * end. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:h2o_mem_alloc_recycle\n";
}
#endif
