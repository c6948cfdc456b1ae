/* read_buffer.c - memory for one read of the disk. SPDX-License-Identifier: Apache-2.0
 *
 *   reader ── read_buffer_take ──> kept for its next reads ──> cut from a huge page, or allocated
 *
 * Large buffers are cut from blocks of 2 MiB, and the kernel is asked to use a huge page for each
 * block. A direct read into small pages is a request with a segment for each page. A disk may need
 * more time for many segments than for the bytes. A virtual disk read 256 KiB, 8 at a time, at 0.8
 * to 1.0 GB/s into small pages, and at 2.0 GB/s into huge ones. New buffers come from the oldest
 * huge page that has room, so that younger ones become empty and are freed.
 *
 * The budget counts allocated bytes: a huge page as a whole, however few of its buffers are used.
 * So huge pages take at most half of the budget, and further large buffers are allocated one by
 * one. While readers lack room, no buffer is kept. Otherwise the kept buffers of all threads could
 * fill the budget. Threads: a buffer belongs to its store_io, and so to one thread. */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/metric.h"
#include "base/trap.h"
#include "store/io.h"

#define KEPT_MAX 8u
#define TINY_KEPT_MAX 256u            /* a batch uses many at a time */
#define HUGE_PAGE_BYTES (2u * 1024u * 1024u)
#define PAGE_BUFFERS (HUGE_PAGE_BYTES / LARGE_BYTES)

struct huge_page {
    struct list link;                 /* io->huge_pages, oldest first */
    uint32_t used;                    /* one bit for each buffer */
    uint8_t *bytes;
};

static const size_t buffer_bytes[BUFFER_KINDS] = { TINY_BYTES, SMALL_BYTES, LARGE_BYTES,
                                                   MERGED_BUFFER_BYTES };
static_assert(LARGE_BYTES % PAGE_BYTES == 0, "each buffer begins at the start of a page of memory");
static_assert(PAGE_BUFFERS > 0 && PAGE_BUFFERS < 32, "each buffer has a bit in a mask");

static uint8_t *allocate(struct store *store, size_t bytes, size_t align)
{
    if (atomic_fetch_add(&store->buffer_bytes, bytes) >= BUFFER_BYTES_MAX) {
        atomic_fetch_sub(&store->buffer_bytes, bytes);
        metric_add(M_STORE_NO_BUFFER, 1);
        return NULL;
    }
    uint8_t *memory = aligned_alloc(align, bytes);
    check(memory != NULL);
    return memory;
}

static void give_back(struct store *store, uint8_t *memory, size_t bytes)
{
    check(atomic_fetch_sub(&store->buffer_bytes, bytes) >= bytes);
    free(memory);
}

/* ---- huge pages ---- */

static bool may_be_huge(const struct store *store)
{
    size_t max = store->options.held_bytes ? store->options.held_bytes : BUFFER_BYTES_MAX;
    return atomic_load_explicit(&store->buffer_bytes, memory_order_relaxed) + HUGE_PAGE_BYTES <=
           max / 2;
}

/* Returns NULL if the budget has no room for a huge page. */
static struct huge_page *huge_page_new(struct store_io *io)
{
    if (!may_be_huge(io->store))
        return NULL;
    uint8_t *memory = allocate(io->store, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES);
    if (!memory)
        return NULL;
    (void)madvise(memory, HUGE_PAGE_BYTES, MADV_HUGEPAGE);    /* small pages work as well */
    struct huge_page *page = must_alloc(sizeof(*page));
    page->bytes = memory;
    list_init(&page->link);
    list_add(&io->huge_pages, &page->link);
    return page;
}

static struct huge_page *huge_page_with_room(struct store_io *io)
{
    list_each(struct huge_page, page, &io->huge_pages, link)
        if (page->used != (1u << PAGE_BUFFERS) - 1)
            return page;
    return huge_page_new(io);
}

static bool cut_buffer(struct store_io *io, struct read_buffer *buffer)
{
    struct huge_page *page = huge_page_with_room(io);
    if (!page)
        return false;
    unsigned free_bit = (unsigned)__builtin_ctz(~page->used);
    check(free_bit < PAGE_BUFFERS);
    page->used |= 1u << free_bit;
    buffer->page = page;
    buffer->bytes = page->bytes + free_bit * LARGE_BYTES;
    return true;
}

