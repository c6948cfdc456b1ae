/* fetch.h - one origin GET or HEAD, and who waits for it. SPDX-License-Identifier: Apache-2.0
 *
 * A fetch asks for a span of whole units, feeds flights in the order the bytes come, and begins
 * again behind the last byte (with If-Match) when the origin cuts it off. It is the leader of its
 * flights (H6): not sent yet, it ends with its last reader; admitted and sent, it belongs to the
 * cache and outlives them to the end of the record under way; refused, it is a stream paced by its
 * fastest reader that ends with its last, or when others need its connection while it is ahead: who
 * reads it goes on with a fetch from there. */
#ifndef CACHE_FETCH_H
#define CACHE_FETCH_H

#include "cache/flight.h"

#define FETCH_MAGIC 0x6665746368303131u
#define NO_END UINT64_MAX

/* What to ask for. With a head: [first, end) of that version (If-Match). Without: [first, end), end
 * may be NO_END; or the last `suffix` bytes; plain: no Range header at all. */
struct fetch_span {
    uint64_t first, end;
    uint64_t suffix;
    bool plain;
    unsigned part;                /* of a HEAD: where this part lies; 0: none */
};

enum fetch_kind { FETCH_GET, FETCH_HEAD };

/* In whose name it is asked, and what a 2xx to that grants. */
struct asker {
    const struct identity *who;
    struct grant_name grant;
    uint64_t party;               /* 0: alone; see struct get_ask */
};

struct fetch {
    uint64_t magic;
    struct list link;             /* inflight->fetches */
    struct list slot_link;        /* in the queue for a slot, or of those with some to spare */
    bool slot_invited;            /* its turn in that queue has come; the slots' own */
    enum fetch_kind kind;
    struct inflight *inflight;        /* a reference */
    struct fetch_span asked;
    struct epoch_note epoch;
    int64_t sent_s;               /* what the answer says is true as of then */
    struct asker asker;
    struct grant_note granted;    /* as of then */
    uint32_t refusals;            /* of that name, until then */
    uint64_t sent_ms;             /* the same moment, ageing_ms() */

    /* what readers look at, under the lock */
    struct head *head;            /* the version asked for, or learnt */
    bool answered;                /* the head of a good answer came: head, next and end are known */
    bool over;                    /* nothing more will come */
    bool canceled;                /* on its way to be over: not to be joined */
    enum err err;                 /* once over: OK, ERR_CHANGED (another version), or see refusal */
    struct refusal *refusal;
    uint64_t next, end;           /* the byte that comes next, and the first that is not wanted */
    struct list waiters;
    unsigned readers;
    uint64_t wanted;              /* how far the fastest reader has got */

    /* the leader's own: touched by the origin thread that runs the call */
    struct origin_call call;
    struct http_field fields[3];
    struct arena arena;
    bool known_head;              /* asked for with If-Match */
    bool proof;                   /* a GET's: it is asked for what its status says; not stored */
    bool upgrade;                 /* a HEAD's: store it although its version is known (FULL) */
    bool admitted;
    bool began;                   /* has fed a flight */
    bool pacing;                  /* paused until its fastest reader comes nearer */
    bool outran;                  /* ended, because they were too far behind */
    int status;
    uint64_t skip;                /* bytes of this answer in front of `next` */
    size_t taken;                 /* of the bytes that come again after a pause */
    unsigned tries;               /* restarts since the last byte */
    struct flight *current;
    struct flight *kept[REFUSED_KEPT];    /* of a stream that is not stored, for slower readers */
    struct store_removal refusing;    /* over, once the disk knows of it */
    struct text error_body, error_fields;
    slice error_type;
};

/* Starts one; under the object's lock, which is kept. The reference is the caller's, as a reader.
 * NULL: too many at once, or stopping. head NULL: the version is not known. */
struct fetch *fetch_start(struct inflight *inflight, enum fetch_kind kind,
                          const struct asker *asker, struct head *head,
                          const struct fetch_span *span) MUST_USE;
/* The newest HEAD under way in this name; NULL if none. Under the lock. */
struct fetch *fetch_probe(struct inflight *inflight, const struct identity *who,
                          unsigned part) MUST_USE;
/* A fetch under way that will deliver this byte soon enough, of this version (etag_hash 0: any that
 * has not been answered yet). Joined as a reader; NULL if none. Under the lock. */
struct fetch *fetch_join(struct inflight *inflight, uint64_t etag_hash, uint64_t offset) MUST_USE;
/* Where the next fetch after `from` begins that may bring this version: a span ends there, so that
 * no byte is asked for twice. NO_END: none. Under the lock. */
uint64_t fetch_next_claim(struct inflight *inflight, uint64_t etag_hash, uint64_t from);
struct fetch *fetch_join_this(struct fetch *fetch) MUST_USE;
/* A reader of this party waits for it, too. One that came by itself (0) is not held up by the list
 * it was asked for in. NULL: nothing was joined. Under the lock. */
void fetch_joined(struct fetch *fetch, uint64_t party);
/* A reader got so far (paces unstored streams). Under the lock. */
void fetch_progress(struct fetch *fetch, uint64_t offset);
/* A reader goes, or needs it no more. Under the lock; may free. */
void fetch_leave(struct fetch **fetch);
void fetch_cancel(struct fetch *fetch);       /* under the lock; readers see it over soon */
void fetch_drop_kept(struct fetch *fetch);    /* under the lock */
void fetch_slot_free(struct fetch *fetch);    /* from the slots: there is room again */

/* Between the two halves, fetch.c and deliver.c. */
extern const struct origin_events deliver_events;
void fetch_send(struct fetch *fetch);         /* asks for what is still missing */
void fetch_free(struct fetch *fetch);         /* over, and without readers; under the lock */

#endif
