/* fleet.c - the other nodes of the fleet: found, asked, and shown to operators.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The setting "peers" says where the list of nodes is (peers/members.h). Each change of the list
 * goes to struct peers, which the cache asks before the origin. A node needs peer_listen to be
 * one of the fleet: it asks the others only if they can ask it. Threads: the main thread. */
#include <string.h>

#include "cli/serve.h"
#include "s3/encode.h"

#define FLEET_THREADS 2u

enum err fleet_up(struct serve *serve)
{
    const struct config *config = serve->config;
    struct fleet *fleet = &serve->routing.fleet;
    struct cli_certificate certificate = cli_certificate(config, CERTIFICATE_PEERS);
    struct peers_options options = {
        .weight = (uint32_t)config->peer_weight, .name = config->peer_name,
        .cert_file = certificate.cert, .key_file = certificate.key,
        .ca_file = config->peer_tls_ca_file, .threads = FLEET_THREADS,
        .store = serve->store, .hints_max = config->peer_hints,
    };
    if (!config->peers[0])
        return OK;
    store_installation_id(serve->store, options.id);
    fleet->peers = peers_new(&options);
    cache_share(serve->cache, fleet->peers);
    struct members_options members = {
        .peers = slice_of(config->peers), .listen = slice_of(config->peer_listen),
        .etcd_user = slice_of(config->etcd_user), .etcd_password = slice_of(config->etcd_password),
        .etcd_ca_file = config->etcd_ca_file, .changed = peers_listed, .arg = fleet->peers,
    };
    memcpy(members.id, options.id, sizeof(members.id));
    enum err err = members_open(&members, &fleet->members);
    if (err == ERR_LIMIT)
        serve->why = S("no thread could be started for the list of peers: raise the limit of tasks "
                       "(TasksMax, pids.max)");
    else if (err)    /* config_load accepts no such value */
        serve->why = S("the value of the setting peers can't be used: see penstock check");
    return err;
}

void fleet_down(struct serve *serve)
{
    members_close(&serve->routing.fleet.members);
    peers_free(&serve->routing.fleet.peers);
}

/* ---- for operators ---- */

static void add_peer(struct status_document *to, struct arena *keep,
                     const struct peer_status *peer)
{
    char id[2 * NODE_ID_BYTES];
    hex_write(peer->id, NODE_ID_BYTES, id);
    document_item(to, "peers");
    document_text(to, "peers.address", peer->address);
    document_text(to, "peers.state", peer->is_self ? S("this node") : peer->answers ? S("answers")
                                   : peer->since_s ? S("away") : S("not asked yet"));
    document_text(to, "peers.since", iso_date_or_never(keep, peer->since_s));
    document_text(to, "peers.why", peer->why);
    document_text(to, "peers.node", peer->weight ? (slice){ id, sizeof(id) } : S(""));
    document_number(to, "peers.weight", peer->weight);
    document_number(to, "peers.asked", peer->asked);
    document_number(to, "peers.bytes", peer->bytes);
    document_number(to, "peers.failed", peer->failed);
    document_number(to, "peers.bad", peer->bad);
}

void fleet_tell(struct serve *serve, struct arena *keep, struct status_document *to)
{
    size_t count;
    struct members_status list;
    if (!serve->routing.fleet.peers)
        return;
    members_status(serve->routing.fleet.members, keep, &list);
    document_text(to, "fleet.looked", iso_date_or_never(keep, list.looked_s));
    document_text(to, "fleet.last_failure", iso_date_or_never(keep, list.failed_s));
    document_text(to, "fleet.last_failure_why", list.why);
    const struct peer_status *peers = peers_status(serve->routing.fleet.peers, keep, &count);
    for (size_t i = 0; i < count; i++)
        add_peer(to, keep, &peers[i]);
}
