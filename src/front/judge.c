/* judge.c - the judge of a request. SPDX-License-Identifier: Apache-2.0
 *
 * The judge runs before the body is read. It answers the pages under /_/ (own_pages.c). It refuses
 * a request whose signature is not valid, or is missing although the request needs one, and closes
 * the connection. It reads any other request as an S3 request, and asks whether the client may do
 * the operation. If not, and the body is large, it refuses the request at once and closes the
 * connection. A small body is read before the refusal, so that the connection can be kept.
 * Threads: the loop of the request. Any thread may call front_find_client, front_prove and
 * front_explain_key. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "front/inside.h"
#include "jobs/job_state.h"
#include "s3/integrity.h"

#define SMALL_BODY_BYTES (16 * KIB)    /* a body up to this size is read even if it is refused */
#define KEYS_BODY_BYTES (2 * MIB)      /* largest DeleteObjects body; 1000 long keys fit */

/* ---- the client and its signature ---- */

/* The client of every lent key pair. It may do everything that Penstock's own identity may do. */
static const struct client borrower = { .number = CLIENT_LENT,
                                        .key = { .policy = &right_everything, .policy_count = 1 } };

const struct client *front_borrower(const struct front *front)
{
    return front->lend ? &borrower : NULL;
}

enum err front_find_client(struct front *front, struct arena *keep,
                           const struct sigv4_claim *claim, const struct client **ret,
                           struct secrets *ret_secrets)
{
    *ret_secrets = (struct secrets){ .count = 1 };
    if (front->lend && lend_find(front->lend, keep, claim->access_key, claim->session_token,
                                 wall_s(), &ret_secrets->list[0])) {
        *ret = &borrower;
        return OK;
    }
    enum err err = clients_find(front->options.clients, claim->access_key,
                                claim->session_token, ret);
    if (err)
        return err;
    ret_secrets->list[0] = (*ret)->key.secret_key;
    ret_secrets->list[1] = (*ret)->key.previous_secret_key;
    ret_secrets->count += (*ret)->key.previous_secret_key.len > 0;
    return OK;
}

/* A browser's form has its signature in the body. Until the body is read, the request belongs to
 * this client, which may do nothing. */
static const struct client nobody_yet = { .number = CLIENT_FORM };

static bool is_form(const struct front *front, const struct request_head *head)
{
    return front->options.form_bytes_max && !head->chunked && s3_is_form(head);
}

/* True for a browser's form if the settings allow no forms. */
static bool is_unwanted_form(const struct front *front, struct arena *keep,
                             const struct request_head *head)
{
    struct s3_request request;
    return !front->options.form_bytes_max && s3_is_form(head) &&
           s3_request_read(keep, head, front->options.domains, S(""), &request) == OK &&
           request.op == S3_POST_OBJECT;
}

enum err front_prove(struct front *front, struct sigv4 *sigv4, struct arena *keep,
                     const struct request_head *head, struct sigv4_claim *claim,
                     const struct client **ret, slice *ret_secret)
{
    struct secrets secrets;
    enum err err = sigv4_claim_region(keep, front->options.regions, claim);
    if (!err)
        err = front_find_client(front, keep, claim, ret, &secrets);
    if (err)
        return err;
    slice bucket = claim->v2 ? s3_host_bucket(keep, head->host, front->options.domains) : S("");
    check(secrets.count > 0 && secrets.count <= countof(secrets.list));
    err = ERR_SIGNATURE;
    for (size_t i = 0; i < secrets.count && err == ERR_SIGNATURE; i++) {
        *ret_secret = secrets.list[i];
        err = claim->v2 ? sigv2_verify(keep, head, claim, bucket, *ret_secret, wall_s())
                        : sigv4_verify(sigv4, keep, head, claim, *ret_secret, wall_s());
        if (!err)
            metric_add(M_SIGNED_BY_PREVIOUS, i > 0);
    }
    return err;
}

