/* inside.h - types and functions that only the files of this folder use.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The main type is struct call: one S3 request on its way from the judge (judge.c), which runs
 * before the body is read, to the answer. After it come the functions that each file has for the
 * others. */
#ifndef FRONT_INSIDE_H
#define FRONT_INSIDE_H

#include "cache/get.h"
#include "cache/write.h"
#include "front/front.h"
#include "front/client.h"
#include "front/intake.h"
#include "front/lend.h"
#include "front/places.h"
#include "front/pool_task.h"
#include "peers/hint.h"
#include "s3/error.h"
#include "s3/form.h"
#include "s3/items.h"
#include "s3/request.h"
#include "s3/sigv2.h"
#include "store/route.h"

#define FORMS_OFF \
    "Penstock accepts no browser forms (PostObject), because browser_uploads is 0. Send a PUT, " \
    "or set browser_uploads to the size of the largest form."

#define NO_BODY "A request for this operation must not have a body: send it without one."

#define SIGV2_OFF \
    "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256."

/* The most long lists that origins may be making at the same time (own_list.c). */
#define OWN_LISTS_LONG 4u

/* The most fields of an answer: those of an origin's response head, and Penstock's own. */
#define ANSWER_FIELDS_MAX (HTTP_FIELDS_MAX + 16)

struct front {
    struct front_options options;
    atomic_bool draining, access_log;
    atomic_uint_fast64_t request_number;
    uint64_t boot;                /* makes the request ids of two runs differ */
    struct intakes *intakes;
    struct lend *lend;            /* lends key pairs to local clients; NULL: off */
    slice (*fill_page)(void *arg, struct arena *keep);    /* NULL: there is no fill socket */
    void *fill_page_arg;
    atomic_size_t batch_bytes;    /* memory that batches hold */
    struct call_pool {
        struct workers *workers;
        struct places places;
    } pools[POOLS];               /* threads that wait for disks (pool_task.c) */
    struct places large;          /* of calls of cached.c that want more than a usual page */
    /* each entry: an identity for which own_list.c makes a long list; 0: free */
    atomic_uint_fast64_t own_lists[OWN_LISTS_LONG];
};

bool front_logs(const struct front *front);    /* true: access lines are written */

/* The front's state on one loop. */
struct front_loop {
    struct sigv4 *sigv4;
    struct cache_loop *cache;
    struct list passes;           /* requests that an origin answers (passing.h), in progress */
    struct batch_buffer *spare;   /* kept for the next batch (batch_load.c) */
    unsigned spare_count;
};

/* Facts that a request's access line and counters report. judge.c and the code that answers the
 * request set them, on the thread of the call. access_line.c and front.c read them when the request
 * is over. */
struct access_line {
    slice peer;
    slice listed_key;             /* the key that the body lists, if it lists only one */
    const char *cache_result;     /* "HIT" ..., or "-" */
    struct get_cost cost;
    size_t items, failed;         /* of a batch */
};

/* One S3 request. Lies in the arena of its HTTP request. */
struct call {
    struct front *front;
    struct front_loop *loop;
    struct http_request *http;    /* NULL: the request is still being judged */
    const struct request_head *head;
    struct arena *keep;
    struct s3_request s3;
    slice id;                     /* x-amz-request-id */
    slice access_key;
    const struct client *client;
    const struct rules *rules;    /* of the origin that the call may go to (rules.c), or NULL */
    const struct form *form;      /* of a PostObject, after the form was read; else NULL */
    slice content_range;          /* the header Content-Range of an error answer; empty: none */
    struct trace trace;           /* of the request (server_span.c) */

    void (*gone)(void *arg);      /* called once when the request ends; NULL: no call */
    void *gone_arg;

    enum err err;                 /* why the request was refused, or failed; for the access line */
    struct access_line access;
    bool quiet;                   /* refusals by the policy are counted, not logged */
};

/* The findings of front_judge about a request. The request keeps them. */
struct judged {
    struct sigv4_claim claim;
    const struct client *client;
    slice secret;                 /* the secret that proved the claim; valid during the request */
    bool form;                    /* a browser's form: the signature in its body is not read yet */
    struct call call;             /* call.err: the error that the request is refused with */
};

/* ---- answer.c ---- */
struct fields {
    struct arena *keep;
    struct http_field *list;
    size_t count;
};
/* When the list is full, the field is dropped and counted. */
void fields_add(struct fields *fields, slice name, slice value);
/* Cuts the next field from a text that has one line for each field, as in stored metadata. */
struct http_field fields_cut(slice *rest);
slice request_id_new(struct front *front, struct arena *keep);
/* Makes the answer for an error, as S3 writes it. Adds Content-Type, the request id, and for some
 * errors Retry-After to `fields`, which are the fields of the answer. */
void answer_fault(struct fields *fields, enum err err, const struct s3_fault *fault,
                  slice resource, slice id, struct http_answer *ret);
