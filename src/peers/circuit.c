/* circuit.c - the circuit breaker of a node: decides whether the node may be asked now.
 * SPDX-License-Identifier: Apache-2.0 */
#include "peers/circuit.h"

#define FAILURES_MAX 2u

/* ---- may a question be sent? ---- */

enum circuit_say circuit_admit(struct circuit *circuit, uint64_t now_ms, uint64_t *ret_number)
{
    bool trial = circuit->state == CIRCUIT_TRIAL, doubted = circuit->state == CIRCUIT_DOUBTED;
    if (circuit->state == CIRCUIT_OPEN || (circuit->trial && circuit->returns) ||
        (doubted && now_ms >= circuit->doubted_ms + CIRCUIT_DOUBT_MS))
        return CIRCUIT_PASS;
    if (doubted || circuit->trial ||
        circuit->under_way >= CIRCUIT_QUESTIONS_MAX)
        return CIRCUIT_WAIT;
    circuit->under_way++;
    *ret_number = ++circuit->admitted;
    if (trial)
        circuit->trial = *ret_number;
    return CIRCUIT_ASK;
}

void circuit_leave(struct circuit *circuit, uint64_t number)
{
    check(number && number <= circuit->admitted && circuit->under_way > 0);
    circuit->under_way--;
    if (circuit->trial == number)
        circuit->trial = 0;
}

/* ---- what happened ---- */

/* When the node answers again, a single further failure opens its circuit again. */
static void open_it(struct circuit *circuit, uint64_t now_ms)
{
    bool calm = !circuit->failed_ms ||
                now_ms > circuit->failed_ms + CIRCUIT_CALM_MS + circuit->pause_ms;
    circuit->pause_ms = calm ? CIRCUIT_PAUSE_MS
                             : MIN(2 * circuit->pause_ms, (uint64_t)CIRCUIT_PAUSE_MS_MAX);
    circuit->failed_ms = now_ms;
    circuit->hello_ms = now_ms + circuit->pause_ms;
    circuit->state = CIRCUIT_OPEN;
    circuit->trial = 0;
    circuit->returns = true;
    circuit->late = MIN(circuit->late, FAILURES_MAX - 1);
    circuit->cut = MIN(circuit->cut, FAILURES_MAX - 1);
}

static void note_failure(struct circuit *circuit, unsigned *failures, uint64_t number,
                         uint64_t now_ms)
{
    if (circuit->state == CIRCUIT_OPEN || number <= circuit->known)
        return;
    circuit->known = circuit->admitted;
    if (++*failures >= FAILURES_MAX)
        open_it(circuit, now_ms);
    else
        circuit->state = CIRCUIT_DOUBTED;
    circuit->doubted_ms = now_ms;
}

/* Only a hello closes an open circuit. */
static void note_answer(struct circuit *circuit)
{
    if (circuit->state == CIRCUIT_OPEN)
        return;
    circuit->late = 0;
    circuit->trial = 0;
    circuit->returns = false;
    circuit->state = CIRCUIT_CLOSED;
}

static void note_hello(struct circuit *circuit, uint64_t now_ms)
{
    if (now_ms < circuit->bad_until_ms) {
        circuit->hello_ms = circuit->bad_until_ms;
        return;
    }
    if (circuit->state == CIRCUIT_OPEN || circuit->state == CIRCUIT_DOUBTED)
        circuit->state = circuit->late ? CIRCUIT_TRIAL : CIRCUIT_CLOSED;
}

enum circuit_state circuit_note(struct circuit *circuit, enum circuit_event event, uint64_t number,
                                uint64_t now_ms)
{
    bool is_open = circuit->state == CIRCUIT_OPEN;
    switch (event) {
    case CIRCUIT_WHOLE:
        circuit->cut = is_open ? circuit->cut : 0;
        note_answer(circuit);
        break;
    case CIRCUIT_ACK:
        note_answer(circuit);
        break;
    case CIRCUIT_LATE:
        note_failure(circuit, &circuit->late, number, now_ms);
        break;
    case CIRCUIT_CUT:
        note_failure(circuit, &circuit->cut, number, now_ms);
        break;
    case CIRCUIT_BAD:
        if (!is_open) {    /* other answers may have been wrong at the same time */
            open_it(circuit, now_ms);
            circuit->pause_ms = CIRCUIT_PAUSE_MS_MAX;
            circuit->hello_ms = circuit->bad_until_ms = now_ms + CIRCUIT_PAUSE_MS_MAX;
        }
        break;
    case CIRCUIT_HELLO:
        note_hello(circuit, now_ms);
        break;
    case CIRCUIT_NO_CHECK:
        if (circuit->state != CIRCUIT_DOUBTED)    /* a question was acknowledged meanwhile */
            break;
        open_it(circuit, now_ms);
        break;
    case CIRCUIT_NO_HELLO:
        open_it(circuit, now_ms);
        break;
    }
    return circuit->state;
}