static enum err judge_signature(struct front *front, struct front_loop *loop, struct arena *keep,
                                const struct request_head *head, struct judged *ret)
{
    struct sigv4_claim *claim = &ret->claim;
    enum err err = sigv4_claim_read(keep, head, claim);
    ret->form = err == ERR_NO_AUTH && is_form(front, head);
    if (preflight_is(head) && (err == ERR_NO_AUTH || claim->presigned)) {
        ret->client = &preflight_client;
        return OK;
    }
    if (ret->form) {
        ret->client = &nobody_yet;
        return OK;
    }
    if (err == ERR_NO_AUTH && (ret->client = clients_nobody(front->options.clients)))
        return OK;
    if ((!err || err == ERR_AUTH_V2) && claim->v2 && front->options.no_sigv2) {
        claim->fault.message = S(SIGV2_OFF);
        err = ERR_AUTH_V2;
    }
    return err ? err : front_prove(front, loop->sigv4, keep, head, claim, &ret->client,
                                   &ret->secret);
}

slice front_explain_key(const struct front *front, struct arena *keep, enum err err)
{
    if (err != ERR_UNKNOWN_KEY && err != ERR_SIGNATURE && err != ERR_BAD_TOKEN)
        return S("");
    slice from = front->options.keys_from;
    if (err == ERR_BAD_TOKEN)
        return arena_printf(keep, "%s Penstock has this access key with another session token, or "
                            "with none. Send the session_token that is set for the key; if none is "
                            "set, send none (unset AWS_SESSION_TOKEN). Sign with %.*s.",
                            s3_error_of(err)->message, SLICE_ARG(from));
    return arena_printf(keep, "%s Sign with %.*s.", s3_error_of(err)->message, SLICE_ARG(from));
}

/* Returns the message and the further elements of S3's error document. If the signature (the claim)
 * is not the reason of the refusal, `detail` is the message. */
static struct s3_fault fault_of(const struct front *front, struct front_loop *loop,
                                struct arena *keep, const struct request_head *head,
                                const struct sigv4_claim *claim, enum err err, slice detail)
{
    struct s3_fault fault = claim->fault;
    if (!fault.message.len)
        sigv4_explain(loop->sigv4, keep, head, claim, err, wall_s(), &fault);
    if (!fault.message.len)
        fault.message = front_explain_key(front, keep, err);
    if (claim->v2 && err == ERR_SIGNATURE)
        sigv2_explain(keep, head, claim,
                      s3_host_bucket(keep, head->host, front->options.domains), &fault);
    if (!fault.message.len && !fault.more_count)
        fault.message = detail;
    return fault;
}

/* ---- the operation and the body ---- */

/* Returns the error for a body without a length. A request with signed chunks and no signature has
 * two mistakes: the missing signature is reported, not the missing length. */
static enum err no_length(struct sigv4_claim *claim)
{
    bool chained = claim->payload == PAYLOAD_SIGNED_CHUNKS ||
                   claim->payload == PAYLOAD_SIGNED_CHUNKS_TRAILER;
    if (claim->access_key.len || !chained)
        return ERR_NO_LENGTH;
    claim->fault.message = S(INTAKE_UNSIGNED_CHUNKS);
    return ERR_BAD_REQUEST;
}

/* Judges a body by its headers. *ret_bytes is the largest size that the body can have, with its
 * framing. */
static enum err judge_body(const struct front *front, const struct request_head *head,
                           struct sigv4_claim *claim, uint64_t *ret_bytes)
{
    uint64_t length;
    *ret_bytes = 0;
    if (!integrity_length(head, claim, &length))
        return no_length(claim);
    if (length > front->options.body_bytes_max)
        return ERR_TOO_LARGE;
    *ret_bytes = FRONT_FRAMED_BYTES(length);
    return OK;
}

/* Only a signed request may set headers of its answer. */
static enum err judge_overrides(struct call *call)
{
    bool reads = call->s3.op == S3_GET_OBJECT || call->s3.op == S3_HEAD_OBJECT;
    for (size_t i = 0; i < call->s3.param_count && reads && !call->access_key.len; i++) {
        if (!slice_starts(call->s3.params[i].name, S("response-")))
            continue;
        call->s3.detail = S("Request specific response headers cannot be used for anonymous GET "
                            "requests.");
        return ERR_BAD_REQUEST;
    }
    return OK;
}

/* The holder of a presigned URL may add headers to the request. A header that Penstock does not
 * know might turn the request into another operation, so it must be signed. */
