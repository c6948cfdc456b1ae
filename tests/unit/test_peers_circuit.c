/* test_peers_circuit.c - when a node may be asked: one late answer, two, a dead node, a busy one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A row is a play. Its letters are events; a digit before a letter says which question, otherwise
 * it is the last one that was admitted:
 *
 *     +  a question asks, and may      A  it is acknowledged     L  it is late, and leaves
 *     w  a question asks, and waits    W  its answer is whole    X  its answer is cut
 *     p  a question asks, and passes   B  its bytes are wrong    Q  it leaves without a result
 *     H  a hello is answered   N  a hello is not answered   C  nor is one sent for a doubt */
#include "unit.h"

#include "peers/circuit.h"

static struct circuit circuit;
static uint64_t now_ms;

static void admit(char what)
{
    uint64_t number = 0;
    enum circuit_say say = circuit_admit(&circuit, now_ms, &number);
    ok(what == '+' ? say == CIRCUIT_ASK && number == circuit.admitted
                   : say == (what == 'w' ? CIRCUIT_WAIT : CIRCUIT_PASS));
}

static void act(char what, uint64_t number)
{
    static const char events[] = "AWLXBHNC";
    const char *event = strchr(events, what);
    if (event)
        (void)circuit_note(&circuit, (enum circuit_event)(event - events), number, now_ms);
    if (strchr("WLXBQ", what))
        circuit_leave(&circuit, number);
    ok(event || what == 'Q');
}

static enum circuit_state play(const char *script)
{
    circuit = (struct circuit){ 0 };
    now_ms = 1000000;
    for (uint64_t number = 0; *script; script++) {
        if (*script >= '1' && *script <= '9')
            number = (uint64_t)(*script - '0');
        else if (strchr("+wp", *script))
            admit(*script);
        else
            act(*script, number ? number : circuit.admitted);
        number = *script >= '1' && *script <= '9' ? number : 0;
        now_ms++;
    }
    return circuit.state;
}

TEST(each_play_ends_in_its_state)
{
    static const struct row {
        const char *what, *script;
        enum circuit_state end;
    } rows[] = {
        { "a node that never answered is not asked", "p", CIRCUIT_OPEN },
        { "its first hello makes it one that is asked", "H++", CIRCUIT_CLOSED },
        { "late once: a doubt; questions wait", "H+Lw", CIRCUIT_DOUBTED },
        { "after the hello, one question goes, others wait", "H+LH+w", CIRCUIT_TRIAL },
        { "it is acknowledged: all go", "H+LH+A++", CIRCUIT_CLOSED },
        { "late twice in a row: out", "H+LH+Lp", CIRCUIT_OPEN },
        { "late twice with an acknowledgement between: a doubt", "H+LH+AW+Lw", CIRCUIT_DOUBTED },
        { "a decline in time is an answer, too", "H+LH+W+L", CIRCUIT_DOUBTED },
        { "late, and no answer to the hello: out", "H+LCp", CIRCUIT_OPEN },
        { "many that are late at once count once", "H++++1L2L3L4Lw", CIRCUIT_DOUBTED },
        { "... also after the hello", "H++++1LH2L3L4L+", CIRCUIT_TRIAL },
        { "another question is acknowledged: no doubt", "H++1L2A+", CIRCUIT_CLOSED },
        { "... whatever becomes of the hello then", "H++1L2AC+", CIRCUIT_CLOSED },
        { "a whole answer of before says it, too", "H++1A2L1W+", CIRCUIT_CLOSED },
        { "an ordinary hello without an answer: out", "H+ANp", CIRCUIT_OPEN },
        { "... and so on trial", "H+LHNp", CIRCUIT_OPEN },
        { "cut once: a doubt", "H+AXw", CIRCUIT_DOUBTED },
        { "... that the hello ends", "H+AXH++", CIRCUIT_CLOSED },
        { "... or that takes it out", "H+AXCp", CIRCUIT_OPEN },
        { "cut twice in a row: out", "H+AXH+AXp", CIRCUIT_OPEN },
        { "cut twice with a whole answer between: a doubt", "H+AXH+AW+AX", CIRCUIT_DOUBTED },
        { "an acknowledgement between is not enough", "H+AXH++2A3AX", CIRCUIT_OPEN },
        { "many that are cut at once count once", "H+A+A+A1X2X3Xw", CIRCUIT_DOUBTED },
        { "cut and late are two things", "H+AXH+L", CIRCUIT_DOUBTED },
        { "wrong bytes: out at once", "H+ABp", CIRCUIT_OPEN },
        { "back after it was out: others pass it by meanwhile", "H+LH+LH+pp", CIRCUIT_TRIAL },
        { "... until one is acknowledged", "H+LH+LH+A++", CIRCUIT_CLOSED },
        { "... and one more that is late takes it out", "H+LH+LH+Lp", CIRCUIT_OPEN },
        { "a trial without a result makes room for the next", "H+LH+wQ+", CIRCUIT_TRIAL },
        { "only a hello brings it back", "H++1LC2Ap", CIRCUIT_OPEN },
        { "failures of before say nothing while it is out", "H+++1LC2L3Lp", CIRCUIT_OPEN },
        { "... and nothing when it is back", "H+++1LCH2L3L+", CIRCUIT_TRIAL },
    };
    for (size_t i = 0; i < countof(rows); i++)
        ok_as(play(rows[i].script) == rows[i].end, rows[i].what);
}

