/* sigv2.h - signature version 2, verified. SPDX-License-Identifier: Apache-2.0
 *
 * S3 still accepts version 2, and boto3 uses it by default for presigned URLs. The signature is an
 * HMAC-SHA1 of the method, a few headers, the x-amz- headers, the path, and the parameters that
 * name a sub-resource. It covers less than version 4. So a request with a parameter that the
 * signature does not cover is refused, unless the parameter only filters or pages a list. Otherwise
 * someone could turn a signed request into another operation. The functions do no I/O and read no
 * clock (rule H9 in src/README.md). */
#ifndef S3_SIGV2_H
#define S3_SIGV2_H

#include "s3/sigv4.h"

/* Proves the claim, in constant time. `bucket` is the bucket in the Host, or empty. Returns OK,
 * ERR_SIGNATURE, ERR_NOT_SIGNED, ERR_EXPIRED, ERR_SKEWED or ERR_BAD_URI. */
enum err sigv2_verify(struct arena *scratch, const struct request_head *head,
                      const struct sigv4_claim *claim, slice bucket, slice secret_key,
                      int64_t now_s) MUST_USE;
/* Explains an ERR_SIGNATURE: gives the text that the client should have signed. */
void sigv2_explain(struct arena *keep, const struct request_head *head,
                   const struct sigv4_claim *claim, slice bucket, struct s3_fault *ret);
/* True if `signature` (base64) is the signature of `text` with this secret. Compares in constant
 * time. */
bool sigv2_text_is(slice secret_key, slice text, slice signature) MUST_USE;

#endif
