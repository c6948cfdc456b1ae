/* intake.c - bodies are taken in: their framing off, every sum right.
 * SPDX-License-Identifier: Apache-2.0
 *
 * No origin sees a byte before all that the client said of its body holds: digest, checksums,
 * signatures of chunks. The body is there whole, in memory or in a file; it is worked through once,
 * a piece that fits the processor's cache at a time: decoded, summed, put back where it belongs.
 *
 * That takes seconds for gigabytes, and a file may wait for its disk, so a few threads do it, no
 * loop, but for small bodies in memory, which are done where they are. Large ones take turns: one
 * of 5 GiB keeps no other waiting for long. */
#include "front/intake.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "s3/chunked.h"
#include "s3/encode.h"
#include "s3/integrity.h"
#include "s3/xml.h"

#define INLINE_BYTES (64 * KIB)
#define PIECE_BYTES (256 * KIB)
#define TURN_BYTES (32 * MIB)
#define THREADS_MAX 8u

struct intake {
    struct mail mail;
    struct list link;
    struct mailbox *back;
    struct arena arena;
    struct http_body *body;
    size_t len, at, data_len;        /* as it came; done with `at` of it; so much data so far */
    struct integrity is;
    slice sha256_said;
    struct sigv4_chain *chain;
    struct chunked *chunked;
    struct checksum_run *sha256, *md5, *sum;
    struct intake_keys *keys;        /* NULL: it names none */
    struct intake_list *list;        /* NULL: it is none */
    struct form *form;               /* NULL: it is none */
    struct arena *form_keep;
    slice form_type;
    struct intake_outcome outcome;
    void (*done)(void *arg, const struct intake_outcome *outcome);
    void (*lost)(void *arg);
    void *arg;
};

static void intake_free(struct intake *intake)
{
    chunked_free(&intake->chunked);
    sigv4_chain_free(&intake->chain);
    checksum_free(&intake->sha256);
    checksum_free(&intake->md5);
    checksum_free(&intake->sum);
    mailbox_unref(&intake->back);
    arena_free(&intake->arena);
    free(intake);
}

/* ---- the work ---- */

static void add(struct intake *intake, slice data)
{
    struct checksum_run *runs[] = { intake->sha256, intake->md5, intake->sum };
    for (size_t i = 0; i < countof(runs); i++)
        if (runs[i])
            checksum_add(runs[i], data);
}

/* A signature or a size that is wrong has a message of its own. */
static void tell_framing(struct intake *intake)
{
    struct chunked_fault fault = chunked_fault(intake->chunked);
    if (intake->outcome.err && fault.what)
        intake->outcome.fault.message = arena_printf(
            &intake->arena, "The chunks of the request body are not framed as aws-chunked says: "
            "%s, in the line at byte %" PRIu64 " of the body, chunk %" PRIu64 ".",
            fault.what, fault.at, fault.chunk);
}

static void fail_disk(struct intake *intake)
{
    intake->outcome.err = ERR_LIMIT;
    intake->outcome.fault.message = S(INTAKE_DISK_FAILED);
}

static void work_on_piece(struct intake *intake, char *buffer)
{
    size_t len = PIECE_BYTES;
    char *piece = http_body_piece(intake->body, intake->at, buffer, &len);
    slice data = { piece, len };
    if (piece && intake->chunked)
        intake->outcome.err = chunked_feed(intake->chunked, data, piece, &data.len);
    if (piece)
        add(intake, data);    /* first: in memory, putting it back overwrites it */
    if (!piece || (intake->chunked &&
                   !http_body_write(intake->body, intake->data_len, piece, data.len)))
        fail_disk(intake);
    intake->at += len;
    intake->data_len += data.len;
}

