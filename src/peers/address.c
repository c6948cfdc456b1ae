/* address.c - the address of a node. SPDX-License-Identifier: Apache-2.0 */
#include "peers/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static const uint8_t v4_start[12] = { [10] = 0xff, [11] = 0xff };    /* of ::ffff:A.B.C.D */

static bool is_v4(const struct member_address *address)
{
    return memcmp(address->ip, v4_start, sizeof(v4_start)) == 0;
}

bool member_address_read(slice host, unsigned port, struct member_address *ret)
{
    char text[INET6_ADDRSTRLEN];
    uint8_t ip[16];
    if (host.len >= sizeof(text) || slice_has(host, '\0'))
        return false;
    text[slice_put(text, host)] = '\0';
    memcpy(ip, v4_start, sizeof(v4_start));
    if (inet_pton(AF_INET, text, ip + sizeof(v4_start)) != 1 && inet_pton(AF_INET6, text, ip) != 1)
        return false;
    memcpy(ret->ip, ip, sizeof(ip));
    ret->port = (uint16_t)port;
    return true;
}

slice member_text(const struct member_address *address, char ret[MEMBER_TEXT_BYTES])
{
    char host[INET6_ADDRSTRLEN];
    bool v4 = is_v4(address);
    check(inet_ntop(v4 ? AF_INET : AF_INET6, address->ip + (v4 ? sizeof(v4_start) : 0), host,
                    sizeof(host)) != NULL);
    int len = snprintf(ret, MEMBER_TEXT_BYTES, v4 ? "%s:%u" : "[%s]:%u", host, address->port);
    check(len > 0 && (unsigned)len < MEMBER_TEXT_BYTES);
    return (slice){ ret, (size_t)len };
}

socklen_t member_sockaddr(const struct member_address *address, struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (is_v4(address)) {
        struct sockaddr_in *four = (void *)ret;
        four->sin_family = AF_INET;
        four->sin_port = htons(address->port);
        memcpy(&four->sin_addr, address->ip + sizeof(v4_start), sizeof(four->sin_addr));
        return sizeof(*four);
    }
    struct sockaddr_in6 *six = (void *)ret;
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(address->port);
    memcpy(&six->sin6_addr, address->ip, sizeof(six->sin6_addr));
    return sizeof(*six);
}

bool member_of_sockaddr(const struct sockaddr *from, unsigned port, struct member_address *ret)
{
    const struct sockaddr_in *four = (const void *)from;
    const struct sockaddr_in6 *six = (const void *)from;
    if (from->sa_family == AF_INET) {
        memcpy(ret->ip, v4_start, sizeof(v4_start));
        memcpy(ret->ip + sizeof(v4_start), &four->sin_addr, sizeof(four->sin_addr));
    } else if (from->sa_family == AF_INET6) {
        memcpy(ret->ip, &six->sin6_addr, sizeof(ret->ip));
    } else {
        return false;
    }
    ret->port = (uint16_t)port;
    return true;
}

bool member_is_everywhere(const struct member_address *address)
{
    static const uint8_t none[16];
    return memcmp(address->ip + (is_v4(address) ? sizeof(v4_start) : 0), none,
                  is_v4(address) ? 4 : sizeof(none)) == 0;
}

int member_order(const void *a, const void *b)
{
    const struct member_address *left = a, *right = b;
    int order = memcmp(left->ip, right->ip, sizeof(left->ip));
    return order ? order : (left->port > right->port) - (left->port < right->port);
}
