/* dns_answer.h - reads the answer of a name server. SPDX-License-Identifier: Apache-2.0
 *
 * Pure; any thread. The bytes come from the network: nothing in them is trusted. */
#ifndef PEERS_DNS_ANSWER_H
#define PEERS_DNS_ANSWER_H

#include "base/arena.h"

enum dns_type { DNS_A = 1, DNS_AAAA = 28, DNS_SRV = 33 };

struct dns_address {
    slice name;                       /* as the record has it, without a final dot */
    uint8_t ip[16];                   /* an IPv4 address as ::ffff:A.B.C.D */
};
struct dns_service {
    slice target;                     /* a name, without a final dot */
    uint16_t port;
};

struct dns_answer {
    /* Those of the wanted type; with DNS_SRV, those that the server added for the targets. */
    struct dns_address *addresses;
    size_t address_count;
    struct dns_service *services;
    size_t service_count;
    uint32_t ttl_s;                   /* the lowest of all these records; UINT32_MAX: none */
};

/* Returns ERR_FORMAT for an answer that is malformed. Returns ERR_INCOMPLETE, and what there is,
 * for an answer that says that it was cut off. Records of other types are left out, and so are SRV
 * records whose target is no host name, such as ".", which means that there is no such service. */
enum err dns_answer_read(slice message, enum dns_type type, struct arena *keep,
                         struct dns_answer *ret) MUST_USE;

#endif
