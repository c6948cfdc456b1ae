/* crc.h - cyclic checksums, for what lies on disk and for what clients send.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each goes on from where the last call ended: of a whole, start with 0. Any thread. */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include "base/base.h"

uint32_t crc32c(uint32_t seed, const void *bytes, size_t len);        /* Castagnoli */
uint32_t crc32(uint32_t seed, const void *bytes, size_t len);         /* gzip's */
uint64_t crc64nvme(uint64_t seed, const void *bytes, size_t len);     /* NVMe's, S3's default */

#endif
