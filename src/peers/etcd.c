/* etcd.c - the list of nodes in etcd. SPDX-License-Identifier: Apache-2.0
 *
 * Each node has a key, PREFIX/ID, whose value is its address, HOST:PORT. The key belongs to a lease
 * of LEASE_S seconds, which the node keeps alive by each look, so etcd deletes the key of a node
 * that is gone. A node that stops revokes its lease. If etcd is gone for longer than that, all keys
 * expire, but each node keeps its last list, and puts its key again when etcd has returned.
 *
 * A look asks for the number of keys, and for the newest change of a key. Only if either is new, it
 * asks for all keys: so with 1,000 nodes that ask every 10 s, etcd sends little. There is no watch,
 * because a watch is a request that never ends.
 *
 * The calls are those of etcd's JSON gateway (version 3.4 or newer), by etcd_call.c. All on the
 * thread `peers-list`. */
#include <jansson.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/url_kind.h"
#include "peers/etcd_call.h"
#include "s3/encode.h"

#define LEASE_S 30
#define ETCD_PAUSE_S 10u              /* until the next look: a third of LEASE_S */
#define KEYS_MAX 10000                /* H8: keys of one answer */
#define ADDRESS_BYTES_MAX 300u
#define LEAVE_MS 2000u

struct etcd {
    struct etcd_door door;
    slice start;                      /* of all keys: "PREFIX/" */
    slice end;                        /* the first text after all these keys: "PREFIX0" */
    slice own_key, listen;
    bool only_looks;                  /* makes no entry */
    char lease[24];                   /* a number; "": there is none */
    bool must_put;                    /* the own key is not in etcd */
    struct arena keep;                /* the hosts */
    struct member_host *hosts;        /* of the latest answer with all keys */
    size_t host_count;
    uint64_t revision, count;         /* that answer's newest change, and number of keys */
};

struct etcd *etcd_new(const struct members_source *source, const struct members_options *options)
{
    struct etcd *etcd = must_alloc(sizeof(*etcd));
    struct arena *keep = &etcd->door.keep;
    char id[2 * NODE_ID_BYTES];
    hex_write(options->id, NODE_ID_BYTES, id);
    etcd->door.url = source->url;
    etcd->door.user = options->etcd_user;
    etcd->door.password = options->etcd_password;
    etcd->door.ca_file = options->etcd_ca_file;
    etcd->start = arena_printf(keep, "%.*s/", SLICE_ARG(source->prefix));
    etcd->end = arena_printf(keep, "%.*s%c", SLICE_ARG(source->prefix), '/' + 1);
    etcd->own_key = arena_printf(keep, "%.*s%.*s", SLICE_ARG(etcd->start), (int)sizeof(id), id);
    etcd->listen = options->listen;
    etcd->only_looks = options->only_looks;
    return etcd;
}

void etcd_free(struct etcd **etcd)
{
    struct etcd *mine = *etcd;
    *etcd = NULL;
    if (!mine)
        return;
    arena_free(&mine->door.token_keep);
    arena_free(&mine->door.keep);
    arena_free(&mine->keep);
    free(mine);
}

static const char *coded(struct arena *keep, slice bytes)
{
    return base64_write(keep, bytes).ptr;
}

static uint64_t number_in(const json_t *object, const char *name)
{
    uint64_t number = 0;
    const json_t *value = json_object_get(object, name);
    if (json_is_integer(value))
        return (uint64_t)json_integer_value(value);
    return slice_u64(json_text(value), &number) ? number : 0;
}

/* ---- the lease and the own key ---- */

static enum err grant(struct etcd *etcd, struct look *look)
{
    json_t *answer;
    enum err e = etcd_call(&etcd->door, look, "lease/grant", json_pack("{s:i}", "TTL", LEASE_S),
                           &answer);
    if (e)
        return e;
    uint64_t lease = number_in(answer, "ID");
    json_decref(answer);
    if (!lease)
        return look_fail(look, ERR_ORIGIN_REPLY, "etcd at %.*s granted a lease without a number",
                         SLICE_ARG(etcd->door.url));
    snprintf(etcd->lease, sizeof(etcd->lease), "%llu", (unsigned long long)lease);
    etcd->must_put = true;
    return OK;
}

