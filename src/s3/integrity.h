/* integrity.h - what a request says its body is. SPDX-License-Identifier: Apache-2.0
 *
 * Read from the head alone: the framing, the length of the data, and every sum that must hold
 * before anybody may trust it. A trailer is named by x-amz-trailer, and only beside chunks; chunks
 * that may have one and name none are taken without a sum, as S3 does. Pure. What is wrong is named
 * in S3's words, a sentence where the code alone says too little. */
#ifndef S3_INTEGRITY_H
#define S3_INTEGRITY_H

#include "s3/checksum.h"
#include "s3/sigv4.h"

struct integrity {
    bool framed;                     /* aws-chunked: s3/chunked.h */
    bool chunks_signed, trailer_must;
    bool has_length;                 /* of the data, said besides that of the body */
    uint64_t length;
    slice encoding;                  /* Content-Encoding of the data itself; ptr NULL: none */
    enum checksum sum;               /* one of them or CHECKSUM_COUNT */
    bool sum_in_trailer;
    uint8_t sum_value[CHECKSUM_BYTES_MAX];
    bool has_sha256, has_md5;
    uint8_t sha256[32], md5[16];
};

/* `said`: headers that were said in the query. of_body: the checksum headers are of the body (those
 * of CompleteMultipartUpload are of the object). OK, ERR_BAD_REQUEST, ERR_BAD_MD5, ERR_NO_LENGTH,
 * ERR_NOT_IMPLEMENTED; *ret_why is in keep, empty if there is nothing to add. */
enum err integrity_read(struct arena *keep, const struct http_head *head,
                        const struct http_field *said, size_t said_count,
                        const struct sigv4_claim *claim, bool of_body, struct integrity *ret,
                        slice *ret_why) MUST_USE;

/* Is it a field that speaks of the framing, and of nothing once that is taken off? */
bool integrity_is_framing(slice name);

/* The length of the data if it was said (in S3's way or HTTP's), before anything else is known. */
bool integrity_length(const struct http_head *head, const struct sigv4_claim *claim,
                      uint64_t *ret) MUST_USE;

#endif
