/* intake.h - the intake of request bodies: framing removed, every checksum verified.
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

/* The threads that do the work of intakes. */
struct intakes;
struct intakes *intakes_new(void) MUST_USE;
void intakes_free(struct intakes **intakes);    /* finishes the waiting bodies first */

/* The keys that a DeleteObjects lists. */
struct intake_keys {
    struct deletion *list;
    size_t count;
};

/* The list of a batch. */
struct intake_list {
    size_t items_max;
    struct items_batch batch;
    bool too_many;                /* the list was refused because it has more items */
};

struct intake_outcome;

/* The caller keeps the body as it came, and leaves it alone until done() is called: the intake
 * writes to it. head, s3, claim and sigv4 are needed only until intake_start returns. */
struct intake_ask {
    struct mailbox *box;             /* of the loop on which done() is called */
    struct http_body *body;
    const struct request_head *head;
    const struct s3_request *s3;
    const struct sigv4_claim *claim;
    struct sigv4 *sigv4;             /* the loop's */
    slice secret_key;                /* of the claim's access key, for signed chunks */
    /* At most one of keys, list and form is set: the intake reads it from the body, with its memory
     * in `keep`. The caller does not touch it before done(). A form is read by form_read, whose
     * result is outcome->err. A form has neither framing nor checksums, and its body stays as it
     * came. */
    struct arena *keep;
    struct intake_keys *keys;
    struct intake_list *list;
    struct form *form;
    /* Exactly one of these is called. done() runs on the loop of `box`; for a body of up to 64 KiB
     * in memory it runs before intake_start returns. If that loop has gone, lost() runs on another
     * thread. */
    void (*done)(void *arg, const struct intake_outcome *outcome);
    void (*lost)(void *arg);
    void *arg;
};

#define INTAKE_FIELDS_MAX 2
#define INTAKE_DISK_FAILED "Penstock kept the request body on a disk, and that disk failed. Please try again."
#define INTAKE_UNSIGNED_CHUNKS \
    "Anonymous requests don't support this x-amz-content-sha256 value. Please use " \
    "UNSIGNED-PAYLOAD or STREAMING-UNSIGNED-PAYLOAD-TRAILER."

/* The slices are valid until done() returns. */
struct intake_outcome {
    enum err err;
    struct s3_fault fault;           /* with an err: the error's message and elements */
    size_t bytes;                    /* of the data, now at the beginning of the body */
    struct http_field fields[INTAKE_FIELDS_MAX];    /* they replace the fields of the framing */
    size_t field_count;
};

void intake_start(struct intakes *intakes, const struct intake_ask *ask);

#endif