/* The end of the file is looked for a piece at a time. */
static void read_form(struct intake *intake, char *buffer)
{
    struct form *form = intake->form;
    enum err *err = &intake->outcome.err;
    size_t have = MIN(intake->len, FORM_FIELDS_BYTES_MAX), at, further = 0;
    bool read = http_body_read(intake->body, 0, buffer, have);
    if (read)
        *err = form_read(intake->form_keep, intake->form_type, (slice){ buffer, have }, form);
    for (at = form->file_at; read && !*err; at += further) {
        have = MIN(intake->len - at, PIECE_BYTES);
        read = http_body_read(intake->body, at, buffer, have);
        if (!read || form_file_ends(form, (slice){ buffer, have }, &further))
            break;
        if (at + have == intake->len)
            *err = ERR_BAD_FORM;
    }
    form->file_bytes = at + further - form->file_at;
    intake->at = intake->len;
    if (!read)
        fail_disk(intake);
}

static bool copy_data(struct intake *intake, slice *ret)
{
    size_t bytes = intake->data_len;
    char *copy = arena_alloc(&intake->arena, MAX(bytes, 1));
    *ret = (slice){ copy, bytes };
    if (http_body_read(intake->body, 0, copy, bytes))
        return true;
    fail_disk(intake);
    return false;
}

static void read_keys(struct intake *intake)
{
    struct intake_keys *keys = intake->keys;
    slice copy;
    if (copy_data(intake, &copy))
        intake->outcome.err = xml_read_delete(keys->keep, copy, &keys->list, &keys->count);
}

static void read_list(struct intake *intake)
{
    struct intake_list *list = intake->list;
    slice copy, why = S("");
    if (!copy_data(intake, &copy))
        return;
    enum err err = items_read_batch(list->keep, copy, list->items_max, &list->batch, &why);
    list->too_many = err == ERR_LIMIT;
    intake->outcome.err = err ? ERR_BAD_ARGUMENT : OK;
    intake->outcome.fault.message = err == ERR_LIMIT
        ? arena_printf(list->keep, "%.*s: ask for fewer at once", SLICE_ARG(why)) : why;
}

static bool holds(struct checksum_run *run, const uint8_t *want, size_t bytes, uint8_t *ret_sum)
{
    if (!run)
        return true;
    checksum_get(run, ret_sum);
    return memcmp(ret_sum, want, bytes) == 0;
}

/* Both sums, as S3 writes them down. */
static void tell_sha256(struct intake *intake, const uint8_t *sum)
{
    char hex[64];
    hex_write(sum, 32, hex);
    s3_fault_add(&intake->outcome.fault, S("ClientComputedContentSHA256"), intake->sha256_said);
    s3_fault_add(&intake->outcome.fault, S("S3ComputedContentSHA256"),
                 arena_copy(&intake->arena, (slice){ hex, sizeof(hex) }));
}

static void tell_md5(struct intake *intake, const uint8_t *sum)
{
    char hex[32], base64[BASE64_BYTES(16)];
    struct s3_fault *fault = &intake->outcome.fault;
    hex_write(intake->is.md5, 16, hex);
    base64_write(sum, 16, base64);
    fault->message = S("The Content-MD5 you specified did not match what we received.");
    s3_fault_add(fault, S("CalculatedDigest"),
                 arena_copy(&intake->arena, (slice){ base64, sizeof(base64) }));
    s3_fault_add(fault, S("ExpectedDigest"),
                 arena_copy(&intake->arena, (slice){ hex, sizeof(hex) }));
}

static enum err end_framing(struct intake *intake)
{
    struct intake_outcome *outcome = &intake->outcome;
    struct integrity *is = &intake->is;
    enum err err = chunked_end(intake->chunked, &outcome->fault.message);
    if (err || !is->sum_in_trailer)
        return err;
    slice header = checksum_header(is->sum), value = chunked_trailer(intake->chunked);
    outcome->fields[outcome->field_count++] =
        (struct http_field){ header, arena_copy(&intake->arena, value) };
    if (base64_read(value, is->sum_value, checksum_bytes(is->sum)))
        return OK;
    outcome->fault.message = arena_printf(
        &intake->arena, "Value for %.*s trailing header is invalid.", SLICE_ARG(header));
    return ERR_BAD_REQUEST;
}

