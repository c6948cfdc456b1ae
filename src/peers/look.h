/* look.h - one look at the list of nodes. SPDX-License-Identifier: Apache-2.0
 *
 * members.c makes a look, the function of the place that has the list (dns.c, etcd.c) adds
 * addresses to it. All runs on the thread `peers-list`. */
#ifndef PEERS_LOOK_H
#define PEERS_LOOK_H

#include <stdatomic.h>

#include "peers/members.h"

#define LOOK_FOUND_MAX 16384u         /* H8: addresses that a look takes before it sorts them */
#define LOOK_PAUSE_S_MAX 30u          /* longest time until the next look */

struct look {
    struct arena *keep;               /* freed after the look */
    const atomic_bool *stop;          /* set: give up */
    uint64_t end_ns;                  /* the look must end by this monotonic time */
    unsigned port;                    /* of hosts without one */
    struct member_address *found;
    size_t count;
    uint32_t pause_s;                 /* until the next look; begins as LOOK_PAUSE_S_MAX */
    slice why;                        /* of the first failure: a sentence without its end */
    union answer *answer;             /* dns.c: room for the answer to a question */
};

/* Returns ERR_STOPPING or ERR_TIMEOUT if the look must end now. */
enum err look_may_go_on(struct look *look) MUST_USE;
void look_add(struct look *look, const struct member_address *address);
/* Sets look->why, unless it is set. Returns `err`. */
enum err look_fail(struct look *look, enum err err, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* ---- members_parse.c ---- */

/* Reads HOST[:PORT]. On failure returns false and sets *ret_why, as members_parse does. */
bool member_host_read(slice text, struct arena *keep, struct member_host *ret,
                      const char **ret_why) MUST_USE;

/* ---- dns.c: each returns ERR_NOT_FOUND if there is no address ---- */

void dns_begin(struct look *look);    /* reads resolv.conf; first in each look */
/* Adds the addresses of all hosts. If some have none, or can't be looked up, the others are added
 * nevertheless. */
enum err dns_hosts(struct look *look, const struct member_host *hosts, size_t count) MUST_USE;
/* Adds the addresses of all SRV records of a name. */
enum err dns_services(struct look *look, slice name) MUST_USE;

/* ---- etcd.c ---- */

struct etcd;
struct etcd *etcd_new(const struct members_source *source,
                      const struct members_options *options) MUST_USE;
/* Keeps the entry of this node, and adds the addresses of all nodes. */
enum err etcd_look(struct etcd *etcd, struct look *look) MUST_USE;
/* Removes the entry of this node, if etcd answers within 2 s. */
void etcd_leave(struct etcd *etcd);
void etcd_free(struct etcd **etcd);

#endif
