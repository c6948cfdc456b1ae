/* s3.h - an S3 server as an origin: declarations of its files. SPDX-License-Identifier: Apache-2.0
 *
 * s3.c opens an origin, s3_call.c runs its calls, s3_ask.c builds the request of each try,
 * s3_keys.c tells whether an answer refuses Penstock's own credentials, s3_down.c asks the breaker,
 * which tells whether the origin is down, s3_hedge.c tells when a request is sent a second time,
 * and s3_failure.c logs failures. */
#ifndef ORIGIN_S3_H
#define ORIGIN_S3_H

#include <pthread.h>
#include <stdatomic.h>

#include "origin/breaker.h"
#include "origin/endpoint.h"
#include "origin/exchange_pair.h"
#include "origin/hedge.h"
#include "origin/limiter.h"
#include "origin/kind.h"
#include "origin/provider.h"
#include "origin/region.h"
#include "origin/retry.h"

/* Limits log lines to one a second, because a failure usually hits every call. */
struct seldom {
    uint64_t logged_ms, unlogged;   /* time of the last line; number of lines left out since then */
};

/* The limits of time for calls, and for their tries. s3.c writes them before the first call. struct
 * origin_options (origin.h) says what each limit is. */
struct s3_timeouts {
    unsigned connect_ms, progress_ms, answer_ms;    /* for a try */
    unsigned wait_ms, total_ms;                     /* for a call; 0: no limit */
};

struct s3 {
    struct origin origin;
    struct carriers *carriers;
    struct arena keep;
    struct endpoint endpoint;
    struct provider *provider;
    slice region;
    const char *ca_file;
    struct s3_timeouts timeouts;
    unsigned tries_max;
    struct limiter limiter;
    struct regions regions;
    pthread_mutex_t lock;           /* guards sigv4, budget, breaker, hedge, failures,
                                     * refusals */
    struct sigv4 *sigv4;
    struct retry_budget budget;
    struct breaker breaker;
    struct hedge hedges[2];         /* of GETs, and of HEADs */
    struct seldom failures, refusals;
    /* True once own credentials were accepted, or a refused HEAD was logged. From then on, a
     * refused HEAD is logged only while keys_refused is true. */
    atomic_bool keys_taken;
    atomic_bool keys_refused;       /* the last answer about these credentials was a refusal */
};

/* s3_call.c: the functions of the kind (kind.h). */
void s3_call_start(struct origin *origin, struct origin_call *asked);
void s3_call_resume(struct origin_hook *hook);
void s3_call_cancel(struct origin_hook *hook);
void s3_call_ask_again(struct origin_hook *hook);

/* s3_ask.c: builds the request of a try, in the arena `keep`, and signs it with the credentials
 * `with`. Sets `region` to the region that the signature is for. */
void s3_ask_make(struct s3 *s3, struct arena *keep, const struct origin_call *asked,
                 const struct sigv4_credentials *with, char region[REGION_BYTES_MAX],
                 struct exchange_ask *ret);
/* Returns what happens if the request arrives twice. */
enum effect s3_effect(const struct origin_call *asked);
/* s3_down.c: asks the breaker of the origin (breaker.h), and logs its changes. refuses(): true if
 * a call would be refused now. admit(): to be called for each try right before it is sent; false if
 * it is refused. judge(): notes the result of a try. Only the first result of a try counts. */
struct s3_trial {                   /* what the breaker must know of a try */
    bool probe;                     /* the origin is down: the try tests whether it answers */
    bool judged;                    /* the breaker knows the result */
    uint64_t sent_ms;
};
bool s3_down_refuses(struct s3 *s3, const struct origin_call *asked) MUST_USE;
bool s3_down_admit(struct s3 *s3, const struct origin_call *asked, struct s3_trial *ret) MUST_USE;
void s3_down_judge(struct s3 *s3, const struct origin_call *asked, struct s3_trial *trial,
                   enum err err, int status);
/* s3_hedge.c: delay_ms(): the time after which the call's request may be sent again; 0: never.
 * begins(): false if it may not be sent again now; true: the call has a place in the limiter, which
 * it must leave when another call needs it. note(): to be called with the head of the answer. won():
 * the second request brought it. wins(): whether the head of one request counts, while the other
 * request is in progress. A head of the second request must be a good answer. */
unsigned s3_hedge_delay_ms(struct s3 *s3, const struct origin_call *asked);
bool s3_hedge_begins(struct s3 *s3, const struct origin_call *asked,
                     struct limiter_call *call) MUST_USE;
void s3_hedge_note(struct s3 *s3, const struct origin_call *asked,
                   const struct origin_reply *reply);
void s3_hedge_won(struct s3 *s3, const struct origin_call *asked);
bool s3_hedge_wins(bool is_second, int status);
/* s3_failure.c: logs the failure of a call, at most once a second. advice(): what the operator can
 * do about a failure that libcurl's message does not explain, or "". */
void s3_failure_log(struct s3 *s3, enum s3_op op, unsigned tries, const struct exchange_end *end);
const char *s3_failure_advice(const struct exchange_end *end);
/* s3_keys.c: true if an answer of this status may be a refusal of Penstock's own credentials. */
bool s3_keys_in_doubt(int status);
void s3_keys_taken(struct s3 *s3);    /* records an answer that is no refusal */
/* Returns true if the answer is a refusal, and logs the refusal. The answer to a HEAD has no
 * document with a reason, so the last answer that had a document decides. */
bool s3_keys_refused(struct s3 *s3, enum s3_op op, int status, slice document);
/* Returns true if the source may have newer credentials than the ones that this answer refuses. */
bool s3_keys_may_be_old(int status, slice document);
/* For a request that Penstock signed with a client's origin identity: returns true if the origin
 * found the signature or its time wrong. If the origin refuses the client's key, the client gets
 * the answer. */
bool s3_signing_refused(struct s3 *s3, const struct origin_call *asked, int status, slice document);
bool s3_may_log(struct s3 *s3, struct seldom *which, uint64_t *ret_unlogged);
/* Returns true if no field contains a byte that could split the head. */
bool s3_fields_are_sendable(const struct origin_call *asked);

#endif
