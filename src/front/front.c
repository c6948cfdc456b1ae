/* front.c - the judge of a request, and its route. SPDX-License-Identifier: Apache-2.0
 *
 * The judge runs before the body is read. It answers the pages under /_/. It refuses a request
 * whose signature is not valid, or is missing although the request needs one, and closes the
 * connection. It reads any other request as an S3 request, and asks whether the client may do the
 * operation. If not, and the body is large, it refuses the request at once and closes the
 * connection. A small body is read before the refusal, so that the connection can be kept. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "front/inside.h"
#include "s3/encode.h"
#include "s3/integrity.h"
#include "store/pin.h"

#define FACT_BYTES_MAX 200     /* a longer name is cut in a log line */
#define SMALL_BODY_BYTES (16 * KIB)    /* a body up to this size is read even if it is refused */
#define KEYS_BODY_BYTES (2 * MIB)      /* largest DeleteObjects body; 1000 long keys fit */
#define NO_BODY "A request for this operation must not have a body: send it without one."

struct front *front_new(const struct front_options *options)
{
    struct front *front = must_alloc(sizeof(*front));
    check(options->cache && options->clients && options->rules_count > 0);
    front->options = *options;
    front->intakes = intakes_new();
    pools_begin(front);
    places_init(&front->large);
    front->lend = options->lend ? lend_new(options->lend_token) : NULL;
    atomic_init(&front->access_log, options->access_log);
    if (getrandom(&front->boot, sizeof(front->boot), 0) != sizeof(front->boot))
        front->boot = mono_ns();
    return front;
}

void front_free(struct front **front)
{
    if (!*front)
        return;
    intakes_free(&(*front)->intakes);
    store_pin_end(cache_store((*front)->options.cache));    /* else a pool might wait for a disk */
    pools_end(*front);
    lend_free(&(*front)->lend);
    free(*front);
    *front = NULL;
}

void front_fill_page(struct front *front, slice (*page)(void *arg, struct arena *keep), void *arg)
{
    front->fill_page = page;
    front->fill_page_arg = arg;
}

void front_access_log(struct front *front, bool on)
{
    atomic_store(&front->access_log, on);
}

slice front_instance(const struct front *front, struct arena *keep)
{
    return arena_printf(keep, "%08" PRIX32, (uint32_t)front->boot);
}

bool front_logs(const struct front *front)
{
    return atomic_load_explicit(&front->access_log, memory_order_relaxed) &&
           log_enabled(LOG_LEVEL_INFO);
}

void front_drain(struct front *front)
{
    atomic_store(&front->draining, true);
}

void *front_loop_begin(void *arg, struct http_loop *loop)
{
    struct front *front = arg;
    struct front_loop *local = must_alloc(sizeof(*local));
    local->sigv4 = sigv4_new();
    local->cache = cache_loop_new(front->options.cache, http_loop_mailbox(loop));
    list_init(&local->passes);
    return local;
}

void front_loop_end(void *arg, void *local)
{
    struct front_loop *loop = local;
    passes_leave(loop);
    batch_buffers_free(loop);
    cache_loop_free(&loop->cache);
    sigv4_free(&loop->sigv4);
    free(loop);
}

void front_loop_turn(void *arg, void *local)
{
    cache_loop_turn(((struct front_loop *)local)->cache);
}

/* ---- the judge ---- */

static void answer_lend(struct front *front, struct arena *keep, slice peer,
                        const struct request_head *head, struct http_answer *ret)
{
    slice access_key = S("");
    const char *why = lend_answer(front->lend, keep, peer, head, wall_s(), &access_key, ret);
    metric_add(why ? M_LEND_REFUSED : M_LENT, 1);
    if (!front_logs(front))
        return;
    if (why)
        log_access("lend_refused", "peer=%.*s why=\"%s\"", SLICE_ARG(peer), why);
    else
        log_access("lent", "peer=%.*s access_key=%.*s", SLICE_ARG(peer), SLICE_ARG(access_key));
}

