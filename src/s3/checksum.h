/* checksum.h - the checksums that S3 knows. SPDX-License-Identifier: Apache-2.0
 *
 * Each checksum has a name, a header and a length. The header x-amz-sdk-checksum-algorithm holds
 * the name. A trailer with a checksum is named like the checksum's header. The value is written in
 * base64. Any thread may call these functions. A running sum belongs to one thread at a time. */
#ifndef S3_CHECKSUM_H
#define S3_CHECKSUM_H

#include "base/slice.h"

enum checksum {
    CHECKSUM_CRC32, CHECKSUM_CRC32C, CHECKSUM_CRC64NVME, CHECKSUM_SHA1, CHECKSUM_SHA256,
    CHECKSUM_SHA512, CHECKSUM_MD5, CHECKSUM_XXHASH64, CHECKSUM_XXHASH3, CHECKSUM_XXHASH128,
    CHECKSUM_COUNT    /* also stands for "no checksum" */
};
#define CHECKSUM_BYTES_MAX 64

slice checksum_name(enum checksum which);                /* "CRC32" */
slice checksum_header(enum checksum which);              /* "x-amz-checksum-crc32" */
size_t checksum_bytes(enum checksum which);
/* Both functions ignore case, and return CHECKSUM_COUNT if there is no such checksum. */
enum checksum checksum_of_name(slice name);
enum checksum checksum_of_header(slice header);

struct checksum_run;
struct checksum_run *checksum_begin(enum checksum which) MUST_USE;
void checksum_add(struct checksum_run *run, slice bytes);
void checksum_again(struct checksum_run *run);           /* starts a new sum */
void checksum_get(struct checksum_run *run, uint8_t ret[CHECKSUM_BYTES_MAX]);    /* ends the sum */
void checksum_free(struct checksum_run **run);
void checksum_of(enum checksum which, slice bytes, uint8_t ret[CHECKSUM_BYTES_MAX]);

struct evp_md_st;    /* OpenSSL's EVP_MD */
const struct evp_md_st *checksum_sha256(void);           /* fetched only once, never freed */

#endif
