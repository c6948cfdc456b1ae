/* pass_write.c - writes that the origin answers: the steps before the origin call.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   body verified ─ keys found, in head and body ─ rules, rights ─ removal committed ─ origin call
 *
 * The intake (intake.h) verifies the body. The rules of a key are its origin and freshness. Before
 * the origin is called, the metadata of all keys that the write may change is removed from the
 * cache (mutation.h). The removal is committed when the index on disk has it, too (rule H7 in
 * src/README.md). The body then goes to the origin (pass_upload.c). After the origin call, the body
 * of a PUT may be stored in the cache.
 * Threads: lost runs on a thread of the intake, and let_go may run on any thread. The rest runs on
 * the loop. */
#include "cache/populate.h"
#include "front/passing.h"
#include "s3/xml.h"

#define RESTORE_BYTES_MAX (16 * KIB)    /* a larger body of a restore needs ADMIN */

/* ---- a write, from the intake to the origin ---- */

/* The body of a restore may name a bucket to write to. The right WRITE on the restored key does not
 * cover a write to that bucket, so such a restore needs ADMIN. */
static enum err judge_restore(const struct call *call, const struct upload *upload)
{
    char *copy = arena_alloc(call->keep, RESTORE_BYTES_MAX);
    size_t bytes = upload->source.length;
    bool small = bytes <= RESTORE_BYTES_MAX;
    if (small && !http_body_read_now(upload->hold, 0, copy, bytes))
        return ERR_LIMIT;
    return small && xml_restores_in_place(call->keep, (slice){ copy, bytes })
               ? OK : right_judge_admin(call, call->s3.key);
}

/* Judges the keys, and the body of a restore, which are known only after the intake. */
static enum err judge(struct call *call, const struct mutation *mutation,
                      const struct upload *upload, slice *ret_detail)
{
    enum err err = OK;
    if (s3_operation(call->s3.op)->mutates == S3_MUTATES_KEYS)
        err = rules_judge_keys(call, mutation->keys, mutation->key_count, ret_detail);
    if (!err && !call->s3.key.len)
        err = right_judge_keys(call, mutation->keys, mutation->key_count);
    if (!err && call->s3.op == S3_RESTORE_OBJECT)
        err = judge_restore(call, upload);
    return err;
}

static void begin(struct pass *pass)
{
    struct call *call = pass->call;
    struct mutation *mutation = &pass->mutation;
    slice detail = S("");
    mutation_find_keys(mutation, &pass->arena, call, &pass->upload.listed);
    if (mutation->key_count == 1)
        call->access.listed_key = arena_copy(call->keep, mutation->keys[0].key);
    enum err err = judge(call, mutation, &pass->upload, &detail);
    if (err) {
        pass_refuse(pass, err, &(struct s3_fault){ .message = detail });
        return;
    }
    pass->rules = call->rules;
    mutation_begin(mutation, &pass->arena, call, pass->request.origin.bucket, pass_changed, pass);
    if (mutation_may_go(mutation))
        pass_call_origin(pass);
}

/* Adds the fields that replace those of the framing. */
static void add_fields(struct pass_request *request, struct arena *keep,
                       const struct intake_outcome *outcome)
{
    check(outcome->field_count <= INTAKE_FIELDS_MAX);
    for (size_t i = 0; i < outcome->field_count; i++)
        request->fields[request->origin.field_count++] = (struct http_field){
            arena_copy(keep, outcome->fields[i].name),
            arena_copy(keep, outcome->fields[i].value) };
}

static void taken_in(void *arg, const struct intake_outcome *outcome)
{
    struct pass *pass = arg;
    pass->upload.in_intake = false;
    pass->upload.source.length = outcome->bytes;
    add_fields(&pass->request, &pass->arena, outcome);
    if (!pass->call)
        pass_settle(pass);
    else if (outcome->err)
        pass_refuse(pass, outcome->err, &outcome->fault);
    else
        begin(pass);
}

/* Called when the loop is gone, and the request with it. */
static void lost(void *arg)
{
    struct pass *pass = arg;
    pass->upload.in_intake = false;
    pass_settle(pass);
}

