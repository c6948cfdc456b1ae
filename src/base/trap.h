/* trap.h - calls that may fault without ending the process. SPDX-License-Identifier: Apache-2.0
 *
 * Two sorts of calls need a trap: calls into a library that works on mapped bytes, which may be
 * damaged; and our own calls that read or write a file's map. Any thread may call these functions.
 * A thread has one trap at a time: a trapped call must not trap another call. */
#ifndef BASE_TRAP_H
#define BASE_TRAP_H

#include "base/copy.h"

typedef int trap_call(void *ask);

/* Installs the handler of SIGBUS, SIGSEGV, SIGFPE and SIGABRT. Call it again after other code may
 * have installed a handler of its own. */
void trap_install(void);
/* Runs the call and sets *ret to its result. Returns false if a fault or trap_spring ended the call
 * in the middle. Then nothing that the call was working on (what `ask` points to, the objects of
 * the library) may be used any more. */
bool trap_run(trap_call *call, void *ask, int *ret) MUST_USE;
/* Does the same for a call that reads a file's map. Only a fault of the disk (SIGBUS, in one of the
 * pages of the map) ends the call. Any other fault is a mistake in this program and ends the
 * process. */
bool trap_read(trap_call *call, void *ask, slice map, int *ret) MUST_USE;
/* Does the same as trap_read, for two maps. If it returns false, *ret_failed is 0 or 1: the index
 * of the map that failed. */
bool trap_read_two(trap_call *call, void *ask, const slice maps[2], int *ret,
                   int *ret_failed) MUST_USE;
/* Copies bytes that lie in a map to another map. Returns as trap_read_two; *ret_failed is 0 for `to`,
 * and 1 for the bytes. */
bool trap_copy(void *to, slice bytes, enum copy_use use, int *ret_failed) MUST_USE;
/* Copies to a map, like memcpy. Returns false if a write to the map faults: the disk failed, or
 * the client whose memory is mapped has removed the page. */
bool trap_copy_to(void *to, const void *from, size_t bytes) MUST_USE;
/* Ends the trapped call that the caller is a part of, as a fault would. */
void trap_spring(void) NORETURN;
/* Adds the path of a note. A note is an empty file. The handler creates this file if a fault or
 * abort() that no trap caught ends the process. Returns NULL if there are TRAP_NOTES already. */
#define TRAP_NOTES 64
char *trap_note_add(const char *path);
void trap_note_remove(char **note);    /* *note may be NULL, and becomes NULL */

#endif