static enum err judge_foreign(struct call *call, const struct sigv4_claim *claim)
{
    const struct request_head *head = call->head;
    for (size_t i = 0; i < head->field_count && claim->presigned && call->s3.foreign.ptr; i++) {
        slice name = head->fields[i].name;
        if (slice_list_has(claim->signed_headers, ';', name) ||
            s3_header_fate(&call->s3, name) != HEADER_FOREIGN)
            continue;
        call->s3.detail = arena_printf(call->keep, "The presigned URL does not sign the header "
                                       "%.*s: don't send it, or sign it in X-Amz-SignedHeaders, "
                                       "with signature version 4.",
                                       SLICE_ARG(name));
        return ERR_NOT_SIGNED;
    }
    return OK;
}

/* Reads the request and judges whether the client may do the operation. This runs once for each
 * request. A failure is in call->err. */
static void read_call(struct front *front, struct http_loop *http, struct arena *keep, slice peer,
                      const struct request_head *head, struct judged *judged)
{
    struct call *call = &judged->call;
    call->front = front;
    call->head = head;
    call->loop = http_loop_local(http);
    call->keep = keep;
    call->id = request_id_new(front, keep);
    call->access.peer = peer;
    call->access_key = judged->claim.access_key;
    call->client = judged->client;
    call->access.cache_result = "-";
    call->err = s3_request_read(keep, head, front->options.domains, front->options.forward_headers,
                                &call->s3);
    if (call->err)
        call->s3.op = S3_OP_COUNT;
    else if (form_is_enabled(call))    /* form_judge finds the client in the form */
        call->err = form_judge_head(call);
    else if (!(call->err = judge_overrides(call)) &&
             !(call->err = judge_foreign(call, &judged->claim)))
        call->err = judged->form ? ERR_NO_AUTH : right_judge(call);
    server_span_begin(call, !judged->form && judged->client != &preflight_client);
}

static enum err judge_list(const struct call *call, uint64_t bytes, slice *ret_detail)
{
    uint64_t most = call->front->options.batches.list_bytes;
    if (call->s3.op == S3_JOB_START) {
        bool fits = bytes <= FRONT_FRAMED_BYTES(JOB_LIST_MAX);
        *ret_detail = S("The list of a job is too long. It may have at most 64 MiB: start several "
                        "jobs.");
        metric_add(M_JOBS_LIMITED, !fits);
        return fits ? OK : ERR_TOO_LARGE;
    }
    if (bytes <= FRONT_FRAMED_BYTES(most))
        return OK;
    metric_add(M_BATCH_LIST, 1);
    *ret_detail = arena_printf(call->keep, "The list of a batch is too long. It may have at most "
                               "%" PRIu64 " bytes (batch_list): ask for fewer items in one "
                               "batch.", most);
    return ERR_TOO_LARGE;
}

/* S3 requires a Content-Length for a body that is stored, even for an empty body. Without the
 * header, the body would be read as empty, and an empty object would be stored. For other
 * operations the origin decides. */
static bool lacks_length(const struct call *call)
{
    bool stores = call->s3.op == S3_PUT_OBJECT || call->s3.op == S3_UPLOAD_PART;
    return stores && !call->err && !call->head->has_length && !call->head->chunked;
}

static enum err judge_form_length(const struct call *call, slice *ret_detail)
{
    uint64_t most = call->front->options.form_bytes_max;
    if (call->head->chunked)
        return ERR_NO_LENGTH;
    if (call->head->length <= most)
        return OK;
    *ret_detail = arena_printf(call->keep, "The form is too large. It may have at most %" PRIu64
                               " bytes (browser_uploads): send a smaller form, or raise "
                               "browser_uploads.", most);
    return ERR_TOO_LARGE;
}

/* Refuses a large body of a request that will be refused anyway. A small body is read, so that the
 * connection can be kept. */
