/* getting.h - a get as its own files see it. SPDX-License-Identifier: Apache-2.0 */
#ifndef CACHE_GETTING_H
#define CACHE_GETTING_H

#include "cache/fresh.h"
#include "cache/get.h"
#include "cache/inside.h"
#include "cache/parts.h"

#define GET_MAGIC 0x6765743031303131u

#define COPY_BYTES 65536u         /* what a reader takes along when it must not hold on to a slot */
#define SHORT_COPY_BYTES 16384u   /* or to a read buffer */

enum get_phase {
    GET_LOOK,            /* what is known of this object? */
    GET_FRESH,           /* a head is there: may it answer? */
    GET_PAGE,            /* a listing page around the key is under way */
    GET_RELOOK,          /* the page is over: the head again, renewed or not */
    GET_PROBE,           /* a HEAD has to be asked for */
    GET_PROBE_ANSWER,    /* ... and is under way */
    GET_PROVE,           /* it is no proof that the bytes may be had: a GET has to be asked for */
    GET_UNKNOWN,         /* nothing known: a GET has to be asked for, or joined */
    GET_ANSWER,          /* ... and is under way */
    GET_DECIDE,          /* conditions and range */
    GET_FIRST,           /* the first bytes, so that headers are true */
    GET_READY
};

struct get {
    uint64_t magic;
    struct cache_loop *loop;
    struct flights *flights;
    struct get_ask ask;
    void (*changed)(void *arg);
    void *changed_arg;
    struct object_name name;
    struct object_id id;
    struct asker asker;
    uint64_t began_ms;             /* ageing time, as fetch->sent_ms */
    uint64_t began_ns;
    enum get_phase phase;

    /* what it waits for, or holds */
    struct ticket *ticket;
    struct waiter waiter;
    struct store_op *op;
    struct page *page;
    struct inflight *inflight;        /* once it needed one */
    struct fetch *fetch;          /* whose reader it is */
    struct flight *flight;        /* it reads from */

    struct head *head;
    bool validated;               /* the origin vouched for it during this get */
    enum page_state page_said;    /* of the key, when it was over */
    int64_t seen_s;               /* when it was last confirmed, before the page */
    unsigned pages;
    struct part part;             /* the one that is asked for */
    unsigned part_asked;          /* the HEAD is for where the part lies: how often it was */
    bool upgrade;                 /* the HEAD is for what the head lacks (FULL) */
    bool looked_again;            /* for what came between looking and asking the origin */
    bool distrust;                /* what is stored was found to be of another version */
    unsigned restarts;
    bool permitted;               /* who asks may read it: known once, for the whole get ... */
    uint64_t permitted_version;   /* ... while its head is this one (permit.c) */
    bool permit_ages;             /* ... by a proof that is past its half */
    bool alone;                   /* another's refusal is not ours: ask in our own name */

    uint64_t pos, end;            /* still to be handed out */
    slice ready;                  /* pulled, not handed out yet */
    struct piece piece;           /* holds ready, if it came from the store */
    char *copy;                   /* holds ready, if slots or buffers were scarce */
    bool piece_cached;
    enum err piece_err;           /* how the store's read ended, once op is over */
    bool piece_came;
    bool slow;                    /* a fetch has outrun it */
    struct refusal *refusal;
    struct get_answer answer;
    struct get_cost cost;
};

/* Must the answer be as new as the question? Then what was asked before it won't do. */
static inline bool get_wants_newest(const struct get *get)
{
    return get->ask.revalidate || get->ask.place->freshness == FRESH_ALWAYS;
}

/* When something was last said of this key that may be of this version; all 0: never, or none is
 * named. */
struct epoch_said get_said(const struct get *get) MUST_USE;

/* Whose origin's word counts: what one identity was told, another was not. */
static inline uint64_t get_who(const struct get *get)
{
    return identity_id(get->asker.who);
}

/* What a phase ends in: the next one; or ready, with a refusal. */
enum err get_go(struct get *get, enum get_phase phase) MUST_USE;
enum err get_refuse(struct get *get, const struct refusal *refusal) MUST_USE;
enum err get_fail(struct get *get, enum err err) MUST_USE;
enum err get_restart(struct get *get) MUST_USE;    /* another version turned up */

/* The phases of validate.c: OK, ERR_WAIT. */
enum err get_wait_for_page(struct get *get) MUST_USE;
enum err get_relook(struct get *get) MUST_USE;
enum err get_probe_start(struct get *get) MUST_USE;
enum err get_probe_answer(struct get *get) MUST_USE;
enum err get_prove(struct get *get) MUST_USE;

/* Makes `ready` the bytes at pos: OK, ERR_WAIT, ERR_CHANGED, or why they can't be had (refusal set
 * if the origin said so). */
enum err get_pull(struct get *get) MUST_USE;
void get_hook_in(struct get *get);             /* under the lock: inflight is there */
void get_let_go(struct get *get);              /* of everything it waits for or reads from */
/* Asks the origin about the head of this get, without anybody waiting for the answer; one at a time
 * a head. by_head: by HEAD, in this name, whatever is known. */
void background_start(struct get *get, bool by_head);

/* ---- permit.c ---- */
void permit_ask_as(struct get *get, const struct identity *who);    /* name and id are known */
/* Is it proven that who asks may read this? */
bool permit_has(struct get *get);
/* The origin has let who asks have what get->head is of, in an answer to this get. */
void permit_let(struct get *get);
/* Will the answer to this fetch, which is under way, be good for this get, too? */
bool permit_shares(struct get *get, const struct fetch *fetch);

#endif
