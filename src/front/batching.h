/* batching.h - a batch as its own files see it. SPDX-License-Identifier: Apache-2.0
 *
 *   batch.c        its course: the list is taken in, steps, the client's proceed, the end
 *   batch_turn.c   the item whose turn it is: from its answer to bytes in a load
 *   batch_slots.c  items that have been begun: their gets, and those ahead of their turn
 *   batch_load.c   what leaves in one write
 *
 * All of it is its loop's. */
#ifndef FRONT_BATCHING_H
#define FRONT_BATCHING_H

#include <assert.h>

#include "front/batch.h"

#define BATCH_BUFFER_BYTES (256 * KIB)
#define LENT_MAX 28u
#define NOT_OPEN SIZE_MAX

struct batch_buffer {
    struct batch_buffer *next;
    char bytes[BATCH_BUFFER_BYTES];
};

/* What leaves in one write. */
struct load {
    struct batch_buffer *buffer;
    size_t len, from;                 /* bytes in it; those from `from` on are in no run yet */
    slice runs[HTTP_RUNS_MAX];
    size_t run_count, items;
    struct get *lent[LENT_MAX + 1];   /* runs lie in these */
    size_t lent_count, lent_bytes;
};
static_assert(2 * LENT_MAX + 3 <= HTTP_RUNS_MAX, "a run before each that is lent, and one more");

/* An item that has been begun. */
struct slot {
    struct batch *batch;
    struct get *get;                  /* NULL: it may not be asked for, or has been let go */
    enum err err;                     /* why */
    const struct get_answer *answer;  /* NULL: not decided */
    bool begun, waiting, waited, early;
    size_t weight;                    /* what it may hold, as far as is known */
};

struct batch {
    struct call *call;                /* NULL: its client went while the list was taken in */
    struct front *front;
    struct arena arena;               /* the list */
    struct intake_list list;
    struct http_body *hold;
    bool in_intake;
    uint64_t began_ns;
    size_t held_bytes;                /* of memory_batches */
    struct http_timer *timer, *rest;
    struct call judge;                /* stands for the request that an item might have been */

    const struct batch_form *form;
    struct batch_end end;
    struct batch_failure *failures;
    size_t failure_room;

    struct slot *slots;               /* of item i: i % window */
    size_t window, next, begun;       /* items [next, begun) have one */
    size_t ahead;                     /* so many are to be under way */
    size_t calm;                      /* items in a row that had to wait for nothing */
    size_t weight;
    size_t weight_last;               /* of the last that is known */
    bool late, full, ending;          /* no further item is begun */
    bool told_ahead, told_gets, told_narrow;     /* counted once */

    /* the item whose turn it is */
    struct batch_entry entry;
    size_t open_at;                   /* where it begins in the buffer; NOT_OPEN: that is gone */
    bool open;
    uint64_t left;
    slice piece;                      /* of it, neither copied nor sent yet */
    uint64_t bytes;                   /* of objects, so far */

    struct load loads[2];
    struct load *load;                /* the one that is being made; the other may be on its way */
    bool replying, sending, piece_out, ended;
};

/* ---- batch.c ---- */
/* As far as it goes: it may be over, and freed, behind this. */
void batch_step(struct batch *batch);
extern const struct http_source batch_source;

/* ---- batch_turn.c ---- */
/* OK: again; ERR_WAIT for its bytes, ERR_BUSY: for the client; any other is its end. */
enum err turn_go_on(struct batch *batch) MUST_USE;

/* ---- batch_slots.c ---- */
struct slot *slot_of(struct batch *batch, size_t index);
/* Judges the item, and asks for it if it may be. */
void slot_begin(struct batch *batch, size_t index);
/* Has it an answer, or an err? ERR_WAIT: not yet. */
enum err slot_decide(struct slot *slot);
void slot_let_go(struct slot *slot);
/* Ends a get, if there is one, and counts what it cost. */
void slot_get_end(struct batch *batch, struct get **get);
/* Begins items behind the one whose turn it is. */
void slots_look_ahead(struct batch *batch);

/* ---- batch_load.c ---- */
void loads_begin(struct batch *batch);
void loads_end(struct batch *batch);
struct load *load_other(struct batch *batch);
char *load_room(const struct batch *batch);    /* where the next byte goes */
/* Is there so much room? Else what is there goes first; or, of items that left nothing (in tar,
 * those that fail), others have a turn. */
enum err load_make_room(struct batch *batch, size_t bytes) MUST_USE;
void load_lend(struct load *load, slice bytes);    /* leave from where they lie */
void load_empty(struct batch *batch, struct load *load);
void load_send(struct batch *batch, bool last);
/* Nothing comes for a while: what is there goes, but for an item that may still fail. */
void load_flush(struct batch *batch);

#endif