static enum err judge_large_body(struct call *call, uint64_t bytes, slice *ret_detail)
{
    const struct request_head *head = call->head;
    *ret_detail = call->s3.detail;
    if (lacks_length(call))
        return ERR_NO_LENGTH;
    if (!head->chunked && head->length <= SMALL_BODY_BYTES)
        return OK;
    if (call->err)
        return call->err;
    const struct s3_operation *row = s3_operation(call->s3.op);
    if (s3_only_reads(call->s3.op) || row->method == S3_DELETE || row->route == S3_MANAGE) {
        *ret_detail = S(NO_BODY);
        return ERR_BAD_REQUEST;
    }
    if (row->mutates == S3_MUTATES_KEYS && bytes > FRONT_FRAMED_BYTES(KEYS_BODY_BYTES)) {
        *ret_detail = S("The list of keys to delete is larger than 2 MiB: delete fewer keys in one "
                         "request.");
        return ERR_BAD_XML;
    }
    if (row->route == S3_ITEMS || row->route == S3_JOB)
        return judge_list(call, bytes, ret_detail);
    if (form_is_enabled(call))
        return judge_form_length(call, ret_detail);
    return rules_judge(call, ret_detail);
}

/* ---- the judgement ---- */

/* Returns the reason of a refusal for the log: the message that the client gets, or a general
 * text. If headers lack a signature, the general text comes with the names of these headers. */
static const char *reason(struct arena *keep, enum err err, const struct s3_fault *fault)
{
    bool names = err == ERR_NOT_SIGNED && fault->more_count;
    slice given = log_sentence(keep, names ? fault->more[0].value : fault->message);
    if (names)
        return arena_printf(keep, "%s (%.*s)", err_text(err), SLICE_ARG(given)).ptr;
    return given.len ? arena_copy(keep, given).ptr : err_text(err);
}

/* The bodies of one client have a limit, and all bodies together have another one. Returns the
 * number of the client for the first limit. If the settings allow only one client, returns 0: then
 * the first limit does not apply. */
static unsigned counts_as(const struct front *front, const struct client *client)
{
    size_t clients = clients_count(front->options.clients) + (front->lend != NULL) +
                     (front->options.form_bytes_max > 0);
    return clients > 1 ? client->number : 0;
}

bool front_judge(void *arg, struct http_loop *http, struct arena *keep, slice peer,
                 const struct request_head *head, struct http_answer *ret)
{
    struct front *front = arg;
    struct judged *judged = arena_alloc(keep, sizeof(*judged));
    struct sigv4_claim *claim = &judged->claim;
    slice detail = S("");
    if (own_pages_answer(front, keep, peer, head, ret))
        return false;
    enum err err = judge_signature(front, http_loop_local(http), keep, head, judged);
    if (err == ERR_NO_AUTH && is_unwanted_form(front, keep, head)) {
        err = ERR_NOT_IMPLEMENTED;
        detail = S(FORMS_OFF);
    }
    if (!err && (err = judge_body(front, head, claim, &ret->body_bytes)) == ERR_TOO_LARGE)
        detail = S("The body is larger than Penstock allows: upload the object in smaller parts.");
    if (!err) {
        read_call(front, http, keep, peer, head, judged);
        err = judge_large_body(&judged->call, ret->body_bytes, &detail);
    }
    if (!err) {
        ret->judged = judged;
        ret->client = counts_as(front, judged->client);
        return true;
    }
    slice id = judged->call.id.len ? judged->call.id : request_id_new(front, keep);
    struct s3_fault fault = fault_of(front, http_loop_local(http), keep, head, claim, err, detail);
    struct fields fields = { .keep = keep };
    answer_fault(&fields, err, &fault, head->path, id, ret);
    if (slice_eq(head->method, S("HEAD")))
        ret->body = S("");
    ret->close = true;
    ret->too_large = err == ERR_TOO_LARGE;
    access_line_refused(front, keep,
                        &(struct http_refused){ err, reason(keep, err, &fault), peer, head },
                        claim->access_key, id, ret->status);
    return false;
}

void front_refuse(void *arg, struct arena *keep, const struct http_refused *what,
                  struct http_answer *ret)
{
    struct front *front = arg;
    slice id = request_id_new(front, keep), path = what->head ? what->head->path : S("/");
    struct s3_fault fault = { .message = slice_of(what->why) };
    struct fields fields = { .keep = keep };
    answer_fault(&fields, what->err, &fault, path, id, ret);
    ret->close = true;
    access_line_refused(front, keep, what, S(""), id, ret->status);
}
