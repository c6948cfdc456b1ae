/* local.c - the fill socket as a whole. SPDX-License-Identifier: Apache-2.0
 *
 * Through this Unix socket, clients ask Penstock to read objects into their memory (local.h). A
 * session is one connection to it. The socket is made beside its path and then renamed, so that no
 * client finds a socket that does not listen yet. A socket that an ended process left is replaced;
 * a socket where a process listens is not.
 * Threads: one thread calls start, drain and stop; any thread may call the rest. */
#include "local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metric.h"
#include "local/holes.h"
#include "local/inside.h"

/* Length of the kernel's queue of new connections. If it is full, a client's connect waits. The
 * number of sessions has a limit of its own: the setting "fill_sessions". */
#define BACKLOG 128

/* ---- the socket ---- */

static bool address_of(const char *path, const char *more, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (strlen(path) + strlen(more) >= sizeof(ret->sun_path))
        return false;
    strcpy(stpcpy(ret->sun_path, path), more);
    return true;
}

static bool somebody_listens(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool listens = fd >= 0 && (connect(fd, (const void *)address, sizeof(*address)) == 0 ||
                               errno == EAGAIN);
    if (fd >= 0)
        close(fd);
    return listens;
}

static bool is_foreign(const char *path)
{
    struct stat file;
    return lstat(path, &file) == 0 && !S_ISSOCK(file.st_mode);
}

static enum err failed(struct arena *keep, const char *path, const char *what, slice *ret_why)
{
    *ret_why = arena_printf(keep, "fill_socket %s: %s", path, what);
    return ERR_IO;
}

static enum err judge_path(const char *path, struct arena *keep, slice *ret_why)
{
    struct sockaddr_un made;
    if (!address_of(path, ".new", &made))
        return failed(keep, path, "the path is longer than 103 bytes: set a shorter path", ret_why);
    if (is_foreign(path))
        return failed(keep, path, "this path is a file or folder, and not a socket: remove it, or "
                      "set another path", ret_why);
    return OK;
}

