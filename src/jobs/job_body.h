/* job_body.h - the body of a request for a job. SPDX-License-Identifier: Apache-2.0
 *
 *   {"prefix": P, "mode": "warm", "pin": false, "ranges": ["bytes=0-65535", "bytes=-65536"]}
 *   {"keys": [ITEM, ...], ...}
 *   {"keys": [], ...}  and then an ITEM on each line
 *
 * An ITEM is one of a batch (s3/items.h), without a version or condition. A list of a million keys
 * is read line by line, so it needs little memory. The functions do no I/O; any thread may call
 * them. */
#ifndef JOBS_JOB_BODY_H
#define JOBS_JOB_BODY_H

#include "jobs/job_state.h"

#define JOB_HEAD_MAX (4 * MIB)        /* H8: of the JSON object */
#define JOB_LINE_MAX (16 * KIB)       /* H8: of a line behind it */

/* Reads the JSON object that `bytes` begins with, and ignores the bytes behind it. Sets the members
 * of *ret that the body has, and *ret_items to the items of "keys". *ret_bytes is the size of the
 * object. Returns OK, or ERR_BAD_ARGUMENT; *ret_why is then a sentence for people. The results lie
 * in keep. */
enum err job_body_read(struct arena *keep, slice bytes, struct job_spec *ret,
                       struct items *ret_items, size_t *ret_bytes, slice *ret_why) MUST_USE;
/* Reads a line behind the object: one item. Errors: as above. */
enum err job_body_read_line(struct arena *keep, slice line, struct item *ret,
                            slice *ret_why) MUST_USE;

#endif
