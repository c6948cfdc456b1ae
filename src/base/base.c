/* base.c - failed checks, small memory, names of errors. SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void check_failed(const char *cond, const char *file, int line, const char *func)
{
    fprintf(stderr, "penstock: check failed: %s (%s:%d, %s). Penstock ends here. Unless "
            "memory ran out, this is a bug in Penstock: report it with this line\n",
            cond, file, line, func);
    abort();
}

void *must_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    check(memory != NULL && "out of memory");
    return memory;
}

char *must_strndup(const char *text, size_t len)
{
    char *copy = must_alloc(len + 1);
    if (len)
        memcpy(copy, text, len);
    return copy;
}

static const struct {
    const char *name, *text;
} rows[] = {
#define ERR(name, text) { #name, text },
#include "base/err.def"
#undef ERR
};

const char *err_name(enum err err)
{
    return (unsigned)err < countof(rows) ? rows[err].name : "ERR_UNKNOWN";
}

const char *err_text(enum err err)
{
    return (unsigned)err < countof(rows) ? rows[err].text : "unknown";
}
