/* thread.h - a thread, begun with a name. SPDX-License-Identifier: Apache-2.0
 *
 * The name says what the thread does: "loop-0", "commit". It is what top -H, ps -L and a debugger
 * show, so an operator sees which part of the service is busy or stuck. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include "base/base.h"

/* The name is cut to the 15 bytes that the kernel keeps. False: no thread could be had. */
bool thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg, const char *name, ...)
    PRINTF_LIKE(4, 5) MUST_USE;

#endif