/* For a lease that has expired, etcd answers without a TTL. */
static enum err keep_lease(struct etcd *etcd, struct look *look)
{
    json_t *answer;
    if (!etcd->lease[0])
        return grant(etcd, look);
    enum err e = etcd_call(&etcd->door, look, "lease/keepalive",
                           json_pack("{s:s}", "ID", etcd->lease), &answer);
    if (e)
        return e;
    bool lives = number_in(json_object_get(answer, "result"), "TTL") > 0;
    json_decref(answer);
    return lives ? OK : grant(etcd, look);
}

/* Finds the address from which this machine reaches etcd. No packet is sent. */
static bool address_towards(slice url, bool v4_only, unsigned port, struct arena *keep,
                            struct member_address *ret)
{
    slice host = slice_from(url, slice_find(url, S("://")) + 3), number = url_cut_port(&host);
    struct addrinfo hints = { .ai_socktype = SOCK_DGRAM }, *found = NULL;
    bool done = false;
    hints.ai_family = v4_only ? AF_INET : AF_UNSPEC;
    if (slice_starts(host, S("[")) && slice_ends(host, S("]")))
        host = slice_sub(host, 1, host.len - 2);
    if (getaddrinfo(arena_copy(keep, host).ptr,
                    arena_copy(keep, number.ptr ? number : S("443")).ptr, &hints, &found))
        return false;
    for (const struct addrinfo *at = found; at && !done; at = at->ai_next) {
        struct sockaddr_storage own;
        socklen_t len = sizeof(own);
        int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        done = fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0 &&
               getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
               member_of_sockaddr((const struct sockaddr *)&own, port, ret);
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(found);
    return done;
}

/* Returns what other nodes are to connect to: peer_listen, unless that is every address of this
 * machine. */
static enum err own_value(struct etcd *etcd, struct look *look, slice *ret)
{
    char text[MEMBER_TEXT_BYTES];
    struct member_address address;
    slice host = etcd->listen, port = url_cut_port(&host);
    uint64_t number;
    bool v4 = slice_eq(host, S("0.0.0.0"));
    *ret = etcd->listen;
    if (!v4 && !slice_eq(host, S("[::]")) && !slice_eq(host, S("*")))
        return OK;
    if (!slice_u64(port, &number) ||
        !address_towards(etcd->door.url, v4, (unsigned)number, look->keep, &address))
        return look_fail(look, ERR_IO, "Penstock finds no address of this machine for its entry in "
                         "etcd: set peer_listen to the address that other nodes connect to");
    *ret = arena_copy(look->keep, member_text(&address, text));
    return OK;
}

static enum err put_own(struct etcd *etcd, struct look *look)
{
    slice value;
    json_t *answer;
    enum err e = own_value(etcd, look, &value);
    if (e)
        return e;
    e = etcd_call(&etcd->door, look, "kv/put",
                  json_pack("{s:s, s:s, s:s}", "key", coded(look->keep, etcd->own_key), "value",
                            coded(look->keep, value), "lease", etcd->lease), &answer);
    if (e) {
        etcd->lease[0] = '\0';    /* the lease may be gone: the next look asks for another */
        return e;
    }
    json_decref(answer);
    etcd->must_put = false;
    return OK;
}

/* ---- all keys ---- */

static json_t *range_of(const struct etcd *etcd, struct arena *keep, bool only_newest)
{
    json_t *range = json_pack("{s:s, s:s, s:i}", "key", coded(keep, etcd->start), "range_end",
                              coded(keep, etcd->end), "limit", only_newest ? 1 : KEYS_MAX);
    if (only_newest) {
        json_object_set_new(range, "sort_order", json_string("DESCEND"));
        json_object_set_new(range, "sort_target", json_string("MOD"));
    }
    return range;
}

/* Adds the host of one entry. Returns false if its value is no address. */
static bool add_entry(struct etcd *etcd, const json_t *entry)
{
    struct member_host host;
    const char *why;
    slice value = base64_decode(&etcd->keep, json_text(json_object_get(entry, "value")));
    if (!value.ptr || value.len > ADDRESS_BYTES_MAX ||
        !member_host_read(value, &etcd->keep, &host, &why) || !host.port)
        return false;
    etcd->hosts = arena_grow(&etcd->keep, etcd->hosts, etcd->host_count, sizeof(host));
    etcd->hosts[etcd->host_count++] = host;
    return true;
}

static void log_odd(const json_t *entry, size_t count)
{
    struct arena keep = { 0 };
    slice key = base64_decode(&keep, json_text(json_object_get(entry, "key")));
    slice word = log_word(&keep, key.ptr ? slice_sub(key, 0, 200) : S("-"));
    log_warn("peers_entry_bad", "key=%.*s count=%zu why=\"The value of this key in etcd is not "
             "HOST:PORT, so Penstock leaves it out. Use another prefix in the setting peers if the "
             "key belongs to another program\"", SLICE_ARG(word), count);
    arena_free(&keep);
}

static void take_entries(struct etcd *etcd, struct arena *keep, const json_t *answer)
{
    const json_t *entries = json_object_get(answer, "kvs"), *entry, *odd = NULL;
    const char *own = coded(keep, etcd->own_key);
    size_t i, odd_count = 0;
    arena_free(&etcd->keep);
    etcd->hosts = NULL;
    etcd->host_count = 0;
    etcd->revision = 0;
    etcd->count = number_in(answer, "count");
    etcd->must_put = true;
    json_array_foreach(entries, i, entry)
    {
        etcd->revision = MAX(etcd->revision, number_in(entry, "mod_revision"));
        if (slice_eq(json_text(json_object_get(entry, "key")), slice_of(own)))
            etcd->must_put = false;
        if (!add_entry(etcd, entry)) {
            odd = entry;
            odd_count++;
        }
    }
    if (odd)
        log_odd(odd, odd_count);
}

static enum err refresh(struct etcd *etcd, struct look *look)
{
    json_t *answer;
    enum err e = etcd_call(&etcd->door, look, "kv/range", range_of(etcd, look->keep, true),
                           &answer);
    if (e)
        return e;
    const json_t *newest = json_array_get(json_object_get(answer, "kvs"), 0);
    bool same = etcd->count == number_in(answer, "count") &&
                etcd->revision == number_in(newest, "mod_revision");
    json_decref(answer);
    if (same && etcd->host_count)
        return OK;
    e = etcd_call(&etcd->door, look, "kv/range", range_of(etcd, look->keep, false), &answer);
    if (e)
        return e;
    take_entries(etcd, look->keep, answer);
    json_decref(answer);
    return OK;
}

/* ---- a look, and the end ---- */

/* Looks for all keys, and keeps the own one. */
static enum err look_and_keep(struct etcd *etcd, struct look *look)
{
    enum err e = keep_lease(etcd, look);
    if (!e && etcd->must_put)
        e = put_own(etcd, look);
    if (!e)
        e = refresh(etcd, look);
    if (!e && etcd->must_put) {    /* somebody has deleted the key */
        e = put_own(etcd, look);
        if (!e)
            e = refresh(etcd, look);
    }
    return e;
}

static enum err only_look(struct etcd *etcd, struct look *look)
{
    enum err e = refresh(etcd, look);
    if (e || etcd->host_count)
        return e;
    return look_fail(look, ERR_NOT_FOUND, "etcd at %.*s has no entry below %.*s: no node of this "
                     "fleet runs", SLICE_ARG(etcd->door.url), SLICE_ARG(etcd->start));
}

enum err etcd_look(struct etcd *etcd, struct look *look)
{
    look->pause_s = ETCD_PAUSE_S;
    enum err e = etcd->only_looks ? only_look(etcd, look) : look_and_keep(etcd, look);
    enum err names = dns_hosts(look, etcd->hosts, etcd->host_count);
    return e ? e : names;
}

/* Without an answer, etcd deletes the key when the lease expires. */
void etcd_leave(struct etcd *etcd)
{
    struct arena keep = { 0 };
    atomic_bool stop = false;
    struct look look = { .keep = &keep, .stop = &stop,
                         .end_ns = mono_ns() + LEAVE_MS * (uint64_t)1000000u };
    json_t *answer;
    if (etcd->lease[0] && !etcd_call(&etcd->door, &look, "lease/revoke",
                                     json_pack("{s:s}", "ID", etcd->lease), &answer))
        json_decref(answer);
    arena_free(&keep);
}
