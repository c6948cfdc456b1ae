/* log.h - one line an event: a name to grep, then key=value facts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Edges log (front, origin, cli); rooms below return and count. Never secret keys, session tokens
 * or signatures. Lines go to stderr whole, by one write. Any thread. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/arena.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR, LOG_LEVEL_OFF };

void log_setup(enum log_level least, bool json);    /* before threads start, or on reload */
void log_event(enum log_level level, const char *event, const char *fmt, ...) PRINTF_LIKE(3, 4);

#define log_debug(event, ...) log_event(LOG_LEVEL_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...) log_event(LOG_LEVEL_INFO, event, __VA_ARGS__)
#define log_warn(event, ...) log_event(LOG_LEVEL_WARN, event, __VA_ARGS__)
#define log_error(event, ...) log_event(LOG_LEVEL_ERROR, event, __VA_ARGS__)

/* A value of a fact that comes from outside: control bytes, spaces, quotes and non-ASCII become
 * %XX, so that a line stays one line and one fact one word. */
slice log_word(struct arena *keep, slice value) MUST_USE;
/* The same for what stands between double quotes: spaces and single quotes stay. */
slice log_sentence(struct arena *keep, slice value) MUST_USE;

#endif
