/* inside.h - struct peers and its nodes, for the files that implement peers.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_INSIDE_H
#define PEERS_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "origin/curl.h"
#include "origin/kind.h"
#include "peers/circuit.h"
#include "peers/frame.h"
#include "peers/hints.h"
#include "peers/peers.h"

#define PEER_CONNECT_MS 250u
/* The deadline of the acknowledgement: a peer answers at once with *have* or *fetching*. */
#define PEER_HEAD_MS 100u
/* A peer that waits for its origin sends a frame every 100 ms, so this silence is four frames. */
#define PEER_SILENT_MS 400u

/* The least time between two hellos of this node. So each of 1,000 others gets one a minute. */
#define HELLO_EACH_MS 60u

#define NODE_MAGIC 0x70656572u
/* A listed address, and the node that answers there. An errand asks it for its id and weight
 * (hello), often while it does not answer. */
struct node {
    unsigned magic;
    struct list link;                 /* in peers->nodes; under the lock */
    struct peers *peers;
    atomic_uint refs;                 /* the list's, the errand's, and those of views and calls */
    struct member_address address;
    char text[MEMBER_TEXT_BYTES];
    struct errand errand;
    struct hello {                    /* for the thread of the errand */
        struct exchange *exchange;
        struct arena keep;
        struct text body;
        int status;
        bool is_check;                /* it was sent for a doubt */
        uint64_t due_ms;              /* of the next one, unless the circuit is open */
        uint64_t ready_ns;            /* when its connection was ready */
        uint64_t round_trip_us;
    } hello;
    struct node_hints {               /* for the thread of deliver.c */
        bool runs;                    /* a batch is on its way */
        uint64_t due_ms, pause_ms;    /* no batch before due_ms */
    } hints;
    struct node_report {                /* what its latest hello said; under the lock of peers */
        char version[40];             /* of Penstock; empty: not known */
        char process[PEERS_PROCESS_BYTES];    /* peers_process() of the node; empty: not known */
        unsigned protocol;            /* that both speak; 0: none */
        bool takes_hints;
        uint64_t round_trip_us;       /* from the question to the head of the answer; 0: not known */
    } report;
    struct node_facts {               /* under the lock of peers */
        bool listed, known, answers;
        bool takes_hints;             /* by its latest hello */
        bool has_our_id;              /* another process has the id of this node */
        bool has_twin;                /* another listed node has its id, and both answer */
        bool has_errand;              /* it has not left */
        uint8_t id[NODE_ID_BYTES];
        uint32_t weight;
        int64_t since_s;              /* when it began to answer, or to be silent */
        bool heard;                   /* it may answer, or have another id: its errand asks now */
        uint64_t heard_ms;            /* when it last asked for this */
        char why[200];
    } facts;
    struct circuit circuit;           /* under the lock of peers */
    struct turns {                    /* questions that wait for a turn; under the lock of peers */
        struct list queue;
        unsigned waiting;
    } turns;
    struct node_counts {
        _Atomic uint64_t bytes, asked, failed, bad;
        _Atomic uint64_t sent, answered;    /* bytes that it was sent, and its questions */
    } counts;
    struct node_label {               /* on /metrics; under the lock of peers */
        bool given;
        struct peer_counts before;    /* the part of its counts that "other" has */
    } label;
};

/* The nodes that answer, and this one. Never changes. */
struct view {
    atomic_uint refs;
    size_t count;
    struct rank_node *ranks;
    struct node **nodes;              /* NULL: this node */
};

struct peers {
    struct peers_options options;
    struct arena keep;
    struct origin source;             /* has magic and kind alone (hook_attach) */
    struct exchange_mutual mutual;    /* without connect_to */
    slice url;                        /* https://NAME/ */
    struct carriers *carriers;
    pthread_mutex_t lock;
    struct list nodes;
    struct view *view;                /* under the lock */
    atomic_uint others;               /* in the view */
    bool stops;                       /* hellos say that this node is stopping; under the lock */
    struct hint_deliveries {
        struct hints *queue;
        struct errand errand;
        bool has_errand;              /* it has not left; under the lock */
        atomic_bool woken;
        struct list deliveries;       /* these and the next ones are the errand's */
        size_t count;
        uint64_t logged_ms;
        atomic_bool marked;           /* the thread `marker` was started, or was not needed */
        pthread_t marker;
        bool has_marker;              /* for peers_free alone */
    } hints;
    struct peers_beside {             /* under the lock */
        struct peer_counts strangers; /* nodes that asked, and that no address is known of */
        struct peer_counts gone;      /* the part of "other" of nodes that are not listed any more */
    } beside;
};

