/* list_pages.c - the pages of an origin's list of keys, one after another.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Of all pages together, only two keys and two tokens are kept. So a list of any length needs the
 * memory of one page. One of the two tokens is the mark: the token of the latest page whose number
 * is 1, 2, 4, 8 ... If the tokens of a list repeat in a cycle, the mark comes again sooner or later
 * (Brent's algorithm). */
#include "s3/list_pages.h"

#include <stdlib.h>

#include "s3/encode.h"

static void replace(slice *text, slice by)
{
    slice copy = { must_strndup(by.len ? by.ptr : "", by.len), by.len };
    free((char *)text->ptr);
    *text = copy;
}

void list_pages_begin(struct list_pages *pages, slice prefix, slice after)
{
    *pages = (struct list_pages){ .more = false };
    replace(&pages->prefix, prefix);
    replace(&pages->last, after);
}

void list_pages_copy(struct list_pages *pages, const struct list_pages *from)
{
    *pages = (struct list_pages){ .more = from->more };
    replace(&pages->prefix, from->prefix);
    replace(&pages->first, from->first);
    replace(&pages->last, from->last);
    replace(&pages->token, from->token);
}

void list_pages_end(struct list_pages *pages)
{
    free((char *)pages->prefix.ptr);
    free((char *)pages->first.ptr);
    free((char *)pages->last.ptr);
    free((char *)pages->token.ptr);
    free((char *)pages->mark.ptr);
    *pages = (struct list_pages){ .more = false };
}

slice list_pages_query(const struct list_pages *pages, size_t keys_max, struct arena *keep)
{
    struct text query = text_in(keep);
    text_printf(&query, "encoding-type=url&list-type=2&max-keys=%zu&prefix=", keys_max);
    uri_encode(&query, pages->prefix, true);
    slice place = pages->token.len ? pages->token : pages->last;
    if (place.len) {
        text_add(&query, pages->token.len ? S("&continuation-token=") : S("&start-after="));
        uri_encode(&query, place, true);
    }
    return text_slice(&query);
}

/* True if `key` comes after `before` in the order of bytes, or in that of a tree of folders, where
 * "a/b" comes before "a-b". */
static bool is_after(slice key, slice before)
{
    size_t same = 0;
    while (same < MIN(key.len, before.len) && key.ptr[same] == before.ptr[same])
        same++;
    if (same == key.len || same == before.len)
        return same < key.len;
    return (uint8_t)key.ptr[same] > (uint8_t)before.ptr[same] || before.ptr[same] == '/';
}

static enum list_fault fault_of(const struct list_pages *pages, const struct listing *page)
{
    slice key = page->object_count ? page->objects[0].key : S("");
    bool by_token = pages->token.len;
    if (page->truncated && !key.len && !page->next_token.len)
        return LIST_ENDLESS;
    bool again = page->next_token.len && slice_eq(page->next_token, pages->mark);
    if (by_token && (again || slice_eq(page->next_token, pages->token) ||
                     (key.len && slice_eq(key, pages->first))))
        return LIST_REPEATED;
    return !by_token && key.len && pages->last.len && !is_after(key, pages->last) ? LIST_BEFORE
                                                                                 : LIST_GOES_ON;
}

enum list_fault list_pages_take(struct list_pages *pages, const struct listing *page)
{
    enum list_fault fault = fault_of(pages, page);
    pages->more = !fault && page->truncated;
    if (fault)
        return fault;
    if (page->object_count) {
        replace(&pages->first, page->objects[0].key);
        replace(&pages->last, page->objects[page->object_count - 1].key);
    }
    replace(&pages->token, page->next_token);
    pages->count++;
    if ((pages->count & (pages->count - 1)) == 0)
        replace(&pages->mark, page->next_token);
    return LIST_GOES_ON;
}
