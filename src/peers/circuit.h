/* circuit.h - the circuit breaker of a node: decides whether the node may be asked now.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     state      the node may be asked                         what changes the state
 *     CLOSED     by CIRCUIT_QUESTIONS_MAX questions at a time  a failure: DOUBTED
 *     DOUBTED    by nobody; questions wait a moment            a hello, sent at once
 *     TRIAL      by one question, until one is acknowledged    that question
 *     OPEN       by nobody; questions pass it by               a hello, sent after a pause
 *
 * One late answer says little: the node, this node or the network was busy for a moment. So it
 * costs that question alone, which goes on to the next node. A hello, which every node answers at
 * once, then tells a busy node from a dead one, and no client waits for it. After the hello, a node
 * that was late is asked by one question at a time, until it acknowledges one: its loops may answer
 * a hello while its disk hangs. Other questions wait for the one on trial; if the circuit was
 * open before, they pass the node by. The circuit opens
 *
 *   - if the hello gets no answer, or says that the node is stopping;
 *   - if a second question is late, and no question was acknowledged since the first;
 *   - if a second answer is cut, and no answer came whole since the first;
 *   - at once, if bytes of the node are wrong. Then no hello closes it before the longest pause is
 *     over, because a node with a bad disk or bad memory says hello like any other.
 *
 * A question that was under way when the doubt began says nothing new: many fail at the same time,
 * and for the same reason. So a dead node costs at most one deadline of each question that was
 * under way, and nothing of later ones. Pure; time is an argument. The caller holds a lock. */
#ifndef PEERS_CIRCUIT_H
#define PEERS_CIRCUIT_H

#include "base/base.h"

/* Questions to one node at a time, and so connections to it. With 25 ms a question (a small object
 * that the node has to fetch), 32 questions bring 1,280 objects a second; of whole segments, four
 * fill any network. 32 TLS handshakes at once take a node about half of the deadline of an
 * acknowledgement (100 ms). And 32 nodes may ask so much of one node (peer_requests). */
#define CIRCUIT_QUESTIONS_MAX 32u
/* Questions wait for the result of a doubt until this time after it began: as long as for an
 * acknowledgement. After that, they pass the node by. */
#define CIRCUIT_DOUBT_MS 100u
/* The pause before a hello, while the circuit is open: the first one, and the longest. It doubles
 * with each failure, and begins anew after CALM_MS without one. */
#define CIRCUIT_PAUSE_MS 500u
#define CIRCUIT_PAUSE_MS_MAX 30000u
#define CIRCUIT_CALM_MS 60000u

enum circuit_state { CIRCUIT_OPEN, CIRCUIT_CLOSED, CIRCUIT_DOUBTED, CIRCUIT_TRIAL };

struct circuit {                    /* all zeroes at first: a node that never answered */
    enum circuit_state state;
    unsigned under_way;             /* questions that were admitted and have not left */
    uint64_t admitted;              /* all questions so far; each has its number */
    uint64_t known;                 /* failures of questions up to this number say nothing new */
    uint64_t trial;                 /* the number of the question on trial; 0: none */
    bool returns;                   /* it was open, and no question was acknowledged since */
    unsigned late, cut;             /* since the last acknowledgement; the last whole answer */
    uint64_t doubted_ms;            /* when the latest doubt began */
    uint64_t pause_ms, failed_ms;
    uint64_t hello_ms;              /* while the circuit is open: when the next hello is due */
    uint64_t bad_until_ms;          /* its bytes were wrong: until then, no hello closes it */
};

/* ASK: the question has `number`, and must leave. WAIT: ask again when the state has changed, or a
 * question has left. PASS: the node can't be asked, and is not worth a wait. */
enum circuit_say { CIRCUIT_ASK, CIRCUIT_WAIT, CIRCUIT_PASS };
enum circuit_say circuit_admit(struct circuit *circuit, uint64_t now_ms,
                               uint64_t *ret_number) MUST_USE;
void circuit_leave(struct circuit *circuit, uint64_t number);

/* ACK: a question was acknowledged in time. WHOLE: it was declined in time, or its answer is
 * complete. LATE: it got no acknowledgement in time, or no connection. CUT: it was acknowledged,
 * and its answer ended early. BAD: its answer was wrong. HELLO, NO_HELLO: the result of a hello.
 * NO_CHECK: a hello that was sent for a doubt got no answer in the short time that it has. */
enum circuit_event {
    CIRCUIT_ACK, CIRCUIT_WHOLE, CIRCUIT_LATE, CIRCUIT_CUT, CIRCUIT_BAD,
    CIRCUIT_HELLO, CIRCUIT_NO_HELLO, CIRCUIT_NO_CHECK,
};
/* `number` is for events of questions. Returns the new state. */
enum circuit_state circuit_note(struct circuit *circuit, enum circuit_event event, uint64_t number,
                                uint64_t now_ms);

#endif
