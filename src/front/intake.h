/* intake.h - bodies are taken in: their framing off, every sum right.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FRONT_INTAKE_H
#define FRONT_INTAKE_H

#include "base/mailbox.h"
#include "base/workers.h"
#include "http/http.h"
#include "s3/form.h"
#include "s3/items.h"
#include "s3/request.h"
#include "s3/sigv4.h"

struct workers *intakes_new(void) MUST_USE;

/* What DeleteObjects names, in `keep`. */
struct intake_keys {
    struct arena *keep;
    struct deletion *list;
    size_t count;
};

/* The list of a batch, in `keep`. */
struct intake_list {
    struct arena *keep;
    size_t items_max;
    struct items_batch batch;
    bool too_many;                /* that is what is wrong with it */
};

/* A body as it came; it must stay, is written to and not read by others meanwhile. The rest is
 * needed only until intake_start returns. */
struct intake_ask {
    struct http_body *body;
    const struct http_head *head;
    const struct s3_request *s3;
    const struct sigv4_claim *claim;
    struct sigv4 *sigv4;             /* the loop's, and the secret of the claim's key: */
    slice secret_key;                /* for chunks that are signed */
    struct intake_keys *keys;        /* NULL, or: is to be read, too; not looked at before done() */
    struct intake_list *list;        /* likewise */
};

#define INTAKE_FIELDS_MAX 2
#define INTAKE_DISK_FAILED "The disk that the request body lay on failed. Please try again."
#define INTAKE_UNSIGNED_CHUNKS \
    "Anonymous requests don't support this x-amz-content-sha256 value. Please use " \
    "UNSIGNED-PAYLOAD or STREAMING-UNSIGNED-PAYLOAD-TRAILER."

/* What is known of it then. Slices are good until done() returns. */
struct intake_outcome {
    enum err err;
    struct s3_fault fault;           /* err: what to say of it */
    size_t bytes;                    /* of the data, which the body begins with now */
    struct http_field fields[INTAKE_FIELDS_MAX];    /* sent in place of those of the framing */
    size_t field_count;
};

/* done() is called once: on the loop of `box`, or at once for up to 64 KiB in memory. Instead of it
 * lost(), on another thread, if that loop has gone. */
void intake_start(struct workers *intakes, struct mailbox *box, const struct intake_ask *ask,
                  void (*done)(void *arg, const struct intake_outcome *outcome),
                  void (*lost)(void *arg), void *arg);

/* Reads a form (form_read) in the same way: outcome->err is its answer, *ret and keep are not to be
 * looked at before that. A form stays as it came. */
void intake_form(struct workers *intakes, struct mailbox *box, slice content_type,
                 struct http_body *body, struct arena *keep, struct form *ret,
                 void (*done)(void *arg, const struct intake_outcome *outcome),
                 void (*lost)(void *arg), void *arg);

#endif
