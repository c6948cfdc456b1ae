/* members_parse.c - reads the setting "peers". SPDX-License-Identifier: Apache-2.0
 *
 *   10.0.0.1, 10.0.0.2:9002, node-c.example, [fd00::4]:9002    the nodes
 *   dns:NAME[:PORT]                                            a name, by its addresses
 *   dns:_SERVICE._PROTOCOL.NAME                                a name, by its SRV records
 *   etcd:http[s]://HOST[:PORT]/PREFIX                          nodes have keys PREFIX/ID in etcd
 *
 * A name that begins with "_" is a service: host names have no "_". For all other names, only
 * addresses are asked for. They may have SRV records, too, but those need not be for peers: a
 * headless Service of Kubernetes has one for each of its ports. Pure; any thread. */
#include <string.h>

#include "base/url_kind.h"
#include "peers/look.h"

#define HOST_CHARS LOWER_CHARS UPPER_CHARS DIGIT_CHARS "-_."
#define PREFIX_BYTES_MAX 512u

/* ---- hosts ---- */

/* Returns true for a host name: labels of 1 to 63 characters, 253 characters in all. */
static bool is_name(slice name)
{
    if (slice_ends(name, S(".")))
        name.len--;
    if (!name.len || name.len > 253 || !slice_only(name, HOST_CHARS))
        return false;
    for (slice rest = name; rest.ptr;) {
        slice label = slice_cut(&rest, '.');
        if (!label.len || label.len > 63)
            return false;
    }
    return true;
}

/* An address that is mistyped, such as 10.0.0.256, is no name. */
static const char *host_fault(slice host, bool bracketed, struct arena *keep)
{
    struct member_address address;
    bool is_address = member_address_read(host, 0, &address);
    if (is_address && member_is_everywhere(&address))
        return arena_printf(keep, "has %.*s, which stands for every address of a machine: write "
                            "the address of the node", SLICE_ARG(host)).ptr;
    if (is_address && slice_has(host, ':') && !bracketed)
        return arena_printf(keep, "has the IPv6 address %.*s without brackets: write [%.*s] or "
                            "[%.*s]:PORT", SLICE_ARG(host), SLICE_ARG(host), SLICE_ARG(host)).ptr;
    if (is_address)
        return NULL;
    if (bracketed)
        return arena_printf(keep, "has [%.*s], which is no IPv6 address: only such an address "
                            "stands in brackets", SLICE_ARG(host)).ptr;
    if (slice_only(host, DIGIT_CHARS "."))
        return arena_printf(keep, "has \"%.*s\", which is neither an IPv4 address nor a host name",
                            SLICE_ARG(host)).ptr;
    return is_name(host) ? NULL
                         : arena_printf(keep, "has \"%.*s\", which is not a host name of letters, "
                                        "digits, '-', '_' and '.', nor an address",
                                        SLICE_ARG(host)).ptr;
}

bool member_host_read(slice text, struct arena *keep, struct member_host *ret,
                      const char **ret_why)
{
    struct member_address six;
    slice host = text, port = { NULL, 0 };
    uint64_t number = 0;
    if (!member_address_read(text, 0, &six))    /* "::1" has colons, and no port */
        port = url_cut_port(&host);
    bool bracketed = slice_starts(host, S("[")) && slice_ends(host, S("]")) && host.len > 2;
    if (bracketed)
        host = slice_sub(host, 1, host.len - 2);
    const char *fault = host_fault(host, bracketed, keep);
    if (fault) {
        *ret_why = fault;
        return false;
    }
    *ret_why = arena_printf(keep, "has \"%.*s\", and \"%.*s\" is no port: write HOST:PORT",
                            SLICE_ARG(text), SLICE_ARG(port)).ptr;
    if (port.ptr && !url_port_is_valid(port, ret_why))
        return false;
    if (port.ptr && !slice_u64(port, &number))
        return false;
    *ret = (struct member_host){ host, (unsigned)number };
    return true;
}

/* ---- the four forms ---- */

