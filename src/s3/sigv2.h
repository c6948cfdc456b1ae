/* sigv2.h - signature version 2, verified. SPDX-License-Identifier: Apache-2.0
 *
 * S3 still takes it, and boto3 presigns with it unless told otherwise. HMAC-SHA1 over method, a few
 * headers, x-amz- headers, path and those parameters that name a sub-resource. It covers less than
 * version 4, so a parameter that it does not cover and that is no mere paging or filter is refused:
 * nobody makes another operation of what was signed. Pure (H9). */
#ifndef S3_SIGV2_H
#define S3_SIGV2_H

#include "s3/sigv4.h"

/* "Authorization: AWS KEY:SIGNATURE", or AWSAccessKeyId, Signature and Expires in the query.
 * ERR_AUTH_V2, ERR_DENIED (no valid date or end), ERR_BAD_ARGUMENT; called by sigv4_claim_read. */
enum err sigv2_claim_read(struct arena *keep, const struct http_head *head,
                          struct sigv4_claim *ret) MUST_USE;
/* Proves it, in constant time; `bucket`: named by the host, else empty. ERR_SIGNATURE,
 * ERR_NOT_SIGNED, ERR_EXPIRED, ERR_SKEWED, ERR_BAD_URI. */
enum err sigv2_verify(struct arena *scratch, const struct http_head *head,
                      const struct sigv4_claim *claim, slice bucket, slice secret_key,
                      int64_t now_s) MUST_USE;
/* After ERR_SIGNATURE: what was to be signed, as it was read here. */
void sigv2_explain(struct arena *keep, const struct http_head *head,
                   const struct sigv4_claim *claim, slice bucket, struct s3_fault *ret);
/* Is `signature` (base64) that of `text`, by who has this secret? In constant time. */
bool sigv2_text_is(slice secret_key, slice text, slice signature) MUST_USE;

#endif