static void return_buffer(struct store_io *io, struct read_buffer *buffer)
{
    struct huge_page *page = buffer->page;
    uint32_t bit = 1u << (size_t)(buffer->bytes - page->bytes) / LARGE_BYTES;
    check(page->used & bit);
    page->used &= ~bit;
    if (page->used)
        return;
    list_del(&page->link);
    give_back(io->store, page->bytes, HUGE_PAGE_BYTES);
    free(page);
}

/* ---- buffers ---- */

static struct read_buffer *buffer_new(struct store_io *io, enum buffer_kind kind)
{
    struct read_buffer *buffer = must_alloc(sizeof(*buffer));
    buffer->io = io;
    buffer->kind = kind;
    if (kind == LARGE && cut_buffer(io, buffer))
        return buffer;
    buffer->bytes = allocate(io->store, buffer_bytes[kind], PAGE_BYTES);
    if (buffer->bytes)
        return buffer;
    free(buffer);
    return NULL;
}

static void buffer_free(struct read_buffer *buffer)
{
    if (buffer->page)
        return_buffer(buffer->io, buffer);
    else
        give_back(buffer->io->store, buffer->bytes, buffer_bytes[buffer->kind]);
    free(buffer);
}

struct read_buffer *read_buffer_take(struct store_io *io, size_t bytes)
{
    enum buffer_kind kind = TINY;
    while (buffer_bytes[kind] < bytes)
        check(++kind < BUFFER_KINDS);
    struct read_buffer *buffer = io->kept[kind];
    if (!buffer)
        return buffer_new(io, kind);
    io->kept[kind] = buffer->next;
    io->kept_count[kind]--;
    return buffer;
}

void read_buffer_give(struct read_buffer *buffer)
{
    if (!buffer)
        return;
    struct store_io *io = buffer->io;
    if (buffer->kind == LENT) {
        extent_lend_end(buffer->lender);
        extent_release(&buffer->lender);
        free(buffer);
        return;
    }
    if (io->kept_count[buffer->kind] >= (buffer->kind == TINY ? TINY_KEPT_MAX : KEPT_MAX) ||
        store_held_bytes_scarce(io)) {
        buffer_free(buffer);
        return;
    }
    buffer->next = io->kept[buffer->kind];
    io->kept[buffer->kind] = buffer;
    io->kept_count[buffer->kind]++;
}

struct read_buffer *read_buffer_lent(struct store_io *io, struct read_plan *plan)
{
    struct read_buffer *buffer = must_alloc(sizeof(*buffer));
    *buffer = (struct read_buffer){ .io = io, .kind = LENT, .lender = plan->extent,
                                    .bytes = (uint8_t *)(uintptr_t)plan->lent };
    check(plan->lent && plan->extent);
    metric_add(M_STORE_LENT, 1);
    plan->extent = NULL;
    plan->lent = NULL;
    return buffer;
}

void read_buffers_free(struct store_io *io)
{
    for (size_t kind = 0; kind < BUFFER_KINDS; kind++)
        for (struct read_buffer *next, *at = io->kept[kind]; at; at = next) {
            next = at->next;
            buffer_free(at);
        }
    check(list_empty(&io->huge_pages));    /* all buffers were given back before */
}

bool object_bytes_are_lent(const struct object_bytes *held)
{
    const struct read_buffer *owner = held->owner;
    return owner && owner->kind == LENT;
}

bool object_bytes_file(const struct object_bytes *held, int *ret_fd, uint64_t *ret_offset)
{
    const struct read_buffer *owner = held->owner;
    if (!object_bytes_are_lent(held))
        return false;
    *ret_fd = extent_fd(owner->lender);
    *ret_offset = (uint64_t)((const uint8_t *)held->bytes.ptr - owner->bytes);
    return true;
}

enum err object_bytes_copy(const struct object_bytes *held, slice bytes, void *to,
                           enum copy_use use)
{
    int failed;
    if (!object_bytes_are_lent(held))
        return trap_copy_to(to, bytes.ptr, bytes.len) ? OK : ERR_FAULT;
    if (trap_copy(to, bytes, use, &failed))
        return OK;
    return failed == 0 ? ERR_FAULT : ERR_IO;
}

void object_bytes_release(struct object_bytes *held)
{
    read_buffer_give(held->owner);
    *held = (struct object_bytes){ { NULL, 0 }, NULL };
}

bool store_held_bytes_scarce(const struct store_io *io)
{
    size_t max = io->store->options.held_bytes;
    return max && atomic_load_explicit(&io->store->buffer_bytes, memory_order_relaxed) > max;
}