static bool read_list(slice setting, struct arena *keep, struct members_source *ret,
                      const char **ret_why)
{
    ret->kind = MEMBERS_LISTED;
    for (slice rest = setting; rest.ptr;) {
        slice part = slice_trim(slice_cut(&rest, ','));
        *ret_why = "has an empty entry: remove the extra comma";
        if (!part.len)
            return false;
        *ret_why = arena_printf(keep, "has more than %u nodes: use DNS (dns:NAME) or etcd for so "
                                "many", MEMBERS_MAX).ptr;
        if (ret->host_count == MEMBERS_MAX)
            return false;
        ret->hosts = arena_grow(keep, ret->hosts, ret->host_count, sizeof(*ret->hosts));
        if (!member_host_read(part, keep, &ret->hosts[ret->host_count], ret_why))
            return false;
        ret->host_count++;
    }
    return true;
}

static bool read_dns(slice name, struct arena *keep, struct members_source *ret,
                     const char **ret_why)
{
    struct member_address address;
    ret->kind = MEMBERS_DNS;
    ret->has_services = slice_starts(name, S("_"));
    *ret_why = "has no name after dns: - write dns:NAME, as in dns:penstock-peers.example";
    if (!name.len)
        return false;
    *ret_why = "has a space or a comma after dns: - write one name, as in "
               "dns:penstock-peers.example";
    if (slice_has(name, ' ') || slice_has(name, ','))
        return false;
    ret->hosts = arena_grow(keep, NULL, 0, sizeof(*ret->hosts));
    ret->host_count = 1;
    if (!member_host_read(name, keep, ret->hosts, ret_why))
        return false;
    *ret_why = "has an address after dns:, where a name must be. Write addresses without dns:, "
               "as in 10.0.0.1, 10.0.0.2";
    if (member_address_read(ret->hosts->host, 0, &address))
        return false;
    *ret_why = "has a port after the name of a service, whose SRV records have the ports: remove "
               "the port";
    return !ret->has_services || !ret->hosts->port;
}

static bool read_etcd(slice rest, struct arena *keep, struct members_source *ret,
                      const char **ret_why)
{
    slice scheme = slice_starts(rest, S("https://")) ? S("https://") : S("http://");
    ret->kind = MEMBERS_ETCD;
    *ret_why = "must have an http or https URL after etcd:, as in "
               "etcd:https://etcd.example:2379/penstock";
    if (!slice_starts(rest, scheme))
        return false;
    slice path = slice_from(rest, scheme.len), host = slice_cut(&path, '/');
    if (slice_has(host, '@'))
        *ret_why = "must not have credentials in the URL: set etcd_user and etcd_password_file";
    if (!url_host_is_valid(host, ret_why))
        return false;
    while (slice_ends(path, S("/")))
        path.len--;
    *ret_why = "has no prefix after the host: add a name for this fleet, as in "
               "etcd:https://etcd.example:2379/penstock";
    if (!path.len)
        return false;
    *ret_why = arena_printf(keep, "has a prefix of more than %u characters: shorten it",
                            PREFIX_BYTES_MAX).ptr;
    ret->url = slice_sub(rest, 0, scheme.len + host.len);
    ret->prefix = path;
    return path.len <= PREFIX_BYTES_MAX;
}

bool members_parse(slice setting, struct arena *keep, struct members_source *ret,
                   const char **ret_why)
{
    static const struct {
        slice start;
        bool (*read)(slice rest, struct arena *keep, struct members_source *ret,
                     const char **ret_why);
    } forms[] = {
        { { "dns:", 4 }, read_dns }, { { "etcd:", 5 }, read_etcd },
    };
    *ret = (struct members_source){ .kind = MEMBERS_OFF };
    if (!setting.len)
        return true;
    for (size_t i = 0; i < countof(forms); i++)
        if (slice_starts(setting, forms[i].start))
            return forms[i].read(slice_from(setting, forms[i].start.len), keep, ret, ret_why);
    *ret_why = "must be dns:NAME, etcd:URL/PREFIX, or a list of nodes, as in 10.0.0.1, 10.0.0.2";
    if (slice_find(setting, S("://")) < setting.len)
        return false;
    return read_list(setting, keep, ret, ret_why);
}

bool members_may_be(slice setting, struct arena *keep, const char **ret_why)
{
    struct members_source source;
    return members_parse(setting, keep, &source, ret_why);
}
