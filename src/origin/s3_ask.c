/* s3_ask.c - the request of one try, built and signed. SPDX-License-Identifier: Apache-2.0
 *
 * Each try is built again, with its own date, and signed for the region that is known by then.
 * Penstock itself makes the fields about the connection and the signature. If the caller gives a
 * field with such a name, this field is left out. The code runs on carriers, the threads that
 * talk to origins. */
#include <assert.h>
#include <pthread.h>
#include <sys/random.h>

#include "base/clock.h"
#include "origin/s3.h"

#define EXTRA_FIELDS 7      /* Host, the fields that the signer adds, and those of the trace */
static_assert(EXTRA_FIELDS >= countof(((struct sigv4_signed *)NULL)->fields) + 3, "all fit");

/* A field name may have characters other than letters, digits, '-' and '_'. Some servers read each
 * such character as '-', and so may read another name. So Penstock refuses a request with such a
 * name. The exception is x-amz-meta-: no server acts on these names, so they may have every
 * character of RFC 9110. */
static bool is_sendable_name(slice name)
{
    if (slice_starts_nocase(name, S("x-amz-meta-")))
        return http_name_is_valid(name);
    return name.len > 0 && slice_only(name, LOWER_CHARS UPPER_CHARS DIGIT_CHARS "-_");
}

static bool is_sendable(struct http_field field)
{
    for (size_t i = 0; i < field.value.len; i++) {
        unsigned char c = (unsigned char)field.value.ptr[i];
        if (c == 0x7f || (c < ' ' && c != '\t'))
            return false;
    }
    return is_sendable_name(field.name);
}

bool s3_fields_are_sendable(const struct origin_call *asked)
{
    for (size_t i = 0; i < asked->field_count; i++)
        if (!is_sendable(asked->fields[i]))
            return false;
    return true;
}

/* Returns true for a conditional write. After the write has happened, its condition no longer
 * holds. So a repetition would be refused, and the client would be told that another writer won. */
static bool is_conditional(const struct origin_call *asked)
{
    for (size_t i = 0; i < asked->field_count; i++) {
        slice name = asked->fields[i].name;
        if (slice_starts_nocase(name, S("if-")) ||
            slice_starts_nocase(name, S("x-amz-if-")) ||
            slice_eq_nocase(name, S("x-amz-write-offset-bytes")))
            return true;
    }
    return false;
}

/* A second CompleteMultipartUpload is an error, and a second CreateBucket, DeleteBucket or
 * RenameObject may be an error. A second CreateMultipartUpload leaves an upload that nobody ends.
 * The effect of an unknown POST is unknown. */
enum effect s3_effect(const struct origin_call *asked)
{
    enum s3_op op = asked->op;
    if (op == S3_CREATE_BUCKET || op == S3_DELETE_BUCKET || op == S3_RENAME_OBJECT)
        return EFFECT_ONCE;
    if (s3_only_reads(op) || op == S3_SELECT_OBJECT)
        return EFFECT_NONE;
    bool posts = s3_operation(op)->method == S3_POST && op != S3_DELETE_OBJECTS;
    bool once = posts || is_conditional(asked);
    return once ? EFFECT_ONCE : EFFECT_WRITES;
}

static slice payload_hash(const struct origin_body *body)
{
    if (!body)
        return S(EMPTY_SHA256);
    return body->sha256_hex.len ? body->sha256_hex : S("UNSIGNED-PAYLOAD");
}

static size_t add_signature(struct s3 *s3, struct arena *keep, const struct origin_call *asked,
                            const struct sigv4_credentials *with, const char *region,
                            const struct target *target, struct http_field *fields, size_t count)
{
    struct sigv4_ask ask = {
        .method = slice_of(s3_operation(asked->op)->method_name),
        .path = target->path, .query = target->query,
        .fields = fields, .field_count = count,
        .payload_hash = payload_hash(asked->body),
        .region = slice_of(region), .service = S("s3"), .now_s = wall_s(),
    };
    struct sigv4_signed added;
    if (!with->access_key.len)
        return count;
    pthread_mutex_lock(&s3->lock);    /* only one thread at a time may use a signer */
    sigv4_sign(s3->sigv4, keep, &ask, with, &added);
    pthread_mutex_unlock(&s3->lock);
    for (size_t i = 0; i < added.field_count; i++)
        fields[count++] = added.fields[i];
    return count;
}

/* The body of a form: the bytes before the file, the file, and the bytes after it. */
struct form_body {
    struct origin_body body;
    const struct origin_body *file;
    slice before, behind;
};

