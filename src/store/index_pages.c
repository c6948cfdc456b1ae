/* index_pages.c - checks the index pages that a write will touch.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The format, in the machine's byte order, every field with its bytes:
 *
 *   page      0 number (8), 8 pad (2), 10 flags (2), 12 lower (2), 14 upper (2); then offsets of
 *             nodes (2 each) up to `lower`, a gap, and from `upper` on the nodes, without gaps
 *   node      0, 2 halves of the value's length (2, 2), 4 flags (2), 6 key length (2), key, value;
 *             an even length. In a branch, bytes 0 to 5 are a child's page number
 *   overflow  12 how many pages (4); behind the header lies one long value
 *   meta      pages 0 and 1, of even and odd transactions: 16 magic (4), 20 version (4), 40 free
 *             tree, 88 main tree, 136 last page (8), 144 transaction (8)
 *   tree      0 page size (4), 4 flags (2), 6 depth (2), 8 branches (8), 16 leaves (8), 40 root (8)
 *   free      in its tree: key is a transaction (8), value a count and falling numbers (8 each)
 *
 * When LMDB deletes a node, a leaf that is less than a quarter full, or a branch with one child,
 * takes a node from a neighbour under the same parent, or is merged with it. For the new key of a
 * branch LMDB reads the first leaf below. This code does not see the heap. To know when a merge may
 * happen, it counts the nodes that each page may have lost since the transaction began. Pages share
 * counters, so a count may be too high, but never too low. */
#include "store/index_pages.h"

#include <string.h>
#include <unistd.h>

#include "base/guard.h"

#define HEADER 16u
#define NODE 8u
#define PAGE_BYTES_MIN 512u
#define PAGE_BYTES_MAX 32768u
#define NO_PAGE UINT64_MAX
enum { BRANCH = 1, LEAF = 2, OVERFLOW = 4, META = 8 };    /* of a page */
enum { LONG_VALUE = 1 };              /* of a node: its value lies in overflow pages */

static uint16_t u16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static uint32_t u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static uint64_t u64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

/* ---- one page ---- */

static uint32_t node_count(const uint8_t *page)
{
    return (u16(page + 12) - HEADER) / 2;
}

static const uint8_t *node_at(const uint8_t *page, uint32_t index)
{
    return page + u16(page + HEADER + 2 * index);
}

static uint64_t child_of(const uint8_t *node)
{
    return u32(node) | (uint64_t)u16(node + 4) << 32;
}

static slice key_of(const uint8_t *node)
{
    return (slice){ (const char *)node + NODE, u16(node + 6) };
}

static uint32_t bytes_used(const struct index_pages *pages, const uint8_t *page)
{
    return pages->page_bytes - u16(page + 14) + u16(page + 12) - HEADER;
}

/* Compares two keys of the free tree. */
static int number_compare(slice a, slice b)
{
    uint64_t one = u64((const uint8_t *)a.ptr), other = u64((const uint8_t *)b.ptr);
    return (one > other) - (one < other);
}

/* Returns the page if this number is possible and the page has it, and has these flags; or NULL. */
static const uint8_t *page_of(const struct index_pages *pages, uint64_t number, uint16_t flags)
{
    if (number < 2 || number >= pages->next)
        return NULL;
    const uint8_t *page = pages->map + number * pages->page_bytes;
    return u64(page) == number && u16(page + 10) == flags ? page : NULL;
}

/* Returns the even size of a node, or 0 if a page of this kind can't have this node. */
typedef uint32_t node_size(const struct index_pages *pages, const uint8_t *node);

static uint32_t node_end(uint32_t key_bytes, uint64_t value_bytes)
{
    return (uint32_t)(NODE + key_bytes + value_bytes + 1) & ~1u;
}

static bool is_key_size(const struct index_pages *pages, uint32_t bytes)
{
    for (uint32_t i = 0; i < pages->shape_count; i++)
        if (pages->shapes[i].key_bytes == bytes)
            return true;
    return false;
}

/* The key of a branch's first node has no meaning, and may be empty. */
static uint32_t main_branch_node(const struct index_pages *pages, const uint8_t *node)
{
    uint32_t key_bytes = u16(node + 6);
    return key_bytes == 0 || is_key_size(pages, key_bytes) ? node_end(key_bytes, 0) : 0;
}

