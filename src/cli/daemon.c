/* daemon.c - the steps that set up the parts of the service, and the watch over them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A part is a room: one folder of src/, such as store/. A step reads the settings and the results of
 * the steps before it, so most rooms come after the rooms of lower floors (src/FLOORS). If a step
 * fails, it leaves a sentence in serve->why: what happened, why, and what to do.
 *
 * Threads: the main thread. Of this file, loops call only is_ready; the steps also give them
 * functions of folders.c and status.c. */
#include <config.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/log.h"
#include "base/metric.h"
#include "cli/fills.h"
#include "cli/folders.h"
#include "front/client.h"
#include "jobs/jobs.h"
#include "local/local.h"
#include "store/extent.h"

/* Shares of the file descriptors of the process. */
#define FILES_RESERVE 64u
#define FILES_A_LOOP 8u
#define FILES_BODIES_SHARE 8u          /* an eighth is for bodies in the cache folder */
#define FILES_CLIENTS_SHARE 4u         /* at least a quarter is for the connections of clients */

/* Raises a limit to the largest that the host allows. *ret becomes the limit that holds then; it
 * does not change if the limit is unknown. */
static void limit_up(int resource, struct rlimit *ret)
{
    if (getrlimit(resource, ret) != 0)
        return;
    const struct rlimit most = { ret->rlim_max, ret->rlim_max };
    if (setrlimit(resource, &most) == 0)
        *ret = most;
}

/* Lets the allocator give large buffers back to the system when they are freed. Raises the limits
 * of open files, of file sizes and of locked memory to the largest that the host allows. */
static enum err limits_up(struct serve *serve)
{
    struct rlimit files = { 1024, 1024 }, other;
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    mallopt(M_ARENA_MAX, 4);
    limit_up(RLIMIT_FSIZE, &other);
    limit_up(RLIMIT_MEMLOCK, &other);
    limit_up(RLIMIT_NOFILE, &files);
    serve->files.max = files.rlim_cur;
    return OK;
}

/* ---- how the disk is read ---- */

static enum err engine_up(struct serve *serve)
{
    const char *why = "";
    enum err err = disk_choose(slice_of(serve->config->io), &serve->engine, &why);
    if (err)
        serve->why = arena_printf(&serve->keep, "the setting io is \"uring\", but io_uring can't be "
                                  "used here: %s. Set io to \"auto\" or \"threads\"", why);
    else
        log_info("io_engine", "engine=%s why=\"%s\"",
                 serve->engine == DISK_URING ? "uring" : "threads", why);
    return err;
}

/* ---- the watch ---- */

/* Saves the counters for the figures of the last minute, and logs changes of the certificates and
 * of the cache folders. Called once a second. */
void daemon_watch(struct serve *serve)
{
    recent_look(&serve->recent, mono_ms());
    certificates_watch(serve);
    folders_watch(serve);
}

static enum err cache_up(struct serve *serve)
{
    struct cache_options options = {
        .store = serve->store,
        .slots_bytes = serve->memory.budgets.bytes[BUDGET_slots],
        .fetches_max = (unsigned)serve->config->fetches_max,
        .lists_ms = serve->config->list_time_ms,
        .lists_bytes = serve->memory.budgets.bytes[BUDGET_lists],
        .missing_ms = serve->config->missing_time_ms,
        .grants_bytes = serve->memory.budgets.bytes[BUDGET_grants],
    };
    serve->cache = cache_new(&options);
    return OK;
}

/* Tells the store the names of Penstock's own credentials at the origins. If an object was granted
 * to other credentials, it is served to clients of Penstock's own credentials only after the origin
 * grants it again. */
static enum err names_up(struct serve *serve)
{
    size_t count = serve->config->origin_count, name_count = 0;
    struct store_name *names = arena_alloc(&serve->keep, (count + 1) * sizeof(*names));
    for (size_t i = 0; i < count; i++) {
        struct origin *origin = serve->routing.origin_of[i];
        if (origin_knows_identities(origin))
            names[name_count++] =
                (struct store_name){ origin_endpoint(origin), origin_owner(origin) };
    }
    store_names(serve->store, names, name_count);
    return OK;
}

