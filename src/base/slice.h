/* slice.h - text as pointer and length. SPDX-License-Identifier: Apache-2.0
 *
 * A slice borrows its bytes: it never owns them, and no NUL needs to follow them. These functions
 * allocate nothing; functions that need new memory take an arena (arena.h). */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include "base/base.h"

typedef struct slice {
    const char *ptr;
    size_t len;
} slice;

#define S(literal) ((slice){ "" literal, sizeof(literal) - 1 })
#define SLICE_ARG(s) (int)(s).len, (s).ptr    /* for "%.*s" */

slice slice_of(const char *text);                       /* NULL gives an empty slice */
slice slice_from(slice s, size_t start);  /* the bytes from start on; start is clamped */
slice slice_sub(slice s, size_t start, size_t len);     /* start and len are clamped */
slice slice_trim(slice s);                              /* cuts spaces and tabs off both ends */
slice slice_without_line_end(slice s);                  /* cuts CRs and LFs off the end */
/* Cuts off and returns the bytes before the first `at`; *rest then begins after that `at`. Without
 * an `at`, slice_cut returns all bytes, and *rest is empty with ptr NULL. After a cut of "a,", *rest is
 * empty, too, but its ptr is not NULL. So the caller can tell "a" from "a,". */
slice slice_cut(slice *rest, char at);
/* Cuts off and returns the bytes after the last `at`. Without an `at`, it returns all bytes, and
 * *rest is empty. */
slice slice_cut_last(slice *rest, char at);

size_t slice_put(char *to, slice s);                    /* copies the bytes; returns their number */

bool slice_eq(slice a, slice b);
bool slice_eq_nocase(slice a, slice b);                 /* ASCII only */
/* Compares secrets: the time depends on the lengths, not on the place of a difference. */
bool slice_eq_secret(slice a, slice b) MUST_USE;
int slice_cmp(slice a, slice b);                        /* compares bytes, as memcmp does */
int slice_order(const void *a, const void *b);          /* slice_cmp for qsort */
bool slice_starts(slice s, slice prefix);
bool slice_starts_nocase(slice s, slice prefix);        /* ASCII only */
bool slice_ends(slice s, slice suffix);
bool slice_has(slice s, char c);
size_t slice_find(slice s, slice part);                 /* its first offset, or s.len if none */
bool slice_only(slice s, const char *chars);            /* true if every byte is one of `chars` */
bool slice_has_control(slice s);                        /* a byte below 0x20, or 0x7f */
#define LOWER_CHARS "abcdefghijklmnopqrstuvwxyz"
#define UPPER_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT_CHARS "0123456789"
/* Returns true if `word` is one of the parts of `list`; the character `between` separates the
 * parts. Spaces around a part, and the case of ASCII letters, do not count. */
bool slice_list_has(slice list, char between, slice word);
bool slice_is_one_of(slice s, const char *const *words, size_t count);
bool slice_is_one_of_nocase(slice s, const char *const *words, size_t count);    /* ASCII only */

/* Reads decimal digits only: no sign, no space, no overflow. On failure *ret does not change. */
bool slice_u64(slice s, uint64_t *ret) MUST_USE;
/* Reads hex digits in lower or upper case, exactly two for each of the bytes. */
bool slice_unhex(slice s, uint8_t *ret, size_t bytes) MUST_USE;
void hex_write(const uint8_t *bytes, size_t count, char *ret);    /* 2 * count chars, lower case */
/* Writes the last hex digits of a number, in upper case. */
void hex_number_write(uint64_t number, unsigned digits, char *ret);
static inline char char_lower(char c)                    /* ASCII only */
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}
int hex_digit(char c);                                  /* -1 if c is no hex digit */

#endif
