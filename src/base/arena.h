/* arena.h - memory that is freed all at once. SPDX-License-Identifier: Apache-2.0
 *
 * All memory of an arena lives until the arena is freed; no part of it is freed alone. Each request
 * owns one arena. Only one thread may use an arena at a time.
 * A struct text is a string that grows inside an arena. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdarg.h>

#include "base/slice.h"

struct arena_block;
struct arena {
    struct arena_block *newest;
    /* Allocated so far. Callers compare it with their limits (rule H8 in src/README.md). */
    size_t used_bytes;
};

void *arena_alloc(struct arena *arena, size_t bytes) MUST_USE;    /* zeroed, 16-aligned, not NULL */
/* Makes room for one more item at the end of a list. The list begins as NULL, and only this
 * function makes it grow. Returns the list, which may have moved. */
void *arena_grow(struct arena *arena, void *list, size_t count, size_t item_bytes) MUST_USE;
slice arena_copy(struct arena *arena, slice s) MUST_USE;          /* followed by a NUL */
slice arena_lower(struct arena *arena, slice s) MUST_USE;    /* a copy in lower case (ASCII) */
slice arena_printf(struct arena *arena, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_USE;
void arena_free(struct arena *arena);    /* leaves an empty arena, all zeroes */

struct text {
    struct arena *arena;
    char *ptr;
    size_t len, cap;
};

struct text text_in(struct arena *arena);
void text_add(struct text *text, slice s);
void text_char(struct text *text, char c);
/* Adds a number in decimal digits, with zeroes before it if it has fewer than `digits`. Much cheaper
 * than text_printf: for what is written with each request. */
void text_number(struct text *text, uint64_t number, unsigned digits);
void text_printf(struct text *text, const char *fmt, ...) PRINTF_LIKE(2, 3);
slice text_slice(const struct text *text);

#endif
