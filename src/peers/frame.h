/* frame.h - the answer of a peer, as frames. SPDX-License-Identifier: Apache-2.0
 *
 * A peer answers at once with *have* or *fetching* (question.h), and then sends frames: WAIT while
 * it waits for its origin, one HEAD, DATA with the bytes in order, and END. An answer without END is
 * not complete. A frame has 16 bytes, little-endian, and then its payload:
 *
 *     0 u32 "PSP1"    4 u8 kind    5 zero    8 u32 length of the payload    12 u32 checksum
 *
 *   WAIT  no payload. A peer that has nothing else to send sends one every FRAME_WAIT_MS, so that
 *         silence means that it is gone.
 *   HEAD  lines "name: value\r\n", as the origin sent them; before them these of our own:
 *         x-penstock-first and -end (the bytes that follow: [first, end) of the object), -size (of
 *         the object), -age (milliseconds since the origin gave the answers that prove version and
 *         right; FRAME_AGE_UNKNOWN: not known), -full (1: the fields are those of an answer with
 *         the whole object, so that they have all its checksums; else 0). content-range is not
 *         among the fields.
 *   DATA  at most FRAME_DATA_MAX bytes.
 *   END   no payload.
 *   NO    in place of HEAD: the peer will not bring the bytes after all, and nothing follows. The
 *         payload is a word that says why, such as `refused`; at most FRAME_NO_MAX bytes.
 *   HINTS a batch of hints (hint.h): the whole body of a request, and never a part of an answer.
 *
 * The checksum is a CRC-32C of the payload. That of DATA is seeded with the object, its version, its
 * ETag and the offset, and is computed from verified bytes. So bytes of another object, or from
 * another place, fail it. It finds damage, not a peer that lies: holders of a certificate are
 * trusted. Pure; any thread. */
#ifndef PEERS_FRAME_H
#define PEERS_FRAME_H

#include "peers/rank.h"
#include "s3/request_head.h"

#define FRAME_BYTES 16u
#define FRAME_DATA_MAX 65536u
#define FRAME_HEAD_MAX 65536u
#define FRAME_NO_MAX 200u
#define FRAME_WAIT_MS 100u
#define FRAME_AGE_UNKNOWN UINT64_MAX

enum frame_kind { FRAME_WAIT = 1, FRAME_HEAD, FRAME_DATA, FRAME_END, FRAME_NO,
                  FRAME_HINTS };

/* The seed for the checksums of an answer; place->segment does not count. */
uint32_t frame_seed(const struct rank_place *place, slice etag);
/* Writes the frame in front of a payload. `seed` and `offset`, the place of the bytes in the object,
 * are for DATA alone. */
void frame_write(enum frame_kind kind, slice payload, uint32_t seed, uint64_t offset,
                 uint8_t ret[FRAME_BYTES]);

/* Opens bytes that are one frame of this kind, other than DATA. Returns OK with the payload, which
 * lies in `bytes`; ERR_BAD_REQUEST for anything else; or ERR_BAD_DIGEST if the checksum differs. */
enum err frame_open(enum frame_kind kind, slice bytes, slice *ret) MUST_USE;

/* The facts in a HEAD. */
struct frame_head {
    uint64_t first, end, size;        /* [first, end) follows, of an object of `size` bytes */
    uint64_t age_ms;
    bool full;
    struct http_field *fields;        /* of the origin, names in lower case */
    size_t field_count;
    slice etag;                       /* one of the fields */
};
/* Writes the payload, in keep. Returns ERR_TOO_LARGE if a field can't be read back, or if there are
 * too many: without one of them, a peer would store other metadata than the origin gave. */
enum err frame_head_write(struct arena *keep, const struct frame_head *head, slice *ret) MUST_USE;
/* Returns ERR_ORIGIN_REPLY for a payload that is no HEAD, or whose numbers make no sense. Skips the
 * x-penstock- fields that it does not know: a later version may have more. */
enum err frame_head_read(struct arena *keep, slice payload, struct frame_head *ret) MUST_USE;

/* ---- reading ---- */

/* Takes the bytes of an answer in any pieces, and finds the frames. One for each answer. */
struct frame_reader {
    struct rank_place place;          /* of the object that was asked for; the texts must stay */
    uint64_t next;                    /* offset of the next byte of the object */
    struct frame_head head;           /* after the HEAD; in keep */
    bool headed, ended;
    uint32_t seed;
    struct arena keep;
    uint8_t frame[FRAME_BYTES];       /* that is being read */
    uint32_t frame_have;
    uint8_t *payload;                 /* in keep; of FRAME_DATA_MAX bytes */
    uint32_t payload_have;
};

/* The frame that the reader found. NOTHING: it needs more bytes. */
enum frame_found { FRAME_FOUND_NOTHING, FRAME_FOUND_WAIT, FRAME_FOUND_HEAD, FRAME_FOUND_DATA,
                   FRAME_FOUND_END, FRAME_FOUND_NO, FRAME_FOUND_BAD };

void frame_reader_init(struct frame_reader *reader, const struct rank_place *place);
/* Takes bytes off the front of *rest, up to the end of a frame at most. After HEAD, reader->head is
 * set. After DATA, *ret is its payload, whose checksum is right, and which stays valid until the
 * next call. After END, all bytes that the HEAD announced have come. NO: the peer will not bring the
 * bytes; *ret is its text, which stays valid until frame_reader_end. BAD: the frames or a checksum
 * are wrong; *ret is a text that says why. Nothing may be read after END, NO or BAD. */
enum frame_found frame_read(struct frame_reader *reader, slice *rest, slice *ret) MUST_USE;
void frame_reader_end(struct frame_reader *reader);

#endif