static uint32_t main_leaf_node(const struct index_pages *pages, const uint8_t *node)
{
    for (uint32_t i = 0; i < pages->shape_count; i++) {
        const struct node_shape *shape = &pages->shapes[i];
        if (u16(node + 6) == shape->key_bytes && u32(node) == shape->value_bytes && !u16(node + 4))
            return node_end(shape->key_bytes, shape->value_bytes);
    }
    return 0;
}

static uint32_t free_branch_node(const struct index_pages *pages, const uint8_t *node)
{
    uint32_t key_bytes = u16(node + 6);
    (void)pages;
    return key_bytes == 0 || key_bytes == 8 ? node_end(key_bytes, 0) : 0;
}

static uint32_t free_leaf_node(const struct index_pages *pages, const uint8_t *node)
{
    uint16_t flags = u16(node + 4);
    uint32_t value_bytes = u32(node);
    if (u16(node + 6) != 8 || (flags && flags != LONG_VALUE) || value_bytes < 8)
        return 0;
    if (flags)
        return node_end(8, 8);
    return value_bytes < pages->page_bytes ? node_end(8, value_bytes) : 0;
}

/* Returns true if the nodes fill the page from `upper` on, and each has an offset of its own. */
static bool nodes_tile(const struct index_pages *pages, const uint8_t *page, node_size *size_of)
{
    uint8_t starts[PAGE_BYTES_MAX / 16];
    uint32_t count = node_count(page), upper = u16(page + 14), found = 0;
    memset(starts, 0, pages->page_bytes / 16);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = u16(page + HEADER + 2 * i);
        if (at < upper || at + NODE > pages->page_bytes || at % 2)
            return false;
        starts[at / 16] |= (uint8_t)(1u << at / 2 % 8);
    }
    for (uint32_t at = upper; at < pages->page_bytes; found++) {
        if (!(starts[at / 16] & 1u << at / 2 % 8))
            return false;
        uint32_t bytes = size_of(pages, page + at);
        if (!bytes || bytes > pages->page_bytes - at)
            return false;
        at += bytes;
    }
    return found == count;
}

/* Returns true if the keys rise. The first key of a branch has no meaning. */
static bool keys_rise(const uint8_t *page, bool numbers)
{
    uint32_t count = node_count(page);
    slice before = { 0 };
    for (uint32_t i = u16(page + 10) == BRANCH; i < count; i++) {
        slice key = key_of(node_at(page, i));
        if (!key.len)
            return false;
        if (before.len && (numbers ? number_compare : slice_cmp)(before, key) >= 0)
            return false;
        before = key;
    }
    return true;
}

/* Returns the page if it is sound, or NULL. */
static const uint8_t *page_get(const struct index_pages *pages, uint64_t number, bool is_leaf,
                               bool is_free)
{
    const uint8_t *page = page_of(pages, number, is_leaf ? LEAF : BRANCH);
    if (!page)
        return NULL;
    uint32_t lower = u16(page + 12), upper = u16(page + 14);
    if (lower < HEADER + 2 || lower % 2 || lower > upper || upper >= pages->page_bytes || upper % 2)
        return NULL;
    node_size *size_of = is_free ? (is_leaf ? free_leaf_node : free_branch_node)
                                 : (is_leaf ? main_leaf_node : main_branch_node);
    if (!nodes_tile(pages, page, size_of) || !keys_rise(page, is_free))
        return NULL;
    return page;
}

/* ---- the beginning: meta page and free pages ---- */

static bool is_page_size(uint32_t bytes)
{
    return bytes >= PAGE_BYTES_MIN && bytes <= PAGE_BYTES_MAX && (bytes & (bytes - 1)) == 0;
}

/* A wrong number leads to memory outside the map. So the file must have this page at this number. */
const uint8_t *index_pages_map_of(const void *inside, uint32_t page_bytes, int file)
{
    uint8_t in_file[PAGE_BYTES_MAX];
    if (!is_page_size(page_bytes))
        return NULL;
    uintptr_t page = (uintptr_t)inside / page_bytes * page_bytes;
    uint64_t number = u64((const uint8_t *)page);
    if (number >= page / page_bytes)
        return NULL;
    ssize_t got = pread(file, in_file, page_bytes, (off_t)(number * page_bytes));
    if (got != (ssize_t)page_bytes || memcmp(in_file, (const void *)page, page_bytes) != 0)
        return NULL;
    return (const uint8_t *)(page - number * page_bytes);
}

