/* paging.c - chooses the key at which a listing page begins. SPDX-License-Identifier: Apache-2.0
 *
 *     folder ──[ stretch ]──[ stretch ]────────[ stretch ]──      sorted by where they start
 *                   ^ a key: again from there  ^ a key: from the end of the one below
 *
 * A stretch is a range of keys that one page listed. A page that begins at the end of the stretch
 * below reaches the key only if the gap is small. If it did not reach the key, the next page begins
 * right at the key. After that, the pages for some more keys in gaps (at most PAUSE_MAX) begin
 * right at their keys, too. Otherwise, if only a few keys of a huge folder are read, each key would
 * wait for two pages. Threads: the caller's lock guards everything. */
#include "cache/paging.h"

#include <stdlib.h>
#include <string.h>

#include "s3/encode.h"

#define STRETCHES_MAX 4096u           /* 4 million keys; 1 MiB of memory if they are short */
#define PAUSE_MAX 15u

struct stretch {
    struct folder_name folder;        /* slices into `text`, as all below */
    slice start, last;                /* start-after, exclusive; and the last key, inclusive */
    char *text;                       /* owned */
};

struct paging {
    struct stretch all[STRETCHES_MAX];
    size_t count;
    unsigned pause, pauses_left;      /* pages at keys in gaps, since a gap was too large */
    unsigned victim;
};

struct paging *paging_new(void)
{
    return must_alloc(sizeof(struct paging));
}

void paging_free(struct paging **paging)
{
    if (!*paging)
        return;
    for (size_t i = 0; i < (*paging)->count; i++)
        free((*paging)->all[i].text);
    free(*paging);
    *paging = NULL;
}

/* ---- just before a key ---- */

/* Returns the last code point of s, and its length in *ret_bytes: 0 if s is not UTF-8 there. */
static uint32_t last_code_point(slice s, size_t *ret_bytes)
{
    uint32_t point = 0;
    size_t bytes = 1;
    while (bytes < 4 && bytes < s.len && ((uint8_t)s.ptr[s.len - bytes] & 0xc0) == 0x80)
        bytes++;
    *ret_bytes = utf8_read(slice_from(s, s.len - bytes), &point) == bytes ? bytes : 0;
    return point;
}

static bool is_xml_char(uint32_t point)
{
    return point == 0x9 || point == 0xa || point == 0xd || (point >= 0x20 && point <= 0xd7ff) ||
           (point >= 0xe000 && point <= 0xfffd) || (point >= 0x10000 && point <= 0x10ffff);
}

static size_t write_utf8(uint32_t point, char ret[4])
{
    if (point < 0x80) {
        ret[0] = (char)point;
        return 1;
    }
    check(point <= 0x10ffff);
    size_t bytes = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = bytes - 1; i > 0; i--, point >>= 6)
        ret[i] = (char)(0x80 | (point & 0x3f));
    ret[0] = (char)((0xff << (8 - bytes)) | point);
    return bytes;
}

bool paging_start_at(struct arena *keep, slice key, slice *ret)
{
    size_t bytes;
    if (!key.len)
        return false;
    uint32_t point = last_code_point(key, &bytes);
    if (!bytes || point == 0 || !is_xml_char(point - 1))
        return false;
    char lowered[4];
    struct text text = text_in(keep);
    text_add(&text, slice_sub(key, 0, key.len - bytes));
    text_add(&text, (slice){ lowered, write_utf8(point - 1, lowered) });
    text_add(&text, S("\xf4\x8f\xbf\xbf"));
    *ret = text_slice(&text);
    return true;
}

/* ---- the table ---- */

static int folder_cmp(const struct folder_name *a, const struct folder_name *b)
{
    if (a->origin != b->origin)
        return (uintptr_t)a->origin < (uintptr_t)b->origin ? -1 : 1;
    int order = slice_cmp(a->bucket, b->bucket);
    return order ? order : slice_cmp(a->prefix, b->prefix);
}

