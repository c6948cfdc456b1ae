/* carriers.h - memfds that carry long replies. SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_CARRIERS_H
#define LOCAL_CARRIERS_H

#include "base/slice.h"

/* A socket holds at most three messages that name a memfd and are not received yet
 * (carriers_socket). So a later reply never empties a memfd that the client has still to read. */
#define CARRIERS_KEPT 4u

struct carriers {
    struct carrier {
        int fd;
        uint64_t until_ms;        /* 0: the place is empty */
    } kept[CARRIERS_KEPT];
    unsigned next;
};

/* Sets how much of a session's replies the kernel keeps for its client, whatever the machine's
 * default is. */
void carriers_socket(int fd);
/* A new memfd that holds this text and that nobody can seal; -1: none could be made. */
int carrier_new(slice text) MUST_USE;
/* Keeps a memfd that was sent. It is emptied after a minute, or when CARRIERS_KEPT later ones were
 * sent. */
void carriers_keep(struct carriers *carriers, int take_fd, uint64_t now_ms);
uint64_t carriers_next_ms(const struct carriers *carriers);    /* UINT64_MAX: none is kept */
/* Empties memfds whose minute is over, unless the client of this socket has messages that it has
 * not received yet. */
void carriers_expire(struct carriers *carriers, int fd, uint64_t now_ms);
/* The session is over. Memfds are emptied, unless this process ends and the client may still read
 * them. */
void carriers_end(struct carriers *carriers, bool empty);

#endif