void reply_whole(struct call *call, int status, const struct fields *fields, slice body);
void reply_error(struct call *call, enum err err, slice detail);    /* detail may be empty */
void reply_fault(struct call *call, enum err err, const struct s3_fault *fault);
void reply_refusal(struct call *call, const struct refusal *refusal);
/* Answers 416 to the range of the client. `size` is that of the object, in decimal; empty: unknown. */
void reply_bad_range(struct call *call, slice size);

/* ---- own_pages.c ---- */
/* Answers the pages under /_/, which need no key. Returns false for any other path. */
bool own_pages_answer(struct front *front, struct arena *keep, slice peer,
                      const struct request_head *head, struct http_answer *ret);

/* ---- access_line.c ---- */
/* Writes the line of a request that was refused before the route. An operator finds the line by the
 * request id that the client got. The query is logged, without signatures, because it names the
 * sub-resource. */
void access_line_refused(struct front *front, struct arena *keep, const struct http_refused *what,
                         slice access_key, slice id, int status);
/* Writes the line of any other request, when the request is over. */
void access_line_write(const struct call *call, const struct http_outcome *outcome);

/* ---- audit.c ---- */
/* A line of the audit, until its result is known. */
struct audit {
    slice who, what;
};
struct audit audit_begin(const struct call *call, struct arena *keep) MUST_USE;
/* Of a purge through another node: the hint, the id of that node, and its address. */
struct audit audit_begin_hint(const struct hint *hint, slice node, slice from,
                              struct arena *keep) MUST_USE;
/* A value as it stands in the line; "-" if it is empty. */
slice audit_word(struct arena *keep, slice value) MUST_USE;
/* `more` is facts that the call did not name, each after a space. Any thread. */
void audit_end(const struct audit *audit, enum err err, slice more);
void audit_refused(const struct call *call);    /* call->err; nothing if the call is no action */

/* ---- server_span.c ---- */
/* Reads the trace of a request from its head. */
void trace_read(struct arena *keep, const struct request_head *head, struct trace *ret);
/* Reads the trace of a call, decides whether the call is recorded, and begins its span. Call it
 * when the operation is known. If not `proved`, anybody may have sent the request, so it is never
 * recorded. */
void server_span_begin(struct call *call, bool proved);
void server_span_end(struct call *call, const struct http_outcome *outcome);
/* Returns the trace of a call for what does its work, or NULL if it has none. */
static inline const struct trace *call_trace(const struct call *call)
{
    return call->trace.given ? &call->trace : NULL;
}

/* ---- judge.c ---- */
/* The valid secrets of a key, the current one first. There are two during a rotation. */
struct secrets {
    slice list[2];
    size_t count;
};
/* Returns the message for an unknown key, or a wrong secret or token: S3's own message, and where
 * the valid keys are set. Empty for any other error. */
slice front_explain_key(const struct front *front, struct arena *keep, enum err err);
/* Finds the client that a claim names, and the secrets that could prove the claim. The caller tries
 * each secret, and counts uses of the previous one (M_SIGNED_BY_PREVIOUS), so that an operator sees
 * when it can be removed. */
enum err front_find_client(struct front *front, struct arena *keep,
                           const struct sigv4_claim *claim, const struct client **ret,
                           struct secrets *ret_secrets) MUST_USE;
/* Returns the client of all lent keys, or NULL if no keys are lent. */
const struct client *front_borrower(const struct front *front);
/* Finds the client, and verifies the signature of a request head. Sets *ret_secret to the secret
 * that proved the claim. */
enum err front_prove(struct front *front, struct sigv4 *sigv4, struct arena *keep,
                     const struct request_head *head, struct sigv4_claim *claim,
                     const struct client **ret, slice *ret_secret) MUST_USE;

/* ---- preflight.c ---- */
bool preflight_is(const struct request_head *head);
extern const struct client preflight_client;    /* has no key, here or at the origin */

/* ---- right.c: the rights of a client. A refusal is ERR_POLICY, and is logged and counted ---- */
enum err right_judge(const struct call *call) MUST_USE;
/* Refuses a client with an identity of its own at a directory origin, which knows no identities. */
enum err right_judge_origin(const struct call *call, const struct origin *origin) MUST_USE;
enum err right_judge_admin(const struct call *call, slice key) MUST_USE;
/* True if a header, or a field of a form, with this name and value gives other users a right, sets
 * a lock, or bypasses a lock. */
bool right_is_privileged(slice name, slice value);
/* Judges the keys, for an operation whose body lists them. */
enum err right_judge_keys(const struct call *call, const struct write_key *keys,
                          size_t count) MUST_USE;

/* ---- form.c ---- */
/* Returns the name of the first header that may change what an operation does, or an empty slice.
 * If `ignored` is not empty, headers whose name begins with it do not count. */
slice form_find_header(const struct call *call, slice ignored);
/* True for a PostObject if the settings enable forms. */
bool form_is_enabled(const struct call *call);
/* Call it before the body is read. Returns OK, or ERR_BAD_ARGUMENT with call->s3.detail if the head
 * has a header or parameter that must be a signed field of the form instead. */
enum err form_judge_head(struct call *call) MUST_USE;
/* Finds the client of call->form, which is the call's client from then on, and judges whether the
 * client may post this form. Origin and key are judged later. `read` is the result of form_read. */