/* ---- node.c ---- */
struct node *node_new(struct peers *peers, const struct member_address *address) MUST_USE;
struct node *node_ref(struct node *node) MUST_USE;
void node_unref(struct node **node);
/* Tells the circuit of an event of the question with this number. `why` is for failures. */
void node_note(struct node *node, enum circuit_event event, uint64_t number, const char *why);
/* The next five under the lock of peers. */
bool node_has_id(const struct node *node, const uint8_t id[NODE_ID_BYTES]);
bool node_is_this(const struct node *node);    /* and not another one that has its id */
void node_note_locked(struct node *node, enum circuit_event event, uint64_t number,
                      const char *why);
void node_wake(struct node *node);    /* its errand looks */
/* The node has said hello, with this id. */
void node_learn(struct node *node, const uint8_t id[NODE_ID_BYTES], uint32_t weight,
                bool takes_hints);
/* The request for this target at this node; the memory of the fields must stay. */
struct exchange_ask node_ask(const struct node *node, struct exchange_mutual *mutual,
                             const char *target, const struct http_field *fields, size_t count);

/* Says why there was no whole answer of a node. */
const char *node_failure(const struct exchange_end *end);

/* ---- hello.c ---- */
/* Sends the hello that is due, or sets the timer for the next one. */
void hello_go_on(struct node *node);

/* ---- view.c ---- */
/* Makes the view anew. Under the lock of peers. */
void peers_look(struct peers *peers);
struct view *peers_view(struct peers *peers) MUST_USE;    /* takes a reference */
void view_unref(struct view **view);
bool view_has(const struct view *view, const uint8_t id[NODE_ID_BYTES]);

/* ---- tell.c ---- */
void tell_begin(struct peers *peers);
void tell_last(struct peers *peers);        /* waits for nodes that answer, at most a second */
void tell_end(struct peers *peers);         /* after the carriers have ended */

/* ---- deliver.c ---- */
void deliver_begin(struct peers *peers);    /* once there are a queue and carriers */
/* The next two under the lock of peers. deliver_look: a node may get hints now. */
void deliver_look(struct peers *peers);
bool deliver_waits(const struct peers *peers, const struct node *node);    /* hints wait for it */

/* ---- peers_status.c: under the lock of peers ---- */
void node_count_gone(struct node *node);    /* before the node is taken off the list */
void peers_give_labels(struct peers *peers);

/* ---- question_span.c ---- */
/* The span of a question to one node (base/span.h), and the fields that tell the node of it. */
#define TRACE_FIELDS 2u
struct question_span {
    struct span *span;                /* NULL: the call is not recorded */
    int status;                       /* of the answer; 0: none came */
    uint64_t bytes;                   /* of the object that were taken */
    char parent[TRACEPARENT_BYTES];
};
/* Begins the span, if the call is recorded. Sets the fields, and returns their number. The memory of
 * the fields is `ret` and the trace. */
size_t question_span_begin(struct question_span *ret, const struct trace *trace,
                           const struct node *node, const struct peer_question *question,
                           struct http_field fields[TRACE_FIELDS]);
/* Ends it; `error` is a word, or NULL if the bytes have come. A second call does nothing. */
void question_span_end(struct question_span *span, const char *error);

/* ---- turn.c ---- */

enum turn_where { TURN_ENDED, TURN_WAITS, TURN_HAS, TURN_PASSED };
/* Of one question, at one node at a time. The caller sets `errand`; the rest is zero at first. */
struct turn {
    struct errand *errand;
    struct node *node;                /* NULL: turn_end was called; for the errand's thread */
    uint64_t until_ms;                /* while it waits: it passes the node by then; likewise */
    enum turn_where where;            /* this and what follows: under the lock of peers */
    enum origin_rank rank;
    struct list link;                 /* while it waits: in node->turns.queue */
    uint64_t number;                  /* while it has the turn: for circuit_note */
};
/* Returns TURN_HAS: the question may be sent. TURN_WAITS: the errand is woken; call again then, and
 * at until_ms. TURN_PASSED: another node must be asked. Then turn_end must be called before the
 * turn is used at another node, or freed. */
enum turn_where turn_take(struct node *node, struct turn *turn, enum origin_rank rank) MUST_USE;
void turn_end(struct turn *turn);     /* safe at any time, on the errand's thread */
/* Ends the waits of those that may go on. Under the lock of peers. */
void turns_give(struct node *node);

/* ---- call.c ---- */
extern const struct origin_kind peers_kind;

#endif
