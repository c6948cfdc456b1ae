/* intake.c - the intake of request bodies: framing removed, every checksum verified.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The framing is what the encoding aws-chunked adds to the data: a line for each chunk, and a
 * trailer.
 * No origin gets a byte before the whole body is verified: digest, checksums, signatures of chunks.
 * The body is complete when the intake starts, in memory or in a file. The intake reads the body
 * once, in parts that fit into the processor's cache. It decodes each part, adds it to the
 * checksums, and writes the data back in place.
 *
 * The work takes seconds for gigabytes, and a read of a file may wait for the disk. So threads do
 * the work; a loop does it only for a small body in memory. Bodies in files have threads of their
 * own: if the disk hangs, these threads hang, and the intake of bodies in memory still works.
 * Large bodies take turns, so that one of 5 GiB does not make other bodies wait for long. */
#include "front/intake.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "s3/chunked.h"
#include "s3/encode.h"
#include "s3/integrity.h"
#include "s3/xml.h"

#define INLINE_BYTES (64 * KIB)
#define PART_BYTES (256 * KIB)
#define TURN_BYTES (32 * MIB)
#define THREADS_MAX 8u
static_assert(FORM_FIELDS_BYTES_MAX <= PART_BYTES,
              "the fields of a form fit into the buffer of a part");

struct intake {
    struct mail mail;
    struct list link;
    struct arena arena;
    struct intake_ask ask;
    size_t len, at, data_len;        /* bytes of the body; bytes read; bytes of data in them */
    bool in_file;                    /* the body is read from a disk, which may hang */
    struct integrity is;
    slice sha256_given;
    struct sigv4_chain *chain;
    struct chunked *chunked;
    struct checksum_run *sha256, *md5, *sum;
    slice form_type;
    struct intake_outcome outcome;
};

