/* probe_peers.c - says hello to each listed node of the fleet.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The list is looked up, and the hellos are sent, by the code of serve (peers/), but this node
 * makes no entry in etcd. Its own addresses are left out, because its service need not run. All of
 * this takes at most TIME_MS. A failure is only a warning, because serve starts in spite of it and
 * tries again.
 * Threads: the thread `peers-list` calls listed(), the main thread does everything else. */
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/url_kind.h"
#include "cli/check.h"
#include "cli/cli.h"
#include "peers/members.h"
#include "peers/peers.h"

#define TIME_MS 8000u
#define LOOK_MS 10
#define NODES_SHOWN 10u

struct trial {
    struct peers *peers;
    unsigned port;                    /* of peer_listen */
    atomic_bool listed;               /* peers has the list */
};

/* ---- the list ---- */

static bool is_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
    if (!a || a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 && memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                                              &((const struct sockaddr_in6 *)b)->sin6_addr,
                                              sizeof(struct in6_addr)) == 0;
}

/* True if it is an address of an interface of this machine, with the port of peer_listen. */
static bool is_own(const struct member_address *address, unsigned port)
{
    struct sockaddr_storage to;
    struct ifaddrs *all = NULL;
    bool own = false;
    (void)member_sockaddr(address, &to);
    if (address->port != port || getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *at = all; at && !own; at = at->ifa_next)
        own = is_same_host(at->ifa_addr, (struct sockaddr *)&to);
    freeifaddrs(all);
    return own;
}

static void listed(void *arg, const struct member_address *list, size_t count)
{
    struct trial *trial = arg;
    struct arena keep = { 0 };
    struct member_address *others = arena_alloc(&keep, count * sizeof(*others));
    size_t other_count = 0;
    for (size_t i = 0; i < count; i++)
        if (!is_own(&list[i], trial->port))
            others[other_count++] = list[i];
    peers_listed(trial->peers, others, other_count);
    atomic_store(&trial->listed, true);
    arena_free(&keep);
}

/* ---- the wait ---- */

/* True once each node has answered or failed, or once the list can't be had. */
static bool is_over(struct trial *trial, struct members *members)
{
    size_t count;
    struct peers_self self;
    struct arena keep = { 0 };
    struct members_status status;
    bool over = true;
    members_status(members, &keep, &status);
    const struct peer_status *all = peers_status(trial->peers, &keep, &count, &self);
    if (!atomic_load(&trial->listed))
        over = status.failed_s != 0;
    for (size_t i = 0; i < count; i++)
        over = over && all[i].since_s;
    arena_free(&keep);
    return over;
}

/* ---- the findings ---- */

static void report_away(struct check *check, const struct peer_status *peer)
{
    check_report(check, WARNED, "peers: %.*s does not answer: %.*s", SLICE_ARG(peer->address),
                 SLICE_ARG(peer->why));
}

static void report_nodes(struct check *check, struct peers *peers)
{
    size_t count, answer = 0, away = 0;
    struct peers_self self;
    const struct peer_status *all = peers_status(peers, check->keep, &count, &self);
    for (size_t i = 0; i < count; i++) {
        answer += all[i].answers;
        away += all[i].since_s && !all[i].answers;
        if (all[i].since_s && !all[i].answers && away <= NODES_SHOWN)
            report_away(check, &all[i]);
    }
    if (away > NODES_SHOWN)
        check_report(check, WARNED, "peers: %zu further nodes do not answer", away - NODES_SHOWN);
    if (answer + away < count)
        check_report(check, NOTED, "peers: %zu further nodes were not asked, since check takes at "
                     "most %u s", count - answer - away, TIME_MS / 1000);
    if (count)
        check_report(check, NOTED, "peers: %zu of %zu other nodes answer%s", answer, count,
                     away ? ". In place of the others, this node asks the next nodes and the "
                            "origin. If Penstock should run at an address that refuses or times "
                            "out, check its peer_listen, the setting peers here, and the firewalls "
                            "between the nodes" : "");
    else
        check_report(check, NOTED, "peers: the list has no node but this one");
}

static void report(struct check *check, struct trial *trial, struct members *members)
{
    struct members_status status;
    members_status(members, check->keep, &status);
    if (status.why.len)
        check_report(check, WARNED, "peers: the list of nodes can't be had: %.*s. Check the "
                     "setting peers", SLICE_ARG(status.why));
    else if (!atomic_load(&trial->listed))
        check_report(check, WARNED, "peers: the list of nodes did not come within %u s. Check the "
                     "setting peers, and how this machine reaches DNS or etcd", TIME_MS / 1000);
    if (atomic_load(&trial->listed))
        report_nodes(check, trial->peers);
}

/* ---- the probe ---- */

static struct peers *make_peers(const struct config *config)
{
    struct cli_certificate certificate = cli_certificate(config, CERTIFICATE_PEERS);
    return peers_new(&(struct peers_options){
        .weight = (uint32_t)config->peer_weight, .name = config->peer_name,
        .cert_file = certificate.cert, .key_file = certificate.key,
        .ca_file = config->peer_tls_ca_file, .threads = 1, .hints_max = config->peer_hints,
    });
}

void probe_peers(struct check *check)
{
    const struct config *config = check->config;
    uint64_t end_ms = mono_ms() + TIME_MS, port = 0;
    struct trial trial = { 0 };
    struct members *members;
    slice listen = slice_of(config->peer_listen);
    if (!config->peers[0] || !slice_u64(url_cut_port(&listen), &port))
        return;
    trial.port = (unsigned)port;
    trial.peers = make_peers(config);
    struct members_options options = {
        .peers = slice_of(config->peers), .listen = slice_of(config->peer_listen),
        .etcd_user = slice_of(config->etcd_user), .etcd_password = slice_of(config->etcd_password),
        .etcd_ca_file = config->etcd_ca_file, .only_looks = true, .changed = listed, .arg = &trial,
    };
    if (!members_open(&options, &members) && !members_begin(members)) {
        while (!is_over(&trial, members) && mono_ms() < end_ms)
            poll(NULL, 0, LOOK_MS);
        report(check, &trial, members);
    }
    members_close(&members);
    peers_free(&trial.peers);
}
