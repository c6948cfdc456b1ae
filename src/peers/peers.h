/* peers.h - the other nodes of the fleet, as a source of bytes that comes before the origin.
 * SPDX-License-Identifier: Apache-2.0
 *
 * There are two sorts of questions. One names a strong ETag: the node that asks has learned from the
 * origin itself, in its client's name, that the object has this version now and that the client may
 * read it, so an answer proves nothing but bytes. The other names no version, and is asked for a
 * client that reads with the shared identity (Penstock's own credentials). Its answer counts as an
 * answer of the origin to the shared identity, given as long ago as the answer says; the question
 * says how long ago that may be. A peer is a hint, and never needed: without an answer, the call goes
 * to the origin as if there were no peers.
 *
 *   peers_start ──> owner of the segment ──no, late──> second in rank ──no, late──> origin
 *                    └─ frames: the bytes ─> the call's head() and body()
 *
 * A node that answers such a question never asks another peer, so nodes whose lists differ can't ask
 * each other in a circle. Threads: any, unless a comment says otherwise. */
#ifndef PEERS_PEERS_H
#define PEERS_PEERS_H

#include "origin/origin.h"
#include "peers/address.h"
#include "peers/hint.h"
#include "peers/question.h"
#include "store/store.h"

struct peers;

struct peers_options {
    uint8_t id[NODE_ID_BYTES];        /* of this installation */
    uint32_t weight;
    const char *name;                 /* the DNS name in the certificates of all peers */
    const char *cert_file, *key_file, *ca_file;
    unsigned threads;
    size_t hints_max;                 /* that are kept for nodes that do not answer */
    struct store *store;              /* keeps a note of undelivered hints; NULL: nobody does */
};

/* Copies the options. */
struct peers *peers_new(const struct peers_options *options) MUST_USE;
/* Delivers the hints that nodes which answer have not got yet, for at most a second. Then ends all
 * questions, and the threads. Each call has had its done() by then. */
void peers_free(struct peers **peers);

/* From now on these are the addresses of the fleet. `peers` is a struct peers: this is the function
 * `changed` of members.h. One thread at a time. */
void peers_listed(void *peers, const struct member_address *list, size_t count);

/* Returns a text that no other process has, for hellos. So a node knows itself from another node
 * that has a copy of its cache folder, and so the same id. */
#define PEERS_PROCESS_BYTES 17u
const char *peers_process(void);

/* True if another node is known to answer. NULL: false. Costs nothing. */
bool peers_answer(const struct peers *peers);
/* The first byte of the segment after the one that has this byte. The last segment of all offsets
 * ends at UINT64_MAX. */
static inline uint64_t peers_segment_end(uint64_t offset)
{
    uint64_t next = offset / PEERS_SEGMENT_BYTES + 1;
    return next > UINT64_MAX / PEERS_SEGMENT_BYTES ? UINT64_MAX : next * PEERS_SEGMENT_BYTES;
}

/* Starts a GET of the bytes [first, end) of the version `etag`, all of one segment, at a peer or at
 * the origin, as origin_start. question->node and place.endpoint are not used. The reply to
 * call->head has `from_peer` set if it is a peer's; it has the same fields as that of the origin. If
 * the question names no version, its age_ms is at most max_age_ms; else its age_ms means nothing.
 * Bytes of a peer have the checksum that the peer computed from verified ones. Returns false, and
 * starts nothing, if this node is the owner of the segment: the caller then asks the origin. */
bool peers_start(struct peers *peers, struct origin *origin, struct origin_call *call,
                 const struct peer_question *question) MUST_USE;

/* A node with this id has said hello, from this ADDRESS:PORT. The listed nodes with this address are
 * asked for their ids now, unless one of them is known by this id. So a node that starts is known
 * at once. `stops`: the node says that it is stopping. It is then asked whether that is true, and is
 * no longer asked for bytes. NULL: does nothing. */
void peers_heard(struct peers *peers, slice from, const uint8_t id[NODE_ID_BYTES], bool stops);
/* This node is stopping: it says so to all others, each of which says hello to it, and hears it. NULL:
 * does nothing. */
void peers_drain(struct peers *peers);

/* ---- hints ---- */

/* The limits of hints that are kept (hints.h), beside peers_options.hints_max. */
#define PEERS_HINTS_BYTES_MAX (16 * MIB)
#define PEERS_HINTS_KEEP_MS 3600000u
/* To be called before a write is sent to the origin, or a purge begins. The first call of a process
 * leaves a note on the disk, by a thread of its own: should the process end before it has told all
 * nodes, the next one tells them that they may have missed writes. NULL: does nothing. */
void peers_will_hint(struct peers *peers);
/* Tells the other nodes of a write, after the origin has answered it, or of a purge. Returns at
 * once. The hint needs an endpoint and a bucket. NULL: does nothing. */
void peers_hint(struct peers *peers, const struct hint *hint);
/* Counts an answer to a question of the node with this id. NULL: does nothing. */
void peers_count_answer(struct peers *peers, const uint8_t id[NODE_ID_BYTES], uint64_t bytes);

/* ---- for operators ---- */

/* Since this process began: what came from a node, and what went to it. */
struct peer_counts {
    uint64_t asked, from_bytes;       /* questions to it, and the bytes that they brought */
    uint64_t failed, bad;             /* of these: no answer in time; wrong bytes or frames */
    uint64_t answered, to_bytes;      /* its own questions, and the bytes that it was sent */
};

struct peer_status {
    slice address;
    uint8_t id[NODE_ID_BYTES];        /* all 0: it never answered */
    uint32_t weight;
    double share;                     /* of the segments that it owns; 0 while it does not answer */
    bool is_self, answers;
    int64_t since_s;                  /* wall time; 0: never */
    slice why;                        /* why it does not answer; or empty */
    uint64_t retry_ms;                /* time until it is asked again; 0: it answers */
    slice version;                    /* of Penstock; empty: not known */
    unsigned protocol;                /* of peers, that both speak; 0: none */
    uint64_t round_trip_us;           /* 0: not known */
    struct peer_counts counts;
};
/* This node, and what nodes were sent that are on no list. */
struct peers_self {
    uint8_t id[NODE_ID_BYTES];
    uint32_t weight;
    double share;
    slice name;
    struct peer_counts strangers;     /* `answered` and `to_bytes` */
};
/* Returns all listed nodes; the texts are in keep. */
struct peer_status *peers_status(struct peers *peers, struct arena *keep, size_t *ret_count,
                                 struct peers_self *ret_self);

/* The nodes that rank first for a segment. The endpoint is that of the origin. */
struct peer_rank {
    slice address;                    /* empty: this node */
    uint8_t id[NODE_ID_BYTES];
};
size_t peers_rank(struct peers *peers, const struct rank_place *place, struct arena *keep,
                  struct peer_rank ret[], size_t want);

/* The counts by address, for /metrics. At most PEER_LABELS addresses have a label, and keep it while
 * they are listed. The counts of all others are those of "other", which never fall. */
#define PEER_LABELS 64u
struct peer_label {
    slice address;                    /* "other" in the last row */
    bool answers;
    struct peer_counts counts;
};
struct peer_label *peers_labels(struct peers *peers, struct arena *keep, size_t *ret_count);

#endif
