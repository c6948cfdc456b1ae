/* inherited.c - listening sockets that the service manager opened.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   systemd, or another parent:  socket, bind, listen ────────────────────────── open for ever ──>
 *   Penstock:                    accepts ... drains, releases its folders, ends
 *   the next Penstock:                                      waits for the folders, accepts ...
 *
 * Connections that come in between wait in the kernel's queue, so none is refused at a restart. The
 * protocol is that of sd_listen_fds(3): the descriptors are 3 and the next ones. LISTEN_FDS has
 * their number, LISTEN_PID the process that they are for, and LISTEN_FDNAMES their names. The name
 * of a descriptor is the setting that it belongs to. A descriptor without a name, or with a name
 * that systemd chose, belongs to the setting with its address. In both cases its address must be
 * that of the setting: otherwise Penstock would listen elsewhere than its settings say. Threads: the
 * main thread. */
#include "cli/inherited.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/serve.h"

#define FD_FIRST 3                     /* SD_LISTEN_FDS_START */
#define WAIT_MORE_MS 10000u            /* after drain_time, for the end of the process before */
#define WAIT_EACH_MS 20

static const char *const setting_of[LISTENERS] = {
    [LISTENER_S3] = "listen", [LISTENER_TLS] = "tls_listen", [LISTENER_ADMIN] = "admin_listen",
    [LISTENER_FILL] = "fill_socket", [LISTENER_PEER] = "peer_listen",
};

/* A descriptor that is being judged. */
struct trial {
    const struct config *config;
    struct arena *keep;
    struct inherited *found;
    int fd;
    slice name;                        /* empty: none, or one that systemd chose */
    int family, type;
    slice address;
    slice why;
};

/* Returns the address of the setting, or NULL if the setting is off. */
static const char *address_of(const struct config *config, enum listener which)
{
    const char *const all[LISTENERS] = { config->listen, config->tls_listen, config->admin_listen,
                                         config->fill_socket, config->peer_listen };
    return !*all[which] || strcmp(all[which], "off") == 0 ? NULL : all[which];
}

static enum err wrong(struct trial *trial, slice what)
{
    slice name = log_word(trial->keep, trial->name);
    trial->why = arena_printf(trial->keep, "the parent process (systemd) passed descriptor %d%s%.*s"
                              ", which %.*s", trial->fd, name.len ? ", named " : "",
                              SLICE_ARG(name), SLICE_ARG(what));
    return ERR_BAD_ARGUMENT;
}

/* ---- what the descriptor is ---- */

