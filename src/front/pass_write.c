/* pass_write.c - writes that the origin answers: their keys, and the steps before the origin call.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   body verified ─ keys found, in head and body ─ rules, rights ─ removal committed ─ origin call
 *
 * The intake (intake.h) verifies the body. The rules of a key are its origin and freshness. Before
 * the origin is called, the metadata of all keys that the write may change is removed from the
 * cache. The removal is committed when the index on disk has it, too (rule H7 in src/README.md).
 * The body goes to the origin from memory or the page cache. If the page cache has lost bytes of
 * the body, the upload pauses, and a thread started for this purpose reads them from the disk. The
 * origin's thread does not read the disk, because it has other calls, and the disk may hang.
 * Threads: the origin's thread calls read_body; run_body_read has a thread of its own. lost runs on a
 * thread of the intake, and let_go may run on any thread. The rest runs on the loop. */
#include <stdlib.h>

#include "base/thread.h"
#include "cache/alias.h"
#include "cache/populate.h"
#include "front/passing.h"
#include "s3/xml.h"

/* ---- the changes that a write makes ---- */

#define KEYS_GIVEN_MAX 3    /* the most keys in a request head, or in a form */
#define RESTORE_BYTES_MAX (16 * KIB)    /* a larger body of a restore needs ADMIN */
#define BODY_READ_AHEAD_BYTES (4 * MIB)    /* read by one thread, in parts */
#define BODY_PART_BYTES (256 * KIB)

static void add_key(struct pass *pass, slice key, slice version)
{
    pass->keys[pass->key_count++] = (struct write_key){ arena_copy(&pass->arena, key),
                                                        arena_copy(&pass->arena, version) };
}

static void add_given(struct pass *pass)
{
    const struct s3_param *version = s3_param_get(&pass->call->s3, S("versionId"));
    const struct s3_source *source = &pass->call->s3.source;
    add_key(pass, pass->origin.key, version ? version->value : S(""));
    if (pass->call->s3.op != S3_RENAME_OBJECT)
        return;
    if (source->key.len)
        add_key(pass, source->key, S(""));
    if (source->inner.len)
        add_key(pass, source->inner, S(""));
}

static void add_of_form(struct pass *pass)
{
    slice key = form_get(pass->origin.form, S("key")), trimmed = alias_trimmed(key);
    add_key(pass, key, S(""));
    if (trimmed.len != key.len)
        add_key(pass, trimmed, S(""));
}

static void find_keys(struct pass *pass)
{
    const struct intake_keys *listed = &pass->listed;
    enum s3_mutates mutates = s3_operation(pass->origin.op)->mutates;
    pass->keys = arena_alloc(&pass->arena, (listed->count + KEYS_GIVEN_MAX) * sizeof(*pass->keys));
    if (mutates == S3_MUTATES_FORM)
        add_of_form(pass);
    else if (pass->origin.key.len && mutates != S3_MUTATES_NOTHING)
        add_given(pass);
    check(pass->key_count <= KEYS_GIVEN_MAX);
    for (size_t i = 0; i < listed->count; i++)
        pass->keys[pass->key_count++] = (struct write_key){ listed->list[i].key,
                                                            listed->list[i].version };
}

/* True if the write changes metadata of a key and names no version. It then changes the version
 * that is the current one at the origin. */
static bool changes_metadata(const struct pass *pass)
{
    enum s3_mutates mutates = s3_operation(pass->origin.op)->mutates;
    return (mutates == S3_MUTATES_PROPERTY || mutates == S3_MUTATES_GRANTS) &&
           pass->call->s3.key.len && !s3_param_get(&pass->call->s3, S("versionId"));
}

/* True if the write may change who can read objects of the bucket. */
static bool regrants(const struct pass *pass)
{
    enum s3_mutates mutates = s3_operation(pass->origin.op)->mutates;
    return mutates == S3_MUTATES_BUCKET ||
           (mutates == S3_MUTATES_GRANTS && !pass->call->s3.key.len);
}

/* True if the write may change the metadata of any object in its bucket. A write with an unknown
 * header counts as such a write. */
