/* address.c - the addresses that the settings name. SPDX-License-Identifier: Apache-2.0
 *
 * An address is text, such as 127.0.0.1:9000, [::1]:9000 or *:9000. A name is resolved, and its
 * first address counts. */
#include "http/inside.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

bool address_resolve(const char *listen_on, struct address *ret)
{
    const char *colon = strrchr(listen_on, ':');
    char host[256];
    if (!colon || !colon[1])
        return false;
    slice name = { listen_on, (size_t)(colon - listen_on) };
    if (slice_starts(name, S("[")) && slice_ends(name, S("]")))
        name = slice_sub(name, 1, name.len - 2);
    if (name.len >= sizeof(host))
        return false;
    snprintf(host, sizeof(host), "%.*s", SLICE_ARG(name));
    struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    bool any = slice_eq(name, S("*"));
    if (getaddrinfo(any ? NULL : host, colon + 1, &hints, &found) || !found)
        return false;
    memcpy(&ret->at, found->ai_addr, found->ai_addrlen);
    ret->len = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

static bool is_same(const struct sockaddr_storage *one, const struct sockaddr_storage *other)
{
    const struct sockaddr_in *four = (const void *)one, *other_four = (const void *)other;
    const struct sockaddr_in6 *six = (const void *)one, *other_six = (const void *)other;
    if (one->ss_family != other->ss_family)
        return false;
    if (one->ss_family == AF_INET)
        return four->sin_port == other_four->sin_port &&
               four->sin_addr.s_addr == other_four->sin_addr.s_addr;
    return one->ss_family == AF_INET6 && six->sin6_port == other_six->sin6_port &&
           memcmp(&six->sin6_addr, &other_six->sin6_addr, sizeof(six->sin6_addr)) == 0;
}

enum err http_is_at(int fd, const char *listen_on)
{
    struct address is = { .len = sizeof(is.at) }, wanted = { 0 };
    if (!address_resolve(listen_on, &wanted))
        return ERR_BAD_ARGUMENT;
    return getsockname(fd, (struct sockaddr *)&is.at, &is.len) == 0 && is_same(&is.at, &wanted.at)
         ? OK : ERR_NOT_FOUND;
}
