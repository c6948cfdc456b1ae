/* chunks.c - takes the chunked coding off a request body. SPDX-License-Identifier: Apache-2.0
 *
 * The decoder is a state machine of seven steps and an end. DATA moves all bytes that are there;
 * each other step takes exactly one byte. Between calls the decoder keeps only the step and the
 * size of the chunk. While the size is read, `left` has the value of the digits so far, and
 * `digits` their number. In the step DATA, `left` has the number of bytes still to come. */
#include "http/chunks.h"

#include <string.h>

#define DIGITS_MAX 15    /* of a chunk's size: a size below 2^60 overflows no sum */

enum step { SIZE, SIZE_LF, DATA, DATA_CR, DATA_LF, END_CR, END_LF, DONE };

static bool size_byte(struct chunks *chunks, char c)
{
    int value = hex_digit(c);
    if (value < 0) {
        chunks->step = SIZE_LF;
        return c == '\r' && chunks->digits > 0;
    }
    chunks->left = chunks->left * 16 + (unsigned)value;
    return ++chunks->digits <= DIGITS_MAX;
}

/* Takes one byte of a line. Returns false if that byte may not stand there. */
static bool line_byte(struct chunks *chunks, char c)
{
    static const struct {
        char want;
        enum step next;
    } lines[] = {
        [DATA_CR] = { '\r', DATA_LF },
        [DATA_LF] = { '\n', SIZE },
        [END_CR] = { '\r', END_LF },
        [END_LF] = { '\n', DONE },
    };
    if (chunks->step == SIZE)
        return size_byte(chunks, c);
    if (chunks->step == SIZE_LF) {
        chunks->step = chunks->left ? DATA : END_CR;
        chunks->digits = 0;
        return c == '\n';
    }
    bool as_wanted = c == lines[chunks->step].want;
    chunks->step = lines[chunks->step].next;
    return as_wanted;
}

enum err chunks_decode(struct chunks *chunks, char *bytes, size_t len, size_t *ret_decoded,
                       size_t *ret_rest)
{
    size_t at = 0, out = 0;
    check(chunks->step >= SIZE && chunks->step <= DONE);
    bool good = chunks->step != DONE;
    while (good && at < len && chunks->step != DONE) {
        if (chunks->step != DATA) {
            good = line_byte(chunks, bytes[at++]);
            continue;
        }
        size_t run = (size_t)MIN(chunks->left, (uint64_t)(len - at));
        memmove(bytes + out, bytes + at, run);
        out += run;
        at += run;
        chunks->left -= run;
        if (chunks->left == 0)
            chunks->step = DATA_CR;
    }
    *ret_decoded = out;
    *ret_rest = len - at;
    if (!good)
        return ERR_BAD_HEAD;
    if (chunks->step != DONE)
        return ERR_MORE;
    memmove(bytes + out, bytes + at, len - at);
    return OK;
}
