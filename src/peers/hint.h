/* hint.h - what a node tells the others of a write. SPDX-License-Identifier: Apache-2.0
 *
 * A hint says that an object, a bucket, or the rights to read may have changed at an origin, or
 * that a client has purged something. A receiver removes what it knows, and asks its origin again.
 * So a hint never makes anything fresh and never gives a right, whoever sends it.
 *
 * Hints travel in batches, over the same TLS as questions (question.h):
 *
 *     POST /peer/1/hints HTTP/1.1
 *     x-penstock-node: ID          the installation that sends, 32 hex digits
 *     x-penstock-to: ID            the installation that the batch is for
 *
 * The body is one frame of the kind HINTS (frame.h). Its payload, little-endian:
 *
 *     u64 age                      see struct hint_batch
 *     and hints, one after the other:
 *     u8 what   u8 zero   u16 lengths of endpoint, bucket, key, version   the four texts
 *
 * Answers:
 *
 *     200   the receiver has followed all hints of the batch
 *     400   the batch is damaged, or not of this form
 *     404   the receiver has another id
 *     405   the receiver runs a version without hints
 *     503   the receiver has too much to do, or could not write a purge to its disk
 *
 * After any answer but 200, the sender sends the batch again. Following a hint twice does no harm.
 * Pure; any thread. */
#ifndef PEERS_HINT_H
#define PEERS_HINT_H

#include "base/arena.h"

#define HINT_BATCH_BYTES_MAX 65536u   /* of a payload: that of one frame */
#define HINT_BATCH_MAX 1000u          /* hints */
#define HINT_AGE_NONE UINT64_MAX
#define HINTS_TARGET "/peer/1/hints"

/* Either WRITE, with any of the three that follow it, or one of the purges alone. */
enum hint_what {
    HINT_WRITE = 1,                   /* of the key; without a key, the bucket's lists changed */
    HINT_PROPERTY = 2,                /* ... of metadata of the key's current version */
    HINT_BUCKET = 4,                  /* any object of the bucket may have changed */
    HINT_RIGHTS = 8,                  /* who may read objects of the bucket may have changed */
    HINT_PURGE = 16,                  /* of the keys that begin with `key` */
    HINT_PURGE_KEY = 32,              /* of this key */
};

struct hint {
    unsigned what;                    /* enum hint_what */
    slice endpoint, bucket, key, version;
};

/* True if the hint can be sent: a form that hint_read accepts. */
bool hint_is_valid(const struct hint *hint);
#define HINT_BYTES_MAX 4200u          /* of any valid hint */
/* Writes a valid hint. Returns its length, at most HINT_BYTES_MAX. */
size_t hint_write(const struct hint *hint, uint8_t *ret);
/* Takes a hint off the front of *rest; its texts lie there. Returns OK, or ERR_BAD_REQUEST. */
enum err hint_read(slice *rest, struct hint *ret) MUST_USE;

/* A batch. `age_ms` is not HINT_AGE_NONE if the sender has lost hints for this receiver: it is the
 * time since the latest of them. What the receiver knew before that time no longer counts. */
struct hint_batch {
    uint64_t age_ms;
    struct hint *hints;
    size_t count;
};
/* Reads a payload: all of it, or nothing. Returns OK, with the list in keep, or ERR_BAD_REQUEST. */
enum err hint_batch_read(struct arena *keep, slice payload, struct hint_batch *ret) MUST_USE;

#endif