static struct pass *new_with_body(struct call *call)
{
    struct pass *pass = pass_new(call);
    pass_upload_begin(pass);
    return pass;
}

void pass_write(struct call *call)
{
    const struct judged *judged = http_request_judged(call->http);
    const struct sigv4_claim *claim = &judged->claim;
    struct pass *pass = new_with_body(call);
    if (claim->payload == PAYLOAD_HEX)
        pass->upload.source.sha256_hex = arena_copy(&pass->arena, claim->payload_hash);

    bool by_body = s3_operation(call->s3.op)->mutates == S3_MUTATES_KEYS;
    intake_start(call->front->intakes, &(struct intake_ask){
        http_loop_mailbox(http_request_loop(call->http)), pass->upload.hold, call->head, &call->s3,
        claim, call->loop->sigv4, judged->secret, &pass->arena,
        by_body ? &pass->upload.listed : NULL,
        .done = taken_in, .lost = lost, .arg = pass });
}

static void form_taken_in(void *arg, const struct intake_outcome *outcome)
{
    struct pass *pass = arg;
    struct call *call = pass->call;
    pass->upload.in_intake = false;
    if (!call) {
        pass_settle(pass);
        return;
    }
    struct s3_fault fault = outcome->fault;
    enum err err = form_judge(call, outcome->err, &fault);
    struct write_key key = { form_get(call->form, S("key")), S("") };
    if (!err)
        err = rules_judge_keys(call, &key, 1, &fault.message);
    if (err) {
        pass_refuse(pass, err, &fault);
        return;
    }
    pass->upload.at = call->form->file_at;
    pass->upload.source.length = call->form->file_bytes;
    pass->request.origin.as = identity_as(&call->client->who);
    begin(pass);
}

static bool is_of_form(slice name)
{
    return slice_eq_nocase(name, S("content-type")) || slice_eq_nocase(name, S("content-md5"));
}

/* Drops the headers that describe the client's form. The origin gets a form that is written anew
 * (origin/s3_ask.c). */
static void drop_fields_of_form(struct pass_request *request)
{
    size_t count = 0;
    for (size_t i = 0; i < request->origin.field_count; i++)
        if (!is_of_form(request->fields[i].name))
            request->fields[count++] = request->fields[i];
    request->origin.field_count = count;
}

/* The client is known after the form was read. From then on the call belongs to that client. */
void pass_form(struct call *call)
{
    struct pass *pass = new_with_body(call);
    struct form *form = arena_alloc(&pass->arena, sizeof(*form));
    drop_fields_of_form(&pass->request);
    pass->request.origin.form = call->form = form;
    intake_start(call->front->intakes, &(struct intake_ask){
        http_loop_mailbox(http_request_loop(call->http)), pass->upload.hold, call->head,
        .keep = &pass->arena, .form = form, .done = form_taken_in, .lost = lost, .arg = pass });
}

/* ---- the end of a write ---- */

/* Runs on the loop. If bytes of the body are no longer in the page cache, they are not read from
 * the disk again: the object of this write is then not stored in the cache. */
static size_t read_held(void *arg, uint64_t offset, char *ret, size_t bytes)
{
    return http_body_read_now(arg, offset, ret, bytes) ? bytes : 0;
}

static void let_go(void *arg)
{
    struct http_body *hold = arg;
    http_body_release(&hold);
}

void pass_write_populate(struct pass *pass)
{
    const struct pass_answer *answer = &pass->answer;
    const struct origin_call *origin = &pass->request.origin;
    slice etag = http_field_get(answer->fields.list, answer->fields.count, S("etag"));
    if (!pass->rules->cache_writes || origin->op != S3_PUT_OBJECT || answer->status != 200 ||
        answer->err || !etag.len || pass->call->s3.pass)
        return;
    struct http_body *hold = pass->upload.hold;
    pass->upload.hold = NULL;
    populate_start(pass->call->loop->cache, &(struct populate_ask){
        .rules = pass->rules, .who = &pass->call->client->who, .bucket = origin->bucket,
        .key = origin->key, .etag = etag,
        .body = { .length = pass->upload.source.length, .read = read_held, .arg = hold },
        .release = let_go });
}
