/* parts.h - where the parts of an object lie. SPDX-License-Identifier: Apache-2.0
 *
 * An object that was uploaded in parts is also read by them (partNumber). Where one lies, a HEAD of
 * that part tells; it is remembered for the version it was told of, in RAM: with the head on disk,
 * each part that is learnt would write the head again. After a restart it costs a HEAD a part. */
#ifndef CACHE_PARTS_H
#define CACHE_PARTS_H

#include "store/head.h"

#define PART_SUMS_BYTES 148       /* a SHA-512 and its type; more are not kept */

struct part {
    uint64_t first, end;          /* bytes of the object: [first, end) */
    unsigned count;               /* of parts it has; 0: it was not uploaded in parts */
    char sums[PART_SUMS_BYTES];   /* "name: value\r\n" lines, what the origin says of this part alone */
};

struct parts;
struct parts *parts_new(void) MUST_USE;
void parts_free(struct parts **parts);
/* Any thread. */
void parts_note(struct parts *parts, const struct head *head, unsigned number,
                const struct part *part);
bool parts_find(struct parts *parts, const struct head *head, unsigned number,
                struct part *ret) MUST_USE;

#endif
