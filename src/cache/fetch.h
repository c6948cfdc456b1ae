/* fetch.h - one origin GET or HEAD, and its readers. SPDX-License-Identifier: Apache-2.0
 *
 * A fetch asks for a span of whole units (128 KiB of the object each), and feeds flights, the
 * memory that readers share (flight.h), in the order of the bytes. At most 8 units become one
 * record in the store. If the origin cuts the answer, the fetch asks again for the bytes after the
 * last one, with If-Match. It is the leader of its flights (rule H6 in src/README.md). "Under the
 * lock" means the lock of the object (flight.h). The life of a fetch depends on its state:
 *
 *   not sent yet          it ends with its last reader
 *   in a record that the store admitted
 *                         it belongs to the cache: even without readers it goes on to the end of
 *                         the record
 *   detached              the same, to the end of its span: a reader is about to come (streams.h)
 *   in any other record   it is a stream, paced by its fastest reader. It ends with its last
 *                         reader. While it is ahead of its readers, it also ends when another call
 *                         needs the connection; its readers then continue with another fetch */
#ifndef CACHE_FETCH_H
#define CACHE_FETCH_H

#include "cache/flight.h"
#include "cache/permit.h"

#define FETCH_MAGIC 0x6665746368303131u
#define NO_END UINT64_MAX

/* The bytes to ask for. If the fetch has metadata: [first, end) of that version (If-Match).
 * Otherwise: [first, end), where end may be NO_END; or the last `suffix` bytes. If `plain`, the
 * request has no Range header. */
struct fetch_span {
    uint64_t first, end;
    uint64_t suffix;
    bool plain;
    /* Without metadata: the fetch ends with the segment (peers.h) of its first byte at the latest,
     * and other nodes may bring it. */
    bool segment;
    unsigned part;                /* for a HEAD: number of the part to ask about; 0: none */
};

enum fetch_kind { FETCH_GET, FETCH_HEAD };

/* The identity with which a fetch asks, and the grant that a 2xx proves. */
struct asker {
    const struct identity *who;
    struct grant_name grant;
    uint64_t list_id;             /* 0: of no list; see struct get_ask */
    bool ahead;                   /* as in struct get_ask */
    enum store_records among;     /* likewise */
    enum origin_rank rank;        /* likewise */
    bool for_peer;                /* likewise */
    const struct trace *trace;    /* likewise; NULL in a fetch, which may outlive the request */
};

/* The question of a fetch to the origin. The caller of fetch_start sets proof and upgrade while it
 * has the lock. as.list_id and as.rank may change later (fetch_joined). */
struct fetch_question {
    enum fetch_kind kind;
    struct fetch_span span;
    struct asker as;
    bool known_metadata;          /* sent with If-Match */
    bool proof;                   /* a GET for its status alone: its bytes are not stored */
    bool upgrade;                 /* a HEAD for the full metadata of a version that is stored */
};

/* Noted when the request was first sent: its answer is not older than that. `epoch` moves on with
 * the answer of the fetch itself. */
struct fetch_note {
    struct epoch_note epoch;
    uint64_t compared;            /* store_compared() */
    struct permit_note rights;
    uint64_t at_ms;               /* by ageing_ms() */
    unsigned answers;             /* inflight->learnt.answers */
};

/* The readers of a fetch. Under the lock. */
struct fetch_readers {
    unsigned count;
    bool client;                  /* one of them was no job that is ahead of readers */
    uint64_t wanted;              /* the position of the fastest reader */
    struct list waiters;
};

/* How a fetch was begun ahead of its reader (window.h). Under the lock. */
struct fetch_ahead {
    bool began;                   /* it was */
    bool holds_slots;             /* slots are set aside, until it is over and uses none */
    bool detached;                /* goes on without readers as long as its bytes are stored */
};

/* Whether the bytes of a fetch are stored. */
struct admission {
    bool admitted;                /* they may be stored, if the store admits their record */
    bool stores;                  /* the store takes the record that begins at `judged` */
    bool staged;                  /* ... but did not admit it: it is for a reader that comes soon */
    uint64_t judged;              /* start of the record that the store judged last; NO_END: none */
    bool may_stage;               /* the get has few enough bytes to stage them */
    bool ahead, read;             /* as in struct store_append */
};

/* The way of the bytes from the answer to the flights. */
struct stream {
    bool began;                   /* has fed a flight */
    bool pacing;                  /* paused until its fastest reader comes nearer */
    bool outran;                  /* ended because its readers were too far behind */
    uint64_t skip;                /* bytes of this answer that lie before `next` */
    /* The first byte of the fetch, and the end of those that another node brought. A fetch that was
     * cut goes on at the origin, so all bytes behind them came from there. */
    uint64_t first, peer_end;
    size_t taken;                 /* bytes taken before a pause: the origin sends them again */
    unsigned tries;               /* restarts since the last byte */
    struct flight *current;
    struct flight *kept[UNSTORED_KEPT];    /* if it is not stored: flights for slower readers */
};

