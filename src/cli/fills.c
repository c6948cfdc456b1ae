/* fills.c - the fill socket as a step of the daemon. SPDX-License-Identifier: Apache-2.0
 *
 * Through the fill socket, a Unix socket, the fill engine (src/local) reads objects into memory of
 * local processes. The front (src/front) judges the rights of a session, and serves the fill
 * engine's figures at /_/fill. The front and the fill engine do not include each other, so this
 * file connects them. */
#include "cli/fills.h"

#include "base/cores.h"
#include "base/log.h"
#include "local/local.h"

#define FILES_SHARE 8u                /* an eighth of the descriptors is for sessions */

static slice page(void *arg, struct arena *keep)
{
    struct local *local = arg;
    return local_page(local, keep);
}

unsigned fills_sessions(const struct config *config, uint64_t files)
{
    uint64_t share = MAX(files / FILES_SHARE, (uint64_t)1);
    return *config->fill_socket ? (unsigned)MIN(config->fill_sessions, share) : 0;
}

enum err fills_up(struct serve *serve)
{
    const struct config *config = serve->config;
    struct local_options options = {
        .path = config->fill_socket,
        .inherited_fd = serve->files.inherited.fds[LISTENER_FILL],
        .users = slice_of(config->fill_users),
        .cache = serve->cache,
        .judge = front_reader_judge(serve->front),
        .threads = config->fill_threads ? (unsigned)config->fill_threads
                                        : MIN(cores_available(), 8u),
        .access_log = config->access_log,
        .sessions_max = fills_sessions(config, serve->files.max),
        .user_sessions_max = (unsigned)(config->fill_user_sessions
                                            ? config->fill_user_sessions
                                            : MAX(config->fill_sessions / 4, (uint64_t)1)),
        .buffers_max = (unsigned)config->fill_buffers,
        .fills_max = (unsigned)config->fill_requests,
        .items_max = (unsigned)config->fill_items,
        .user_bytes_max = config->fill_user_memory_bytes,
        .lists_bytes_max = serve->memory.budgets.bytes[BUDGET_fills],
        .gets_max = (unsigned)config->fill_gets,
        .list_bytes_max = config->fill_list_bytes,
        .replies_bytes_max = config->fill_replies_bytes,
        .hello_ms = config->head_time_ms,
        .time_ms = config->fill_time_ms,
        .ring_bytes = config->fill_ring_bytes,
    };
    if (!*config->fill_socket)
        return OK;
    check(serve->cache && serve->front && !serve->local);
    enum err err = local_start(&options, &serve->keep, &serve->local, &serve->why);
    if (err)
        return err;
    log_info("fill_socket", "path=%.*s threads=%u",
             SLICE_ARG(log_word(&serve->keep, slice_of(options.path))), options.threads);
    front_fill_page(serve->front, page, serve->local);
    return OK;
}

bool fills_could(const struct config *config, struct arena *keep, slice *ret_why)
{
    struct local_options options = { .path = config->fill_socket,
                                     .users = slice_of(config->fill_users) };
    return !*config->fill_socket || local_check(&options, keep, ret_why) == OK;
}

enum err fills_look(const struct config *config, struct arena *keep, slice *ret_why)
{
    struct local_options options = { .path = config->fill_socket };
    return *config->fill_socket ? local_look(&options, keep, ret_why) : OK;
}
