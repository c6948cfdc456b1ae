/* fleet.c - the other nodes of the fleet: found, asked, and shown to operators.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The setting "peers" says where the list of nodes is (peers/members.h). Each change of the list
 * goes to struct peers, which the cache asks before the origin. A node needs peer_listen to be
 * one of the fleet: it asks the others only if they can ask it. Threads: the main thread. */
#include <string.h>

#include "base/metric.h"
#include "cli/serve.h"
#include "http/tls.h"
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
    if (err)    /* config_load accepts no such value */
        serve->why = S("the value of the setting peers can't be used: see penstock check");
    return err;
}

enum err fleet_begin(struct serve *serve)
{
    struct members *members = serve->routing.fleet.members;
    enum err err = members ? members_begin(members) : OK;
    if (err)
        serve->why = S("no thread could be started for the list of peers: raise the limit of tasks "
                       "(TasksMax, pids.max)");
    return err;
}

void fleet_down(struct serve *serve)
{
    members_close(&serve->routing.fleet.members);
    peers_free(&serve->routing.fleet.peers);
}

/* ---- for operators ---- */

static slice id_text(struct arena *keep, const uint8_t id[NODE_ID_BYTES])
{
    char *text = arena_alloc(keep, 2 * NODE_ID_BYTES);
    hex_write(id, NODE_ID_BYTES, text);
    return (slice){ text, 2 * NODE_ID_BYTES };
}

/* `away`: the node is left alone until `retry_ms` are over. */
static slice state_of(const struct peer_status *peer)
{
    return peer->is_self ? S("this node") : peer->answers ? S("answers")
         : peer->since_s ? S("away") : S("not asked yet");
}

static void add_peer(struct status_document *to, struct arena *keep,
                     const struct peer_status *peer)
{
    const struct {
        const char *path;
        uint64_t value;
        bool left_out;
    } rows[] = {
        { "peers.from_bytes", peer->counts.from_bytes, false },
        { "peers.to_bytes", peer->counts.to_bytes, false },
        { "peers.asked", peer->counts.asked, false },
        { "peers.answered", peer->counts.answered, false },
        { "peers.failed", peer->counts.failed, false },
        { "peers.bad", peer->counts.bad, false },
        { "peers.round_trip_us", peer->round_trip_us, !peer->round_trip_us },
        { "peers.retry_ms", peer->retry_ms, !peer->retry_ms },
        { "peers.protocol", peer->protocol, !peer->protocol },
    };
    document_item(to, "peers");
    document_text(to, "peers.address", peer->address);
    document_text(to, "peers.state", state_of(peer));
    document_text(to, "peers.since", iso_date_or_never(keep, peer->since_s));
    document_text(to, "peers.why", peer->why);
    document_text(to, "peers.node", peer->weight ? id_text(keep, peer->id) : S(""));
    document_number(to, "peers.weight", peer->weight);
    document_real(to, "peers.share", peer->share);
    for (size_t i = 0; i < countof(rows); i++)
        if (!rows[i].left_out)
            document_number(to, rows[i].path, rows[i].value);
    document_text(to, "peers.version", peer->version);
}

static void add_list(struct status_document *to, struct arena *keep, struct fleet *fleet)
{
    struct members_status list;
    members_status(fleet->members, keep, &list);
    document_text(to, "fleet.looked", iso_date_or_never(keep, list.looked_s));
    document_text(to, "fleet.last_failure", iso_date_or_never(keep, list.failed_s));
    document_text(to, "fleet.last_failure_why", list.why);
}

static void add_self(struct status_document *to, struct arena *keep, const struct peers_self *self)
{
    document_text(to, "fleet.name", self->name);
    document_text(to, "fleet.node", id_text(keep, self->id));
    document_number(to, "fleet.weight", self->weight);
    document_real(to, "fleet.share", self->share);
    document_number(to, "fleet.strangers.answered", self->strangers.answered);
    document_number(to, "fleet.strangers.to_bytes", self->strangers.to_bytes);
}

void fleet_tell(struct serve *serve, struct arena *keep, struct status_document *to)
{
    size_t count;
    struct peers_self self;
    struct fleet *fleet = &serve->routing.fleet;
    struct http_tls *tls = serve->certificates[CERTIFICATE_PEERS].tls;
    if (tls) {
        document_text(to, "fleet.listen", slice_of(serve->config->peer_listen));
        document_text(to, "fleet.expires", iso_date_or_never(keep, http_tls_expires_s(tls)));
    }
    if (!fleet->peers)
        return;
    const struct peer_status *peers = peers_status(fleet->peers, keep, &count, &self);
    add_self(to, keep, &self);
    add_list(to, keep, fleet);
    for (size_t i = 0; i < count; i++)
        add_peer(to, keep, &peers[i]);
}

/* ---- /metrics ---- */

static uint64_t figure(const struct peer_label *peer, enum metric_family family)
{
    const struct peer_counts *counts = &peer->counts;
    switch (family) {
    case F_PEER_UP:
        return peer->answers;
    case F_PEER_FROM:
        return counts->from_bytes;
    case F_PEER_TO:
        return counts->to_bytes;
    case F_PEER_ASKED:
        return counts->asked;
    default:
        return counts->failed + counts->bad;
    }
}

void fleet_expose(struct serve *serve, struct text *to)
{
    static const enum metric_family families[] = { F_PEER_UP, F_PEER_FROM, F_PEER_TO, F_PEER_ASKED,
                                                   F_PEER_FAILURES };
    size_t count = 0;
    struct peers *peers = serve->routing.fleet.peers;
    const struct peer_label *all = peers ? peers_labels(peers, to->arena, &count) : NULL;
    struct metric_sample *samples = arena_alloc(to->arena, (count + 1) * sizeof(*samples));
    for (size_t k = 0; k < countof(families); k++) {
        for (size_t i = 0; i < count; i++)
            samples[i] = (struct metric_sample){ all[i].address, figure(&all[i], families[k]) };
        /* the last row is "other", which is many nodes */
        metric_expose_family(to, families[k], samples,
                             families[k] == F_PEER_UP && count ? count - 1 : count);
    }
}