TEST(a_node_has_so_many_questions_and_no_more)
{
    ok(play("H") == CIRCUIT_CLOSED);
    for (unsigned i = 0; i < CIRCUIT_QUESTIONS_MAX; i++)
        admit('+');
    admit('w');
    ok(circuit.under_way == CIRCUIT_QUESTIONS_MAX);
    act('W', 7);
    admit('+');
    admit('w');
    for (uint64_t number = 1; number <= circuit.admitted; number++)
        if (number != 7)
            act('W', number);
    ok(circuit.under_way == 0 && circuit.state == CIRCUIT_CLOSED);
}

/* The questions to a dead node that pay for it: those that were under way at the same time. */
TEST(a_dead_node_costs_its_questions_one_deadline)
{
    ok(play("H") == CIRCUIT_CLOSED);
    for (unsigned i = 0; i < 20; i++)
        admit('+');
    for (uint64_t number = 1; number <= 20; number++) {
        act('L', number);
        admit('w');
    }
    act('C', 0);
    for (unsigned i = 0; i < 1000; i++)
        admit('p');
    ok(circuit.admitted == 20 && !circuit.under_way);
}

TEST(questions_wait_for_the_end_of_a_doubt_but_not_for_long)
{
    ok(play("H+Lw") == CIRCUIT_DOUBTED);
    now_ms = circuit.doubted_ms + CIRCUIT_DOUBT_MS - 1;
    admit('w');
    now_ms++;
    admit('p');
    ok(circuit_note(&circuit, CIRCUIT_HELLO, 0, now_ms) == CIRCUIT_TRIAL);
    admit('+');
}

TEST(a_pause_doubles_and_begins_anew_after_calm)
{
    static const uint64_t pauses[] = { 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000 };
    ok(play("H") == CIRCUIT_CLOSED);
    for (size_t i = 0; i < countof(pauses); i++) {
        ok(circuit_note(&circuit, CIRCUIT_NO_HELLO, 0, now_ms) == CIRCUIT_OPEN);
        ok(circuit.hello_ms == now_ms + pauses[i]);
        now_ms = circuit.hello_ms;
        if (i % 2)    /* a node that flaps is not calm */
            ok(circuit_note(&circuit, CIRCUIT_HELLO, 0, now_ms) == CIRCUIT_CLOSED);
    }
    ok(circuit_note(&circuit, CIRCUIT_HELLO, 0, now_ms) == CIRCUIT_CLOSED);
    now_ms += CIRCUIT_CALM_MS + 1;
    ok(circuit_note(&circuit, CIRCUIT_NO_HELLO, 0, now_ms) == CIRCUIT_OPEN);
    ok(circuit.hello_ms == now_ms + CIRCUIT_PAUSE_MS);
}

TEST(wrong_bytes_cost_the_longest_pause)
{
    ok(play("H+AB") == CIRCUIT_OPEN);
    ok(circuit.hello_ms - now_ms >= CIRCUIT_PAUSE_MS_MAX - 10);
    uint64_t hello_ms = circuit.hello_ms;
    now_ms += 1000;
    ok(circuit_note(&circuit, CIRCUIT_BAD, 1, now_ms) == CIRCUIT_OPEN);    /* of another question */
    ok(circuit.hello_ms == hello_ms);
    /* A hello that comes sooner, because the node has said hello itself, changes nothing. */
    ok(circuit_note(&circuit, CIRCUIT_HELLO, 0, now_ms) == CIRCUIT_OPEN);
    ok(circuit.hello_ms == hello_ms);
    ok(circuit_note(&circuit, CIRCUIT_NO_HELLO, 0, now_ms) == CIRCUIT_OPEN);
    ok(circuit_note(&circuit, CIRCUIT_HELLO, 0, hello_ms - 1) == CIRCUIT_OPEN);
    ok(circuit.hello_ms == hello_ms);
    ok(circuit_note(&circuit, CIRCUIT_HELLO, 0, hello_ms) == CIRCUIT_CLOSED);
}

RUN(cmocka_unit_test(each_play_ends_in_its_state),
    cmocka_unit_test(a_node_has_so_many_questions_and_no_more),
    cmocka_unit_test(a_dead_node_costs_its_questions_one_deadline),
    cmocka_unit_test(questions_wait_for_the_end_of_a_doubt_but_not_for_long),
    cmocka_unit_test(a_pause_doubles_and_begins_anew_after_calm),
    cmocka_unit_test(wrong_bytes_cost_the_longest_pause))
