/* question.h - the request for a segment, from one peer to another.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     GET /peer/1/BUCKET/KEY?versionId=... HTTP/1.1
 *     x-penstock-node: ID                the installation that asks, 32 hex digits
 *     x-penstock-endpoint: URL           the origin, as the asker's settings have it
 *     x-penstock-identity: NAME          of the asker's shared identity there; empty: it needs none
 *     range: bytes=FIRST-LAST            within one segment
 *     if-match: ETAG                     if the asker knows the version; else this:
 *     x-penstock-max-age: MILLISECONDS   how long ago the origin's answer may have been given
 *     x-penstock-all-fields: 1           if the asker would like all fields, with the object's
 *                                        checksums: those of an answer without a range
 *
 * The 1 is the version of this protocol. The query is there only if the asker wants a version ID.
 * Answers:
 *
 *     200   frames (frame.h); the header x-penstock-peer is *have* or *fetching*
 *     400   the question is malformed, or has neither if-match nor x-penstock-max-age
 *     404   the peer will not bring the bytes
 *     412   the peer has another version of the object
 *     503   the peer has too much to do, or stops
 *
 * All answers but 200 have x-penstock-peer: no. Their body is a word that says why, as a line of
 * text:
 *
 *     not_found refused range headers    an answer of the origin to the shared identity. The asker
 *                                        goes to the origin: the next node in rank uses the same
 *                                        identity, and would get the same answer
 *     origin                             the origin failed
 *     bucket directory endpoint identity protocol     the settings or versions of the nodes differ
 *     changed   busy bandwidth draining stopping      see 412 and 503
 *
 * GET /peer/hello, with x-penstock-node as above, and with x-penstock-draining if the node that asks
 * is stopping, gets 200 with JSON: {"protocol": [1], "node": ID,
 * "weight": NUMBER, "version": TEXT, "draining": BOOLEAN, "hints": BOOLEAN, "process": TEXT}.
 * `hints` is true if the node takes hints (hint.h), and `process` is its peers_process(); older
 * versions lack these members. Pure; any thread. */
#ifndef PEERS_QUESTION_H
#define PEERS_QUESTION_H

#include "peers/rank.h"
#include "s3/request_head.h"

#define PEER_PROTOCOL 1u

struct peer_question {
    uint8_t node[NODE_ID_BYTES];
    struct rank_place place;
    slice identity, etag;             /* etag empty: the version is not known */
    uint64_t max_age_ms;              /* if it is not known */
    bool all_fields;                  /* likewise */
    uint64_t first, end;              /* the bytes [first, end), all of place.segment */
    uint64_t size;                    /* of the object, if the version is known; not sent */
};

/* Returns the target of the request, in keep. Sets the fields, and returns their number. */
#define PEER_FIELDS_MAX 6u
slice question_write(struct arena *keep, const struct peer_question *question,
                     struct http_field fields[PEER_FIELDS_MAX], size_t *ret_count) MUST_USE;
/* Returns OK; ERR_NOT_FOUND for a target of another version of the protocol; or ERR_BAD_REQUEST. The
 * texts lie in keep, or in the head. */
enum err question_read(struct arena *keep, const struct request_head *head,
                       struct peer_question *ret) MUST_USE;

#endif
