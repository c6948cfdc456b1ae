/* copy.c - copies that leave the processor's caches alone. SPDX-License-Identifier: Apache-2.0
 *
 * An ordinary store first reads the line of memory that it changes, and keeps the line in the
 * cache. A streaming store does neither: a copy moves two bytes instead of three for each byte,
 * which counts where memory is the limit. The reads ask for a line some lines ahead, because the
 * processor itself does not look beyond the end of a page. Each line is written whole, so `to` is
 * brought to the start of a line first. Other processors than x86-64 copy as usual. */
#include "base/copy.h"

#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>

#define LINE 64u
#define AHEAD 1024u
#define LEAST (64 * KIB)    /* of less, the ends cost too much */

static void stream(char *to, const char *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LINE) {
        _mm_prefetch(from + at + AHEAD, _MM_HINT_NTA);    /* no fault beyond the end */
        const __m128i *line = (const __m128i *)(const void *)(from + at);
        __m128i *place = (__m128i *)(void *)(to + at);
        __m128i first = _mm_loadu_si128(line), second = _mm_loadu_si128(line + 1);
        __m128i third = _mm_loadu_si128(line + 2), fourth = _mm_loadu_si128(line + 3);
        _mm_stream_si128(place, first);
        _mm_stream_si128(place + 1, second);
        _mm_stream_si128(place + 2, third);
        _mm_stream_si128(place + 3, fourth);
    }
    _mm_sfence();    /* streaming stores keep no order with what the thread stores next */
}

void copy_for_use(void *to, slice bytes, enum copy_use use)
{
    if (use == COPY_READ_LATER && bytes.len >= LEAST) {
        size_t head = -(uintptr_t)to % LINE, lines = (bytes.len - head) / LINE * LINE;
        memcpy(to, bytes.ptr, head);
        stream((char *)to + head, bytes.ptr + head, lines);
        to = (char *)to + head + lines;
        bytes = slice_from(bytes, head + lines);
    }
    slice_put(to, bytes);
}
#else
void copy_for_use(void *to, slice bytes, enum copy_use use)
{
    (void)use;
    slice_put(to, bytes);
}
#endif
