/* doctor_call.h - one call to an origin, waited for. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DOCTOR_CALL_H
#define CLI_DOCTOR_CALL_H

#include <stdatomic.h>

#include "cli/doctor.h"
#include "origin/origin.h"

#define DOCTOR_CALL_MS 10000u         /* of one call */
#define DOCTOR_BODY_BYTES (2 * MIB)   /* that visit->body has room for */

/* An origin that is measured. */
struct place {
    struct doctor *doctor;
    const struct config_origin *from;
    struct origin *origin;
    const struct sigv4_credentials *as;    /* NULL: Penstock's own credentials */
    slice name;                       /* " NAME" if there are several origins, else empty */
};

/* The caller sets the call's operation and names, bytes_max and body. */
struct visit {
    struct origin_call call;
    atomic_bool over;
    enum err err;
    int status;
    uint64_t first_ns;                /* time to the head */
    uint64_t head_ns, last_ns;        /* when the head came, and the latest byte */
    uint64_t bytes, bytes_max;        /* received; the call is canceled then */
    char *body;                       /* the first DOCTOR_BODY_BYTES, or NULL */
};

/* Makes the call, and returns when it has ended. */
void doctor_call(const struct place *place, struct visit *visit);

#endif
