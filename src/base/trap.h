/* trap.h - a call that may fault, and a caller that lives on. SPDX-License-Identifier: Apache-2.0
 *
 * For calls into a library that works on mapped bytes nobody vouches for, and for our own that read
 * a file's map. Any thread. There is one trap a thread at a time: a trapped call traps no other. */
#ifndef BASE_TRAP_H
#define BASE_TRAP_H

#include "base/slice.h"

typedef int trap_call(void *ask);

/* Takes SIGBUS, SIGSEGV, SIGFPE and SIGABRT; again, if somebody has put a handler in its place. */
void trap_install(void);
/* Runs the call: its answer in *ret. False: it was left in the middle, by a fault or by
 * trap_spring; what it works on is to be touched no more. */
bool trap_run(trap_call *call, void *ask, int *ret) MUST_USE;
/* The same of a call that reads a file's map: only what the disk does to these bytes (SIGBUS, in a
 * page of theirs) leaves it. Any other fault is ours, and ends the process. */
bool trap_read(trap_call *call, void *ask, slice map, int *ret) MUST_USE;
/* Of two. False: *ret_failed is 0 or 1, the one that did. */
bool trap_read_two(trap_call *call, void *ask, const slice maps[2], int *ret,
                   int *ret_failed) MUST_USE;
/* memcpy to a map, trapped like that. */
bool trap_copy_to(void *to, const void *from, size_t bytes) MUST_USE;
/* From within a trapped call: out, as if it had faulted. */
void trap_spring(void) NORETURN;
/* The file to make when the process dies of a fault or abort() that no trap caught; NULL: none. */
void trap_note(const char *path);

#endif
