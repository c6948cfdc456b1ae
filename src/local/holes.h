/* holes.h - writes into holes of registered memory fail. SPDX-License-Identifier: Apache-2.0
 *
 * A hole is a page that a client's memfd lacks. If a fill made such pages, they would count against
 * the memory limit of Penstock (holes.c). */
#ifndef LOCAL_HOLES_H
#define LOCAL_HOLES_H

#include "base/base.h"

/* Returns a descriptor that can watch maps of this process (userfaultfd). Returns -1 and sets errno
 * if the kernel lacks userfaultfd, or if the kernel or a filter of system calls forbids it. */
int holes_open(void) MUST_USE;
/* Watches the map `base`. From now on an access to the map fails if the file has no page there (a
 * hole): with SIGBUS, or with EFAULT inside a system call. Without the watch, the kernel makes the
 * page and charges it to this process. The watch ends with the map. Returns false if the kernel
 * refuses the watch. */
bool holes_watch(int holes, void *base, uint64_t bytes) MUST_USE;

#endif
