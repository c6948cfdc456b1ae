/* free_pages.c - the index's pages that no current tree uses. SPDX-License-Identifier: Apache-2.0
 *
 * The table has eight bytes for each page, in chunks. A chunk is allocated when one of its pages is
 * first free. So the table takes a 512th of the index at most. */
#include "store/free_pages.h"

#include <stdatomic.h>
#include <stdlib.h>

#define CHUNK_PAGES 16384u

struct chunk {
    _Atomic uint32_t marks[CHUNK_PAGES][2];    /* of even and of odd transactions */
};

struct free_pages {
    uint64_t chunk_count;
    _Atomic(struct chunk *) chunks[];
};

/* Never returns 0, because a new chunk is full of zeros. */
static uint32_t mark_of(uint64_t transaction)
{
    return (uint32_t)transaction << 1 | 1u;
}

struct free_pages *free_pages_new(uint64_t page_count)
{
    uint64_t count = page_count / CHUNK_PAGES + 1;
    struct free_pages *pages = must_alloc(sizeof(*pages) + count * sizeof(pages->chunks[0]));
    pages->chunk_count = count;
    return pages;
}

void free_pages_free(struct free_pages **pages)
{
    if (!*pages)
        return;
    for (uint64_t i = 0; i < (*pages)->chunk_count; i++)
        free(atomic_load(&(*pages)->chunks[i]));
    free(*pages);
    *pages = NULL;
}

void free_pages_note(struct free_pages *pages, uint64_t page, uint64_t transaction)
{
    check(page / CHUNK_PAGES < pages->chunk_count);
    _Atomic(struct chunk *) *place = &pages->chunks[page / CHUNK_PAGES];
    struct chunk *chunk = atomic_load_explicit(place, memory_order_relaxed);
    if (!chunk) {
        chunk = must_alloc(sizeof(*chunk));
        atomic_store_explicit(place, chunk, memory_order_release);
    }
    atomic_store_explicit(&chunk->marks[page % CHUNK_PAGES][transaction & 1], mark_of(transaction),
                          memory_order_relaxed);
}

bool free_pages_has(const struct free_pages *pages, uint64_t page, uint64_t transaction)
{
    if (page / CHUNK_PAGES >= pages->chunk_count)
        return true;    /* beyond the map: no tree uses that */
    struct chunk *chunk = atomic_load_explicit(&pages->chunks[page / CHUNK_PAGES],
                                               memory_order_acquire);
    return chunk && atomic_load_explicit(&chunk->marks[page % CHUNK_PAGES][transaction & 1],
                                         memory_order_relaxed) == mark_of(transaction);
}
