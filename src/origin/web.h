/* web.h - one small question over HTTP, waited for. SPDX-License-Identifier: Apache-2.0
 *
 * For what is asked now and then by a thread of its own: credentials. Never on a loop or a carrier:
 * it blocks until the answer is whole, the time is up, or *stop was set. */
#ifndef ORIGIN_WEB_H
#define ORIGIN_WEB_H

#include <stdatomic.h>

#include "origin/curl.h"

struct web_ask {
    const char *method;
    slice url;                          /* scheme://host[:port]/path?query */
    const struct http_field *fields;    /* beside Host */
    size_t field_count;
    slice body;                         /* of a POST; a PUT has an empty one */
    const char *ca_file;                /* NULL: the system's store */
    unsigned time_ms;                   /* for all of it */
    const atomic_bool *stop;            /* may be NULL */
};

struct web_reply {
    int status;
    slice body;                         /* at most 64 KiB */
};

/* An answer of any status is OK. Else *ret_why says what went wrong, in keep. */
enum err web_get(struct carriers *carriers, const struct web_ask *ask, struct arena *keep,
                 struct web_reply *ret, slice *ret_why) MUST_USE;

#endif
