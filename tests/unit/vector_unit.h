/* vector_unit.h - heads that others signed, one after another out of a file of tests/vectors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * "vector NAME WORD" begins one; its head follows, line by line, and ends with an empty one. */
#ifndef VECTOR_UNIT_H
#define VECTOR_UNIT_H

#include "unit.h"

#include <stdio.h>

struct vector {
    char name[80], word[16];       /* what is expected of it; "" if nothing is said */
    char head[4096];
    size_t len, host, host_end;    /* where the line of Host stands */
};

static inline FILE *vectors_open(const char *file_name)
{
    char path[4096];
    const char *srcdir = getenv("srcdir");
    snprintf(path, sizeof(path), "%s/tests/vectors/%s", srcdir ? srcdir : ".", file_name);
    FILE *file = fopen(path, "r");
    ok(file != NULL);
    return file;
}

static inline bool vector_next(FILE *file, struct vector *ret)
{
    char line[2048];
    *ret = (struct vector){ .len = 0 };
    do
        if (!fgets(line, sizeof(line), file))
            return false;
    while (sscanf(line, "vector %79s %15s", ret->name, ret->word) < 1);
    while (fgets(line, sizeof(line), file)) {
        size_t len = strlen(line);
        if (len == 0)
            return false;    /* gcc at -O2 does not know that ok() ends the test */
        ok(line[len - 1] == '\n' && ret->len + len + 1 < sizeof(ret->head));
        if (strncmp(line, "Host:", 5) == 0) {
            ret->host = ret->len;
            ret->host_end = ret->len + len + 1;
        }
        memcpy(ret->head + ret->len, line, len - 1);
        memcpy(ret->head + ret->len + len - 1, "\r\n", 2);
        ret->len += len + 1;
        if (len == 1)
            return true;
    }
    return false;
}

#endif
