/* metas.h - the two meta pages of the index, by themselves. SPDX-License-Identifier: Apache-2.0
 *
 * LMDB writes them in turn and believes the one with the higher transaction number. They bear no
 * checksum: a flipped bit in the number or in the root makes it take an older tree, of which every
 * entry was genuine. So what they should be is kept elsewhere: in RAM while the index is open
 * (index_snapshot.c), in the file `clean` while it is not (clean.h). Pure; any thread. */
#ifndef STORE_METAS_H
#define STORE_METAS_H

#include "base/base.h"

#define META_BYTES 152u               /* of a meta page: what has a meaning */

/* What tells a transaction's meta page from any other: its number, and a checksum. */
uint64_t meta_seal(const uint8_t *meta, uint64_t transaction);
uint64_t meta_transaction(const uint8_t *meta);

/* All that decides which tree LMDB takes. */
struct metas {
    uint64_t transaction, root, last_page;    /* of the later one */
    uint32_t page_bytes;
    uint32_t crc[2];                  /* of both pages' first META_BYTES */
};
void metas_read(const uint8_t *first, const uint8_t *second, uint32_t page_bytes,
                struct metas *ret);
/* From the file `name` in a folder, without LMDB. ERR_GONE: it has no two pages of that size. */
enum err metas_read_file(int folder_fd, const char *name, uint32_t page_bytes,
                         struct metas *ret) MUST_USE;

#endif
