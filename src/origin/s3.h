/* s3.h - the s3 kind of origins: what its files share. SPDX-License-Identifier: Apache-2.0
 *
 * s3.c makes an origin, s3_call.c moves its calls along, s3_ask.c builds what each try sends,
 * s3_keys.c says whether an answer refuses our own credentials. */
#ifndef ORIGIN_S3_H
#define ORIGIN_S3_H

#include <pthread.h>
#include <stdatomic.h>

#include "origin/curl.h"
#include "origin/endpoint.h"
#include "origin/limiter.h"
#include "origin/kind.h"
#include "origin/provider.h"
#include "origin/region.h"
#include "origin/retry.h"

/* At most one line a second: what goes wrong goes wrong for every call. */
struct seldom {
    uint64_t logged_ms, unlogged;   /* the last line; how many were left away since */
};

struct s3 {
    struct origin origin;
    struct carriers *carriers;
    struct arena keep;
    struct endpoint endpoint;
    struct provider *provider;
    slice region;
    const char *ca_file;
    unsigned connect_ms, progress_ms, answer_ms, wait_ms, total_ms, tries_max;
    struct limiter limiter;
    struct regions regions;
    pthread_mutex_t lock;           /* for what follows */
    struct sigv4 *sigv4;
    struct retry_budget budget;
    struct seldom failures, refusals;
    atomic_bool keys_taken;         /* it has answered what was signed with our keys */
    atomic_bool keys_refused;       /* the last it said of them */
};

/* s3_call.c: as kind.h has them. */
void s3_call_start(struct origin *origin, struct origin_call *asked);
void s3_call_resume(struct origin_hook *hook);
void s3_call_cancel(struct origin_hook *hook);
void s3_call_ask_again(struct origin_hook *hook);

/* s3_ask.c: what this try sends, in keep, signed with `with`; `region`: what it is signed for. */
void s3_ask_make(struct s3 *s3, struct arena *keep, const struct origin_call *asked,
                 const struct sigv4_credentials *with, char region[REGION_BYTES_MAX],
                 struct exchange_ask *ret);
enum effect s3_effect(const struct origin_call *asked);    /* of happening twice */
/* s3_keys.c: may an answer of this status say that our own credentials are refused? */
bool s3_keys_in_doubt(int status);
void s3_keys_taken(struct s3 *s3);    /* any other answer of its own */
/* Does it? A HEAD's says nothing (no document): then the last answer that did is believed. Logs. */
bool s3_keys_refused(struct s3 *s3, enum s3_op op, int status, slice document);
/* May other credentials of the same source be taken, where these were refused? */
bool s3_keys_may_be_old(int status, slice document);
/* Of what was signed as a client: does it find fault with our signature, not with whose it is? */
bool s3_signing_refused(struct s3 *s3, const struct origin_call *asked, int status, slice document);
bool s3_may_log(struct s3 *s3, struct seldom *which, uint64_t *ret_unlogged);
/* No byte in them that could split a head. */
bool s3_fields_are_sendable(const struct origin_call *asked);

#endif
