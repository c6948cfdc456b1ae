/* web.h - one small HTTP request that blocks its caller. SPDX-License-Identifier: Apache-2.0
 *
 * This file is for rare requests, such as a request for credentials, from a thread that may block.
 * The request blocks until the whole answer is there, the time is over, or *stop was set. Never
 * call it on a thread that serves clients (an HTTP loop) or talks to origins (a carrier). */
#ifndef ORIGIN_WEB_H
#define ORIGIN_WEB_H

#include <stdatomic.h>

#include "base/arena.h"
#include "s3/request_head.h"

struct web_ask {
    const char *method;                 /* GET, POST, PUT or DELETE */
    slice url;                          /* scheme://host[:port]/path?query */
    const struct http_field *fields;    /* Host is added if it is missing here */
    size_t field_count;
    slice body;                         /* of a POST or PUT; may be empty */
    const char *ca_file;                /* NULL: the system's store */
    unsigned time_ms;                   /* limit for the whole request */
    size_t body_bytes_max;              /* limit for the body of the answer; 0: 64 KiB */
    const atomic_bool *stop;            /* may be NULL */
    void (*waiting)(void *arg);         /* called about every 100 ms until the end; may be NULL */
    void *arg;
};

struct web_reply {
    int status;
    slice body;
    slice software;                     /* the header Server; empty: there was none */
    slice retry_after, date;            /* the same of Retry-After and Date */
};

/* Returns OK for an answer with any status. Otherwise *ret_why, in keep, says what went wrong. */
enum err web_get(const struct web_ask *ask, struct arena *keep, struct web_reply *ret,
                 slice *ret_why) MUST_USE;

#endif
