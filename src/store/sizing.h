/* sizing.h - how large a cache folder is where no setting says it. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SIZING_H
#define STORE_SIZING_H

#include "base/base.h"

#define SIZE_LEAST (4 * MIB)
#define SIZE_EXTENTS_MAX 1024u        /* without a new opening, a size grows to so many extents */

/* The size of a cache that holds `own` bytes, beside which `free` are free, and that was `kept`
 * before (0: it is new): 80 % of both, if that is an eighth more than before, or else as before. */
uint64_t sizing_derive(uint64_t kept, uint64_t free, uint64_t own);
/* The size of an extent: a 64th of the cache's, between 4 and 64 MiB, unless `wish` says it. */
uint32_t sizing_extent(uint64_t size_bytes, uint32_t wish);

#endif
