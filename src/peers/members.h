/* members.h - the list of the fleet's nodes. SPDX-License-Identifier: Apache-2.0
 *
 * The setting "peers" names a place that has the list of all nodes: DNS, etcd, or the setting
 * itself. A thread asks this place again and again, and reports each change of the list. A list is
 * only a hint. It may lack nodes that run, and have nodes that are gone; it usually has this node,
 * too.
 *
 * If a look fails, the list stays as it is. What counts as failed: no answer, an answer that is no
 * valid one, and an answer without any address, because the fleet has at least this node. If some
 * names of a list have addresses and others could not be looked up, the addresses are added. */
#ifndef PEERS_MEMBERS_H
#define PEERS_MEMBERS_H

#include "base/arena.h"
#include "peers/address.h"
#include "peers/rank.h"

#define MEMBERS_MAX 1000u             /* H8: the most addresses of a list */

enum members_kind { MEMBERS_OFF, MEMBERS_LISTED, MEMBERS_DNS, MEMBERS_ETCD };

struct member_host {
    slice host;                       /* a name or an address, without brackets */
    unsigned port;                    /* 0: that of peer_listen */
};

/* The setting "peers", read. All texts are parts of it. */
struct members_source {
    enum members_kind kind;
    struct member_host *hosts;        /* LISTED: all; DNS: the one name */
    size_t host_count;
    bool has_services;                /* DNS: the name has SRV records, since it begins with "_" */
    slice url, prefix;                /* ETCD: scheme://host[:port], and what all keys begin with */
};

/* Reads the setting. On failure returns false, and sets *ret_why, in keep, to the end of a sentence
 * that begins with the name of the setting. members_may_be is the same, for config_load. */
bool members_parse(slice setting, struct arena *keep, struct members_source *ret,
                   const char **ret_why) MUST_USE;
bool members_may_be(slice setting, struct arena *keep, const char **ret_why) MUST_USE;

struct members_options {
    slice peers;                      /* the setting, which members_parse accepts */
    slice listen;                     /* peer_listen: HOST:PORT */
    uint8_t id[NODE_ID_BYTES];        /* of this installation: the name of its key in etcd */
    slice etcd_user, etcd_password;   /* empty: etcd asks for none */
    const char *etcd_ca_file;         /* "": the system's store */
    bool only_looks;                  /* the node makes no entry of its own in etcd */
    /* Called by the thread with the whole list: sorted, without duplicates, valid during the call.
     * The first call comes with the first address that is found. The list is never empty. */
    void (*changed)(void *arg, const struct member_address *list, size_t count);
    void *arg;
};

struct members_status {
    size_t count;                     /* addresses in the list */
    size_t left_out;                  /* further addresses, beyond MEMBERS_MAX */
    int64_t changed_s;                /* wall time of the latest change of the list; 0: none */
    int64_t looked_s;                 /* of the latest look that did not fail; 0: none did not */
    int64_t failed_s;                 /* since when looks fail; 0: the latest one did not */
    slice why;                        /* why the latest look failed: a sentence without its end */
};

struct members;

/* Copies the options. Returns ERR_BAD_ARGUMENT for a setting that members_parse refuses. */
enum err members_open(const struct members_options *options, struct members **ret) MUST_USE;
/* Starts the thread `peers-list`, which looks at once. If `peers` is empty, there is no thread, and
 * the list stays empty. Returns ERR_LIMIT if there is no thread to be had. */
enum err members_begin(struct members *members) MUST_USE;
/* Any thread. The texts are in keep. */
void members_status(struct members *members, struct arena *keep, struct members_status *ret);
/* Ends the thread, and removes the entry of this node from etcd. Waits for a question that is on
 * its way: usually for milliseconds; for a name server that does not answer, up to 6 s. */
void members_close(struct members **members);

#endif
