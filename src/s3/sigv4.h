/* sigv4.h - signatures, verified and made. SPDX-License-Identifier: Apache-2.0
 *
 * Over the raw request: the path encoded once and never normalised, the query sorted by encoded
 * name then value, signed headers read from the raw head, repeated ones joined by ','.
 * Pure but for a cache of day keys: a struct sigv4 belongs to one thread. Time is an argument. */
#ifndef S3_SIGV4_H
#define S3_SIGV4_H

#include "base/arena.h"
#include "s3/error.h"
#include "s3/head.h"

/* The digest of no bytes at all, as payload hashes and chunks' signatures say it. */
#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct sigv4;    /* fetched digests and derived day keys of one thread */
struct sigv4 *sigv4_new(void) MUST_USE;
void sigv4_free(struct sigv4 **sigv4);

enum sigv4_payload {
    PAYLOAD_HEX,            /* x-amz-content-sha256 is a digest: the body must match it */
    PAYLOAD_UNSIGNED,       /* UNSIGNED-PAYLOAD, and presigned requests */
    /* the forms of s3/chunked.h: chunks that are signed, or not, and a trailer or none */
    PAYLOAD_SIGNED_CHUNKS, PAYLOAD_SIGNED_CHUNKS_TRAILER, PAYLOAD_CHUNKS_TRAILER,
    PAYLOAD_OTHER_CHUNKS    /* of a kind that is not known here */
};

/* What a request says about its signature; nothing of it is proven yet. */
struct sigv4_claim {
    bool presigned, v2;              /* v2: signature version 2, see s3/sigv2.h */
    struct s3_fault fault;        /* why reading it failed */
    slice access_key, date, region, service, signed_headers, signature;
    slice session_token;
    slice payload_hash;              /* as it goes into the canonical request */
    enum sigv4_payload payload;
    uint8_t payload_sha256[32];      /* PAYLOAD_HEX */
    int64_t signed_at_s, expires_s;  /* expires_s: presigned only, seconds of life; v2: its end */
};

/* Reads the claim, of either version. ERR_NO_AUTH (no signature at all), ERR_AUTH_V2 (one of
 * version 2 that can't be read), ERR_BAD_AUTH_HEADER, ERR_BAD_AUTH_QUERY, ERR_BAD_ARGUMENT (both
 * ways to sign at once, or a payload hash that is none), ERR_BAD_REQUEST (no x-amz-content-sha256),
 * ERR_DENIED (no valid date), ERR_BAD_URI. Slices point into the head or into keep. */
enum err sigv4_claim_read(struct arena *keep, const struct http_head *head,
                          struct sigv4_claim *ret) MUST_USE;

/* Is it signed for one of these regions (separated by commas; empty: any)? Version 2 knows none. */
enum err sigv4_claim_region(struct arena *keep, slice regions, struct sigv4_claim *claim) MUST_USE;

/* Proves the claim with the secret of its access key, in constant time; an empty secret proves
 * nothing. ERR_SIGNATURE, ERR_NOT_SIGNED, ERR_EXPIRED (presigned, over 7 days is
 * ERR_BAD_AUTH_QUERY), ERR_SKEWED (15 minutes), ERR_BAD_URI (more than 100 parameters). `claim` must come from sigv4_claim_read of the
 * same head. Host, and every x-amz-* header present, must be among the signed headers. */
enum err sigv4_verify(struct sigv4 *sigv4, struct arena *scratch, const struct http_head *head,
                      const struct sigv4_claim *claim, slice secret_key, int64_t now_s) MUST_USE;

/* Why verifying failed with `err`, at what a hit does not pay for: what was signed here and there,
 * which clock says what. Nothing of it is secret. What version 2 signed, sigv2_explain tells. */
void sigv4_explain(struct sigv4 *sigv4, struct arena *keep, const struct http_head *head,
                   const struct sigv4_claim *claim, enum err err, int64_t now_s,
                   struct s3_fault *ret);
/* This text was to be signed, and is not: whose key, the text, and what was given instead. */
void sigv4_explain_text(struct arena *keep, const struct sigv4_claim *claim, slice text,
                        struct s3_fault *ret);

struct sigv4_credentials {
    slice access_key, secret_key, session_token;    /* token empty: none */
};

/* A request to be signed. path is already percent-encoded as it will be sent; query likewise
 * (any order). fields: every header that will be sent and shall be signed, Host among them. */
struct sigv4_ask {
    slice method, path, query;
    const struct http_field *fields;
    size_t field_count;
    slice payload_hash;              /* hex digest or UNSIGNED-PAYLOAD */
    slice region, service;
    int64_t now_s;
};

/* What must be added to the request: x-amz-date, x-amz-content-sha256, x-amz-security-token if
 * there is one, and authorization. */
struct sigv4_signed {
    struct http_field fields[4];
    size_t field_count;
};
void sigv4_sign(struct sigv4 *sigv4, struct arena *keep, const struct sigv4_ask *ask,
                const struct sigv4_credentials *with, struct sigv4_signed *ret);

/* The signature in hex of a text, with the key of claim's date, region and service: forms. */
void sigv4_text(struct sigv4 *sigv4, struct arena *scratch, slice secret_key,
                const struct sigv4_claim *claim, slice text, char ret[64]);

/* The signatures of a body's chunks and of its trailer: each covers the one before, the first that
 * of the head, so none can be left out or moved. NULL is none. */
struct sigv4_chain;
bool sigv4_can_chain(const struct sigv4_claim *claim);    /* has it a signature to begin with? */
struct sigv4_chain *sigv4_chain_new(struct sigv4 *sigv4, const struct sigv4_claim *claim,
                                    slice secret_key) MUST_USE;
void sigv4_chain_free(struct sigv4_chain **chain);
enum sigv4_link { LINK_CHUNK, LINK_TRAILER };
/* Is `signature` the next one, over bytes of this digest? In constant time. ERR_SIGNATURE. */
enum err sigv4_chain_next(struct sigv4_chain *chain, enum sigv4_link link,
                          const uint8_t sha256[32], slice signature) MUST_USE;

#endif
