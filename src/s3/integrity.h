/* integrity.h - the headers that describe a request's body. SPDX-License-Identifier: Apache-2.0
 *
 * This file reads the framing, the length of the data, and every checksum that must match before
 * the data can be trusted. x-amz-trailer announces a trailer, and is valid only with chunks. A body
 * in unsigned chunks (STREAMING-UNSIGNED-PAYLOAD-TRAILER) that announces no trailer is accepted
 * without a checksum, as in S3. The functions do no I/O and read no clock (rule H9 in
 * src/README.md). Faults are reported with S3's codes, and with a sentence of S3 if the code alone
 * says too little. */
#ifndef S3_INTEGRITY_H
#define S3_INTEGRITY_H

#include "s3/checksum.h"
#include "s3/request.h"
#include "s3/sigv4.h"

struct integrity {
    bool framed;                     /* aws-chunked: s3/chunked.h */
    bool chunks_signed, trailer_must;
    bool has_length;                 /* the head has the length of the data, without the framing */
    uint64_t length;
    slice encoding;                  /* Content-Encoding of the data itself; ptr NULL: none */
    enum checksum sum;               /* CHECKSUM_COUNT: none */
    bool sum_in_trailer;
    uint8_t sum_value[CHECKSUM_BYTES_MAX];
    bool has_sha256, has_md5;
    uint8_t sha256[32], md5[16];
};

/* `of_body` is true if the checksum headers describe the body. (Those of CompleteMultipartUpload
 * describe the object.) Returns OK, ERR_BAD_REQUEST, ERR_BAD_MD5, ERR_NO_LENGTH or
 * ERR_NOT_IMPLEMENTED. *ret_why lies in keep, and may be empty. */
enum err integrity_read(struct arena *keep, const struct request_head *head,
                        const struct s3_request *request, const struct sigv4_claim *claim,
                        bool of_body, struct integrity *ret, slice *ret_why) MUST_USE;

/* True for a field that may describe the framing. After the framing was removed, the code that
 * takes in bodies (front/intake.c) writes the field anew, or leaves it out. */
bool integrity_is_framing(slice name);

/* Reads the length of the data from x-amz-decoded-content-length or Content-Length. Returns false
 * if the head does not have the length. May be called before integrity_read. */
bool integrity_length(const struct request_head *head, const struct sigv4_claim *claim,
                      uint64_t *ret) MUST_USE;

#endif
