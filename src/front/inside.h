/* inside.h - what the files of this room tell each other, and nobody else.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FRONT_INSIDE_H
#define FRONT_INSIDE_H

#include "cache/get.h"
#include "cache/write.h"
#include "front/front.h"
#include "front/client.h"
#include "front/intake.h"
#include "front/lend.h"
#include "s3/error.h"
#include "s3/form.h"
#include "s3/items.h"
#include "s3/request.h"
#include "s3/sigv2.h"

#define FORMS_OFF "Penstock takes no browser forms (PostObject): the setting browser_uploads, the " \
                  "size of the largest form it may take, is 0."

/* As many as an origin's head may have, and ours. */
#define ANSWER_FIELDS_MAX (HTTP_FIELDS_MAX + 16)

struct front {
    struct front_options options;
    atomic_bool draining, access_log;
    atomic_uint_fast64_t request_number;
    uint64_t boot;                /* tells the request ids of two runs apart */
    struct workers *intakes;
    struct lend *lend;            /* NULL: it does not */
    slice (*fill_page)(void *arg, struct arena *keep);    /* NULL: there is no fill socket */
    void *fill_page_arg;
    atomic_size_t batch_bytes;    /* that batches hold */
};

bool front_logs(const struct front *front);    /* are access lines written? */

/* What the front keeps on each loop. */
struct front_loop {
    struct sigv4 *sigv4;
    struct cache_loop *cache;
    struct list passes;           /* begun here, not over */
    struct batch_buffer *spare;   /* kept for the next batch (batch_load.c) */
    unsigned spare_count;
};

/* One S3 request. Lives in its request's arena. */
struct call {
    struct front *front;
    struct front_loop *loop;
    struct http_request *http;    /* NULL while it is judged */
    const struct http_head *head;
    struct arena *keep;
    struct s3_request s3;
    slice id;                     /* x-amz-request-id */
    slice peer, access_key;
    const struct client *client;
    const struct place *place;    /* where it may be asked (place.c); NULL: not judged yet */
    const struct form *form;      /* PostObject's, read */

    void (*gone)(void *arg);      /* called once if the request ends before it was answered */
    void *gone_arg;

    /* for the access line */
    slice named;                  /* the only key that the body names */
    enum err err;
    const char *cache_result;     /* "HIT" ..., or "-" */
    struct get_cost cost;
    size_t items, failed;         /* of a batch */
    bool quiet;                   /* what its policy refuses is counted, not logged */
};

/* What the judge found out; the request has it from then on. The claim comes first: who asks for
 * that alone finds it. */
struct judged {
    struct sigv4_claim claim;
    const struct client *client;
    slice secret;                 /* that proved the claim; stays */
    bool form;                    /* nothing is proven yet: the signature is in the body */
    struct call call;             /* read; with an err: what it will be refused with */
};

/* ---- answer.c ---- */
struct fields {
    struct arena *keep;
    struct http_field *list;
    size_t count, room;
};
struct fields fields_in(struct arena *keep);
/* Dropped, and counted, when full. */
void fields_add(struct fields *fields, slice name, slice value);
slice request_id_new(struct front *front, struct arena *keep);
/* An error in S3's terms. */
void answer_fault(struct arena *keep, enum err err, const struct s3_fault *fault, slice resource,
                  slice id, struct http_answer *ret);
void reply_error(struct call *call, enum err err, slice detail);    /* detail may be empty */
void reply_fault(struct call *call, enum err err, const struct s3_fault *fault);
void reply_refusal(struct call *call, const struct refusal *refusal);

/* ---- front.c ---- */
/* The secrets that are good for a key: two while one is rotated, the current one first. */
struct secrets {
    slice list[2];
    size_t count;
};
/* The message for an unknown key, a wrong secret or token: what S3 says, and whose list of keys
 * counts. Empty for any other error. */
slice front_explain_key(const struct front *front, struct arena *keep, enum err err);
/* Whose claim it is, and the secrets that would prove it: each is to be tried. */
enum err front_find_client(struct front *front, struct arena *keep,
                           const struct sigv4_claim *claim, const struct client **ret,
                           struct secrets *ret_secrets) MUST_USE;
/* The i-th proved a claim: the previous one is counted, so that it can be seen when it may go. */
void front_count_secret(size_t i);

/* ---- preflight.c ---- */
bool preflight_is(const struct http_head *head);
extern const struct client preflight_client;    /* who asks it: nobody, at the origin, too */

/* ---- right.c: what a client may do; OK or ERR_POLICY, which is logged and counted ---- */
enum err right_judge(const struct call *call) MUST_USE;
/* A folder does not know who asks: nobody asks it in a name of their own. */
enum err right_judge_origin(const struct call *call, const struct origin *origin) MUST_USE;
enum err right_judge_admin(const struct call *call, slice key) MUST_USE;
/* Does such a header, or field of a form, give others a right, or lock, or go over a lock? */
bool right_is_privileged(slice name, slice value);
/* Of an operation whose keys its body names. */
enum err right_judge_keys(const struct call *call, const struct write_key *keys,
                          size_t count) MUST_USE;

/* ---- form.c ---- */
/* Does the head of a form say anything that its signature should cover? Before its body is read;
 * ERR_BAD_ARGUMENT with call->s3.detail. */
enum err form_judge_head(struct call *call) MUST_USE;
/* Whose form call->form is, which the call is its client's from then on, and whether it may be
 * posted, but for its place and key. `read`: what reading it came to. */
enum err form_judge(struct call *call, enum err read, struct s3_fault *ret) MUST_USE;

/* ---- place.c: where it goes; all that may be asked there have call->place ---- */
const struct place *place_of(const struct front *front, slice bucket, slice key);
/* Before its body is looked at; what its body places (DeleteObjects) is OK, without a place. */
enum err place_judge(struct call *call, slice *ret_detail) MUST_USE;
/* By the keys in a body. They may lie elsewhere than their bucket, but all at one origin: its
 * answer is the answer. */
enum err place_judge_keys(struct call *call, const struct write_key *keys, size_t count,
                          slice *ret_detail) MUST_USE;

/* ---- item.c: one item of a list, as a GetObject of its object by that client ---- */
/* What stands for that request: whose it is, where, and for the log of refusals by whom. */
void item_call(struct call *ret, struct front *front, const struct client *client, slice bucket,
               struct arena *keep);
/* What to ask the cache for, as long as the item lives; or why it may not be asked. */
enum err item_ask(struct call *as, const struct item *item, struct get_ask *ret) MUST_USE;
/* Which of its bytes follow, of an answer without an err. ERR_BAD_RANGE: it has not all of them. */
enum err item_span(const struct item *item, const struct get_answer *answer, uint64_t *ret_first,
                   uint64_t *ret_length) MUST_USE;

/* ---- batch.c ---- */
void batch_read(struct call *call);     /* each of its items is placed, and judged */
void batch_buffers_free(struct front_loop *loop);    /* batch_load.c */

/* ---- object.c, list.c, pass.c: the operations; place_judge has let them go ---- */
void object_count(enum get_source source);    /* where an answer came from */
void object_read(struct call *call);    /* GetObject, HeadObject */
void list_read(struct call *call);      /* lists of keys, shared by who asks the same */
void pass_read(struct call *call);      /* lists and bucket calls: answered as the origin does */
void pass_form(struct call *call);      /* PostObject, where browsers may */
void pass_write(struct call *call);     /* whatever has a body or changes something */
/* The loop ends: origins may still be busy with some. */
void passes_leave(struct front_loop *loop);

#endif
