/* holes.h - a write into a hole of registered memory fails. SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_HOLES_H
#define LOCAL_HOLES_H

#include "base/base.h"

/* A descriptor that watches maps of this process, or -1: the kernel, or a filter of system calls,
 * forbids it. */
int holes_open(void) MUST_USE;
/* From now on an access to a page of this map that is missing in its file fails: with SIGBUS, or
 * EFAULT in a system call. Without this call the kernel makes the page and charges it to this
 * process. The watch ends with the map. */
bool holes_watch(int holes, void *base, uint64_t bytes) MUST_USE;

#endif