static bool tree_read(const struct index_pages *pages, const uint8_t *at, uint16_t flags,
                      struct tree *ret)
{
    *ret = (struct tree){ .root = u64(at + 40), .pages = u64(at + 8) + u64(at + 16),
                          .depth = u16(at + 6) };
    if (u16(at + 4) != flags)
        return false;
    if (ret->root == NO_PAGE)
        return ret->depth == 0;
    return ret->root < pages->next && ret->depth > 0 && ret->depth <= PAGES_LEVELS &&
           ret->pages < pages->next;
}

/* Returns the value of a leaf's node of the free tree, or NULL. A long value lies in overflow
 * pages. */
static const uint8_t *free_value(const struct index_pages *pages, const uint8_t *node)
{
    const uint8_t *value = node + NODE + 8;
    if (!(u16(node + 4) & LONG_VALUE))
        return value;
    uint64_t number = u64(value), need = (HEADER - 1 + (uint64_t)u32(node)) / pages->page_bytes + 1;
    const uint8_t *page = page_of(pages, number, OVERFLOW);
    if (!page || u32(page + 12) < need || u32(page + 12) > pages->next - number)
        return NULL;
    return page + HEADER;
}

static bool takes_list(const struct index_pages *pages, const uint8_t *list, uint64_t bytes)
{
    uint64_t count = list ? u64(list) : UINT64_MAX, before = pages->next;
    if (count >= bytes / 8)
        return false;
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t number = u64(list + 8 * i);
        if (number < 2 || number >= before)
            return false;
        before = number;
        if (pages->free_pages)
            free_pages_note(pages->free_pages, number, pages->last);
    }
    return true;
}

/* Checks a page of the free tree, which has `levels` levels from this page down, and all pages
 * below it. *left is the number of pages not yet seen, *last the highest key so far. */
static bool free_below(const struct index_pages *pages, uint64_t number, unsigned levels,
                       uint64_t *left, uint64_t *last)
{
    const uint8_t *page = *left > 0 ? page_get(pages, number, levels == 1, true) : NULL;
    if (!page)
        return false;
    --*left;
    for (uint32_t i = 0; i < node_count(page); i++) {
        const uint8_t *node = node_at(page, i);
        if (levels > 1) {
            if (!free_below(pages, child_of(node), levels - 1, left, last))
                return false;
            continue;
        }
        uint64_t key = u64(node + NODE);
        if (key <= *last || !takes_list(pages, free_value(pages, node), u32(node)))
            return false;
        *last = key;
    }
    return true;
}

bool index_pages_begin(struct index_pages *pages, uint64_t transaction)
{
    if (!is_page_size(pages->page_bytes))
        return false;
    const uint8_t *meta = pages->map + ((transaction - 1) & 1) * pages->page_bytes;
    memset(pages->losses, 0, sizeof(pages->losses));
    memset(pages->copied, 0, sizeof(pages->copied));
    pages->last = transaction - 1;
    pages->next = u64(meta + 136) + 1;
    if (u16(meta + 10) != META || u32(meta + 16) != 0xBEEFC0DE || u32(meta + 20) != 1 ||
        u64(meta + 144) != transaction - 1 || pages->next < 2 || pages->next > pages->count ||
        u32(meta + 40) != pages->page_bytes)
        return false;
    enum { NUMBERS = 8 };    /* flag of a tree with keys that are numbers */
    if (!tree_read(pages, meta + 40, NUMBERS, &pages->free) ||
        !tree_read(pages, meta + 88, 0, &pages->main))
        return false;
    uint64_t left = pages->free.pages, last = 0;
    return pages->free.root == NO_PAGE ||
           (free_below(pages, pages->free.root, pages->free.depth, &left, &last) && left == 0 &&
            last < transaction);
}

/* ---- the pages of a key ---- */

/* Facts about a page from the pages above it: the index of its node in its parent, and the limits
 * of its keys. Each key is at least `low` and less than `high`. A NULL pointer means no limit. */
struct bounds {
    uint32_t index;
    slice low, high;
};

