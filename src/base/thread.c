/* thread.c - threads with names. SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <stdarg.h>
#include <stdio.h>

bool thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg, const char *name, ...)
{
    char text[16];
    va_list args;
    if (pthread_create(ret, NULL, run, arg) != 0)
        return false;
    va_start(args, name);
    vsnprintf(text, sizeof(text), name, args);
    va_end(args);
    pthread_setname_np(*ret, text);
    return true;
}
