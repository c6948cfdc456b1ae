/* copy.h - copies that leave the processor's caches alone. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include "base/slice.h"

/* Whether somebody reads the copy while the processor's caches may still have it. */
enum copy_use { COPY_READ_SOON, COPY_READ_LATER };

/* Copies like memcpy. With COPY_READ_LATER, long copies go to memory past the caches: they cost
 * about two thirds as much there, and other data stays cached. The copy is complete for other
 * threads once they learn of it by any of the usual ways (a lock, an atomic, a system call). */
void copy_for_use(void *to, slice bytes, enum copy_use use);

#endif