/* Returns the node if it lies in its page, or NULL. */
static const uint8_t *node_in(const struct index_pages *pages, const uint8_t *page, uint32_t index)
{
    uint32_t at = u16(page + HEADER + 2 * index), room = pages->page_bytes - NODE;
    return at <= room && u16(page + at + 6) <= room - at ? page + at : NULL;
}

/* Finds the child of a page that leads to a key: the last child whose key is not above it. Narrows
 * the bounds. Returns false if a node that the search reads does not lie in the page. */
static bool go_down(const struct index_pages *pages, const uint8_t *page, slice key,
                    struct bounds *bounds, uint64_t *ret_child)
{
    uint32_t low = 0, high = node_count(page);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        const uint8_t *node = node_in(pages, page, middle);
        if (!node)
            return false;
        bool below = slice_cmp(key_of(node), key) <= 0;
        *(below ? &low : &high) = middle;
        *(below ? &bounds->low : &bounds->high) = key_of(node);
    }
    const uint8_t *node = node_in(pages, page, low);
    bounds->index = low;
    *ret_child = node ? child_of(node) : 0;
    return node != NULL;
}

static bool is_within(const uint8_t *page, const struct bounds *bounds)
{
    uint32_t first = u16(page + 10) == BRANCH, count = node_count(page);
    if (first >= count)
        return true;
    return (!bounds->low.ptr || slice_cmp(bounds->low, key_of(node_at(page, first))) <= 0) &&
           (!bounds->high.ptr || slice_cmp(key_of(node_at(page, count - 1)), bounds->high) < 0);
}

/* Adds the next page to the path; leaves have level 1. Returns NULL if the page is not sound. The
 * page is checked unless this transaction has changed it. */
static const uint8_t *path_get(struct index_pages *pages, uint64_t number, unsigned level,
                               const struct bounds *bounds)
{
    pages->path[level - 1] = number;
    if (pages->copied[number % PAGES_COPIED] == number)
        return page_of(pages, number, level == 1 ? LEAF : BRANCH);
    if (pages->free_pages && guard_on(GUARD_LEAF) &&
        free_pages_has(pages->free_pages, number, pages->last))
        return NULL;
    const uint8_t *page = page_get(pages, number, level == 1, false);
    return page && (!guard_on(GUARD_LEAF) || is_within(page, bounds)) ? page : NULL;
}

void index_pages_changed(struct index_pages *pages)
{
    for (unsigned level = pages->main.depth; level > 0; level--) {
        uint64_t number = pages->path[level - 1];
        pages->copied[number % PAGES_COPIED] = number;
    }
}

bool index_pages_put(struct index_pages *pages, slice key)
{
    struct bounds bounds = { 0 };
    uint64_t number = pages->main.root;
    for (unsigned level = pages->main.depth; level > 0; level--) {
        const uint8_t *page = path_get(pages, number, level, &bounds);
        if (!page || (level > 1 && !go_down(pages, page, key, &bounds, &number)))
            return false;
    }
    return true;
}

/* ---- the pages of a key, for reading ---- */

/* Returns the page if the latest tree may use it, or NULL. Its nodes are not checked: a search
 * checks those that it reads. */
static const uint8_t *page_in_use(const struct index_pages *pages, uint64_t number, bool is_leaf)
{
    const uint8_t *page = page_of(pages, number, is_leaf ? LEAF : BRANCH);
    if (!page || (pages->free_pages && free_pages_has(pages->free_pages, number, pages->last)))
        return NULL;
    uint32_t lower = u16(page + 12);
    return lower >= HEADER + 2 && lower <= pages->page_bytes ? page : NULL;
}

static bool holds_within(const struct index_pages *pages, const uint8_t *page,
                         const struct bounds *bounds)
{
    uint32_t first = u16(page + 10) == BRANCH, count = node_count(page);
    return first >= count || (node_in(pages, page, first) && node_in(pages, page, count - 1) &&
                              is_within(page, bounds));
}

bool index_pages_lead(const struct index_pages *pages, slice key)
{
    struct bounds bounds = { 0 };
    uint64_t number = pages->main.root;
    for (unsigned level = pages->main.depth; level > 0 && guard_on(GUARD_LEAF); level--) {
        const uint8_t *page = page_in_use(pages, number, level == 1);
        if (!page || !holds_within(pages, page, &bounds) ||
            (level > 1 && !go_down(pages, page, key, &bounds, &number)))
            return false;
    }
    return true;
}