static void take_inherited(struct local *local)
{
    int fd = local->options.inherited_fd, flags = fcntl(fd, F_GETFL);
    check(flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
    check(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
    local->listen_fd = fd;
}

static enum err listen_at(struct local *local, struct arena *keep, slice *ret_why)
{
    const char *path = local->options.path;
    struct sockaddr_un made, wanted;
    struct stat file;
    enum err err = judge_path(path, keep, ret_why);
    if (err)
        return err;
    check(address_of(path, "", &wanted) && address_of(path, ".new", &made));
    if (somebody_listens(&wanted))
        return failed(keep, path, "another process listens at this path: stop that process, or set "
                      "another path", ret_why);
    unlink(made.sun_path);
    local->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (local->listen_fd < 0 ||
        bind(local->listen_fd, (const void *)&made, sizeof(made)) != 0 ||
        chmod(made.sun_path, 0666) != 0 ||    /* fill_users decides who may connect */
        listen(local->listen_fd, BACKLOG) != 0 || stat(made.sun_path, &file) != 0 ||
        rename(made.sun_path, path) != 0) {
        const char *why = errno == ENOENT
            ? "the folder of this path does not exist: make the folder, or set another path"
            : arena_printf(keep, "the socket can't be made (%s): check the folder of this path, "
                           "and its permissions for Penstock's user", strerror(errno)).ptr;
        unlink(made.sun_path);
        return failed(keep, path, why, ret_why);
    }
    local->socket_device = file.st_dev;
    local->socket_inode = file.st_ino;
    return OK;
}

/* Unlinks the socket if this process made it: another process may have replaced it. */
static void unlink_ours(const struct local *local)
{
    struct stat file;
    if (local->socket_inode && lstat(local->options.path, &file) == 0 &&
        file.st_dev == local->socket_device && file.st_ino == local->socket_inode)
        unlink(local->options.path);
}

/* ---- start and stop ---- */

static void call_all(void *arg)
{
    struct local *local = arg;
    queue_call(local, NULL, local->worker_count);
}

static void free_all(struct local *local)
{
    devices_free(&local->devices);    /* first, because their tasks post mail to workers */
    for (unsigned i = 0; i < local->worker_count; i++)
        worker_stop(&local->workers[i]);
    unlink_ours(local);
    if (local->listen_fd >= 0)
        close(local->listen_fd);
    if (local->holes_fd >= 0)
        close(local->holes_fd);
    users_free(&local->users);
    pthread_mutex_destroy(&local->lock);
    free(local->workers);
    free(local);
}

enum err local_check(const struct local_options *options, struct arena *keep, slice *ret_why)
{
    struct users *users = NULL;
    enum err err = users_new(options->users, keep, &users, ret_why);
    users_free(&users);
    return err ? err : judge_path(options->path, keep, ret_why);
}

enum err local_look(const struct local_options *options, struct arena *keep, slice *ret_why)
{
    struct sockaddr_un wanted;
    const char *path = options->path, *slash = strrchr(path, '/');
    slice folder = slash ? arena_printf(keep, "%.*s/", (int)(slash - path), path) : S("./");
    slice user = users_name(keep, getuid());    /* access() judges the real user */
    check(address_of(path, "", &wanted));
    *ret_why = arena_printf(keep, "fill_socket %s: another process listens at this path: "
                            "stop that process, or set another path", path);
    if (somebody_listens(&wanted))
        return ERR_BUSY;
    *ret_why = arena_printf(keep, "fill_socket %s: the folder %.*s does not exist, or this user "
                            "can't reach it: make the folder, give this user access to the folders "
                            "above it, or set another path", path, SLICE_ARG(folder));
    if (access(folder.ptr, F_OK) != 0)
        return ERR_NOT_FOUND;
    if (access(folder.ptr, W_OK | X_OK) != 0)
        return failed(keep, path, arena_printf(keep, "the user that runs this check, %.*s, may not "
                      "write to the folder %.*s. If another user runs Penstock, run this check as "
                      "that user. Otherwise, give the folder to %.*s (chown), or set another path",
                      SLICE_ARG(user), SLICE_ARG(folder), SLICE_ARG(user)).ptr, ret_why);
    return OK;
}

enum err local_start(const struct local_options *options, struct arena *keep, struct local **ret,
                     slice *ret_why)
{
    struct local *local = must_alloc(sizeof(*local));
    check(options->threads > 0 && options->sessions_max > 0 && options->gets_max > 0);
    local->options = *options;
    atomic_init(&local->access_log, options->access_log);
    local->listen_fd = -1;
    local->holes_fd = holes_open();
    int holes_error = errno;
    check(pthread_mutex_init(&local->lock, NULL) == 0);
    list_init(&local->waiting);
    local->workers = must_alloc(options->threads * sizeof(*local->workers));
    enum err err = users_new(options->users, keep, &local->users, ret_why);
    if (!err && options->inherited_fd)
        take_inherited(local);
    else if (!err)
        err = listen_at(local, keep, ret_why);
    if (!err)
        local->devices = devices_new(options->ring_bytes, call_all, local);
    /* All workers are set up before the first one starts, because each may post to all. */
    while (!err && local->worker_count < options->threads)
        worker_init(local, local->worker_count++);
    for (unsigned i = 0; !err && i < local->worker_count; i++)
        if (!worker_start(&local->workers[i]))
            err = failed(keep, options->path, "no thread could be started for the socket: raise "
                         "the limit of threads (ulimit -u, TasksMax)", ret_why);
    if (err) {
        free_all(local);
        return err;
    }
    if (local->holes_fd < 0)
        log_warn("fill_holes", "why=\"the system call userfaultfd is forbidden or not supported here "
                 "(%s). So Penstock does not notice if a client punches a hole into registered "
                 "memory. If a fill then writes to the hole, the kernel allocates new pages, and "
                 "charges them to Penstock's cgroup. Use a kernel and a seccomp profile that allow "
                 "userfaultfd, or list in fill_users only users that you trust\"",
                 strerror(holes_error));
    *ret = local;
    return OK;
}

void local_drain(struct local *local)
{
    atomic_store(&local->draining, true);
    unlink_ours(local);
}

void local_access_log(struct local *local, bool on)
{
    atomic_store(&local->access_log, on);
}

size_t local_fills(struct local *local)
{
    return atomic_load(&local->fills);
}

void local_stop(struct local **local)
{
    struct local *mine = *local;
    *local = NULL;
    if (!mine)
        return;
    local_drain(mine);
    atomic_store(&mine->ending, true);
    /* Repeats, as a new session may still be on its way to its worker. */
    while (atomic_load(&mine->sessions) > 0) {
        call_all(mine);
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    }
    free_all(mine);
}

size_t local_users(struct local *local, struct arena *keep, struct local_user **ret)
{
    *ret = arena_alloc(keep, LOCAL_USERS_SHOWN * sizeof(**ret));
    return users_read(local->users, *ret, LOCAL_USERS_SHOWN);
}

size_t local_gpus(struct local *local, struct arena *keep, struct local_gpu **ret, slice *ret_why)
{
    struct device_figures figures[GPU_DEVICES_MAX];
    size_t count = devices_figures(local->devices, figures);
    *ret = arena_alloc(keep, GPU_DEVICES_MAX * sizeof(**ret));
    *ret_why = count ? S("") : slice_of(devices_probe(local->devices)->why.text);
    for (size_t i = 0; i < count; i++)
        (*ret)[i] = (struct local_gpu){
            .uuid = slice_of(figures[i].facts->uuid), .name = slice_of(figures[i].facts->name),
            .open = figures[i].open, .lost = figures[i].lost, .buffers = figures[i].buffers,
            .pinned_bytes = figures[i].slabs * SLAB_BYTES,
            .pinned_used_bytes = figures[i].slabs_used * SLAB_BYTES };
    return count;
}

slice local_page(struct local *local, struct arena *keep)
{
    json_t *page = json_pack("{s:b, s:o, s:I, s:I, s:I}", "on", 1, "kinds",
                             memory_kinds_page(local),
                             "sessions", (json_int_t)atomic_load(&local->sessions), "fills",
                             (json_int_t)atomic_load(&local->fills), "buffers",
                             (json_int_t)metric_read(M_FILL_BUFFERS));
    char *text = json_dumps(page, JSON_COMPACT);
    slice copy = arena_printf(keep, "%s\n", text);
    free(text);
    json_decref(page);
    return copy;
}