static enum err compare(struct intake *intake)
{
    const struct integrity *is = &intake->is;
    uint8_t sum[CHECKSUM_BYTES_MAX];
    if (!holds(intake->sha256, is->sha256, sizeof(is->sha256), sum)) {
        tell_sha256(intake, sum);
        return ERR_BAD_SHA256;
    }
    if (!holds(intake->md5, is->md5, sizeof(is->md5), sum)) {
        tell_md5(intake, sum);
        return ERR_BAD_DIGEST;
    }
    if (holds(intake->sum, is->sum_value, intake->sum ? checksum_bytes(is->sum) : 0, sum))
        return OK;
    intake->outcome.fault.message = arena_printf(
        &intake->arena, "The %.*s you specified did not match the calculated checksum.",
        SLICE_ARG(checksum_name(is->sum)));
    return ERR_BAD_DIGEST;
}

static void conclude(struct intake *intake)
{
    struct intake_outcome *outcome = &intake->outcome;
    if (outcome->err && intake->chunked)
        tell_framing(intake);
    if (!outcome->err && intake->chunked)
        outcome->err = end_framing(intake);
    if (!outcome->err)
        outcome->err = compare(intake);
    if (!outcome->err && intake->keys)
        read_keys(intake);
    if (!outcome->err && intake->list)
        read_list(intake);
    outcome->bytes = intake->data_len;
}

/* true: it is over */
static bool work(struct intake *intake, size_t bytes)
{
    size_t until = MIN(intake->at + bytes, intake->len);
    bool copies = intake->form || http_body_in_file(intake->body);
    char *buffer = copies ? malloc(PIECE_BYTES) : NULL;
    check(buffer || !copies);
    if (intake->form)
        read_form(intake, buffer);
    while (!intake->outcome.err && intake->at < until)
        work_on_piece(intake, buffer);
    free(buffer);
    if (!intake->outcome.err && intake->at < intake->len)
        return false;
    conclude(intake);
    return true;
}

/* ---- the threads ---- */

static void deliver(struct mail *mail)    /* on the loop again */
{
    struct intake *intake = container_of(mail, struct intake, mail);
    intake->done(intake->arg, &intake->outcome);
    intake_free(intake);
}

static void finish(struct intake *intake)
{
    intake->mail.deliver = deliver;
    if (mailbox_post(intake->back, &intake->mail))
        return;
    intake->lost(intake->arg);    /* the loop is gone, and the request with it */
    intake_free(intake);
}

static bool take_turn(struct list *link)
{
    struct intake *intake = list_of(link, struct intake, link);
    if (!work(intake, TURN_BYTES))
        return false;
    finish(intake);
    return true;
}

struct workers *intakes_new(void)
{
    struct workers *intakes =
        workers_new(MIN(MAX(cores_available(), 2u), THREADS_MAX), "intake", take_turn);
    check(intakes != NULL);
    return intakes;
}

/* ---- its start ---- */

/* Chunks are for objects: elsewhere S3 refuses them, and an origin could not if we took them off.
 * Signed ones begin with a signature of version 4. */
static enum err may_be_framed(const struct intake_ask *ask, struct intake_outcome *ret)
{
    bool takes = ask->s3->op == S3_PUT_OBJECT || ask->s3->op == S3_UPLOAD_PART;
    bool chained = ask->claim->payload != PAYLOAD_CHUNKS_TRAILER;
    if (takes && (!chained || sigv4_can_chain(ask->claim)))
        return OK;
    ret->fault.message = takes ? S(INTAKE_UNSIGNED_CHUNKS)
                        : S("The value of x-amz-content-sha256 header is invalid.");
    return ERR_BAD_REQUEST;
}

