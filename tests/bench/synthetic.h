/* synthetic.h - the bytes of the scripted origin's objects, as clients of the benches check them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * tests/origin/objects.c says what the bytes are. This is another implementation, so a bench shares
 * no mistake with the origin. To check costs about as much as to copy. */
#ifndef SYNTHETIC_H
#define SYNTHETIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An object of version 1 that is read from its beginning. */
struct synthetic {
    const char *key;                 /* "bucket/key" */
    uint64_t next;                   /* offset of the next byte */
    uint8_t digest[32];              /* of the block that has this byte */
};

void synthetic_begin(struct synthetic *object, const char *key);
/* True if these are the next bytes of the object; goes on behind them. */
bool synthetic_next(struct synthetic *object, const char *bytes, size_t count);

#endif
