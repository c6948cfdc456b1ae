/* metas.h - the two meta pages of the index. SPDX-License-Identifier: Apache-2.0
 *
 * LMDB writes the two pages in turn, and uses the one with the higher transaction number. They have
 * no checksum: if a bit of the number or of the root flips, LMDB takes an older tree, whose entries
 * all were right once. So a copy of the right values is kept elsewhere: in RAM while the index is
 * open (index_snapshot.c), and in the file `clean` while it is not (clean.h). Pure; any thread. */
#ifndef STORE_METAS_H
#define STORE_METAS_H

#include "base/base.h"

#define META_BYTES 152u               /* the bytes of a meta page that have a meaning */

/* The seal of a transaction's meta page is made of its number and a checksum. No other page has
 * it. */
uint64_t meta_seal(const uint8_t *meta, uint64_t transaction);
uint64_t meta_transaction(const uint8_t *meta);

/* The values that decide which tree LMDB takes. */
struct metas {
    uint64_t transaction, root, last_page;    /* of the page with the higher transaction number */
    uint32_t page_bytes;
    uint32_t crc[2];                  /* of the first META_BYTES of each page */
};
void metas_read(const uint8_t *first, const uint8_t *second, uint32_t page_bytes,
                struct metas *ret);
/* Reads the pages from the file `name` in a folder, without LMDB. Returns OK, or ERR_GONE if the
 * file has no two pages of that size. */
enum err metas_read_file(int folder_fd, const char *name, uint32_t page_bytes,
                         struct metas *ret) MUST_USE;

#endif