/* Answers the pages under /_/, which need no key. Returns false for any other path. */
static bool judge_page(struct front *front, struct arena *keep, slice peer,
                       const struct request_head *head, struct http_answer *ret)
{
    static const struct http_field json = { { "content-type", 12 }, { "application/json", 16 } };
    if (!slice_starts(head->path, S("/_/")) ||
        s3_host_bucket(keep, head->host, front->options.domains).len)    /* the path is a key */
        return false;
    *ret = (struct http_answer){ .status = 404, .close = true, .is_page = true,
                                 .fields = &json, .field_count = 1,
                                 .body = S("{\"error\":\"there is no such page: a GET below /_/ "
                                           "finds only health/live, health/ready, fill and "
                                           "credentials\"}\n") };
    bool reads = slice_eq(head->method, S("GET")) || slice_eq(head->method, S("HEAD"));
    if (reads && slice_eq(head->path, S("/_/health/live"))) {
        ret->status = 200;
        ret->body = S("{\"status\":\"live\"}\n");
    }
    if (reads && slice_eq(head->path, S("/_/health/ready"))) {
        struct store_status status;
        bool draining = atomic_load(&front->draining);
        store_status(cache_store(front->options.cache), &status);
        bool whole = !*status.why;    /* all cache folders serve */
        ret->status = draining ? 503 : 200;
        ret->body = arena_printf(keep, "{\"status\":\"%s\",\"instance\":\"%.*s\",\"pid\":%d,"
                                 "\"cache\":\"%s%s%s\"}\n",
                                 draining ? "draining" : whole ? "ready" : "degraded",
                                 SLICE_ARG(front_instance(front, keep)), (int)getpid(),
                                 whole ? "serving" : status.serving ? "in part out of service"
                                                                    : "out of service",
                                 whole ? "" : ": ", status.why);
    }
    if (reads && slice_eq(head->path, S("/_/fill"))) {
        ret->status = 200;
        ret->body = front->fill_page ? front->fill_page(front->fill_page_arg, keep)
                                     : S("{\"on\":false}\n");
    }
    bool lends = slice_eq(head->method, S("GET")) && slice_eq(head->path, S("/_/credentials"));
    if (lends && front->lend)
        answer_lend(front, keep, peer, head, ret);
    else if (lends)
        ret->body = S("{\"error\":\"Penstock lends no credentials: its operator must set lend and "
                      "lend_token_file\"}\n");
    if (slice_eq(head->method, S("HEAD")))
        ret->body = S("");
    return true;
}

/* The client of every lent key pair. It may do everything that Penstock's own identity may do. */
static const struct client borrower = { .number = CLIENT_LENT,
                                        .key = { .policy = &right_everything, .policy_count = 1 } };

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

static bool takes_form(const struct call *call)
{
    return call->s3.op == S3_POST_OBJECT && call->front->options.form_bytes_max;
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
    else if (takes_form(call))    /* form_judge finds the client in the form */
        call->err = form_judge_head(call);
    else if (!(call->err = judge_overrides(call)) &&
             !(call->err = judge_foreign(call, &judged->claim)))
        call->err = judged->form ? ERR_NO_AUTH : right_judge(call);
}

static enum err judge_list(const struct call *call, uint64_t bytes, slice *ret_detail)
{
    uint64_t most = call->front->options.batches.list_bytes;
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
    if (row->route == S3_ITEMS)
        return judge_list(call, bytes, ret_detail);
    if (takes_form(call))
        return judge_form_length(call, ret_detail);
    return rules_judge(call, ret_detail);
}

/* Returns a value as it stands in a log line: one word, not too long, or "-" if it is empty. */
static slice fact(struct arena *keep, slice value)
{
    slice word = log_word(keep, slice_sub(value, 0, FACT_BYTES_MAX));
    if (value.len > FACT_BYTES_MAX)
        return arena_printf(keep, "%.*s...", SLICE_ARG(word));
    return word.len ? word : S("-");
}

/* Logs a request that was refused before the route, so that its request id can be found. The query
 * is logged because it names the sub-resource; signatures are left out. */
static void log_refused(struct front *front, struct arena *keep, const struct http_refused *what,
                        slice access_key, slice id, int status)
{
    if (!front_logs(front))
        return;
    slice method = fact(keep, what->head ? what->head->method : S(""));
    slice path = fact(keep, what->head ? what->head->path : S(""));
    slice query = fact(keep, what->head ? query_unproved(keep, what->head->query) : S(""));
    access_key = fact(keep, access_key);
    log_access("refused", "id=%.*s peer=%.*s access_key=%.*s method=%.*s path=%.*s query=%.*s "
               "status=%d err=%s why=\"%s\"", SLICE_ARG(id), SLICE_ARG(what->peer),
               SLICE_ARG(access_key), SLICE_ARG(method), SLICE_ARG(path), SLICE_ARG(query), status,
               err_name(what->err), what->why);
}

/* Returns the reason of a refusal for the log: the message that the client gets, or a general
 * text. If headers lack a signature, the general text comes with the names of these headers. */
