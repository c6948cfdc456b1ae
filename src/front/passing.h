/* passing.h - a pass as its own files see it. SPDX-License-Identifier: Apache-2.0 */
#ifndef FRONT_PASSING_H
#define FRONT_PASSING_H

#include <string.h>

#include "base/clock.h"
#include "front/forward.h"
#include "front/relay.h"
#include "front/rest.h"

#define PASS_MAGIC 0x70617373u
struct pass {
    unsigned magic;
    struct list link;             /* front_loop->passes */
    struct call *call;            /* NULL once the HTTP request is over, or being answered */
    const struct place *place;
    struct ticket *ticket;        /* the loop's */
    struct ticket *origin_ticket; /* the origin's thread's */
    struct arena arena;           /* what must outlive the request */
    atomic_uint refs;

    struct write *write;
    bool regrants;                /* it changes who may read what in its bucket */
    struct write_order order;     /* its place among others of these keys */
    atomic_bool abandoned;        /* the client has gone */
    atomic_bool lost;             /* the disk failed that the body lay on */
    struct intake_keys named;     /* by the body */
    struct write_key *keys;
    size_t key_count;

    struct http_body *hold;       /* keeps the body where it is */
    size_t body_at;               /* of it: where what goes to the origin begins */
    struct origin_body source;
    struct origin_call origin;
    struct http_field *origin_fields;    /* with room for the intake's */
    size_t origin_field_count;    /* of a read, as it was asked first */
    slice plain_query;            /* of a preflight that names a key: without it; or ptr NULL */
    bool running, in_intake;

    /* the answer: the origin's thread until headed, and over, then the loop */
    atomic_bool headed, over;
    enum err err;
    int status;
    uint64_t length;              /* HTTP_OPEN: the origin did not tell */
    struct fields fields;
    bool may_rest;
    struct rest rest;
    uint64_t got;                 /* bytes of the answer before this call */
    uint64_t piece;               /* so many more are asked for at a time, once it has yielded */
    struct arena asking;          /* what asks for the latest */
    struct relay relay;
    struct call *relaying;        /* it is being answered in pieces */
    bool yielded;                 /* its connection went to another: the rest comes in pieces, */
    bool waits;                   /* ... of which the next is asked for when there is room */
    struct http_timer *timer;
};

/* ---- pass.c ---- */
struct pass *pass_new(struct call *call) MUST_USE;    /* call->place is known, or will be */
void pass_call_origin(struct pass *pass);
void pass_changed(void *pass);    /* the removal is committed, or the origin has answered */
void pass_settle(struct pass *pass);    /* it is over: the loop's part of it goes */
void pass_refuse(struct pass *pass, enum err err, const struct s3_fault *fault);    /* settles */

struct fields pass_fields(struct pass *pass) MUST_USE;    /* of its answer: none yet but its id */

/* ---- preflight.c ---- */
/* The key that a presigned URL names goes along, as the origin knows it. */
void preflight_name_key(struct pass *pass);
/* The origin took that for a signature, and is asked without it. */
bool preflight_asks_again(struct pass *pass) MUST_USE;

/* ---- pass_write.c ---- */
/* What it changed is known to be changed, whatever the outcome (H7). Of a read: nothing. */
void pass_write_end(struct pass *pass);
/* What was put fills the cache, if it is to: its body goes over to that. */
void pass_write_populate(struct pass *pass);

/* ---- pass_answer.c ---- */
void pass_answer_whole(struct pass *pass);    /* all has come; settles */
void pass_answer_partly(struct pass *pass);    /* something has come, but not all */
void pass_answer_end(struct pass *pass);      /* what was streamed has come whole */
/* It ended because another got its connection, and will go on: the rest is asked for later. */
bool pass_answer_yields(struct pass *pass) MUST_USE;
bool pass_answer_asks_next(struct pass *pass) MUST_USE;    /* a piece of it has come: for another */
void pass_answer_forget(struct pass *pass);    /* the rest won't be asked for */

#endif