/* ---- clients and the front ---- */

static enum err keys_up(struct serve *serve)
{
    return rules_keys(serve, serve->config, &serve->keep, &serve->why);
}

static enum err clients_up(struct serve *serve)
{
    serve->routing.clients = clients_new();
    return OK;
}

static enum err front_up(struct serve *serve)
{
    struct front_options options = {
        .cache = serve->cache,
        .clients = serve->routing.clients,
        .jobs = serve->jobs,
        .lend = serve->config->lend,
        .lend_token = slice_of(serve->config->lend_token),
        .keys_from = rules_keys_from(serve->config, &serve->keep),
        .rules = serve->routing.rules,
        .rules_count = serve->routing.rules_count,
        .service = serve->config->origin_default ? &serve->routing.service : NULL,
        .domains = slice_of(serve->config->domains),
        .forward_headers = slice_of(serve->config->forward_headers),
        .access_log = serve->config->access_log,
        .no_sigv2 = !serve->config->sigv2,
        .form_bytes_max = serve->config->form_max_bytes,
        .regions = slice_of(serve->config->regions),
        .body_bytes_max = serve->config->body_max_bytes,
        .relays_bytes = serve->memory.budgets.bytes[BUDGET_relays],
        .memory_bytes = serve->memory.bytes,
        .batches = {
            .list_bytes = serve->config->batch_list_bytes,
            .items = serve->config->batch_items,
            .bytes = serve->config->batch_bytes,
            .time_ms = (unsigned)serve->config->batch_time_ms,
            .gets = serve->config->batch_gets,
            .ahead_bytes = serve->config->batch_ahead_bytes,
            .memory_bytes = serve->memory.budgets.bytes[BUDGET_batches],
        },
    };
    serve->front = front_new(&options);
    return OK;
}

/* ---- jobs ---- */

static enum err jobs_up(struct serve *serve)
{
    serve->jobs = jobs_new(&(struct jobs_options){ .cache = serve->cache,
                                                   .gets_max = serve->config->job_gets });
    return OK;
}

/* The jobs of earlier processes begin, so their clients must be known by now. */
static enum err job_threads_up(struct serve *serve)
{
    struct reader_judge judge = front_reader_judge(serve->front);
    if (jobs_start(serve->jobs, &judge))
        return OK;
    serve->why = S("no thread could be started for jobs: raise the limit of tasks (TasksMax, "
                   "pids.max)");
    return ERR_LIMIT;
}

/* ---- peers ---- */

static enum err peers_up(struct serve *serve)
{
    const struct config *config = serve->config;
    struct peer_options options = {
        .front = serve->front, .version = PACKAGE_VERSION, .peers = serve->routing.fleet.peers,
        .weight = (unsigned)config->peer_weight,
        .requests_max = (unsigned)config->peer_requests,
        .bandwidth = config->peer_bandwidth_bytes,
    };
    store_installation_id(serve->store, options.node);
    if (serve->certificates[CERTIFICATE_PEERS].tls)
        serve->apps.peers = peer_server_new(&options);
    return OK;
}

/* ---- listeners ---- */

static bool is_ready(void *arg)
{
    return !atomic_load(&((struct serve *)arg)->draining);
}

static enum err admin_up(struct serve *serve)
{
    check(serve->front);    /* the front made the name of this instance */
    struct admin_options options = {
        .version = PACKAGE_VERSION,
        .instance = front_instance(serve->front, &serve->keep).ptr,
        .tell = status_tell, .ready = is_ready, .expose = status_expose, .arg = serve,
        .token = slice_of(serve->config->admin_token),
        .metrics_token = serve->config->metrics_token,
        .exposed = !config_is_loopback(slice_of(serve->config->admin_listen)),
    };
    if (strcmp(serve->config->admin_listen, "off") != 0)
        serve->apps.admin = admin_new(&options);
    return OK;
}

