/* dns.c - asks name servers for addresses and services. SPDX-License-Identifier: Apache-2.0
 *
 * The C library's resolver sends the questions: it reads /etc/resolv.conf, tries all name servers,
 * goes from UDP to TCP for a long answer, and verifies that an answer belongs to its question.
 * getaddrinfo can't replace it, because it returns neither SRV records nor the time for which an
 * answer is valid (TTL). But if DNS knows no address of a name, getaddrinfo is asked, too: the name
 * may be in /etc/hosts.
 *
 * Each thread has a state of the resolver, `_res`, which the resolver functions and getaddrinfo
 * use. Here, a question that no server answers ends after 2 x (1 s for each of at most 3 servers).
 * The time for a whole look is limited, too (look_may_go_on). */
#include "peers/look.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <string.h>

#include "base/testing.h"
#include "base/url_kind.h"
#include "peers/dns_answer.h"

#define TRY_S 1
#define TRIES 2

/* ---- one question ---- */

/* A test has a name server of its own, on a port of its own. */
static void use_testing_server(void)
{
    const char *text = testing_value(TESTING_NAME_SERVER);
    struct member_address address;
    struct sockaddr_storage at;
    uint64_t port;
    if (!text)
        return;
    slice host = slice_of(text), number = url_cut_port(&host);
    check(slice_u64(number, &port) && member_address_read(host, (unsigned)port, &address));
    check(member_sockaddr(&address, &at) == sizeof(_res.nsaddr_list[0]));
    memcpy(&_res.nsaddr_list[0], &at, sizeof(_res.nsaddr_list[0]));
    _res.nscount = 1;
}

union answer {
    HEADER head;
    uint8_t bytes[NS_MAXMSG];
};

void dns_begin(struct look *look)
{
    look->answer = arena_alloc(look->keep, sizeof(*look->answer));
    (void)res_init();    /* fails only if no memory is left; then all questions fail */
    use_testing_server();
    _res.retrans = TRY_S;
    _res.retry = TRIES;
}

static enum err question_failed(struct look *look, slice name, int error)
{
    const HEADER *answer = &look->answer->head;    /* of the latest answer, if there was one */
    if (_res.res_h_errno == HOST_NOT_FOUND || _res.res_h_errno == NO_DATA)
        return ERR_NOT_FOUND;
    if (answer->qr && answer->rcode == ns_r_servfail)
        return look_fail(look, ERR_IO, "%.*s can't be looked up: the name server answers SERVFAIL",
                         SLICE_ARG(name));
    if (answer->qr && answer->rcode != ns_r_noerror)
        return look_fail(look, ERR_IO, "%.*s can't be looked up: the name server refuses to answer "
                         "(code %u)", SLICE_ARG(name), answer->rcode);
    if (error == ECONNREFUSED)
        return look_fail(look, ERR_IO, "%.*s can't be looked up: nothing answers at the addresses "
                         "of the name servers in /etc/resolv.conf", SLICE_ARG(name));
    if (error && error != ETIMEDOUT)
        return look_fail(look, ERR_IO, "%.*s can't be looked up: %s", SLICE_ARG(name),
                         strerror(error));
    return look_fail(look, ERR_TIMEOUT, "%.*s can't be looked up: no name server answered in time",
                     SLICE_ARG(name));
}

/* Asks for records of a name. After a failure, *ret may have some of them nevertheless. With
 * `search`, the resolver also tries the domains that resolv.conf has for short names. */
static enum err ask(struct look *look, slice name, enum dns_type type, bool search,
                    struct dns_answer *ret)
{
    union answer *answer = look->answer;
    char text[NS_MAXDNAME];
    *ret = (struct dns_answer){ .ttl_s = UINT32_MAX };
    enum err e = look_may_go_on(look);
    if (e)
        return e;
    if (name.len >= sizeof(text))
        return ERR_NOT_FOUND;
    text[slice_put(text, name)] = '\0';
    int (*send)(res_state, const char *, int, int, unsigned char *, int) =
        search ? res_nsearch : res_nquery;
    memset(&answer->head, 0, sizeof(answer->head));
    errno = 0;
    int len = send(&_res, text, ns_c_in, type, answer->bytes, sizeof(answer->bytes));
    if (len < 0)
        return question_failed(look, name, errno);
    slice message = { (const char *)answer->bytes, MIN((size_t)len, sizeof(answer->bytes)) };
    e = dns_answer_read(message, type, look->keep, ret);
    if (e == ERR_FORMAT) {
        *ret = (struct dns_answer){ .ttl_s = UINT32_MAX };
        return look_fail(look, e, "%.*s can't be looked up: the answer of the name server is "
                         "malformed", SLICE_ARG(name));
    }
    if (e)
        return look_fail(look, e, "the name server has cut off its answer for %.*s: there is more "
                         "than fits into 64 KiB. Give the name fewer records", SLICE_ARG(name));
    look->pause_s = MIN(look->pause_s, ret->ttl_s);
    return ret->address_count || ret->service_count ? OK : ERR_NOT_FOUND;
}