static bool changes_bucket(const struct pass *pass)
{
    enum s3_mutates mutates = s3_operation(pass->origin.op)->mutates;
    return mutates == S3_MUTATES_HEADS || mutates == S3_MUTATES_BUCKET ||
           pass->call->s3.foreign.ptr;
}

/* ---- the body, on its way to the origin ---- */

/* The bytes of a body that one thread brings into the page cache. */
struct body_read {
    struct pass *pass;            /* a reference */
    struct http_body *hold;       /* a reference to the body of the pass */
    size_t at, end;
};

static void *run_body_read(void *arg)
{
    struct body_read *read = arg;
    struct pass *pass = read->pass;
    char *buffer = malloc(BODY_PART_BYTES);
    bool good = buffer != NULL;
    for (size_t part; good && read->at < read->end; read->at += part) {
        part = MIN(read->end - read->at, BODY_PART_BYTES);
        good = http_body_read(read->hold, read->at, buffer, part);
    }
    free(buffer);
    if (!good)
        atomic_store(&pass->lost, true);
    atomic_store(&pass->reading, false);
    origin_resume(&pass->origin);
    http_body_unref(&read->hold);
    pass_unref(pass);
    free(read);
    return NULL;
}

/* Returns false if no thread could be started. */
static bool start_body_read(struct pass *pass, size_t at)
{
    pthread_t thread;
    struct body_read *read = must_alloc(sizeof(*read));
    size_t end = MIN(at + BODY_READ_AHEAD_BYTES, pass->body_at + pass->source.length);
    *read = (struct body_read){ pass_ref(pass), http_body_ref(pass->hold), at, end };
    atomic_store(&pass->reading, true);
    if (thread_start(&thread, run_body_read, read, "body-read")) {
        pthread_detach(thread);
        return true;
    }
    atomic_store(&pass->reading, false);
    http_body_unref(&read->hold);
    pass_unref(pass);
    free(read);
    return false;
}

static size_t read_body(void *arg, uint64_t offset, char *ret, size_t bytes)
{
    struct pass *pass = arg;
    check(pass->magic == PASS_MAGIC && offset <= pass->source.length);
    size_t part = MIN(bytes, pass->source.length - offset), at = pass->body_at + offset;
    if (atomic_load(&pass->reading))
        return ORIGIN_LATER;
    if (!atomic_load(&pass->lost) && http_body_read_now(pass->hold, at, ret, part))
        return part;
    if (!atomic_load(&pass->lost) && start_body_read(pass, at))
        return ORIGIN_LATER;
    atomic_store(&pass->lost, true);
    return 0;
}

/* ---- a write, from the intake to the origin ---- */

/* The body of a restore may name a bucket to write to. The right WRITE on the restored key does not
 * cover a write to that bucket, so such a restore needs ADMIN. */
static enum err judge_restore(const struct pass *pass)
{
    struct call *call = pass->call;
    char *copy = arena_alloc(call->keep, RESTORE_BYTES_MAX);
    size_t bytes = pass->source.length;
    bool small = bytes <= RESTORE_BYTES_MAX;
    if (small && !http_body_read_now(pass->hold, 0, copy, bytes))
        return ERR_LIMIT;
    return small && xml_restores_in_place(call->keep, (slice){ copy, bytes })
               ? OK : right_judge_admin(call, call->s3.key);
}

static void begin(struct pass *pass)
{
    struct call *call = pass->call;
    slice detail = S("");
    enum err err = OK;
    check(!pass->write && !pass->keys);
    find_keys(pass);
    if (pass->key_count == 1)
        call->access.listed_key = arena_copy(call->keep, pass->keys[0].key);
    if (s3_operation(call->s3.op)->mutates == S3_MUTATES_KEYS)
        err = rules_judge_keys(call, pass->keys, pass->key_count, &detail);
    if (!err && !call->s3.key.len)
        err = right_judge_keys(call, pass->keys, pass->key_count);
    if (!err && call->s3.op == S3_RESTORE_OBJECT)
        err = judge_restore(pass);
    if (err) {
        pass_refuse(pass, err, &(struct s3_fault){ .message = detail });
        return;
    }
    pass->rules = call->rules;
    pass->regrants = regrants(pass);
    if (pass->regrants)
        grants_change_begins(pass->origin.bucket, ageing_ms());
    pass->write = write_begin(call->loop->cache, pass->rules, pass->origin.bucket, pass->keys,
                              pass->key_count, pass_changed, pass);
    pass->order = write_order(pass->write, &pass->arena);
    if (changes_metadata(pass))
        write_restates_key(pass->write);
    if (changes_bucket(pass))
        write_restates_bucket(pass->write);
    if (write_may_go(pass->write))
        pass_call_origin(pass);
}

