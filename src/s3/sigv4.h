/* sigv4.h - verifies and makes signatures. SPDX-License-Identifier: Apache-2.0
 *
 * A signature covers the canonical request (canon.h). In it, the path is percent-encoded once, not
 * twice as for other AWS services, and its slashes and dots stay as they are. The query is sorted
 * by encoded name, then by value. Signed headers come from the raw head; the values of a repeated
 * header are joined by ','. The functions do no I/O, and take the time as an argument. A struct
 * sigv4 has a cache of day keys (a day key is derived from a secret for one day, region and
 * service), so it belongs to one thread. */
#ifndef S3_SIGV4_H
#define S3_SIGV4_H

#include "s3/error.h"
#include "s3/request_head.h"

/* The SHA-256 of an empty text. It is used in payload hashes and in the signatures of chunks. */
#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct sigv4;    /* the digests and day keys of one thread */
struct sigv4 *sigv4_new(void) MUST_USE;
void sigv4_free(struct sigv4 **sigv4);

enum sigv4_payload {
    PAYLOAD_HEX,            /* x-amz-content-sha256 is a digest, which the body must match */
    PAYLOAD_UNSIGNED,       /* UNSIGNED-PAYLOAD, or the request gives no digest */
    /* the forms of s3/chunked.h, with or without signed chunks and a trailer */
    PAYLOAD_SIGNED_CHUNKS, PAYLOAD_SIGNED_CHUNKS_TRAILER, PAYLOAD_CHUNKS_TRAILER,
    PAYLOAD_OTHER_CHUNKS    /* an unknown form */
};

/* A request's claim about its signature. Nothing in it is proved yet. */
struct sigv4_claim {
    bool presigned, v2;              /* v2: signature version 2, see s3/sigv2.h */
    struct s3_fault fault;        /* why the claim can't be read */
    slice access_key, date, region, service, signed_headers, signature;
    slice session_token;
    slice payload_hash;              /* as it stands in the canonical request */
    enum sigv4_payload payload;
    uint8_t payload_sha256[32];      /* for PAYLOAD_HEX */
    int64_t signed_at_s;
    int64_t expires_s;    /* if presigned: seconds of validity; v2: end of validity, Unix time */
};

/* Reads the claim, of version 4 or 2. Returns OK, ERR_NO_AUTH (no signature), ERR_AUTH_V2 (a
 * signature of version 2 that can't be read), ERR_BAD_AUTH_HEADER, ERR_BAD_AUTH_QUERY,
 * ERR_BAD_ARGUMENT (signed in two ways, an unknown or malformed Authorization header, or an invalid
 * payload hash), ERR_BAD_REQUEST (no x-amz-content-sha256) or ERR_DENIED (no valid date, or an
 * incomplete query of version 2). Slices point into the head or into keep. */
enum err sigv4_claim_read(struct arena *keep, const struct request_head *head,
                          struct sigv4_claim *ret) MUST_USE;

/* Reads access key / day / region / "s3" / "aws4_request" into `ret`. Returns false if the
 * credential has another form; *ret_why is then the reason in S3's words. */
bool sigv4_credential_read(struct arena *keep, slice credential, struct sigv4_claim *ret,
                           slice *ret_why) MUST_USE;

/* Checks that the claim is for one of these regions (a list with commas; if it is empty, any region
 * will do). A claim of version 2 has no region, and always passes. */
enum err sigv4_claim_region(struct arena *keep, slice regions, struct sigv4_claim *claim) MUST_USE;

/* Proves the claim with the secret of its access key, in constant time. An empty secret proves
 * nothing. `claim` must come from sigv4_claim_read of the same head. Host and all x-amz-* headers
 * of the request must be signed. Returns OK, ERR_SIGNATURE, ERR_NOT_SIGNED, ERR_EXPIRED (a
 * presigned request), ERR_SKEWED (the clocks differ by more than 15 minutes) or ERR_BAD_URI (more
 * than 100 parameters). */
enum err sigv4_verify(struct sigv4 *sigv4, struct arena *scratch, const struct request_head *head,
                      const struct sigv4_claim *claim, slice secret_key, int64_t now_s) MUST_USE;

/* Explains a refusal: `err` is from sigv4_verify, or ERR_UNKNOWN_KEY. The explanation is the text
 * that should have been signed, the names of the headers that are not signed, the two times that
 * were compared, or the unknown access key. The explanation contains no secret. sigv4_verify does
 * not make the explanation, so that verifying stays cheap. For version 2 see sigv2_explain. */
void sigv4_explain(struct sigv4 *sigv4, struct arena *keep, const struct request_head *head,
                   const struct sigv4_claim *claim, enum err err, int64_t now_s,
                   struct s3_fault *ret);
/* Explains that `text` should have been signed: sets the access key, the text, and the signature
 * that the client sent. */
void sigv4_explain_text(struct arena *keep, const struct sigv4_claim *claim, slice text,
                        struct s3_fault *ret);

struct sigv4_credentials {
    slice access_key, secret_key, session_token;    /* empty token: no session token */
};

/* A request to sign. `path` and `query` are percent-encoded as they will be sent; the query may be
 * in any order. `fields` are all headers to send and sign, with Host. */
struct sigv4_ask {
    slice method, path, query;
    const struct http_field *fields;
    size_t field_count;
    slice payload_hash;              /* hex digest or UNSIGNED-PAYLOAD */
    slice region, service;
    int64_t now_s;
};

/* The headers to add to the request: x-amz-date, x-amz-content-sha256, authorization, and
 * x-amz-security-token if there is a session token. */
struct sigv4_signed {
    struct http_field fields[4];
    size_t field_count;
};
void sigv4_sign(struct sigv4 *sigv4, struct arena *keep, const struct sigv4_ask *ask,
                const struct sigv4_credentials *with, struct sigv4_signed *ret);

#define SIGNATURE_CHARS 64    /* in hex */
/* Signs a text with the key of the claim's date, region and service. Only the policies of browser
 * forms (PostObject) are signed in this way. */
void sigv4_text(struct sigv4 *sigv4, struct arena *scratch, slice secret_key,
                const struct sigv4_claim *claim, slice text, char ret[SIGNATURE_CHARS]);
/* Compares signatures in constant time. */
bool sigv4_is_same(slice signature, const char ours[SIGNATURE_CHARS]) MUST_USE;

/* The signatures of a body's chunks and of its trailer. Each signature covers the one before it.
 * The first covers the signature of the head. So no chunk can be left out or moved. If a
 * function in another file takes a chain, NULL means that the chunks have no signatures. */
struct sigv4_chain;
/* True if the claim has a signature that a chain can start from. */
bool sigv4_can_chain(const struct sigv4_claim *claim);
struct sigv4_chain *sigv4_chain_new(struct sigv4 *sigv4, const struct sigv4_claim *claim,
                                    slice secret_key) MUST_USE;
void sigv4_chain_free(struct sigv4_chain **chain);
enum sigv4_link { LINK_CHUNK, LINK_TRAILER };
/* Returns OK if `signature` is the next one of the chain, for bytes with this digest, otherwise
 * ERR_SIGNATURE. Compares in constant time. */
enum err sigv4_chain_next(struct sigv4_chain *chain, enum sigv4_link link,
                          const uint8_t sha256[32], slice signature) MUST_USE;

#endif
