/* address.h - the address of a node. SPDX-License-Identifier: Apache-2.0
 *
 * An address only says where to connect. Who answers there is known after the handshake, by the
 * installation id. Pure; any thread. */
#ifndef PEERS_ADDRESS_H
#define PEERS_ADDRESS_H

#include <sys/socket.h>

#include "base/slice.h"

struct member_address {
    uint8_t ip[16];                   /* an IPv4 address as ::ffff:A.B.C.D */
    uint16_t port;
};

#define MEMBER_TEXT_BYTES 56u

/* Reads the text of an IPv4 or IPv6 address, without brackets. Returns false for any other text,
 * such as a host name. */
bool member_address_read(slice host, unsigned port, struct member_address *ret) MUST_USE;
/* Returns A.B.C.D:PORT or [IPV6]:PORT, in `ret`, followed by a NUL. */
slice member_text(const struct member_address *address, char ret[MEMBER_TEXT_BYTES]) MUST_USE;
/* Makes the address that connect() takes, and returns its length. */
socklen_t member_sockaddr(const struct member_address *address, struct sockaddr_storage *ret);
/* Reads the address out of a struct sockaddr_in or sockaddr_in6. Returns false for other
 * families. */
bool member_of_sockaddr(const struct sockaddr *from, unsigned port,
                        struct member_address *ret) MUST_USE;
/* True for 0.0.0.0 and ::, to which nobody can connect from another machine. */
bool member_is_everywhere(const struct member_address *address);
/* For qsort: by the bytes of the address, then by port. */
int member_order(const void *a, const void *b);

#endif
