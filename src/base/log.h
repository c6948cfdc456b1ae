/* log.h - one line an event: a name to grep, then key=value facts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Edges log (front, origin, cli); rooms below return and count. Never secret keys, session tokens
 * or signatures. Lines go to stderr whole. Any thread.
 *
 * Most lines are rare and are written at once, by one write. Access lines (one a request) are many:
 * the thread that serves the request only puts them into a ring, and another thread writes many at
 * a time (log_access.c). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/arena.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR, LOG_LEVEL_OFF };

void log_setup(enum log_level least, bool json);    /* before threads start, or on reload */
void log_event(enum log_level level, const char *event, const char *fmt, ...) PRINTF_LIKE(3, 4);

bool log_enabled(enum log_level level);                /* are lines of this level written? */

#define log_debug(event, ...) log_event(LOG_LEVEL_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...) log_event(LOG_LEVEL_INFO, event, __VA_ARGS__)
#define log_warn(event, ...) log_event(LOG_LEVEL_WARN, event, __VA_ARGS__)
#define log_error(event, ...) log_event(LOG_LEVEL_ERROR, event, __VA_ARGS__)

/* ---- log_access.c ---- */

/* An access line, at level info. It is written within 100 ms; lines of one thread keep their order.
 * Never waits: if the thread's ring is full, the line is dropped and counted, and a line
 * log_dropped reports the number. Without the writer it is written at once. */
void log_access(const char *event, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Starts and stops the writer, a thread of its own. False: the thread could not be started. The
 * stop writes the lines that are left, for at most 2 s. */
bool log_access_start(void) MUST_USE;
void log_access_stop(void);
/* Called by the handler of a signal that ends the process: writes the lines that are left, for at
 * most 0.5 s. */
void log_access_last(void);

/* Escapes the value of a fact that comes from outside: control bytes, spaces, quotes and non-ASCII
 * become %XX. So a line stays one line, and a fact stays one word. */
slice log_word(struct arena *keep, slice value) MUST_USE;
/* The same for a value between double quotes: spaces and single quotes stay. */
slice log_sentence(struct arena *keep, slice value) MUST_USE;

#endif