/* Returns the number of stretches that begin before (folder, key). */
static size_t count_below(const struct paging *paging, const struct folder_name *folder, slice key)
{
    size_t low = 0, high = paging->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        const struct stretch *stretch = &paging->all[mid];
        int order = folder_cmp(&stretch->folder, folder);
        if (order < 0 || (order == 0 && slice_cmp(stretch->start, key) < 0))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct stretch *at(struct paging *paging, size_t i, const struct folder_name *folder)
{
    struct stretch *stretch = &paging->all[i];
    return i < paging->count && folder_cmp(&stretch->folder, folder) == 0 ? stretch : NULL;
}

static slice put(char **to, slice s)
{
    slice mine = { *to, slice_put(*to, s) };
    *to += s.len;
    return mine;
}

static struct stretch stretch_new(const struct folder_name *folder, slice start, slice last)
{
    size_t bytes = folder->bucket.len + folder->prefix.len + start.len + last.len;
    char *text = must_alloc(bytes + 1), *to = text;
    struct stretch stretch = { .folder.origin = folder->origin, .text = text };
    stretch.folder.bucket = put(&to, folder->bucket);
    stretch.folder.prefix = put(&to, folder->prefix);
    stretch.start = put(&to, start);
    stretch.last = put(&to, last);
    check((size_t)(to - text) == bytes);
    return stretch;
}

static void drop(struct paging *paging, size_t i)
{
    check(i < paging->count);
    free(paging->all[i].text);
    paging->count--;
    memmove(&paging->all[i], &paging->all[i + 1], (paging->count - i) * sizeof(paging->all[0]));
}

static void insert(struct paging *paging, struct stretch take_stretch)
{
    if (paging->count == STRETCHES_MAX)
        drop(paging, paging->victim++ % STRETCHES_MAX);
    size_t i = count_below(paging, &take_stretch.folder, take_stretch.start);
    memmove(&paging->all[i + 1], &paging->all[i], (paging->count - i) * sizeof(paging->all[0]));
    paging->all[i] = take_stretch;
    paging->count++;
}

/* ---- the face ---- */

bool paging_start(struct paging *paging, struct arena *keep, const struct folder_name *folder,
                  slice key, bool sure, slice *ret)
{
    if (!paging_start_at(keep, key, ret))
        return false;
    size_t below = count_below(paging, folder, key);
    const struct stretch *stretch = below ? at(paging, below - 1, folder) : NULL;
    bool is_inside = stretch && slice_cmp(key, stretch->last) <= 0;
    bool is_gap = !is_inside && (stretch || at(paging, below, folder));
    if (is_inside) {
        *ret = arena_copy(keep, stretch->start);
    } else if (is_gap && !sure) {
        if (paging->pauses_left > 0)
            paging->pauses_left--;
        else
            *ret = stretch ? arena_copy(keep, stretch->last) : S("");
    }
    return true;
}

/* Notes the result of a listing that began elsewhere than at the key itself. */
static void settle_bet(struct paging *paging, bool lost)
{
    paging->pause = lost ? MIN(paging->pause * 2 + 1, PAUSE_MAX) : 0;
    paging->pauses_left = paging->pause;
}

void paging_note(struct paging *paging, const struct folder_name *folder, slice key, slice start,
                 slice last)
{
    struct arena scratch = { 0 };
    slice own;
    if (!last.len) {
        struct text end = text_in(&scratch);
        text_add(&end, folder->prefix);
        text_add(&end, S("\xf4\x8f\xbf\xbf"));
        last = text_slice(&end);
    }
    if (paging_start_at(&scratch, key, &own) && !slice_eq(own, start))
        settle_bet(paging, slice_cmp(key, last) > 0);
    for (;;) {
        size_t i = count_below(paging, folder, start);
        const struct stretch *next = at(paging, i, folder);
        if (!next || slice_cmp(next->start, last) >= 0)
            break;
        struct stretch rest = { 0 };
        if (slice_cmp(next->last, last) > 0)    /* the rest of it begins here now */
            rest = stretch_new(folder, last, next->last);
        drop(paging, i);
        if (rest.text)
            insert(paging, rest);
    }
    insert(paging, stretch_new(folder, start, last));
    arena_free(&scratch);
}
