/* carriers.h - memfds that carry long replies. SPDX-License-Identifier: Apache-2.0
 *
 * A reply that is too long for one message of the socket is sent in a memfd. The session keeps the
 * memfds of its last replies open, so that it can empty them later (carriers.c says why). */
#ifndef LOCAL_CARRIERS_H
#define LOCAL_CARRIERS_H

#include "base/slice.h"

/* The number of memfds that a session keeps. At most three messages with a memfd wait in the socket
 * (carriers_socket). So when a later reply empties the oldest of four memfds, the client has
 * already received that memfd. */
#define CARRIERS_KEPT 4u

struct carriers {
    struct carrier {
        int fd;
        uint64_t until_ms;        /* 0: this entry is empty */
    } kept[CARRIERS_KEPT];
    unsigned next;
};

/* Sets the size of the socket's send buffer: the bytes of replies that the kernel keeps for the
 * client. This size replaces the machine's default. */
void carriers_socket(int fd);
/* Returns a new memfd that holds this text and that nobody can seal, or -1 if there is no memory or
 * no descriptor for one. */
int carrier_new(slice text) MUST_USE;
/* Keeps a memfd that was sent. It is emptied after a minute, or when CARRIERS_KEPT later memfds
 * were sent. */
void carriers_keep(struct carriers *carriers, int take_fd, uint64_t now_ms);
/* The next time at which carriers_expire has work; UINT64_MAX: no memfd is kept. */
uint64_t carriers_next_ms(const struct carriers *carriers);
/* Empties memfds that were kept for a minute. If the client of this socket has messages that it has
 * not received yet, the memfds are kept for another minute. */
void carriers_expire(struct carriers *carriers, int fd, uint64_t now_ms);
/* Closes all memfds at the end of the session. If `empty` is set, it empties them first. Without
 * `empty` a client can still read them after this process has ended. */
void carriers_end(struct carriers *carriers, bool empty);

#endif