enum err form_judge(struct call *call, enum err read, struct s3_fault *ret) MUST_USE;

/* ---- rules.c: the rules of a call; a call that may go to its origin has call->rules ---- */
/* Returns the rules of this key, or NULL. Any thread. */
const struct rules *rules_of(const struct front *front, slice bucket, slice key);
/* Returns any rules of this endpoint, or NULL if the settings do not have it. Any thread. */
const struct rules *rules_at(const struct front *front, slice endpoint);
/* Returns the key by which a call is judged. For a list request, this is the parameter "prefix".
 * For a call that changes the cache, it is the parameter "key" or "prefix". For any other call, it
 * is the key in the path. */
slice rules_key(const struct call *call) MUST_USE;
/* Finds the endpoints of all origins that have keys of the call's bucket which begin with `key`. If
 * `whole`, finds only the endpoint of the key `key` itself. Returns their number; the list lies in
 * keep. */
size_t rules_endpoints(const struct call *call, slice key, bool whole, struct arena *keep,
                       const slice **ret);
/* Call it before the body is read. Returns OK without setting call->rules if the keys are in the
 * body (DeleteObjects). */
enum err rules_judge(struct call *call, slice *ret_detail) MUST_USE;
/* Finds the rules by the keys in a body. The rules of a key may differ from those of its bucket.
 * All keys must lie at one origin, since the call has one answer. */
enum err rules_judge_keys(struct call *call, const struct write_key *keys, size_t count,
                          slice *ret_detail) MUST_USE;

/* ---- item.c: one item of a list, judged as if its client had sent a GetObject for it ---- */
/* Makes the call that stands for the GetObject request of an item. */
void item_call(struct call *ret, struct front *front, const struct client *client, slice bucket,
               struct arena *keep);
/* Makes the question to the cache. The question is valid as long as the item. Returns OK, or the
 * error of a refusal. */
enum err item_ask(struct call *as, const struct item *item, struct get_ask *ret) MUST_USE;
/* Finds which bytes of the object the item gets. The answer must not be an error. Returns OK, or
 * ERR_BAD_RANGE if the object lacks some of the item's bytes. */
enum err item_span(const struct item *item, const struct get_answer *answer, uint64_t *ret_first,
                   uint64_t *ret_length) MUST_USE;

/* ---- batch.c ---- */
void batch_read(struct call *call);     /* judges each item as a request of its own */
void batch_buffers_free(struct front_loop *loop);    /* batch_load.c */

/* ---- cached.c ---- */
void cached_read(struct call *call);    /* penstock-ls, penstock-du */

/* ---- purge.c ---- */
void purge_call(struct call *call);    /* penstock-purge */

/* ---- job.c ---- */
void job_call(struct call *call);      /* penstock-job, penstock-jobs, penstock-job-cancel */

/* ---- pins.c ---- */
void pins_call(struct call *call);    /* penstock-pin, penstock-unpin, penstock-pins */
/* Pins a prefix for the client of `as`, which item_call has made, as penstock-pin would. For a
 * thread of a pool. Returns OK; the error of a refusal; ERR_TOO_MANY, ERR_BAD_REQUEST (too many
 * origins), ERR_IO or ERR_STOPPING (store_pin). */
enum err pins_add(struct call *as, slice prefix) MUST_USE;

/* ---- pool_task.c ---- */
void pools_begin(struct front *front);
void pools_end(struct front *front);    /* waits for the work of all pools */

/* ---- json_line.c ---- */
/* Adds a member whose value is a name, such as a key. A name that is not UTF-8 cannot be a text of
 * JSON. So it is percent-encoded, and "_url" is added to the name of its member. */
void line_add_name(struct text *to, const char *member, slice name);
/* Adds an array with the numbers of these folders, counted from 1 in the order of the settings.
 * Clients get no paths of folders: only the operator needs to know these. */
void line_add_folders(struct text *to, const bool folders[VOLUMES_MAX]);
/* Ends a line with the parts of the cache that could not be read. */
void line_add_gaps(struct text *to, const struct walk_gaps *gaps);

/* ---- explain.c ---- */
void explain_read(struct call *call);    /* penstock-explain */

/* ---- object.c, list.c, pass.c: the operations, after rules_judge ---- */
/* Returns the question to the cache about the object of a call. */
struct get_ask object_ask(const struct call *call, slice version) MUST_USE;
/* Counts an answer by its source. Each answer except a remembered "no such key" (GET_NEGATIVE) also
 * counts for its bucket. */
void object_count(slice bucket, enum get_source source);
void object_read(struct call *call);    /* GetObject, HeadObject */
void list_read(struct call *call);      /* lists of keys; equal calls share an answer */
void pass_read(struct call *call);      /* other reads: the origin's own answer */
void pass_form(struct call *call);      /* PostObject, where forms are enabled */
void pass_write(struct call *call);     /* calls that have a body, or change something */
/* To be called at the end of the loop. Some origin calls may still run. */
void passes_leave(struct front_loop *loop);

#endif