/* ---- deleting ---- */

static uint8_t *losses_of(struct index_pages *pages, uint64_t number)
{
    return &pages->losses[number % PAGES_COUNTS];
}

static void lose(struct index_pages *pages, uint64_t number)
{
    uint8_t *losses = losses_of(pages, number);
    *losses = (uint8_t)MIN(*losses + 1, UINT8_MAX);
}

static uint32_t node_bytes_max(const struct index_pages *pages)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < pages->shape_count; i++)
        most = MAX(most, node_end(pages->shapes[i].key_bytes, pages->shapes[i].value_bytes) + 2);
    return most;
}

/* Returns true if one more loss may bring the page below the threshold. The library may have split
 * the page in this transaction, so at most half of its room counts. */
static bool may_shrink(struct index_pages *pages, const uint8_t *page)
{
    uint32_t losses = *losses_of(pages, u64(page)) + 1u;
    if (losses > UINT8_MAX)
        return true;
    if (u16(page + 10) == BRANCH)
        return node_count(page) / 2 < losses + 2;
    uint32_t room = pages->page_bytes - HEADER, node = node_bytes_max(pages);
    return MIN(bytes_used(pages, page), room / 2 - node) < room / 4 + losses * node;
}

/* Checks the page and its first and last child; does the same for these children, down to the
 * leaves. */
static bool edges(struct index_pages *pages, uint64_t number, unsigned levels)
{
    const uint8_t *page = page_get(pages, number, levels == 1, false);
    if (!page || levels == 1)
        return page;
    return edges(pages, child_of(node_at(page, 0)), levels - 1) &&
           edges(pages, child_of(node_at(page, node_count(page) - 1)), levels - 1);
}

/* Checks the children on one side of a page that may shrink. The library may merge the page with
 * one after another of them, until the gathered nodes keep it above the threshold. */
static bool neighbours(struct index_pages *pages, const uint8_t *parent, uint32_t index, int step,
                       unsigned levels)
{
    uint32_t gathered = 0, enough = levels == 1 ? pages->page_bytes / 4 + node_bytes_max(pages) : 2;
    while (gathered < enough) {
        index += (uint32_t)step;
        if (index >= node_count(parent))    /* also if it fell below 0 */
            return true;
        uint64_t number = child_of(node_at(parent, index));
        if (!edges(pages, number, levels))
            return false;
        const uint8_t *page = pages->map + number * pages->page_bytes;
        gathered += levels == 1 ? bytes_used(pages, page) : node_count(page);
        lose(pages, number);    /* the shrinking page may take a node from it */
    }
    return true;
}

bool index_pages_delete(struct index_pages *pages, slice key)
{
    const uint8_t *parent = NULL;
    struct bounds bounds = { 0 };
    uint64_t number = pages->main.root;
    for (unsigned level = pages->main.depth; level > 0; level--) {
        const uint8_t *page = path_get(pages, number, level, &bounds);
        if (!page)
            return false;
        if (parent && may_shrink(pages, page) &&
            !(edges(pages, number, level) && neighbours(pages, parent, bounds.index, -1, level) &&
              neighbours(pages, parent, bounds.index, 1, level)))
            return false;
        lose(pages, number);
        if (level > 1 && !go_down(pages, page, key, &bounds, &number))
            return false;
        parent = page;
    }
    return true;
}

/* ---- after a look-up ---- */

/* Bytes before `upper` are left from deleted nodes. Only an offset beyond `lower` leads there. */
bool index_pages_is_current(const struct index_pages *pages, uint64_t transaction,
                            const void *bytes, uint32_t key_bytes)
{
    uintptr_t at = (uintptr_t)bytes - (uintptr_t)pages->map;
    uint64_t number = at / pages->page_bytes;
    if (number >= pages->count || !guard_on(GUARD_LEAF))
        return true;
    const uint8_t *page = pages->map + number * pages->page_bytes;
    return !free_pages_has(pages->free_pages, number, transaction) &&
           at % pages->page_bytes >= u16(page + 14) + NODE + key_bytes;
}
