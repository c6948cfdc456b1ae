/* sizing.h - the size of a cache folder if no setting gives it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SIZING_H
#define STORE_SIZING_H

#include "base/base.h"

#define SIZE_LEAST (4 * MIB)
#define SIZE_EXTENTS_MAX 1024u        /* a size grows to at most so many extents, until reopened */

/* Derives the size of a cache from the bytes that it holds (`own`), the free bytes beside it
 * (`free`) and its size before (`kept`; 0: the cache is new). The result is 80 % of own + free if
 * that is an eighth more than `kept`. Otherwise it is `kept`. */
uint64_t sizing_derive(uint64_t kept, uint64_t free, uint64_t own);
/* The size of an extent is `wish`, or, if that is 0, a 64th of the cache's size, but between 4 and
 * 64 MiB. */
uint32_t sizing_extent(uint64_t size_bytes, uint32_t wish);

#endif
