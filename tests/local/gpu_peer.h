/* gpu_peer.h - the trainer of gpu_check, in a process of its own.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_PEER_H
#define GPU_PEER_H

#include <sys/types.h>

#include "local/gpu_client.h"

enum peer_op { PEER_BEGIN, PEER_MAKE, PEER_PAINT, PEER_SUM, PEER_DROP, PEER_FREE, PEER_SPEED };

struct peer {
    pid_t pid;       /* 0: there is none */
    int socket;
};

struct peer_ask {
    enum peer_op op;
    enum client_memory kind;
    uint64_t value;              /* bytes, byte */
    char uuid[41];
};

struct peer_answer {
    bool ok;
    uint64_t value;
    double speed;
    struct client_shared shared;     /* its descriptors are ours */
    char why[256];
};

/* Starts this program again, as a peer; in a PID namespace of its own if wanted. */
bool peer_start(struct peer *ret, bool own_namespace);
/* False: it is gone, or what was asked failed: ret->why. */
bool peer_call(struct peer *peer, struct peer_ask ask, struct peer_answer *ret);
void peer_end(struct peer *peer, int signal);    /* 0: it may leave by itself */
/* What main does when it was started as a peer. */
void peer_serve(int socket);

#endif
