/* base.h - the one header every file may assume. SPDX-License-Identifier: Apache-2.0
 *
 * check() for what must not happen, MUST_USE for what must not be ignored, enum err for
 * everything that can fail. What a peer, a disk or a client can cause is an err, never a check. */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))

#define countof(array) (sizeof(array) / sizeof((array)[0]))
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#define KIB ((uint64_t)1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

/* Cheap, always on: prints where and what, then aborts. */
#define check(cond) ((cond) ? (void)0 : check_failed(#cond, __FILE__, __LINE__, __func__))
void check_failed(const char *cond, const char *file, int line, const char *func) NORETURN;

/* Memory that is small and bounded by a limit elsewhere: running out of it ends the process
 * with a line that says so. Big memory (slots, bodies) comes from byte budgets instead. */
void *must_alloc(size_t bytes) MUST_USE;    /* zeroed */
char *must_strndup(const char *text, size_t len) MUST_USE;    /* with a NUL behind it */

/* Every way to fail, one row each in err.def. OK is 0. */
enum err {
#define ERR(name, text) name,
#include "base/err.def"
#undef ERR
    ERR_COUNT
};

const char *err_name(enum err err);    /* "ERR_LIMIT": for logs, stable, grep-able */
const char *err_text(enum err err);    /* a short sentence for people */

#endif
