/* contents.c - the table of contents of an extent. SPDX-License-Identifier: Apache-2.0
 *
 * The last 64 bytes of a sealed extent are the footer of its table of contents. For an unsealed
 * extent, a scan of the record headers gives the same entries. Committer only. */
#include <errno.h>
#include <unistd.h>

#include "store/extent_inside.h"

#define WINDOW_BYTES 16384u

bool extent_read(const struct extent *extent, void *to, size_t len, uint64_t offset)
{
    for (size_t got = 0; got < len;) {
        ssize_t n = pread(extent->fd, (char *)to + got, len - got, (off_t)(offset + got));
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        got += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* The footer, if the file ends in one that is this extent's and fits. */
bool extent_read_footer(const struct extent *extent, struct toc_footer *ret)
{
    uint8_t bytes[TOC_FOOTER_BYTES];
    uint64_t size = extent_size(extent);
    return size >= PAGE_BYTES &&
           extent_read(extent, bytes, sizeof(bytes), size - sizeof(bytes)) &&
           toc_footer_decode(bytes, ret) == OK && ret->extent == extent->number &&
           ret->offset + toc_bytes(ret->count) == size;
}

/* An extent read forward through a small buffer. */
struct window {
    const struct extent *extent;
    uint64_t start;
    size_t len;
    char bytes[WINDOW_BYTES];
};

/* Up to `len` bytes at `offset`; fewer at the end of the file, none when it can't be read. */
static slice window_at(struct window *window, uint64_t offset, size_t len)
{
    uint64_t size = extent_size(window->extent);
    if (offset >= size)
        return (slice){ NULL, 0 };
    len = (size_t)MIN(len, size - offset);
    if (offset < window->start || offset + len > window->start + window->len) {
        window->start = offset;
        window->len = (size_t)MIN(WINDOW_BYTES, size - offset);
        if (!extent_read(window->extent, window->bytes, window->len, offset)) {
            window->len = 0;
            return (slice){ NULL, 0 };
        }
    }
    return (slice){ window->bytes + (offset - window->start), len };
}

static bool record_at(struct window *window, uint64_t offset, uint32_t ordinal, struct record *ret)
{
    return record_decode(window_at(window, offset, RECORD_HEADER_MAX), ret) == OK &&
           ret->extent == window->extent->number && ret->ordinal == ordinal &&
           record_end(offset, ret) <= extent_size(window->extent);
}

/* Header after header, up to the first that is none. */
static enum err scan(const struct extent *extent, extent_visit *each, void *arg)
{
    struct window window = { .extent = extent };
    enum err e = OK;
    uint64_t at = 0;
    for (uint32_t ordinal = 0; !e; ordinal++) {
        struct record record;
        at = round_up(at, RECORD_ALIGN);
        if (!record_at(&window, at, ordinal, &record)) {
            at = round_up(at, PAGE_BYTES);    /* the next append, perhaps */
            if (!record_at(&window, at, ordinal, &record))
                break;
        }
        e = each(arg, &record, (uint32_t)at);
        at = record_end(at, &record);
    }
    return e;
}

struct gathering {
    struct arena *keep;
    struct toc_entry *entries;
    uint32_t count;
};

static enum err gather(void *arg, const struct record *record, uint32_t offset)
{
    struct gathering *to = arg;
    to->entries = arena_grow(to->keep, to->entries, to->count, sizeof(*to->entries));
    to->entries[to->count++] = toc_entry_of(record, offset);
    return OK;
}

static bool read_toc(const struct extent *extent, struct arena *keep, struct toc_entry **ret,
                     uint32_t *ret_count)
{
    struct toc_footer footer;
    if (!extent_read_footer(extent, &footer))
        return false;
    size_t len = (size_t)footer.count * TOC_ENTRY_BYTES;
    *ret = arena_alloc(keep, len + 1);
    bool good = extent_read(extent, *ret, len, footer.offset) &&
                crc32c(0, *ret, len) == footer.entries_crc;
    for (uint32_t i = 0; good && i < footer.count; i++)
        good = toc_entry_is_valid(&(*ret)[i]);
    *ret_count = footer.count;
    return good;
}

static enum err contents(const struct extent *extent, struct arena *keep, struct toc_entry **ret,
                         uint32_t *ret_count)
{
    if (extent->sealed && read_toc(extent, keep, ret, ret_count))
        return OK;
    struct gathering found = { .keep = keep };
    enum err e = scan(extent, gather, &found);
    *ret = found.entries;
    *ret_count = found.count;
    return e;
}

enum err extent_contents(struct extents *all, uint32_t number, struct arena *keep,
                         struct toc_entry **ret, uint32_t *ret_count)
{
    struct extent *extent;
    enum err e = extent_hold(all, number, &extent);
    if (!e)
        e = contents(extent, keep, ret, ret_count);
    extent_release(&extent);
    return e;
}

/* By its table, so that one bad header hides no record but its own. */
static enum err each_listed(const struct extent *extent, const struct toc_entry *entries,
                            uint32_t count, extent_visit *each, void *arg)
{
    struct window window = { .extent = extent };
    enum err e = OK;
    for (uint32_t i = 0; !e && i < count; i++) {
        struct record record;
        if (record_at(&window, entries[i].offset, i, &record))
            e = each(arg, &record, entries[i].offset);
    }
    return e;
}

enum err extent_each_record(struct extents *all, uint32_t number, extent_visit *each, void *arg)
{
    struct extent *extent;
    enum err e = extent_hold(all, number, &extent);
    if (e)
        return e;
    struct arena keep = { 0 };
    struct toc_entry *entries;
    uint32_t count;
    e = extent->sealed && read_toc(extent, &keep, &entries, &count)
            ? each_listed(extent, entries, count, each, arg)
            : scan(extent, each, arg);
    arena_free(&keep);
    extent_release(&extent);
    return e;
}

enum err extent_seal_old(struct extents *all, uint32_t number)
{
    struct arena keep = { 0 };
    struct toc_entry *entries;
    uint32_t count;
    struct extent *extent;
    enum err e = extent_hold(all, number, &extent);
    if (!e)
        e = contents(extent, &keep, &entries, &count);
    if (!e)    /* behind whatever is there: no block is written twice */
        e = extent_write_toc(extent, round_up(extent_size(extent), PAGE_BYTES), entries, count);
    arena_free(&keep);
    extent_release(&extent);
    return e;
}