static const char *reason(struct arena *keep, enum err err, const struct s3_fault *fault)
{
    bool names = err == ERR_NOT_SIGNED && fault->more_count;
    slice said = log_sentence(keep, names ? fault->more[0].value : fault->message);
    if (names)
        return arena_printf(keep, "%s (%.*s)", err_text(err), SLICE_ARG(said)).ptr;
    return said.len ? arena_copy(keep, said).ptr : err_text(err);
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
    if (judge_page(front, keep, peer, head, ret))
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
    log_refused(front, keep,
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
    log_refused(front, keep, what, S(""), id, ret->status);
}

/* ---- the route ---- */

/* A form and a batch get no rules here (rules.c: the origin and the freshness of a key). The key of
 * a form was not read yet, and each item of a batch has rules of its own. */
static void route(struct call *call)
{
    const struct s3_operation *row = s3_operation(call->s3.op);
    bool form = takes_form(call), items = row->route == S3_ITEMS;
    slice detail = S("");
    enum err err = form || items ? OK : rules_judge(call, &detail);
    metric_add(row->metric, 1);
    if (err)
        reply_error(call, err, detail);
    else if (items)
        batch_read(call);
    else if (form)
        pass_form(call);
    else if (row->route == S3_CACHED)
        (call->s3.op == S3_EXPLAIN ? explain_read : cached_read)(call);
    else if (row->route == S3_MANAGE && call->head->length)    /* only the query is read */
        reply_error(call, ERR_BAD_REQUEST, S(NO_BODY));
    else if (row->route == S3_MANAGE)
        (call->s3.op == S3_PURGE || call->s3.op == S3_BANS ? purge_call : pins_call)(call);
    else if (row->route == S3_CACHE && !call->s3.pass)
        object_read(call);
    else if (row->route == S3_LIST && !call->s3.pass)
        list_read(call);
    else if (s3_only_reads(call->s3.op))
        pass_read(call);
    else
        pass_write(call);
}

static enum metric class_of(int status)
{
    return status == 501 ? M_RES_501
         : status >= 500 ? M_RES_5XX
         : status >= 400 ? M_RES_4XX
         : status >= 300 ? M_RES_3XX : M_RES_2XX;
}

static void log_request(const struct call *call, const struct http_outcome *outcome)
{
    const struct access_line *access = &call->access;
    slice more = call->s3.op == S3_BATCH
        ? arena_printf(call->keep, " items=%zu failed=%zu", access->items, access->failed) : S("");
    slice access_key = fact(call->keep, call->access_key);
    slice bucket = fact(call->keep, call->s3.bucket);
    slice key = fact(call->keep, call->s3.key.len ? call->s3.key : access->listed_key);
    log_access("request",
               "id=%.*s peer=%.*s access_key=%.*s op=%s bucket=%.*s key=%.*s status=%d err=%s"
               " cache=%s sent=%" PRIu64 " from_cache=%" PRIu64 " from_origin=%" PRIu64
               " decided_us=%" PRIu64 " first_us=%" PRIu64 " took_us=%" PRIu64 " complete=%d%.*s",
               SLICE_ARG(call->id), SLICE_ARG(access->peer), SLICE_ARG(access_key),
               call->s3.op < S3_OP_COUNT ? s3_op_name(call->s3.op) : "-", SLICE_ARG(bucket),
               SLICE_ARG(key), outcome->status, call->err ? err_name(call->err) : "-",
               access->cache_result, outcome->body_bytes_sent, access->cost.cache_bytes,
               access->cost.origin_bytes, access->cost.decided_ns / 1000,
               access->cost.first_ns / 1000, outcome->took_ns / 1000, outcome->complete,
               SLICE_ARG(more));
}

/* Counts the bytes of objects that the client got. The origin gave these bytes, now or earlier. So
 * their bucket exists, as metric_bucket requires. */
static void count_bytes(slice bucket, const struct get_cost *cost)
{
    metric_add(M_FRONT_FROM_CACHE, cost->cache_bytes);
    metric_add(M_FRONT_FROM_ORIGIN, cost->origin_bytes);
    if (cost->cache_bytes + cost->origin_bytes == 0)
        return;
    uint32_t number = metric_bucket(bucket);
    metric_bucket_add(number, BUCKET_BYTES, cost->cache_bytes + cost->origin_bytes);
    metric_bucket_add(number, BUCKET_CACHE_BYTES, cost->cache_bytes);
}

static void ended(void *arg, const struct http_outcome *outcome)
{
    struct call *call = arg;
    if (call->gone)
        call->gone(call->gone_arg);
    metric_add(class_of(outcome->status), 1);
    metric_add(M_FRONT_SENT, outcome->body_bytes_sent);
    if (outcome->body_bytes_sent)
        count_bytes(call->s3.bucket, &call->access.cost);
    metric_time(M_FRONT_SECONDS, outcome->took_ns);
    if (!outcome->complete)
        metric_add(M_FRONT_INCOMPLETE, 1);
    if (front_logs(call->front))
        log_request(call, outcome);
}

static void reply_refused(struct call *call)
{
    const struct s3_request *s3 = &call->s3;
    struct s3_fault fault = { .message = s3->detail };
    if (call->err == ERR_BAD_METHOD) {
        s3_fault_add(&fault, S("Method"), call->head->method);
        s3_fault_add(&fault, S("ResourceType"), s3->key.len ? S("OBJECT")
                                              : s3->bucket.len ? S("BUCKET") : S("SERVICE"));
    }
    reply_fault(call, call->err, &fault);
}

void front_handle(void *arg, struct http_request *request)
{
    struct judged *judged = http_request_judged(request);
    struct call *call = &judged->call;
    call->http = request;
    http_request_on_end(request, ended, call);
    if (call->s3.op == S3_OP_COUNT)
        metric_add(M_REQ_OTHER, 1);
    if (call->err)
        reply_refused(call);
    else
        route(call);
}