static size_t read_piece(const struct form_body *form, uint64_t offset, char *ret, size_t bytes)
{
    uint64_t file_end = form->before.len + form->file->length;
    if (offset < form->before.len)
        return slice_put(ret, slice_sub(form->before, offset, bytes));
    if (offset >= file_end)
        return slice_put(ret, slice_sub(form->behind, offset - file_end, bytes));
    return form->file->read(form->file->arg, offset - form->before.len, ret,
                            (size_t)MIN(bytes, file_end - offset));
}

static size_t read_form(void *arg, uint64_t offset, char *ret, size_t bytes)
{
    const struct form_body *form = arg;
    size_t got = 0;
    for (size_t piece = 1; piece && got < bytes; got += piece) {
        piece = read_piece(form, offset + got, ret + got, bytes - got);
        if (piece == ORIGIN_LATER)
            return piece;
    }
    return got;
}

static const struct origin_body *make_form(struct s3 *s3, struct arena *keep,
                                           const struct origin_call *asked,
                                           const struct sigv4_credentials *with,
                                           const char *region, struct http_field *ret_type)
{
    uint64_t random[2];
    struct form_body *made = arena_alloc(keep, sizeof(*made));
    check(getrandom(random, sizeof(random), 0) == sizeof(random));
    slice boundary = arena_printf(keep, "penstock-%016llx%016llx", (unsigned long long)random[0],
                                  (unsigned long long)random[1]);
    pthread_mutex_lock(&s3->lock);
    made->before = form_write(s3->sigv4, keep, asked->form, with, slice_of(region), wall_s(),
                              boundary, &made->behind);
    pthread_mutex_unlock(&s3->lock);
    made->file = asked->body;
    made->body = (struct origin_body){
        .length = made->before.len + asked->body->length + made->behind.len,
        .read = read_form, .arg = made };
    *ret_type = (struct http_field){
        S("Content-Type"),
        arena_printf(keep, "multipart/form-data; boundary=%.*s", SLICE_ARG(boundary)) };
    return &made->body;
}

/* Adds the caller's fields. Those about the connection or the signature are never sent. */
static size_t add_fields(const struct origin_call *asked, struct http_field *fields, size_t count)
{
    for (size_t i = 0; i < asked->field_count; i++) {
        struct http_field field = { asked->fields[i].name, slice_trim(asked->fields[i].value) };
        if (header_judge(field.name, S("")).fate != HEADER_OURS)
            fields[count++] = field;
    }
    return count;
}

/* Adds the fields of the trace. They are not signed: a proxy before the origin may replace them. */
static size_t add_trace(struct arena *keep, const struct trace *trace, struct http_field *fields,
                        size_t count)
{
    if (!trace->given)
        return count;
    char *parent = arena_alloc(keep, TRACEPARENT_BYTES);
    trace_write(trace, parent);
    fields[count++] = (struct http_field){ S("traceparent"), { parent, TRACEPARENT_BYTES } };
    if (trace->state.len)
        fields[count++] = (struct http_field){ S("tracestate"), trace->state };
    return count;
}

void s3_ask_make(struct s3 *s3, struct arena *keep, const struct origin_call *asked,
                 const struct sigv4_credentials *with, char region[REGION_BYTES_MAX],
                 struct exchange_ask *ret)
{
    struct target target;
    struct http_field *fields =
        arena_alloc(keep, (asked->field_count + EXTRA_FIELDS) * sizeof(*fields));
    bool learnt = region_get(&s3->regions, asked->bucket, s3->region, region);
    endpoint_target(keep, &s3->endpoint, asked->bucket, asked->key, asked->query,
                   learnt ? slice_of(region) : S(""), &target);
    fields[0] = (struct http_field){ S("Host"), target.host };
    size_t count = add_fields(asked, fields, 1);
    const struct origin_body *body = asked->body;
    if (asked->form)
        body = make_form(s3, keep, asked, with, region, &fields[count++]);
    else
        count = add_signature(s3, keep, asked, with, region, &target, fields, count);
    count = add_trace(keep, &asked->trace, fields, count);
    check(count <= asked->field_count + EXTRA_FIELDS);
    const char *method = s3_operation(asked->op)->method_name;
    enum effect effect = s3_effect(asked);
    const struct s3_timeouts *timeouts = &s3->timeouts;
    *ret = (struct exchange_ask){
        .method = method, .url = target.url.ptr,
        .target = arena_printf(keep, "%.*s%s%.*s", SLICE_ARG(target.path),
                               target.query.len ? "?" : "", SLICE_ARG(target.query)).ptr,
        .ca_file = s3->ca_file,
        .fields = fields, .field_count = count,
        .body = body,
        .sends_length = *method == 'P',
        .once = asked->no_retry || effect == EFFECT_ONCE, .writes = effect != EFFECT_NONE,
        .connect_ms = timeouts->connect_ms, .progress_ms = timeouts->progress_ms,
        .answer_ms = effect == EFFECT_NONE ? timeouts->progress_ms : timeouts->answer_ms,
    };
}
