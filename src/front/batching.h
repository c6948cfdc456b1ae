/* batching.h - struct batch, for the files that implement it. SPDX-License-Identifier: Apache-2.0
 *
 * A batch is a request for many objects, or ranges of them: the items. A get (cache/get.h) reads
 * each of them.
 *
 *   batch.c        the beginning (reading the list of items), the steps, and the end
 *   batch_turn.c   struct current_item: from the get's answer to bytes in a load
 *   batch_slots.c  struct window, the items that have begun: the current one, and later ones
 *   batch_load.c   struct loads: the bytes of one write to the client, and of the next
 *
 * Everything here runs on the loop that accepted the request. */
#ifndef FRONT_BATCHING_H
#define FRONT_BATCHING_H

#include "front/batch.h"

#define BATCH_BUFFER_BYTES (256 * KIB)
#define LENT_MAX 28u
#define PART_SENT SIZE_MAX

struct batch_buffer {
    struct batch_buffer *next;
    char bytes[BATCH_BUFFER_BYTES];
};

/* The bytes that one write to the client sends. Runs of copied bytes lie in `buffer`. Lent runs lie
 * in the memory of a get, which must not end before the write is over. */
struct load {
    struct batch_buffer *buffer;
    size_t len, from;                 /* bytes in buffer; where the bytes in no run begin */
    slice runs[HTTP_RUNS_MAX];
    size_t run_count, items;
    struct get *lent[LENT_MAX + 1];   /* the gets to end after the write */
    size_t lent_count, lent_bytes;
};
static_assert(2 * LENT_MAX + 3 <= HTTP_RUNS_MAX,
              "there is room for a copied run before each lent run, and for one more");

/* An item that has begun. */
struct slot {
    struct batch *batch;
    struct get *get;                  /* NULL: the item was refused, or the get has ended */
    enum err err;                     /* why the item was refused */
    const struct get_answer *answer;  /* NULL: not decided yet */
    bool begun;
    bool waiting, waited;             /* the get waits now; it had to wait at least once */
    bool early;                       /* the item began before it was the current one */
    size_t weight;                    /* bytes of memory that the get may hold, estimated */
};

/* The window of the list: the items that have begun, which are the current one and later ones.
 * The window's front advances when an item is answered (batch_turn.c), and its back advances
 * when an item begins (batch_slots.c). */
struct window {
    struct slot *slots;               /* item i has slots[i % size] */
    size_t size;
    size_t next, begun;               /* the current item; items [next, begun) have a slot */
    size_t ahead;                     /* number of gets to run at a time */
    size_t calm;                      /* items in a row whose get never waited */
    size_t weight;                    /* the sum of the weights of all slots */
    size_t weight_last;               /* the weight of the latest item that was decided */
    /* Each of these events is counted once in a batch. */
    bool reported_ahead, reported_gets, reported_narrow;
};

/* The current item's part of the answer. The loop sets it anew for each item (batch_turn.c). */
struct current_item {
    struct batch_entry entry;
    bool open;                        /* the item's head is written */
    size_t open_at;                   /* if open: where that head lies in the buffer of the load;
                                       * PART_SENT: a part of the item is sent, so a failure can
                                       * no longer replace it */
    uint64_t left;                    /* bytes of the item that are still to be copied or sent */
    slice piece;                      /* bytes of the item: read, but not yet copied or sent */
};

/* The double buffer through which the answer goes to the client: the loop fills one load while the
 * other is in a write (batch_load.c). */
struct loads {
    struct load pair[2];
    struct load *filling;             /* the load being filled; the other may be in a write */
    struct http_timer *rest;          /* lets other requests of the loop run */
    /* replying: the answer has begun; sending: a write is in progress; piece_out: that write has a
     * piece of the open item; ended: the last bytes of the answer were given to a write. */
    bool replying, sending, piece_out, ended;
};

/* The intake of the list (intake.h). While it is running, its thread writes `list` and the body.
 * The loop reads the list only after that. */
struct batch_intake {
    bool running;
    struct http_body *hold;           /* the body, until the intake is over */
    struct intake_list list;
};

struct batch {
    struct call *call;                /* NULL: the client left during the intake of the list */
    struct front *front;
    struct arena arena;               /* holds the list */
    struct batch_intake intake;
    uint64_t began_ns;
    size_t held_bytes;                /* this batch's part of front->batch_bytes */
    struct http_timer *timer;         /* ends the time in which items may begin */
    struct call judge;                /* stands for the GetObject request of an item */

    struct window window;
    struct current_item current;
    uint64_t bytes;                   /* object bytes in the answer so far */
    /* If any is true, no further item begins. late: the time is up; full: the answer has as many
     * bytes as are allowed; ending: an item failed, and the client wants no items after a
     * failure. */
    bool late, full, ending;

    const struct batch_form *form;
    struct batch_end end;
    struct loads loads;
};

/* ---- batch.c ---- */
/* Continues until the batch has to wait. The batch may be over and freed when this returns. */
void batch_step(struct batch *batch);
extern const struct http_source batch_source;

/* ---- batch_turn.c ---- */
/* Works on the current item. Returns OK if it must be called again, ERR_WAIT if the item waits for
 * its bytes, and ERR_BUSY if the batch waits for the client. Any other error ends the batch. */
enum err turn_go_on(struct batch *batch) MUST_USE;

/* ---- batch_slots.c ---- */
/* Returns the slot of an item in [next, next + size). */
struct slot *slot_of(struct window *window, size_t index);
/* Judges the item, and starts its get if the client may read it. */
void slot_begin(struct batch *batch, size_t index);
/* Returns OK if slot->answer or slot->err is set, and ERR_WAIT if neither is set yet. */
enum err slot_decide(struct slot *slot);
void slot_let_go(struct slot *slot);
/* Ends the get, if there is one, and adds its cost to that of the call. */
void slot_get_end(struct call *call, struct get **get);
/* Starts the gets of items after the current one. */
void slots_look_ahead(struct batch *batch);

/* ---- batch_load.c ---- */
void loads_begin(struct loads *loads, struct front_loop *loop);
void loads_end(struct loads *loads, struct call *call);    /* call may be NULL before loads_begin */
struct load *load_other(struct loads *loads);    /* the load that is not being filled */
char *load_room(const struct load *load);    /* the place of the next byte */
/* Returns OK if loads.filling has room for `bytes`. If the load had no room, it was sent, and
 * loads.filling is now the other load. Returns ERR_BUSY if both loads are in use. Also returns
 * ERR_BUSY after many items that wrote nothing (failures in a tar), to let other requests of the
 * loop run. */
enum err load_make_room(struct batch *batch, size_t bytes) MUST_USE;
void load_lend(struct load *load, slice bytes);    /* sends the bytes from where they lie */
/* The load owns the get until its write is over. */
void load_take_get(struct load *load, struct get **take_get);
void load_empty(struct load *load, struct call *call);    /* ends the gets that it owns */
void load_send(struct batch *batch, bool last);
/* For a batch that has to wait: sends the load, if no write is in progress. If no part of the open
 * item was sent yet, the item may still fail. So its bytes are not sent, and move to the other
 * load. */
void load_flush(struct batch *batch);

#endif
