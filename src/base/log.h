/* log.h - one line an event: a name to grep, then key=value facts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Edges log (front, origin, cli); rooms below return and count. Never secret keys, session tokens
 * or signatures. Lines go to stderr whole. Any thread.
 *
 * Most lines are rare and are written at once, by one write. Access lines (a line a request) are
 * many: the thread that serves the request only leaves them in a ring, and a thread of their own
 * writes many at a time (log_access.c). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/arena.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR, LOG_LEVEL_OFF };

void log_setup(enum log_level least, bool json);    /* before threads start, or on reload */
void log_event(enum log_level level, const char *event, const char *fmt, ...) PRINTF_LIKE(3, 4);

bool log_says(enum log_level level);                /* would such a line be written? */

#define log_debug(event, ...) log_event(LOG_LEVEL_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...) log_event(LOG_LEVEL_INFO, event, __VA_ARGS__)
#define log_warn(event, ...) log_event(LOG_LEVEL_WARN, event, __VA_ARGS__)
#define log_error(event, ...) log_event(LOG_LEVEL_ERROR, event, __VA_ARGS__)

/* ---- log_access.c ---- */

/* An access line, at level info. It is written at most 100 ms later; lines of one thread keep their
 * order. Never waits: a line that finds the thread's ring full is dropped and counted, and a line
 * log_dropped says how many were. Without the writer it is written at once. */
void log_access(const char *event, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Starts and ends the writer: one thread, which is no other's. False: no thread could be had. The end
 * writes what is left, for at most 2 s. */
bool log_access_start(void) MUST_USE;
void log_access_stop(void);
/* From a handler of a signal that ends the process: writes what is left, for at most 0.5 s. */
void log_access_last(void);

/* A value of a fact that comes from outside: control bytes, spaces, quotes and non-ASCII become
 * %XX, so that a line stays one line and one fact one word. */
slice log_word(struct arena *keep, slice value) MUST_USE;
/* The same for what stands between double quotes: spaces and single quotes stay. */
slice log_sentence(struct arena *keep, slice value) MUST_USE;

#endif
