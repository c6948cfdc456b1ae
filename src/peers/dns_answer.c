/* dns_answer.c - reads the answer of a name server. SPDX-License-Identifier: Apache-2.0
 *
 * The C library's functions take the message apart, and follow compressed names. They are part of
 * libresolv, which comes with the C library. The number of records is limited by the size of a
 * message: 64 KiB. */
#include "peers/dns_answer.h"

#include <arpa/nameser.h>
#include <assert.h>
#include <resolv.h>
#include <string.h>

static_assert((int)DNS_A == ns_t_a && (int)DNS_AAAA == ns_t_aaaa && (int)DNS_SRV == ns_t_srv,
              "types of records");

#define NAME_CHARS LOWER_CHARS UPPER_CHARS DIGIT_CHARS "-_."
#define SRV_HEAD_BYTES 6u             /* priority, weight, port */

static void add_address(struct dns_answer *answer, const ns_rr *record, struct arena *keep)
{
    struct dns_address address = { .ip = { [10] = 0xff, [11] = 0xff } };
    size_t bytes = ns_rr_type(*record) == ns_t_a ? 4 : 16;
    if (ns_rr_rdlen(*record) != bytes)
        return;
    memcpy(address.ip + 16 - bytes, ns_rr_rdata(*record), bytes);
    address.name = arena_copy(keep, slice_of(ns_rr_name(*record)));
    answer->addresses = arena_grow(keep, answer->addresses, answer->address_count, sizeof(address));
    answer->addresses[answer->address_count++] = address;
    answer->ttl_s = MIN(answer->ttl_s, ns_rr_ttl(*record));
}

/* All services are nodes, so neither priority nor weight counts. */
static void add_service(struct dns_answer *answer, ns_msg *message, const ns_rr *record,
                        struct arena *keep)
{
    char target[NS_MAXDNAME];
    const uint8_t *data = ns_rr_rdata(*record);
    if (ns_rr_rdlen(*record) <= SRV_HEAD_BYTES ||
        dn_expand(ns_msg_base(*message), ns_msg_end(*message), data + SRV_HEAD_BYTES, target,
                  sizeof(target)) < 0)
        return;
    slice name = slice_of(target);
    uint16_t port = (uint16_t)ns_get16(data + 4);
    if (!name.len || !port || !slice_only(name, NAME_CHARS))
        return;
    answer->services = arena_grow(keep, answer->services, answer->service_count,
                                  sizeof(*answer->services));
    answer->services[answer->service_count++] =
        (struct dns_service){ arena_copy(keep, name), port };
    answer->ttl_s = MIN(answer->ttl_s, ns_rr_ttl(*record));
}

/* Returns false if the section is malformed. */
static bool read_section(struct dns_answer *answer, ns_msg *message, ns_sect section,
                         enum dns_type type, struct arena *keep)
{
    ns_rr record;
    for (int i = 0; i < ns_msg_count(*message, section); i++) {
        if (ns_parserr(message, section, i, &record) != 0)
            return false;
        if (ns_rr_class(record) != ns_c_in)
            continue;
        unsigned found = ns_rr_type(record);
        bool address = found == ns_t_a || found == ns_t_aaaa;
        if (found == ns_t_cname)
            answer->ttl_s = MIN(answer->ttl_s, ns_rr_ttl(record));
        else if (found == ns_t_srv && type == DNS_SRV && section == ns_s_an)
            add_service(answer, message, &record, keep);
        else if (address && (found == (unsigned)type || section == ns_s_ar))
            add_address(answer, &record, keep);
    }
    return true;
}

enum err dns_answer_read(slice message, enum dns_type type, struct arena *keep,
                         struct dns_answer *ret)
{
    ns_msg parsed;
    *ret = (struct dns_answer){ .ttl_s = UINT32_MAX };
    if (message.len > NS_MAXMSG ||
        ns_initparse((const uint8_t *)message.ptr, (int)message.len, &parsed) != 0)
        return ERR_FORMAT;
    if (!read_section(ret, &parsed, ns_s_an, type, keep))
        return ERR_FORMAT;
    /* Nobody needs what a server adds. In a message of more than 16 KiB, dnsmasq 2.90 adds records
     * whose names point to a wrong place. */
    if (type == DNS_SRV)
        (void)read_section(ret, &parsed, ns_s_ar, type, keep);
    return ns_msg_getflag(parsed, ns_f_tc) ? ERR_INCOMPLETE : OK;
}