static void intake_free(struct intake *intake)
{
    chunked_free(&intake->chunked);
    sigv4_chain_free(&intake->chain);
    checksum_free(&intake->sha256);
    checksum_free(&intake->md5);
    checksum_free(&intake->sum);
    mailbox_unref(&intake->ask.box);
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

/* Sets the message for an error of the framing. A wrong signature, a chunk that is too small, and a
 * wrong trailer keep the messages of their errors. */
static void explain_framing(struct intake *intake)
{
    struct chunked_fault fault = chunked_fault(intake->chunked);
    if (intake->outcome.err && fault.what)
        intake->outcome.fault.message = arena_printf(
            &intake->arena, "The request body is not valid aws-chunked: %s (at byte %" PRIu64
            " of the body, in chunk %" PRIu64 ").",
            fault.what, fault.at, fault.chunk);
}

static void fail_disk(struct intake *intake)
{
    intake->outcome.err = ERR_LIMIT;
    intake->outcome.fault.message = S(INTAKE_DISK_FAILED);
}

static void work_on_part(struct intake *intake, char *buffer)
{
    size_t len = PART_BYTES;
    char *part = http_body_part(intake->ask.body, intake->at, buffer, &len);
    slice data = { part, len };
    if (part && intake->chunked)
        intake->outcome.err = chunked_feed(intake->chunked, data, part, &data.len);
    check(data.len <= len && len <= PART_BYTES && intake->data_len <= intake->at);
    if (part)
        add(intake, data);    /* before the write, which may overwrite these bytes */
    if (!part || (intake->chunked &&
                   !http_body_write(intake->ask.body, intake->data_len, part, data.len)))
        fail_disk(intake);
    intake->at += len;
    intake->data_len += data.len;
}

/* Reads the fields of a form, and finds the beginning of its file. */
static void begin_form(struct intake *intake, char *buffer)
{
    struct form *form = intake->ask.form;
    size_t have = MIN(intake->len, FORM_FIELDS_BYTES_MAX);
    if (!http_body_read(intake->ask.body, 0, buffer, have)) {
        fail_disk(intake);
        return;
    }
    intake->outcome.err =
        form_read(intake->ask.keep, intake->form_type, (slice){ buffer, have }, form);
    if (!intake->outcome.err && form->file_at == intake->len)
        intake->outcome.err = ERR_BAD_FORM;    /* the body ends before the file begins */
    intake->at = form->file_at;
}

/* Looks for the end of the form's file in the next part. */
static void search_part(struct intake *intake, char *buffer)
{
    struct form *form = intake->ask.form;
    size_t have = MIN(intake->len - intake->at, PART_BYTES), further;
    if (!http_body_read(intake->ask.body, intake->at, buffer, have)) {
        fail_disk(intake);
        return;
    }
    bool ends = form_file_ends(form, (slice){ buffer, have }, &further);
    bool last = intake->at + have == intake->len;
    form->file_bytes = intake->at + further - form->file_at;
    intake->at = ends || last ? intake->len : intake->at + further;
    if (last && !ends)
        intake->outcome.err = ERR_BAD_FORM;
}

static bool copy_data(struct intake *intake, slice *ret)
{
    size_t bytes = intake->data_len;
    char *copy = arena_alloc(&intake->arena, MAX(bytes, 1));
    *ret = (slice){ copy, bytes };
    if (http_body_read(intake->ask.body, 0, copy, bytes))
        return true;
    fail_disk(intake);
    return false;
}

static void read_keys(struct intake *intake, slice data)
{
    struct intake_keys *keys = intake->ask.keys;
    intake->outcome.err = xml_read_delete(intake->ask.keep, data, &keys->list, &keys->count);
}

static void read_list(struct intake *intake, slice data)
{
    struct intake_list *list = intake->ask.list;
    struct arena *keep = intake->ask.keep;
    slice why = S("");
    enum err err = items_read_batch(keep, data, list->items_max, &list->batch, &why);
    list->too_many = err == ERR_LIMIT;
    intake->outcome.err = err ? ERR_BAD_ARGUMENT : OK;
    intake->outcome.fault.message = err == ERR_LIMIT
        ? arena_printf(keep, "%.*s: ask for fewer items at once", SLICE_ARG(why)) : why;
}

static bool is_right(struct checksum_run *run, const uint8_t *want, size_t bytes, uint8_t *ret_sum)
{
    if (!run)
        return true;
    checksum_get(run, ret_sum);
    return memcmp(ret_sum, want, bytes) == 0;
}

/* Adds the given sum and the computed sum to the error, as S3 does. */
static void explain_sha256(struct intake *intake, const uint8_t *sum)
{
    char hex[64];
    hex_write(sum, 32, hex);
    s3_fault_add(&intake->outcome.fault, S("ClientComputedContentSHA256"), intake->sha256_given);
    s3_fault_add(&intake->outcome.fault, S("S3ComputedContentSHA256"),
                 arena_copy(&intake->arena, (slice){ hex, sizeof(hex) }));
}

static void explain_md5(struct intake *intake, const uint8_t *sum)
{
    char hex[32];
    struct s3_fault *fault = &intake->outcome.fault;
    hex_write(intake->is.md5, 16, hex);
    fault->message = S("The Content-MD5 you specified did not match what we received.");
    s3_fault_add(fault, S("CalculatedDigest"),
                 base64_write(&intake->arena, (slice){ (const char *)sum, 16 }));
    s3_fault_add(fault, S("ExpectedDigest"),
                 arena_copy(&intake->arena, (slice){ hex, sizeof(hex) }));
}

static void add_field(struct intake_outcome *outcome, slice name, slice value)
{
    check(outcome->field_count < countof(outcome->fields));
    outcome->fields[outcome->field_count++] = (struct http_field){ name, value };
}

static enum err end_framing(struct intake *intake)
{
    struct intake_outcome *outcome = &intake->outcome;
    struct integrity *is = &intake->is;
    enum err err = chunked_end(intake->chunked, &outcome->fault.message);
    if (err || !is->sum_in_trailer)
        return err;
    slice header = checksum_header(is->sum), value = chunked_trailer(intake->chunked);
    add_field(outcome, header, arena_copy(&intake->arena, value));
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
    if (!is_right(intake->sha256, is->sha256, sizeof(is->sha256), sum)) {
        explain_sha256(intake, sum);
        return ERR_BAD_SHA256;
    }
    if (!is_right(intake->md5, is->md5, sizeof(is->md5), sum)) {
        explain_md5(intake, sum);
        return ERR_BAD_DIGEST;
    }
    if (is_right(intake->sum, is->sum_value, intake->sum ? checksum_bytes(is->sum) : 0, sum))
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
        explain_framing(intake);
    if (!outcome->err && intake->chunked)
        outcome->err = end_framing(intake);
    if (!outcome->err)
        outcome->err = compare(intake);
    slice data;
    bool reads = !outcome->err && (intake->ask.keys || intake->ask.list);
    if (reads && copy_data(intake, &data))
        (intake->ask.keys ? read_keys : read_list)(intake, data);
    outcome->bytes = intake->data_len;
}

/* Works on the next bytes. Returns true if the intake is over. */
static bool work(struct intake *intake, size_t bytes)
{
    size_t until = MIN(intake->at + bytes, intake->len);
    bool copies = intake->ask.form || intake->in_file;
    char *buffer = copies ? malloc(PART_BYTES) : NULL;
    check(buffer || !copies);
    if (intake->ask.form && !intake->at)
        begin_form(intake, buffer);
    while (!intake->outcome.err && intake->at < until)
        (intake->ask.form ? search_part : work_on_part)(intake, buffer);
    free(buffer);
    if (!intake->outcome.err && intake->at < intake->len)
        return false;
    conclude(intake);
    return true;
}

/* ---- the threads ---- */

static void deliver(struct mail *mail)    /* runs on the loop */
{
    struct intake *intake = container_of(mail, struct intake, mail);
    intake->ask.done(intake->ask.arg, &intake->outcome);
    intake_free(intake);
}

static void finish(struct intake *intake)
{
    intake->mail.deliver = deliver;
    if (mailbox_post(intake->ask.box, &intake->mail))
        return;
    intake->ask.lost(intake->ask.arg);    /* the loop is gone, and the request with it */
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

struct intakes {
    struct workers *in_memory, *in_files;
};

struct intakes *intakes_new(void)
{
    struct intakes *intakes = must_alloc(sizeof(*intakes));
    unsigned most = MIN(MAX(cores_available(), 2u), THREADS_MAX);
    intakes->in_memory = workers_new(most, "intake", take_turn);
    intakes->in_files = workers_new(most, "intake-file", take_turn);
    check(intakes->in_memory && intakes->in_files);
    return intakes;
}

void intakes_free(struct intakes **intakes)
{
    struct intakes *mine = *intakes;
    *intakes = NULL;
    workers_free(&mine->in_memory);
    workers_free(&mine->in_files);
    free(mine);
}

/* ---- the start ---- */

/* Only the body of an object or a part may come in chunks; S3 refuses chunks in other bodies.
 * Penstock must refuse them itself, because the origin never sees the chunks. Signed chunks need a
 * request signed by version 4. */
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
    enum err err = integrity_read(&intake->arena, ask->head, ask->s3, ask->claim, of_body, is,
                                  &outcome->fault.message);
    intake->sha256_given = arena_copy(&intake->arena, ask->claim->payload_hash);
    if (err == ERR_BAD_MD5)
        s3_fault_add(&outcome->fault, S("Content-MD5"),
                     arena_copy(&intake->arena, request_head_get(ask->head, S("content-md5"))));
    if (!err && is->framed)
        err = may_be_framed(ask, outcome);
    if (err)
        return err;
    if (!is->framed && ask->head->chunked && is->has_length &&
        is->length != http_body_bytes(ask->body)) {
        /* S3's own words, which clients compare, although it is another header here */
        outcome->fault.message = S("You did not provide the number of bytes specified by the "
                            "Content-Length HTTP header");
        return ERR_INCOMPLETE;
    }
    if (is->encoding.ptr)
        add_field(outcome, S("content-encoding"), arena_copy(&intake->arena, is->encoding));
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
        intake->at = intake->data_len = intake->len;    /* there is nothing to verify */
}

/* Gives a body to a thread if there is work on it, and the body is large or in a file. Otherwise
 * ends the intake at once. */
static void begin(struct intakes *intakes, struct intake *intake)
{
    bool reads = intake->ask.keys || intake->ask.list;
    size_t todo = reads ? intake->len : intake->len - intake->at;
    if (!intake->outcome.err && (todo > INLINE_BYTES || (todo && intake->in_file))) {
        workers_put(intake->in_file ? intakes->in_files : intakes->in_memory, &intake->link);
        return;
    }
    if (!intake->outcome.err)
        check(work(intake, INLINE_BYTES + 1));
    deliver(&intake->mail);
}

void intake_start(struct intakes *intakes, const struct intake_ask *ask)
{
    struct intake *intake = must_alloc(sizeof(*intake));
    check(ask->box && ask->done && ask->lost);
    check((ask->keys != NULL) + (ask->list != NULL) + (ask->form != NULL) <= 1);
    intake->ask = *ask;
    intake->ask.box = mailbox_ref(ask->box);
    intake->len = http_body_bytes(ask->body);
    intake->in_file = intake->len && http_body_in_file(ask->body);
    if (ask->form)
        intake->form_type =
            arena_copy(&intake->arena, request_head_get(ask->head, S("content-type")));
    else if ((intake->outcome.err = plan(intake, ask)) == OK)
        prepare(intake, ask);
    begin(intakes, intake);
}
