/* arena.c - memory that is freed all at once. SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 8192         /* what most requests need, so that one block does */
#define LIST_ROOM_FIRST 32u    /* capacity of a new list, in items */
#define SHORT_BYTES 256

struct arena_block {
    struct arena_block *older;
    size_t used, cap;
    _Alignas(16) char bytes[];
};

static size_t rounded(size_t bytes) { return (bytes + 15) & ~(size_t)15; }

/* Returns memory that is not zeroed: a block is used again and again, and zeroing all of it costs
 * more than zeroing what is asked for. */
static void *take(struct arena *arena, size_t bytes)
{
    check(bytes < SIZE_MAX / 2);
    size_t need = rounded(bytes);
    struct arena_block *block = arena->newest;
    if (!block || block->cap - block->used < need) {
        size_t cap = MAX(need, BLOCK_BYTES - sizeof(*block));
        block = malloc(sizeof(*block) + cap);
        check(block != NULL && "out of memory");
        *block = (struct arena_block){ .older = arena->newest, .cap = cap };
        arena->newest = block;
    }
    check(block->used + need <= block->cap);
    void *memory = block->bytes + block->used;
    block->used += need;
    arena->used_bytes += need;
    return memory;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    void *memory = take(arena, bytes);
    memset(memory, 0, bytes);
    return memory;
}

/* The capacity of a list is not stored. It follows from the count: LIST_ROOM_FIRST, doubled until
 * the count fits. */
void *arena_grow(struct arena *arena, void *list, size_t count, size_t item_bytes)
{
    bool full = count == 0 || (count >= LIST_ROOM_FIRST && (count & (count - 1)) == 0);
    check(list || !count);
    if (!full)
        return list;
    void *grown = arena_alloc(arena, MAX(2 * count, LIST_ROOM_FIRST) * item_bytes);
    if (count)
        memcpy(grown, list, count * item_bytes);
    return grown;
}

slice arena_copy(struct arena *arena, slice s)
{
    char *copy = take(arena, s.len + 1);
    copy[slice_put(copy, s)] = 0;
    return (slice){ copy, s.len };
}

slice arena_lower(struct arena *arena, slice s)
{
    char *copy = take(arena, s.len + 1);
    for (size_t i = 0; i < s.len; i++)
        copy[i] = char_lower(s.ptr[i]);
    copy[s.len] = 0;
    return (slice){ copy, s.len };
}

void arena_free(struct arena *arena)
{
    for (struct arena_block *block = arena->newest, *older; block; block = older) {
        older = block->older;
        free(block);
    }
    *arena = (struct arena){ 0 };
}

struct text text_in(struct arena *arena)
{
    return (struct text){ .arena = arena };
}

/* The newest memory of an arena can grow where it lies. */
static bool grow_in_place(struct text *text, size_t cap)
{
    struct arena_block *block = text->arena->newest;
    size_t more = cap - text->cap;
    if (!text->cap || text->ptr + text->cap != block->bytes + block->used ||
        block->cap - block->used < more)
        return false;
    block->used += more;
    text->arena->used_bytes += more;
    text->cap = cap;
    return true;
}

static void text_reserve(struct text *text, size_t more)
{
    check(text->arena && text->len <= text->cap);
    if (text->cap - text->len >= more)
        return;
    size_t cap = rounded(MAX(MAX(2 * text->cap, text->len + more), (size_t)64));
    if (grow_in_place(text, cap))
        return;
    char *grown = take(text->arena, cap);
    if (text->len)
        memcpy(grown, text->ptr, text->len);
    text->ptr = grown;
    text->cap = cap;
}

void text_add(struct text *text, slice s)
{
    if (!s.len)    /* the text may have no memory yet */
        return;
    text_reserve(text, s.len);
    text->len += slice_put(text->ptr + text->len, s);
}

void text_char(struct text *text, char c)
{
    text_add(text, (slice){ &c, 1 });
}

void text_number(struct text *text, uint64_t number, unsigned digits)
{
    char all[20];    /* enough for UINT64_MAX */
    size_t at = sizeof(all);
    check(digits <= sizeof(all));
    while (number || at > sizeof(all) - MAX(digits, 1u)) {
        all[--at] = (char)('0' + number % 10);
        number /= 10;
    }
    text_add(text, (slice){ all + at, sizeof(all) - at });
}

/* A short text, as most texts are, is formatted once. A longer text is formatted again, when its
 * length is known. */
static void text_vprintf(struct text *text, const char *fmt, va_list args)
{
    char text_short[SHORT_BYTES];
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(text_short, sizeof(text_short), fmt, args);
    check(len >= 0);
    text_reserve(text, (size_t)len + 1);
    if ((size_t)len < sizeof(text_short))
        memcpy(text->ptr + text->len, text_short, (size_t)len + 1);
    else
        vsnprintf(text->ptr + text->len, (size_t)len + 1, fmt, again);
    va_end(again);
    text->len += (size_t)len;
}

void text_printf(struct text *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    text_vprintf(text, fmt, args);
    va_end(args);
}

slice arena_printf(struct arena *arena, const char *fmt, ...)
{
    struct text text = text_in(arena);
    va_list args;
    va_start(args, fmt);
    text_vprintf(&text, fmt, args);
    va_end(args);
    return text_slice(&text);
}

slice text_slice(const struct text *text)
{
    return (slice){ text->ptr, text->len };
}
