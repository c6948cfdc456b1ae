/* thread.h - threads with names. SPDX-License-Identifier: Apache-2.0
 *
 * The name of a thread tells its work: "loop-0", "commit". top -H, ps -L and debuggers print it, so
 * an operator sees which part of the service is busy or stuck. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include "base/base.h"

/* The name is cut to 15 bytes, the most that the kernel keeps. Returns false if the thread could
 * not be started. */
bool thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg, const char *name, ...)
    PRINTF_LIKE(4, 5) MUST_USE;

#endif
