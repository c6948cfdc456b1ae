/* intake.h - the intake of request bodies: framing removed, every checksum verified.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An intake works on one body that the client has sent completely. It removes the framing (what the
 * encoding aws-chunked adds to the data), and verifies checksums and signatures. If the body is a
 * list or a form, it also reads the body. */
#ifndef FRONT_INTAKE_H
#define FRONT_INTAKE_H

#include "base/workers.h"
#include "http/http.h"
#include "s3/form.h"
#include "s3/items.h"

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
    bool too_many;                /* the list was refused: it has more than items_max */
};

struct intake_outcome;

/* The caller must keep the body, and must not touch it until done() or lost() is called: the intake
 * writes to it. head, s3, claim and sigv4 are needed only until intake_start returns. */
struct intake_ask {
    struct mailbox *box;             /* of the loop on which done() is called */
    struct http_body *body;
    const struct request_head *head;
    const struct s3_request *s3;
    const struct sigv4_claim *claim;
    struct sigv4 *sigv4;             /* the loop's */
    slice secret_key;                /* of the claim's access key, for signed chunks */
    /* At most one of keys, list and form is set. The intake fills it in from the body, with memory
     * from `keep`. The caller must touch neither that member nor `keep` before done() or lost().
     * form_read reads a form; its result is outcome->err. A form has neither framing nor checksums,
     * and its body stays as it came. */
    struct arena *keep;
    struct intake_keys *keys;
    struct intake_list *list;
    struct form *form;
    /* Exactly one of these is called. done() runs on the loop of `box`. It runs before intake_start
     * returns if no thread is needed: for a fault in the head, a body with nothing to verify or to
     * parse, or a body of up to 64 KiB in memory. If the loop of `box` has gone, lost() runs
     * on another thread. */
    void (*done)(void *arg, const struct intake_outcome *outcome);
    void (*lost)(void *arg);
    void *arg;
};

#define INTAKE_FIELDS_MAX 2
#define INTAKE_DISK_FAILED \
    "Penstock kept the request body in its cache folder, and the disk failed. Please try again. " \
    "The operator of Penstock must check that disk."
#define INTAKE_UNSIGNED_CHUNKS \
    "Anonymous requests don't support this x-amz-content-sha256 value. Please use " \
    "UNSIGNED-PAYLOAD or STREAMING-UNSIGNED-PAYLOAD-TRAILER."

/* The slices are valid until done() returns. */
struct intake_outcome {
    enum err err;
    struct s3_fault fault;           /* with an err: the error's message and elements */
    size_t bytes;                    /* size of the data, now at the beginning of the body */
    /* Header fields for the origin, in place of those that described the framing. */
    struct http_field fields[INTAKE_FIELDS_MAX];
    size_t field_count;
};

void intake_start(struct intakes *intakes, const struct intake_ask *ask);

#endif