static enum err plan(struct intake *intake, const struct intake_ask *ask)
{
    struct integrity *is = &intake->is;
    struct intake_outcome *outcome = &intake->outcome;
    bool of_body = ask->s3->op != S3_COMPLETE_UPLOAD;
    enum err err = integrity_read(&intake->arena, ask->head, ask->s3->said, ask->s3->said_count,
                                  ask->claim, of_body, is, &outcome->fault.message);
    intake->sha256_said = arena_copy(&intake->arena, ask->claim->payload_hash);
    if (err == ERR_BAD_MD5)
        s3_fault_add(&outcome->fault, S("Content-MD5"),
                     arena_copy(&intake->arena, http_head_get(ask->head, S("content-md5"))));
    if (!err && is->framed)
        err = may_be_framed(ask, outcome);
    if (err)
        return err;
    if (!is->framed && ask->head->chunked && is->has_length &&
        is->length != http_body_bytes(ask->body)) {
        outcome->fault.message = S("You did not provide the number of bytes specified by the "
                            "Content-Length HTTP header");
        return ERR_INCOMPLETE;
    }
    if (is->encoding.ptr)
        outcome->fields[outcome->field_count++] = (struct http_field){
            S("content-encoding"), arena_copy(&intake->arena, is->encoding) };
    return OK;
}

static void prepare(struct intake *intake, const struct intake_ask *ask)
{
    const struct integrity *is = &intake->is;
    if (is->chunks_signed)
        intake->chain = sigv4_chain_new(ask->sigv4, ask->claim, ask->secret_key);
    if (is->framed)
        intake->chunked = chunked_new(&(struct chunked_form){
            .trailer = is->sum_in_trailer ? checksum_header(is->sum) : S(""),
            .length = is->length, .chain = intake->chain, .trailer_must = is->trailer_must });
    if (is->has_sha256)
        intake->sha256 = checksum_begin(CHECKSUM_SHA256);
    if (is->has_md5)
        intake->md5 = checksum_begin(CHECKSUM_MD5);
    if (is->sum != CHECKSUM_COUNT)
        intake->sum = checksum_begin(is->sum);
    if (!intake->chunked && !intake->sha256 && !intake->md5 && !intake->sum)
        intake->at = intake->data_len = intake->len;    /* nothing is said of it */
}

static struct intake *intake_new(struct mailbox *box, struct http_body *body,
                                 void (*done)(void *arg, const struct intake_outcome *outcome),
                                 void (*lost)(void *arg), void *arg)
{
    struct intake *intake = must_alloc(sizeof(*intake));
    check(box && done && lost);
    intake->back = mailbox_ref(box);
    intake->body = body;
    intake->len = http_body_bytes(body);
    intake->done = done;
    intake->lost = lost;
    intake->arg = arg;
    list_init(&intake->link);
    return intake;
}

/* By a thread, or, if it is small, here. */
static void begin(struct workers *intakes, struct intake *intake)
{
    size_t todo = intake->keys || intake->list ? intake->len : intake->len - intake->at;
    bool waits = todo && http_body_in_file(intake->body);
    if (!intake->outcome.err && (todo > INLINE_BYTES || waits)) {
        workers_put(intakes, &intake->link);
        return;
    }
    if (!intake->outcome.err)
        check(work(intake, INLINE_BYTES + 1));
    deliver(&intake->mail);
}

void intake_start(struct workers *intakes, struct mailbox *box, const struct intake_ask *ask,
                  void (*done)(void *arg, const struct intake_outcome *outcome),
                  void (*lost)(void *arg), void *arg)
{
    struct intake *intake = intake_new(box, ask->body, done, lost, arg);
    intake->keys = ask->keys;
    intake->list = ask->list;
    intake->outcome.err = plan(intake, ask);
    if (!intake->outcome.err)
        prepare(intake, ask);
    begin(intakes, intake);
}

void intake_form(struct workers *intakes, struct mailbox *box, slice content_type,
                 struct http_body *body, struct arena *keep, struct form *ret,
                 void (*done)(void *arg, const struct intake_outcome *outcome),
                 void (*lost)(void *arg), void *arg)
{
    struct intake *intake = intake_new(box, body, done, lost, arg);
    intake->form = ret;
    intake->form_keep = keep;
    intake->form_type = arena_copy(&intake->arena, content_type);
    begin(intakes, intake);
}
