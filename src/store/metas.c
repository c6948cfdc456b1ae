/* metas.c - the two meta pages of the index. SPDX-License-Identifier: Apache-2.0
 *
 * index_pages.c describes their fields. */
#include "store/metas.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/file.h"

enum { AT_ROOT = 88 + 40, AT_LAST_PAGE = 136, AT_TRANSACTION = 144 };

static uint64_t field(const uint8_t *meta, uint32_t at)
{
    uint64_t value;
    memcpy(&value, meta + at, sizeof(value));
    return value;
}

uint64_t meta_transaction(const uint8_t *meta)
{
    return field(meta, AT_TRANSACTION);
}

uint64_t meta_seal(const uint8_t *meta, uint64_t transaction)
{
    return transaction << 32 | crc32c(0, meta, META_BYTES);
}

void metas_read(const uint8_t *first, const uint8_t *second, uint32_t page_bytes, struct metas *ret)
{
    const uint8_t *later = meta_transaction(first) < meta_transaction(second) ? second : first;
    *ret = (struct metas){ .transaction = meta_transaction(later), .root = field(later, AT_ROOT),
                           .last_page = field(later, AT_LAST_PAGE), .page_bytes = page_bytes,
                           .crc = { crc32c(0, first, META_BYTES),
                                    crc32c(0, second, META_BYTES) } };
}

enum err metas_read_file(int folder_fd, const char *name, uint32_t page_bytes, struct metas *ret)
{
    uint8_t pages[2][META_BYTES];
    int fd = file_open(folder_fd, name, O_RDONLY);
    if (fd < 0)
        return ERR_IO;
    bool whole = pread(fd, pages[0], META_BYTES, 0) == META_BYTES &&
                 pread(fd, pages[1], META_BYTES, page_bytes) == META_BYTES;
    close(fd);
    if (!whole)
        return ERR_GONE;
    metas_read(pages[0], pages[1], page_bytes, ret);
    return OK;
}
