/* peer.h - the app at peer_listen: answers the questions of other nodes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Peers share the bytes of named versions. Rights and freshness stay with each node and the origin:
 * a question names a strong ETag, and the node that asks has found version and right at the origin
 * before. So an answer proves nothing but bytes. It comes from the cache or the origin, and never
 * from another peer, so questions can't go around in a circle. TLS has proved that the client is a
 * peer (http/tls.h). */
#ifndef FRONT_PEER_H
#define FRONT_PEER_H

#include "front/front.h"
#include "peers/peers.h"

struct peer_options {
    struct front *front;          /* its cache and rules; its drain is that of this app, too */
    struct peers *peers;          /* counts what each node was sent; NULL: nothing counts */
    uint8_t node[NODE_ID_BYTES];  /* the id of this node */
    unsigned weight;
    const char *version;          /* of Penstock */
    unsigned requests_max;        /* at a time; any more are refused */
    uint64_t bandwidth;           /* bytes a second to all peers together; 0: no limit */
};

struct peer_server;
struct peer_server *peer_server_new(const struct peer_options *options) MUST_USE;
void peer_server_free(struct peer_server **server);    /* when no loop runs */
/* Sets options.bandwidth anew; any thread. */
void peer_server_bandwidth(struct peer_server *server, uint64_t bandwidth);
/* The app. Its loops must be those of the front (front_loop_begin). */
struct http_app peer_server_app(struct peer_server *server, const char *listen,
                                struct http_tls *tls);
/* The most connections of the app. */
unsigned peer_connections_max(unsigned requests_max);

#endif
