/* hash.h - keyed hash of an object's name, and checksums. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_HASH_H
#define STORE_HASH_H

#include "base/crc.h"
#include "store/metadata.h"

#define STORE_SECRET_BYTES 16
#define INSTALLATION_ID_BYTES 16

/* Sets *ret to 96 bits of SipHash-2-4-128 (OpenSSL's, fetched once) over the parts of the name,
 * each with its length. Any thread. */
void object_id_of(const uint8_t secret[STORE_SECRET_BYTES], const struct object_name *name,
                  struct object_id *ret);
/* 64 bits of the same hash over endpoint and bucket; never 0, which means an unknown bucket. */
uint64_t bucket_hash(const uint8_t secret[STORE_SECRET_BYTES], slice endpoint, slice bucket);
/* The bucket hash of an object, by its name as in metadata->name. */
uint64_t bucket_hash_of(const uint8_t secret[STORE_SECRET_BYTES], slice name);
/* Sets ret to the id of the installation that has this secret. The id does not tell the secret. */
void installation_id_of(const uint8_t secret[STORE_SECRET_BYTES],
                        uint8_t ret[INSTALLATION_ID_BYTES]);
void secret_make(uint8_t ret[STORE_SECRET_BYTES]);             /* random bytes of the kernel */
/* The seed of an object's data checksums. It makes a block of another object, version or unit fail
 * its check (penstock-format(5)). */
uint32_t crc_seed(const struct object_id *id, uint64_t etag_hash, uint32_t unit);

#endif