/* An answer without the object. */
struct fetch_error {
    struct text body, fields;
    slice type;
    struct store_removal refusing;    /* after a refusal: `over` is set when it is on disk */
};

struct fetch {
    uint64_t magic;
    struct list link;             /* inflight->fetches */
    struct slot_wait {            /* guarded by the lock of the slots (flight.c) */
        struct list link;         /* in the queue for a slot, or in slots_spare */
        bool invited;             /* its turn in that queue has come */
    } slot;
    struct inflight *inflight;    /* a reference */
    struct fetch_question asked;
    struct fetch_note sent;
    /* Under the lock. */
    struct metadata *metadata;    /* the version in its If-Match, or in its answer */
    /* The head of a good response has come: metadata, next and end are known. */
    bool answered;
    bool over;                    /* nothing more will come */
    bool canceled;                /* it will soon be over: no reader may join it */
    struct fetch_ahead ahead;
    enum err err;                 /* once over: OK, ERR_CHANGED (another version), or see refusal */
    struct refusal *refusal;
    uint64_t next, end;           /* the byte that comes next, and the first that is not wanted */
    struct fetch_readers readers;
    /* These are for the leader: the origin thread that runs the call. It writes admission and
     * stream under the lock (but for `skip` and `taken`), because readers look at both. Readers
     * also end a pause, and slots_press takes the kept flights. */
    struct fetch_request {
        struct origin_call call;
        struct http_field fields[3];
        struct arena arena;
        struct trace trace;       /* of the request that started the fetch */
        int status;               /* of the answer */
        bool at_peers;            /* other nodes were asked before the origin */
        bool from_peer;           /* the answer is that of another node */
    } request;
    struct admission admission;
    struct stream stream;
    struct fetch_error error;
};

/* Starts a fetch, with the caller as its reader. The caller has the object's lock, and keeps it.
 * Returns NULL if too many fetches are in progress, or the cache stops. metadata is NULL if the
 * version is not known. */
struct fetch *fetch_start(struct inflight *inflight, enum fetch_kind kind,
                          const struct asker *asker, struct metadata *metadata,
                          const struct fetch_span *span) MUST_USE;
/* Starts a GET ahead of its reader. Returns NULL also if too many slots are set aside already. */
struct fetch *fetch_start_ahead(struct inflight *inflight, const struct asker *asker,
                                struct metadata *metadata, const struct fetch_span *span) MUST_USE;
void fetch_give_back(struct fetch *fetch);    /* the slots that are set aside; under the lock */
/* Returns the newest HEAD of this identity that is in progress, or NULL. Under the lock. */
struct fetch *fetch_probe(struct inflight *inflight, const struct identity *who,
                          unsigned part) MUST_USE;
/* Joins, as a reader, a fetch that will deliver this byte of this version soon. If etag_hash is 0,
 * any version will do, and only fetches without an answer count. If for_peer, a fetch that may wait
 * for another node does not count: that node may be the one that asks. Returns NULL if there is no
 * such fetch. Under the lock. */
struct fetch *fetch_join(struct inflight *inflight, uint64_t etag_hash, uint64_t offset,
                         bool for_peer) MUST_USE;
/* Returns the first byte after `from` that belongs to another fetch which may bring this version.
 * The span of a new fetch ends there, so that no byte is fetched twice. Returns NO_END if there is
 * no such fetch. Under the lock. */
uint64_t fetch_next_claim(struct inflight *inflight, uint64_t etag_hash, uint64_t from);
struct fetch *fetch_join_this(struct fetch *fetch) MUST_USE;
/* Notes that this reader waits for the fetch, too. If the reader is of a lower rank, or belongs to
 * no list, the fetch waits for a connection in its place. The span of the reader gets a link to
 * that of the fetch. Accepts NULL. Under the lock. */
void fetch_joined(struct fetch *fetch, const struct asker *asker);
/* To be called when a reader has come to this offset. Paces streams that are not stored. Under the
 * lock. */
void fetch_progress(struct fetch *fetch, uint64_t offset);
/* To be called when a reader leaves. Under the lock. May free the fetch. */
void fetch_leave(struct fetch **fetch);
void fetch_drop_kept(struct fetch *fetch);    /* under the lock */
/* True if it keeps flights for slower readers. Under the lock. */
bool fetch_keeps_bytes(const struct fetch *fetch) MUST_USE;
void fetch_slot_free(struct fetch *fetch);    /* the slots call it: a slot is free for this fetch */

/* Shared by fetch.c and deliver.c alone. */
extern const struct origin_events deliver_events;
void fetch_send(struct fetch *fetch);         /* asks for the bytes that are still missing */
void fetch_free(struct fetch *fetch);         /* must be over, without readers; under the lock */

#endif
