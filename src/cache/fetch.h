/* fetch.h - one origin GET or HEAD, and its readers. SPDX-License-Identifier: Apache-2.0
 *
 * A fetch asks for a span of whole units, and feeds flights in the order of the bytes. When the
 * origin cuts it off, it begins again behind the last byte, with If-Match. It is the leader of its
 * flights (H6). How long it lives:
 *
 *   not sent yet          it ends with its last reader
 *   sent, admitted        it belongs to the cache: it goes on to the end of the record without them
 *   sent, not admitted    it is a stream, paced by its fastest reader. It ends with its last one;
 *                         or, while it is ahead, when other calls need its connection: its readers
 *                         then go on with another fetch */
#ifndef CACHE_FETCH_H
#define CACHE_FETCH_H

#include "cache/flight.h"

#define FETCH_MAGIC 0x6665746368303131u
#define NO_END UINT64_MAX

/* The bytes to ask for. With metadata: [first, end) of that version (If-Match). Without metadata:
 * [first, end), and end may be NO_END; or the last `suffix` bytes. plain: without a Range
 * header. */
struct fetch_span {
    uint64_t first, end;
    uint64_t suffix;
    bool plain;
    unsigned part;                /* of a HEAD: the part whose place it asks for; 0: none */
};

enum fetch_kind { FETCH_GET, FETCH_HEAD };

/* The identity in whose name a fetch asks, and the grant that a 2xx proves. */
struct asker {
    const struct identity *who;
    struct grant_name grant;
    uint64_t list_id;             /* 0: of no list; see struct get_ask */
};

struct fetch {
    uint64_t magic;
    struct list link;             /* inflight->fetches */
    struct list slot_link;        /* in the queue for a slot, or of fetches that keep flights */
    bool slot_invited;            /* its turn in that queue has come; the slots' own */
    enum fetch_kind kind;
    struct inflight *inflight;        /* a reference */
    struct fetch_span asked;
    struct epoch_note epoch;
    int64_t sent_s;               /* when it began: its answer is true as of this moment */
    struct asker asker;
    struct grant_note granted;    /* at that moment */
    uint32_t refusals;            /* grant_refusals() at that moment */
    uint64_t sent_ms;             /* that moment by ageing_ms() */

    /* read by readers, under the lock */
    struct metadata *metadata;    /* the version in its If-Match, or in its answer */
    /* the head of a good response came: metadata, next and end are known */
    bool answered;
    bool over;                    /* nothing more will come */
    bool canceled;                /* soon over: no reader joins it */
    enum err err;                 /* once over: OK, ERR_CHANGED (another version), or see refusal */
    struct refusal *refusal;
    uint64_t next, end;           /* the byte that comes next, and the first that is not wanted */
    struct list waiters;
    unsigned readers;
    uint64_t wanted;              /* the position of the fastest reader */

    /* the leader's own: touched by the origin thread that runs the call */
    struct origin_call call;
    struct http_field fields[3];
    struct arena arena;
    bool known_metadata;          /* sent with If-Match */
    bool proof;                   /* a GET for its status alone: its bytes are not stored */
    bool upgrade;                 /* a HEAD: its metadata is stored, though not new (FULL) */
    bool admitted;
    bool began;                   /* has fed a flight */
    bool pacing;                  /* paused until its fastest reader comes nearer */
    bool outran;                  /* ended because its readers were too far behind */
    int status;
    uint64_t skip;                /* bytes of this answer in front of `next` */
    size_t taken;                 /* bytes taken before a pause: the origin sends them again */
    unsigned tries;               /* restarts since the last byte */
    struct flight *current;
    struct flight *kept[UNSTORED_KEPT];    /* of a stream that is not stored, for slower readers */
    struct store_removal refusing;    /* the fetch is over when this refusal is on disk */
    struct text error_body, error_fields;
    slice error_type;
};

/* Starts a fetch, with the caller as its reader. Under the object's lock, which it keeps. NULL: too
 * many are in progress, or the cache stops. metadata NULL: the version is not known. */
struct fetch *fetch_start(struct inflight *inflight, enum fetch_kind kind,
                          const struct asker *asker, struct metadata *metadata,
                          const struct fetch_span *span) MUST_USE;
/* The newest HEAD of this identity that is in progress, or NULL. Under the lock. */
struct fetch *fetch_probe(struct inflight *inflight, const struct identity *who,
                          unsigned part) MUST_USE;
/* Joins, as a reader, a fetch that will deliver this byte of this version soon. etag_hash 0: any
 * version, of a fetch without an answer. NULL: there is none. Under the lock. */
struct fetch *fetch_join(struct inflight *inflight, uint64_t etag_hash, uint64_t offset) MUST_USE;
/* The first byte after `from` of another fetch that may bring this version. A span ends there, so
 * that no byte is fetched twice. NO_END: there is none. Under the lock. */
uint64_t fetch_next_claim(struct inflight *inflight, uint64_t etag_hash, uint64_t from);
struct fetch *fetch_join_this(struct fetch *fetch) MUST_USE;
/* A reader of this list waits for it, too. A reader of no list (0) is not held up by the list for
 * which the fetch was started. NULL: nothing was joined. Under the lock. */
void fetch_joined(struct fetch *fetch, uint64_t list_id);
/* A reader has come to this offset; paces streams that are not stored. Under the lock. */
void fetch_progress(struct fetch *fetch, uint64_t offset);
/* A reader leaves. Under the lock; may free the fetch. */
void fetch_leave(struct fetch **fetch);
void fetch_drop_kept(struct fetch *fetch);    /* under the lock */
void fetch_slot_free(struct fetch *fetch);    /* called by the slots: one is free for this fetch */

/* Shared by fetch.c and deliver.c alone. */
extern const struct origin_events deliver_events;
void fetch_send(struct fetch *fetch);         /* asks for what is still missing */
void fetch_free(struct fetch *fetch);         /* over, and without readers; under the lock */

#endif
