/* answer.h - the answer of one node to a question, as its bytes come.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The answer is read frame by frame (frame.h). A head that is as asked for goes to the call, as the
 * head that the origin would give; the bytes follow. Threads: that of the exchange. */
#ifndef PEERS_ANSWER_H
#define PEERS_ANSWER_H

#include <stdatomic.h>

#include "origin/curl.h"
#include "origin/origin.h"
#include "peers/frame.h"
#include "peers/question.h"

struct answer {
    const struct peer_question *asked;
    struct origin_call *call;
    const atomic_bool *canceled;      /* the call needs no more bytes */
    struct frame_reader reader;
    const char *why, *slow;           /* the answer is wrong, or too slow; static texts */
    uint64_t frame_ms, moved_ms;      /* when it last moved, or had a WAIT; when it last moved */
    size_t since;                     /* bytes that came since it last moved */
    size_t taken;                     /* bytes of it that were taken before a pause */
    slice held;                       /* ... and the payload that the call did not take */
    uint64_t bytes;                   /* of the object that the call took */
    char word[16];                    /* the word of a decline, as far as it is known here */
    bool acknowledged, declined;
    bool given;                       /* the call has got the head */
};

/* The question, the call and the flag must outlive the answer. */
void answer_begin(struct answer *answer, const struct peer_question *asked,
                  struct origin_call *call, const atomic_bool *canceled);
void answer_end(struct answer *answer);    /* safe at any time, also twice */

void answer_take_status(struct answer *answer, int status);
/* Takes bytes of the body. Returns EXCHANGE_PAUSE if the call pauses: libcurl then delivers the same
 * bytes again, perhaps in other pieces. EXCHANGE_END: no more of them are of use. */
enum exchange_take answer_take(struct answer *answer, slice bytes) MUST_USE;

/* True if the answer must be given up, because it comes too slowly, or its end does not come. To be
 * called now and then, also if no bytes come: libcurl has no callback for a trailer, for example. */
bool answer_is_late(struct answer *answer, uint64_t now_ms) MUST_USE;

/* True if nothing is missing: all bytes have come, or the node has declined. */
bool answer_is_whole(const struct answer *answer);
/* True if the node has declined because of an answer of the origin, which other nodes would get, too:
 * there is no such object, for example. */
bool answer_is_of_origin(const struct answer *answer);
/* True if the call has got all that it asked for. */
bool answer_is_complete(const struct answer *answer);

#endif