static slice address_text(struct arena *keep, const struct sockaddr_storage *at, socklen_t len)
{
    char host[256], port[32];
    const struct sockaddr_un *path = (const void *)at;
    size_t path_bytes = len > offsetof(struct sockaddr_un, sun_path)
        ? strnlen(path->sun_path, len - offsetof(struct sockaddr_un, sun_path)) : 0;
    if (at->ss_family == AF_UNIX)
        return arena_copy(keep, path_bytes ? (slice){ path->sun_path, path_bytes }
                                           : S("a Unix socket without a path"));
    if (getnameinfo((const struct sockaddr *)at, len, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return arena_printf(keep, "an address of family %d", at->ss_family);
    return arena_printf(keep, at->ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

static enum err look_at_socket(struct trial *trial)
{
    struct sockaddr_storage at = { 0 };
    socklen_t len = sizeof(trial->type), at_len = sizeof(at);
    int listens = 0;
    if (getsockopt(trial->fd, SOL_SOCKET, SO_TYPE, &trial->type, &len) != 0)
        return wrong(trial, S("is not a socket: pass only listening sockets, and set LISTEN_FDS to "
                             "their number"));
    if (getsockopt(trial->fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) != 0 || !listens)
        return wrong(trial, S("is a socket that does not listen: pass only listening sockets (in a "
                             "socket unit, ListenStream, and Accept=no)"));
    if (getsockname(trial->fd, (struct sockaddr *)&at, &at_len) != 0)
        return wrong(trial, arena_printf(trial->keep, "has no address: %s", strerror(errno)));
    trial->family = at.ss_family;
    trial->address = address_text(trial->keep, &at, at_len);
    return OK;
}

static bool is_kind(const struct trial *trial, enum listener which)
{
    return which == LISTENER_FILL
        ? trial->family == AF_UNIX && trial->type == SOCK_SEQPACKET
        : (trial->family == AF_INET || trial->family == AF_INET6) && trial->type == SOCK_STREAM;
}

static enum err is_at(const struct trial *trial, enum listener which)
{
    const char *address = address_of(trial->config, which);
    if (!address || !is_kind(trial, which))
        return ERR_NOT_FOUND;
    if (which == LISTENER_FILL)
        return slice_eq(trial->address, slice_of(address)) ? OK : ERR_NOT_FOUND;
    return http_is_at(trial->fd, address);
}

/* ---- which setting it belongs to ---- */

static enum err find_by_name(struct trial *trial, enum listener *ret)
{
    for (unsigned i = 0; i < LISTENERS; i++) {
        *ret = (enum listener)i;
        if (slice_eq(trial->name, slice_of(setting_of[i])))
            return OK;
    }
    return wrong(trial, S("is the name of no socket of Penstock: the name (FileDescriptorName in a "
                         "socket unit) must be listen, tls_listen, admin_listen, fill_socket or "
                         "peer_listen"));
}

static enum err find_by_address(struct trial *trial, enum listener *ret)
{
    for (unsigned i = 0; i < LISTENERS; i++) {
        *ret = (enum listener)i;
        if (is_at(trial, *ret) == OK)
            return OK;
    }
    return wrong(trial, arena_printf(trial->keep, "listens at %.*s, and none of the settings "
                                     "listen, tls_listen, admin_listen, fill_socket and peer_listen "
                                     "has this address: set the address in one of them, or do not pass "
                                     "this socket", SLICE_ARG(trial->address)));
}

static enum err judge(struct trial *trial, enum listener which)
{
    struct arena *keep = trial->keep;
    const char *setting = setting_of[which], *address = address_of(trial->config, which);
    if (!address)
        return wrong(trial, arena_printf(keep, "is for the setting %s, and this setting is off: "
                                         "set it to %.*s, or do not pass this socket (systemctl "
                                         "disable --now its socket unit)", setting,
                                         SLICE_ARG(trial->address)));
    if (!is_kind(trial, which))
        return wrong(trial, arena_printf(keep, "is a socket of another kind than %s needs: pass a "
                                         "%s", setting, which == LISTENER_FILL
                                         ? "Unix socket of the type SOCK_SEQPACKET (in a socket "
                                           "unit, ListenSequentialPacket=PATH)"
                                         : "TCP socket (in a socket unit, "
                                           "ListenStream=ADDRESS:PORT)"));
    if (is_at(trial, which) != OK)
        return wrong(trial, arena_printf(keep, "listens at %.*s, and the setting %s is %s: set the "
                                        "same address in both places (in a socket unit, "
                                        "ListenStream or ListenSequentialPacket)",
                                        SLICE_ARG(trial->address), setting, address));
    if (trial->found->fds[which])
        return wrong(trial, arena_printf(keep, "is a second socket for the setting %s, after "
                                        "descriptor %d: pass one socket for each setting", setting,
                                        trial->found->fds[which]));
    return OK;
}

/* True for a name that systemd gives to a socket if its unit names none: that of the unit. */
static bool is_chosen_by_systemd(slice name)
{
    return slice_ends(name, S(".socket")) || slice_eq(name, S("unknown"));
}

static enum err take(struct trial *trial)
{
    enum listener which;
    if (is_chosen_by_systemd(trial->name))
        trial->name = S("");
    enum err err = look_at_socket(trial);
    if (!err)
        err = trial->name.len ? find_by_name(trial, &which) : find_by_address(trial, &which);
    if (!err)
        err = judge(trial, which);
    if (err)
        return err;
    trial->found->fds[which] = trial->fd;
    trial->found->count++;
    return OK;
}

/* ---- the variables ---- */

/* Returns the number of descriptors for this process. */
static enum err count_of(struct trial *trial, uint64_t *ret)
{
    slice pid = slice_of(getenv("LISTEN_PID")), count = slice_of(getenv("LISTEN_FDS"));
    uint64_t number = 0;
    *ret = 0;
    if (!pid.len || !count.len)
        return OK;
    if (!slice_u64(pid, &number) || number != (uint64_t)getpid()) {
        trial->found->ignored = arena_printf(
            trial->keep, "LISTEN_FDS is set, but LISTEN_PID is %.*s, and this process is %d. So "
            "Penstock opens its sockets itself. If a script starts Penstock, let it end with exec",
            SLICE_ARG(log_word(trial->keep, pid)), (int)getpid());
        return OK;
    }
    if (slice_u64(count, ret) && *ret <= INT16_MAX)
        return OK;
    trial->why = arena_printf(trial->keep, "LISTEN_FDS is %.*s, which is no number of descriptors: "
                             "set it to the number of sockets that are passed, or unset it",
                             SLICE_ARG(log_word(trial->keep, count)));
    return ERR_BAD_ARGUMENT;
}

static enum err find(struct trial *trial)
{
    uint64_t count;
    slice names = slice_of(getenv("LISTEN_FDNAMES"));
    bool named = names.len > 0;
    enum err err = count_of(trial, &count);
    for (uint64_t i = 0; i < count && !err; i++) {
        trial->fd = FD_FIRST + (int)i;
        trial->name = slice_cut(&names, ':');
        err = take(trial);
    }
    if (err || !count || !named || !names.ptr)
        return err;
    trial->why = arena_printf(trial->keep, "LISTEN_FDNAMES has more names than the %u descriptors "
                              "of LISTEN_FDS: give each descriptor one name", (unsigned)count);
    return ERR_BAD_ARGUMENT;
}

enum err inherited_find(const struct config *config, struct arena *keep, struct inherited *ret,
                        slice *ret_why)
{
    struct trial trial = { .config = config, .keep = keep, .found = ret };
    *ret = (struct inherited){ 0 };
    enum err err = find(&trial);
    *ret_why = trial.why;
    return err;
}

/* ---- steps of the daemon ---- */

enum err inherited_up(struct serve *serve)
{
    struct inherited *inherited = &serve->files.inherited;
    struct text listeners = text_in(&serve->keep);
    enum err err = inherited_find(serve->config, &serve->keep, inherited, &serve->why);
    if (inherited->ignored.len)
        log_warn("sockets_ignored", "why=\"%.*s\"", SLICE_ARG(inherited->ignored));
    if (err || !inherited->count)
        return err;
    for (unsigned i = 0; i < LISTENERS; i++) {
        if (!inherited->fds[i])
            continue;
        check(fcntl(inherited->fds[i], F_SETFD, FD_CLOEXEC) == 0);
        text_printf(&listeners, "%s%s", text_slice(&listeners).len ? "," : "", setting_of[i]);
    }
    log_info("sockets_inherited", "listeners=%.*s", SLICE_ARG(text_slice(&listeners)));
    return OK;
}

/* Returns the first cache folder that another process uses, or NULL. */
static const char *folder_in_use(const struct config *config)
{
    const char *found = NULL;
    struct arena keep = { 0 };
    slice why;
    for (size_t i = 0; i < config->folder_count && !found; i++)
        if (store_probe(config->folders[i].path, &keep, &why) == ERR_BUSY)
            found = config->folders[i].path;
    arena_free(&keep);
    return found;
}

/* Without this wait, Penstock would serve without the folder, and try again each 5 s to open it. */
enum err inherited_wait(struct serve *serve)
{
    uint64_t limit_ms = serve->config->drain_time_ms + WAIT_MORE_MS, began_ms = mono_ms();
    const char *path = serve->files.inherited.count ? folder_in_use(serve->config) : NULL;
    if (path)
        log_info("waiting", "path=%.*s limit_ms=%ju why=\"another process uses the cache folder. "
                 "Connections wait meanwhile\"",
                 SLICE_ARG(log_word(&serve->keep, slice_of(path))), (uintmax_t)limit_ms);
    while (path && mono_ms() - began_ms < limit_ms && !serve_is_stopping()) {
        poll(NULL, 0, WAIT_EACH_MS);
        path = folder_in_use(serve->config);
    }
    if (!serve_is_stopping())
        return OK;
    serve->why = S("a signal asked Penstock to stop while it waited for its cache folder");
    return ERR_STOPPING;
}
