/* parts.h - the ranges of the parts of an object. SPDX-License-Identifier: Apache-2.0
 *
 * An object that was uploaded in parts can be read part by part (partNumber). The answer to a HEAD
 * of a part gives the range of the part. The range is remembered in RAM, for this version of the
 * object. It is not kept on disk, because then each new part would cause another write of the
 * metadata. After a restart, each part costs a HEAD. */
#ifndef CACHE_PARTS_H
#define CACHE_PARTS_H

#include "store/metadata.h"

#define PART_SUMS_BYTES 148       /* a SHA-512 and its type; more are not kept */

struct part {
    uint64_t first, end;          /* bytes of the object: [first, end) */
    unsigned count;               /* parts of the object; 0: it was not uploaded in parts */
    char sums[PART_SUMS_BYTES];   /* "name: value\r\n" lines: the checksums of this part */
};

struct parts;
struct parts *parts_new(void) MUST_USE;
void parts_free(struct parts **parts);
/* Any thread. */
void parts_note(struct parts *parts, const struct metadata *metadata, unsigned number,
                const struct part *part);
bool parts_find(struct parts *parts, const struct metadata *metadata, unsigned number,
                struct part *ret) MUST_USE;

#endif
