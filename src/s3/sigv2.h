/* sigv2.h - signature version 2, verified. SPDX-License-Identifier: Apache-2.0
 *
 * S3 still accepts it, and boto3 uses it by default to presign. It is an HMAC-SHA1 of the method, a
 * few headers, the x-amz- headers, the path, and the parameters that name a sub-resource. It covers
 * less than version 4. So a parameter that it does not cover is refused, unless it only filters or
 * pages a list: otherwise a signed request could be turned into another operation. Pure (H9). */
#ifndef S3_SIGV2_H
#define S3_SIGV2_H

#include "s3/sigv4.h"

/* Proves the claim, in constant time. `bucket` is the one that the Host names, or empty.
 * ERR_SIGNATURE, ERR_NOT_SIGNED, ERR_EXPIRED, ERR_SKEWED, ERR_BAD_URI. */
enum err sigv2_verify(struct arena *scratch, const struct request_head *head,
                      const struct sigv4_claim *claim, slice bucket, slice secret_key,
                      int64_t now_s) MUST_USE;
/* Explains an ERR_SIGNATURE: gives the text that the client should have signed. */
void sigv2_explain(struct arena *keep, const struct request_head *head,
                   const struct sigv4_claim *claim, slice bucket, struct s3_fault *ret);
/* True if `signature` (base64) is that of `text` with this secret. In constant time. */
bool sigv2_text_is(slice secret_key, slice text, slice signature) MUST_USE;

#endif
