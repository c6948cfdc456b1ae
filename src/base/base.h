/* base.h - the header that every file includes. SPDX-License-Identifier: Apache-2.0
 *
 * check() catches a mistake in this program; MUST_USE marks a result that a caller must not ignore;
 * an enum err reports a failure. A peer, a disk or a client can cause an err, but never a failed
 * check. */
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

/* A check is cheap, so it is always on. If cond is false, check() prints the condition and its
 * place, and aborts. */
#define check(cond) ((cond) ? (void)0 : check_failed(#cond, __FILE__, __LINE__, __func__))
void check_failed(const char *cond, const char *file, int line, const char *func) NORETURN;

/* These functions are for small allocations. The caller limits their number: each queue, list and
 * table has a limit (rule H8 in src/README.md). If no memory is left, the process prints "out of
 * memory" and aborts. Large memory, such as that of request bodies, comes from a budget of bytes
 * instead (base/budget.h). */
void *must_alloc(size_t bytes) MUST_USE;    /* zeroed */
char *must_strndup(const char *text, size_t len) MUST_USE;    /* followed by a NUL */

/* The ways to fail: err.def has a row for each. OK is 0. */
enum err {
#define ERR(name, text) name,
#include "base/err.def"
#undef ERR
    ERR_COUNT
};

const char *err_name(enum err err);    /* "ERR_LIMIT": a stable name for logs */
const char *err_text(enum err err);    /* a short sentence for people */

#endif