/* ---- addresses of a name ---- */

static void add_all(struct look *look, const struct dns_answer *answer, slice name, unsigned port)
{
    for (size_t i = 0; i < answer->address_count; i++) {
        struct member_address address = { .port = (uint16_t)port };
        memcpy(address.ip, answer->addresses[i].ip, sizeof(address.ip));
        if (!name.len || slice_eq_nocase(answer->addresses[i].name, name))
            look_add(look, &address);
    }
}

/* For a name that DNS does not know. */
static enum err from_hosts(struct look *look, slice name, unsigned port)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    struct member_address address;
    enum err e = look_may_go_on(look);
    if (e)
        return e;
    int code = getaddrinfo(arena_copy(look->keep, name).ptr, NULL, &hints, &found);
    if (code == EAI_AGAIN || code == EAI_SYSTEM)
        return look_fail(look, ERR_IO, "%.*s can't be looked up: %s", SLICE_ARG(name),
                         gai_strerror(code));
    if (code)
        return look_fail(look, ERR_NOT_FOUND, "%.*s has no address", SLICE_ARG(name));
    for (const struct addrinfo *at = found; at; at = at->ai_next)
        if (member_of_sockaddr(at->ai_addr, port, &address))
            look_add(look, &address);
    freeaddrinfo(found);
    return OK;
}

static enum err dns_addresses(struct look *look, slice name, unsigned port, bool search)
{
    struct member_address literal;
    struct dns_answer four, six;
    if (member_address_read(name, port, &literal)) {
        look_add(look, &literal);
        return OK;
    }
    enum err e = ask(look, name, DNS_A, search, &four);
    add_all(look, &four, S(""), port);
    if (e == ERR_STOPPING || e == ERR_TIMEOUT)
        return e;
    enum err e6 = ask(look, name, DNS_AAAA, search, &six);
    add_all(look, &six, S(""), port);
    /* Some name servers can't answer questions for IPv6 addresses. */
    if (e != ERR_NOT_FOUND)
        return e;
    return e6 == ERR_NOT_FOUND ? from_hosts(look, name, port) : e6;
}

enum err dns_hosts(struct look *look, const struct member_host *hosts, size_t count)
{
    enum err worst = OK;
    for (size_t i = 0; i < count && worst != ERR_STOPPING; i++) {
        unsigned port = hosts[i].port ? hosts[i].port : look->port;
        enum err e = dns_addresses(look, hosts[i].host, port, true);
        if (e)
            worst = e;
    }
    return worst;
}

/* ---- services ---- */

/* Adds the addresses of the target of a SRV record. The server may have sent them with the
 * record. */
static enum err add_target(struct look *look, const struct dns_answer *answer, size_t which)
{
    const struct dns_service *service = &answer->services[which];
    size_t before = look->count;
    for (size_t i = 0; i < which; i++)
        if (answer->services[i].port == service->port &&
            slice_eq_nocase(answer->services[i].target, service->target))
            return OK;
    add_all(look, answer, service->target, service->port);
    return look->count > before ? OK : dns_addresses(look, service->target, service->port, false);
}

/* A target that has no address is left out: it may belong to a node that is gone. */
enum err dns_services(struct look *look, slice name)
{
    struct dns_answer answer;
    enum err worst = ask(look, name, DNS_SRV, true, &answer);
    if (worst == ERR_NOT_FOUND || (!worst && !answer.service_count))
        return look_fail(look, ERR_NOT_FOUND, "%.*s has no SRV records", SLICE_ARG(name));
    for (size_t i = 0; i < answer.service_count && worst != ERR_STOPPING; i++) {
        enum err e = add_target(look, &answer, i);
        if (e && e != ERR_NOT_FOUND)
            worst = e;
    }
    return worst;
}
