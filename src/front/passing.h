/* passing.h - struct pass, a request that the origin answers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Such a request is called a pass. Five files include this header: pass.c takes a pass from its
 * beginning to its end, pass_write.c adds the steps of a write, pass_upload.c gives the origin the
 * request body, pass_answer.c takes the answer to the client, and preflight.c has what is special
 * about a preflight (OPTIONS). Three parts of a pass have headers of their own: mutation.h, rest.h
 * and relay.h. Other files begin a pass by the functions in inside.h. */
#ifndef FRONT_PASSING_H
#define FRONT_PASSING_H

#include <string.h>

#include "base/clock.h"
#include "front/forward.h"
#include "front/mutation.h"
#include "front/relay.h"
#include "front/rest.h"

/* The request body on its way from the client to the origin. Until the intake is over, its thread
 * writes `listed` and the body. During an origin call, the origin's thread reads the body; it and
 * the threads that it starts (pass_upload.c) write `lost` and `reading`. The loop writes the other
 * members while no origin call runs. A thread that brings the body into the page cache may outlast
 * the call, so it has a reference of its own. */
struct upload {
    struct http_body *hold;       /* the request body, which the pass owns, or NULL */
    bool in_intake;
    struct intake_keys listed;    /* the keys that the body lists */
    size_t at;                    /* where the bytes for the origin begin in the body */
    struct origin_body source;
    atomic_bool lost;             /* the disk with the body failed */
    atomic_bool reading;          /* a thread brings bytes of the body into the page cache */
};

/* The request to the origin. The loop writes it while no origin call runs; during a call, the
 * origin's thread reads it. */
struct pass_request {
    struct origin_call origin;
    struct http_field *fields;    /* with room for fields that the intake adds (intake.h) */
    size_t field_count;           /* number of fields without the intake's fields */
    slice plain_query;            /* the query before preflight_name_key changed it, if it did */
    struct trace trace;           /* of the client's request */
};

/* The head of the origin's answer, and the outcome of the origin call. The origin's thread writes
 * these members until it sets `headed`. From then on, it writes only `err` and, under relay.lock,
 * the relay. After it has set `over`, all members belong to the loop. */
struct pass_answer {
    atomic_bool headed, over;
    enum err err;
    int status;
    uint64_t length;              /* HTTP_OPEN: unknown */
    struct fields fields;
};

#define PASS_MAGIC 0x70617373u
struct pass {
    unsigned magic;
    struct list link;             /* front_loop->passes */
    struct call *call;            /* NULL: the HTTP request is over, or its answer has begun */
    const struct rules *rules;
    struct ticket *ticket;        /* wakes the pass on its loop; this reference is the loop's */
    struct ticket *origin_ticket; /* the same ticket, for the origin's thread */
    struct arena arena;           /* for all that must outlive the request */
    atomic_uint refs;
    atomic_bool abandoned;        /* the client has gone */
    bool running;                 /* an origin call is in progress */

    struct mutation mutation;
    struct upload upload;
    struct pass_request request;
    struct pass_answer answer;
    struct rest rest;

    struct relay relay;
    struct call *relaying;        /* the call whose answer is being streamed; NULL: none */
    struct http_timer *timer;     /* for a slow origin, and then for a slow client */
};

/* ---- pass.c ---- */
struct pass *pass_new(struct call *call) MUST_USE;    /* call->rules may be set later */
struct pass *pass_ref(struct pass *pass) MUST_USE;
void pass_unref(struct pass *pass);
void pass_call_origin(struct pass *pass);
/* Called when the removal of the old metadata (mutation.h) is committed, and when the origin
 * answers. */
void pass_changed(void *pass);
void pass_settle(struct pass *pass);    /* the loop is done with the pass: drops its reference */
/* Sends the error to the client, and settles. */
void pass_refuse(struct pass *pass, enum err err, const struct s3_fault *fault);

/* Returns the fields that each answer begins with: the request id. */
struct fields pass_fields(struct pass *pass) MUST_USE;

/* ---- preflight.c ---- */
/* If a preflight's URL is presigned: adds to the query the access key that the origin knows, and a
 * signature of zeros. */
void preflight_name_key(struct pass *pass);
/* Returns true if preflight_name_key added a signature, and the origin found it wrong. The origin
 * is then being asked again without key and signature. */
bool preflight_asks_again(struct pass *pass) MUST_USE;

/* ---- pass_upload.c ---- */
/* The pass has a body for the origin, and its intake begins. */
void pass_upload_begin(struct pass *pass);

/* ---- pass_write.c ---- */
/* If the settings say so, takes the body of a PUT, and stores it in the cache. */
void pass_write_populate(struct pass *pass);

/* ---- pass_answer.c ---- */
void pass_answer_whole(struct pass *pass);     /* the whole answer has come; settles */
void pass_answer_partly(struct pass *pass);    /* a part of the answer has come */
void pass_answer_end(struct pass *pass);       /* the whole answer has come, and was streamed */
/* Returns true if the origin call ended because another call got its connection. The rest of the
 * answer is requested later. */
bool pass_answer_yields(struct pass *pass) MUST_USE;
/* Returns true if a range has come and the next one is requested, now or later. */
bool pass_answer_asks_next(struct pass *pass) MUST_USE;
void pass_answer_forget(struct pass *pass);    /* the rest will not be requested */

#endif