/* The connections of clients get the descriptors that nothing else needs, but at least a quarter of
 * all descriptors. So even with many clients, descriptors are left for connections to
 * origins, for an operator and for reads from disk. */
static unsigned connections_max(const struct serve *serve, unsigned loops)
{
    const struct config *config = serve->config;
    uint64_t files = serve->files.max;
    uint64_t peer_connections = peer_connections_max((unsigned)config->peer_requests);
    uint64_t others = FILES_RESERVE + loops * FILES_A_LOOP + extent_fds_allowed() +
                      ADMIN_CONNECTIONS_MAX + (serve->apps.peers ? peer_connections : 0) +
                      files / FILES_BODIES_SHARE +
                      fills_sessions(config, files);
    for (size_t i = 0; i < config->origin_count; i++)
        others += config->origins[i].connections;
    uint64_t most = MAX(files > others ? files - others : 0, files / FILES_CLIENTS_SHARE);
    check(loops > 0);
    if (most >= config->connections_max)
        return (unsigned)config->connections_max;
    log_warn("connections_max", "set=%" PRIu64 " used=%" PRIu64 " why=\"this process may have %"
             PRIu64 " file descriptors (ulimit -Hn), and needs %" PRIu64 " of them for other "
             "purposes. So it accepts fewer client connections than connections_max allows: raise "
             "the limit of file descriptors (LimitNOFILE), or lower connections_max\"",
             config->connections_max, most, files, others);
    return (unsigned)most;
}

static struct http_timeouts timeouts(const struct config *config)
{
    return (struct http_timeouts){
        .head_ms = (unsigned)config->head_time_ms, .request_ms = (unsigned)config->request_time_ms,
        .idle_ms = (unsigned)config->idle_time_ms, .send_ms = (unsigned)config->send_time_ms,
        .send_progress_bytes = config->send_progress_bytes,
        .body_progress_ms = (unsigned)config->body_progress_time_ms,
        .body_progress_bytes = config->body_progress_bytes,
    };
}

static struct http_body_limits body_limits(struct serve *serve)
{
    const struct config *config = serve->config;
    uint64_t memory_bytes = serve->memory.budgets.bytes[BUDGET_bodies];
    return (struct http_body_limits){
        .body_bytes_max = FRONT_FRAMED_BYTES(config->body_max_bytes),
        .body_memory_bytes = MIN(config->body_memory_bytes, memory_bytes / 4),
        .disk_bytes = config->bodies_disk_bytes,
        .memory_bytes = memory_bytes,
        .spill_folder = folders_spill, .spill_arg = serve,
        .files_max = (unsigned)MAX(serve->files.max / FILES_BODIES_SHARE, 1u),
    };
}

static enum err http_up(struct serve *serve)
{
    const struct config *config = serve->config;
    unsigned loops = config->loops ? (unsigned)config->loops : MIN(cores_available(), 8u);
    enum { APPS_MAX = 4 };    /* listen, tls_listen, admin_listen, peer_listen */
    struct http_app *apps = arena_alloc(&serve->keep, APPS_MAX * sizeof(*apps));
    size_t count = 0;
    const int *inherited = serve->files.inherited.fds;
    apps[count++] = (struct http_app){
        .setting = "listen", .listen = config->listen, .inherited_fd = inherited[LISTENER_S3],
        .arg = serve->front,
        .judge = front_judge, .refuse = front_refuse, .handle = front_handle,
    };
    if (serve->certificates[CERTIFICATE_CLIENTS].tls) {
        apps[count] = apps[0];
        apps[count].setting = "tls_listen";
        apps[count].listen = config->tls_listen;
        apps[count].inherited_fd = inherited[LISTENER_TLS];
        apps[count++].tls = serve->certificates[CERTIFICATE_CLIENTS].tls;
    }
    if (serve->apps.admin) {
        apps[count] = admin_app(serve->apps.admin, config->admin_listen);
        apps[count++].inherited_fd = inherited[LISTENER_ADMIN];
    }
    if (serve->apps.peers) {
        apps[count] = peer_server_app(serve->apps.peers, config->peer_listen,
                                      serve->certificates[CERTIFICATE_PEERS].tls);
        apps[count++].inherited_fd = inherited[LISTENER_PEER];
    }
    check(count <= APPS_MAX && serve->front && !serve->http);
    struct http_options options = {
        .apps = apps, .app_count = count,
        .loops = loops,
        .timeouts = timeouts(config),
        .bodies = body_limits(serve),
        .heads_bytes = serve->memory.budgets.bytes[BUDGET_requests],
        .connections_max = connections_max(serve, loops),
        .loop_begin = front_loop_begin, .loop_end = front_loop_end, .loop_turn = front_loop_turn,
        .arg = serve->front,
    };
    return http_start(&options, &serve->keep, &serve->http, &serve->why);
}