static void taken_in(void *arg, const struct intake_outcome *outcome)
{
    struct pass *pass = arg;
    check(outcome->field_count <= INTAKE_FIELDS_MAX);
    pass->in_intake = false;
    pass->source.length = outcome->bytes;
    for (size_t i = 0; i < outcome->field_count; i++)
        pass->origin_fields[pass->origin.field_count++] = (struct http_field){
            arena_copy(&pass->arena, outcome->fields[i].name),
            arena_copy(&pass->arena, outcome->fields[i].value) };
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
    pass->in_intake = false;
    pass_settle(pass);
}

static struct pass *new_with_body(struct call *call)
{
    struct pass *pass = pass_new(call);
    pass->source = (struct origin_body){ .read = read_body, .arg = pass };
    pass->origin.body = &pass->source;
    pass->in_intake = true;
    return pass;
}

void pass_write(struct call *call)
{
    const struct judged *judged = http_request_judged(call->http);
    const struct sigv4_claim *claim = &judged->claim;
    struct pass *pass = new_with_body(call);
    if (claim->payload == PAYLOAD_HEX)
        pass->source.sha256_hex = arena_copy(&pass->arena, claim->payload_hash);

    bool by_body = s3_operation(call->s3.op)->mutates == S3_MUTATES_KEYS;
    intake_start(call->front->intakes, &(struct intake_ask){
        http_loop_mailbox(http_request_loop(call->http)), pass->hold, call->head, &call->s3, claim,
        call->loop->sigv4, judged->secret, &pass->arena, by_body ? &pass->listed : NULL,
        .done = taken_in, .lost = lost, .arg = pass });
}

static void form_taken_in(void *arg, const struct intake_outcome *outcome)
{
    struct pass *pass = arg;
    struct call *call = pass->call;
    pass->in_intake = false;
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
    pass->body_at = call->form->file_at;
    pass->source.length = call->form->file_bytes;
    pass->origin.as = identity_as(&call->client->who);
    begin(pass);
}

static bool is_of_form(slice name)
{
    return slice_eq_nocase(name, S("content-type")) || slice_eq_nocase(name, S("content-md5"));
}

/* The client is known after the form was read. From then on the call belongs to that client. */
void pass_form(struct call *call)
{
    struct pass *pass = new_with_body(call);
    struct form *form = arena_alloc(&pass->arena, sizeof(*form));
    size_t count = 0;
    for (size_t i = 0; i < pass->origin.field_count; i++)
        if (!is_of_form(pass->origin_fields[i].name))
            pass->origin_fields[count++] = pass->origin_fields[i];
    pass->origin.field_count = count;
    pass->origin.form = call->form = form;
    intake_start(call->front->intakes, &(struct intake_ask){
        http_loop_mailbox(http_request_loop(call->http)), pass->hold, call->head,
        .keep = &pass->arena, .form = form, .done = form_taken_in, .lost = lost, .arg = pass });
}

/* ---- the end of a write ---- */

void pass_write_end(struct pass *pass)
{
    write_end(&pass->write);
    if (pass->regrants)
        grants_change_ends(pass->origin.bucket, ageing_ms());
    pass->regrants = false;
}

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
    slice etag = http_field_get(pass->fields.list, pass->fields.count, S("etag"));
    if (!pass->rules->cache_writes || pass->origin.op != S3_PUT_OBJECT || pass->status != 200 ||
        pass->err || !etag.len || pass->call->s3.pass)
        return;
    struct http_body *hold = pass->hold;
    pass->hold = NULL;
    populate_start(pass->call->loop->cache, &(struct populate_ask){
        .rules = pass->rules, .who = &pass->call->client->who, .bucket = pass->origin.bucket,
        .key = pass->origin.key, .etag = etag,
        .body = { .length = pass->source.length, .read = read_held, .arg = hold },
        .release = let_go });
}
