/* crc.h - cyclic checksums, for records on disk and for bodies of clients.
 * SPDX-License-Identifier: Apache-2.0
 *
 * `seed` is 0 for the first bytes, then the result of the previous call. Any thread may call these
 * functions. */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include "base/base.h"

uint32_t crc32c(uint32_t seed, const void *bytes, size_t len);        /* Castagnoli */
uint32_t crc32(uint32_t seed, const void *bytes, size_t len);         /* as in gzip */
uint64_t crc64nvme(uint64_t seed, const void *bytes, size_t len);     /* as in NVMe; S3's default */

#endif
