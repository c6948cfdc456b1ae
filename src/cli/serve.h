/* serve.h - the state that the steps of the daemon share. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SERVE_H
#define CLI_SERVE_H

#include "admin/admin.h"
#include "cli/cli.h"
#include "cli/inherited.h"
#include "cli/memory.h"
#include "cli/recent.h"
#include "front/peer.h"
#include "peers/members.h"
#include "peers/peers.h"

/* The other nodes. Both NULL: the setting "peers" is empty. */
struct fleet {
    struct peers *peers;
    struct members *members;
};

/* Where requests go: the origins, the rules of each bucket, and the clients. The main thread makes
 * them from the settings before the listeners open (rules.c). A reload replaces only the keys of
 * the clients. */
struct routing {
    struct origins *origins;
    struct origin **origin_of;     /* at the same index as config->origins */
    struct bucket_rules *rules;
    size_t rules_count;
    struct rules service;          /* of the origin that answers ListBuckets */
    struct clients *clients;       /* freed after the origins: their requests refer to clients */
    struct fleet fleet;
};

/* A certificate of tls_listen or peer_listen. The main thread writes it at the start, at a reload,
 * and once a second (daemon_watch). */
struct certificate {
    struct http_tls *tls;          /* NULL: the listener is off */
    bool expiry_reported;          /* it was logged that the certificate expires soon */
};

/* The file descriptors of the process. */
struct files {
    uint64_t max;                  /* so many it may have */
    struct inherited inherited;
};

/* The apps on addresses of their own, beside that of the front. */
struct apps {
    struct admin *admin;           /* NULL: admin_listen is off */
    struct peer_server *peers;     /* NULL: peer_listen is off */
};

struct serve {
    struct cli *cli;
    struct config *config;
    struct config *reloaded;       /* settings of the last reload; NULL: there was none */
    struct arena keep;
    slice why;                     /* why a step failed: a sentence for people */

    struct memory memory;
    struct files files;
    enum disk_engine engine;
    struct store *store;
    struct folder_reported *folders;    /* for each folder, what was logged of it (folders.c) */
    struct cache *cache;
    struct routing routing;
    struct front *front;
    struct apps apps;
    atomic_bool draining;
    struct certificate certificates[CERTIFICATES];
    struct local *local;           /* NULL: there is no fill socket */
    struct jobs *jobs;
    struct http *http;
    struct recent recent;          /* counters of the last minute */
};

struct step {
    const char *name;
    enum err (*up)(struct serve *serve);
    void (*down)(struct serve *serve);    /* NULL: nothing to undo */
};

/* ---- serve.c ---- */
enum err serve_log_up(struct serve *serve) MUST_USE;
void serve_log_down(struct serve *serve);
bool serve_is_stopping(void);      /* a signal has asked this process to stop */

/* ---- fleet.c ---- */
enum err fleet_up(struct serve *serve) MUST_USE;
/* Looks for the other nodes. Called once the listeners are open: the list has this node, too. */
enum err fleet_begin(struct serve *serve) MUST_USE;
void fleet_down(struct serve *serve);
void fleet_tell(struct serve *serve, struct arena *keep, struct status_document *to);
void fleet_expose(struct serve *serve, struct text *to);    /* the metrics of each node */

/* ---- daemon.c: the steps, in the order of the layers in src/FLOORS, lowest layer first ---- */
extern const struct step daemon_steps[];
extern const size_t daemon_step_count;
void daemon_watch(struct serve *serve);    /* once a second: logs what an operator must know */

/* ---- traces.c: the exporter of spans, if traces_url is set ---- */
enum err daemon_traces_up(struct serve *serve) MUST_USE;
void daemon_traces_down(struct serve *serve);

/* ---- tls.c: the certificates ---- */
enum err certificates_up(struct serve *serve) MUST_USE;
void certificates_down(struct serve *serve);
/* Reads all certificates and keys again. If those of a listener can't be used, the old ones stay in
 * use. */
void certificates_reload(struct serve *serve);
void certificates_watch(struct serve *serve);    /* once a second: changed files, expiry */

/* ---- rules.c: origins, the rules of each bucket, and clients, from the settings ---- */
struct origin_options rules_origin_options(const struct config *config,
                                           const struct config_origin *from);
enum err rules_origins_up(struct serve *serve) MUST_USE;
enum err rules_up(struct serve *serve) MUST_USE;
/* Returns the limits of buckets and prefixes, in keep: config->bucket_count rows. */
const struct store_limits *rules_limits(const struct config *config, struct arena *keep);
/* Returns, in words for people, where the keys of clients come from. */
slice rules_keys_from(const struct config *config, struct arena *keep);
/* Replaces the keys of all clients. After a failure nothing has changed, and *ret_why says why. */
enum err rules_keys(struct serve *serve, const struct config *config, struct arena *keep,
                    slice *ret_why) MUST_USE;

/* ---- status.c ---- */
/* Adds the figures that /status and penstock stat show. */
void status_tell(void *serve, struct status_document *to);
void status_expose(void *serve, struct text *to);    /* adds the metrics of folders and origins */

/* ---- status_work.c ---- */
/* The part of status_tell that is about jobs, fills and warnings. */
void status_work_tell(const struct serve *serve, struct arena *keep, struct status_document *to);

#endif
