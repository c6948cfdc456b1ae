/* serve.h - the service as its steps see it. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SERVE_H
#define CLI_SERVE_H

#include "admin/admin.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/recent.h"
#include "front/front.h"

struct serve {
    struct cli *cli;
    struct config *config;
    struct config *reloaded;       /* by the last SIGHUP; NULL: there was none */
    struct arena keep;
    slice why;              /* of a step that failed: a sentence for people */
    uint64_t began_ms;

    struct memory memory;
    enum disk_engine engine;
    struct store *store;
    bool serving;                  /* was its folder in service when last looked at? */
    bool squeezed;                 /* had it room for less than half its size? */
    uint64_t size_told;            /* its size when that was last said; 0: never */
    struct cache *cache;
    struct origins *origins;
    struct origin **origin_of;     /* beside config->origins */
    struct front_place *places;
    size_t place_count;
    struct place service;          /* who answers ListBuckets */
    struct clients *clients;       /* calls of origins are made in their names: they go last */
    struct front *front;
    struct admin *admin;           /* NULL: admin_listen is off */
    atomic_bool draining;
    struct http_tls *tls;          /* NULL: tls_listen is off */
    bool expiry_told;              /* that its certificate expires soon */
    struct local *local;           /* NULL: there is no fill socket */
    struct http *http;
    struct recent recent;          /* what it did in the last minute */
};

struct step {
    const char *name;
    enum err (*up)(struct serve *serve);
    void (*down)(struct serve *serve);    /* NULL: nothing to undo */
};

/* ---- house.c: the rooms, lowest floor first ---- */
extern const struct step house_steps[];
extern const size_t house_step_count;
void house_reload(struct serve *serve);   /* files that the settings name */
void house_watch(struct serve *serve);    /* once a second: says what has changed for an operator */
/* Answers what is under way, takes nothing new, for at most drain_time. */
void house_drain(struct serve *serve);

/* ---- places.c: from the settings to who lies where, and who may ask ---- */
struct origin_options places_options(const struct config *config, const struct config_origin *from);
enum err places_origins_up(struct serve *serve) MUST_USE;
void places_origins_down(struct serve *serve);
enum err places_up(struct serve *serve) MUST_USE;
/* Where the keys of clients are named: words for people. */
slice places_keys_from(const struct config *config, struct arena *keep);
/* Who is known from now on. On failure *ret_why, and nothing has changed. */
enum err places_keys(struct serve *serve, const struct config *config, struct arena *keep,
                     slice *ret_why) MUST_USE;

/* ---- status.c ---- */
void status_tell(void *serve, struct admin_page *page);    /* what /status and penstock stat show */

#endif