/* A connection may have a request whose body, or head, is still on its way. */
static bool is_busy(const struct serve *serve)
{
    return http_is_draining(serve->http) || (serve->local && local_fills(serve->local) > 0);
}

/* Takes no new connections and answers the requests of the open ones, for at most drain_time. */
static void daemon_drain(struct serve *serve)
{
    uint64_t until_ms = mono_ms() + serve->config->drain_time_ms;
    check(serve->http && serve->front);
    atomic_store(&serve->draining, true);
    front_drain(serve->front);
    peers_drain(serve->routing.fleet.peers);
    http_drain(serve->http);
    if (serve->local)
        local_drain(serve->local);
    while (is_busy(serve) && mono_ms() < until_ms)
        poll(NULL, 0, 10);
    log_info("drained", "left=%zu connections=%zu", http_open_requests(serve->http),
             http_connections(serve->http));
}

static void http_down(struct serve *serve)
{
    daemon_drain(serve);
    cache_stop(serve->cache);
    http_stop(&serve->http);
}

/* ---- the table ---- */

static void clients_down(struct serve *serve) { clients_free(&serve->routing.clients); }
static void cache_down(struct serve *serve) { cache_free(&serve->cache); }
static void origins_down(struct serve *serve) { origins_free(&serve->routing.origins); }
static void front_down(struct serve *serve) { front_free(&serve->front); }
static void peers_down(struct serve *serve) { peer_server_free(&serve->apps.peers); }
static void admin_down(struct serve *serve) { admin_free(&serve->apps.admin); }
static void jobs_down(struct serve *serve) { jobs_free(&serve->jobs); }
static void job_threads_down(struct serve *serve) { jobs_stop(serve->jobs); }
static void fills_down(struct serve *serve) { local_stop(&serve->local); }

const struct step daemon_steps[] = {
    { "log", serve_log_up, serve_log_down },
    { "limits", limits_up, NULL },       { "io", engine_up, NULL },
    { "sockets", inherited_up, NULL },   { "wait", inherited_wait, NULL },
    { "traces", daemon_traces_up, daemon_traces_down },    /* after all spans have ended */
    { "store", folders_up, folders_down },   { "clients", clients_up, clients_down },
    { "cache", cache_up, cache_down },   { "origins", rules_origins_up, origins_down },
    { "fleet", fleet_up, fleet_down },    /* before the origins, to which it passes calls on */
    { "names", names_up, NULL },         { "rules", rules_up, NULL },
    { "jobs", jobs_up, jobs_down },
    { "front", front_up, front_down },   { "keys", keys_up, NULL },
    { "job threads", job_threads_up, job_threads_down },
    { "tls", certificates_up, certificates_down },
    { "peers", peers_up, peers_down },   { "admin", admin_up, admin_down },
    { "fill", fills_up, fills_down },    { "http", http_up, http_down },
    { "nodes", fleet_begin, NULL },
};
const size_t daemon_step_count = countof(daemon_steps);
