/* log.h - one line for each event: a name to grep, then key=value facts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Only the code in front/, local/, origin/, peers/, traces/ and cli/ logs. Code in other folders
 * returns errors and raises metrics; the one exception is a warning in store/names.c. Secret keys,
 * session tokens and signatures are never logged. Each line goes to stderr as a whole. Any thread
 * may call these functions.
 *
 * If access_log is on, each request has an access line. The thread that serves the request only
 * puts this line into a ring, and another thread writes many lines at a time (log_access.c). Other
 * lines are rare, so each is written at once, by one call of write. Warnings and errors also stay in
 * memory for /status (log_kept.c). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/arena.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR, LOG_LEVEL_OFF };

void log_setup(enum log_level least, bool json);    /* before threads start, or on reload */
void log_event(enum log_level level, const char *event, const char *fmt, ...) PRINTF_LIKE(3, 4);

bool log_enabled(enum log_level level);                /* true if lines of this level are written */
const char *log_level_name(enum log_level level);

#define log_debug(event, ...) log_event(LOG_LEVEL_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...) log_event(LOG_LEVEL_INFO, event, __VA_ARGS__)
#define log_warn(event, ...) log_event(LOG_LEVEL_WARN, event, __VA_ARGS__)
#define log_error(event, ...) log_event(LOG_LEVEL_ERROR, event, __VA_ARGS__)

/* ---- log_access.c ---- */

/* Logs an access line, at level info. It is written within 100 ms; lines of one thread keep their
 * order. Does not wait: if the thread's ring is full, the line is dropped and counted, and an event
 * "log_dropped" reports the number. If the writer does not run, the line is written at once. */
void log_access(const char *event, const char *fmt, ...) PRINTF_LIKE(2, 3);
void log_access_line(const char *event, slice facts);    /* the same, with text that is complete */
/* Starts and stops the writer, a thread of its own. log_access_start returns false if the thread
 * could not be started. log_access_stop writes the lines that are left, for at most 2 s. */
bool log_access_start(void) MUST_USE;
void log_access_stop(void);
/* Writes the lines that are left, for at most 0.5 s. Only handlers of signals that end the process
 * call this function. */
void log_access_last(void);

/* ---- log_kept.c ---- */

/* A warning or error. Lines with the same event and the same subject are one entry. The subject is
 * the first fact, such as path=/cache, unless its value is a number. */
struct log_kept {
    enum log_level level;
    const char *event;
    slice why, facts;                 /* of the latest line: the fact "why", and all others */
    uint64_t count;                   /* number of lines */
    int64_t first_s, last_s;          /* time of the first and the latest line, in Unix time */
};
#define LOG_KEPT_MAX 64u              /* H8: beyond it, the entry with the oldest line gives way */
/* Returns the entries, in keep, the latest first. *ret_forgotten is the number of entries that gave
 * way to others. An entry has at most 1,200 bytes of facts. */
size_t log_kept_read(struct arena *keep, struct log_kept **ret, uint64_t *ret_forgotten);

/* Escapes the value of a fact that comes from outside: each control byte, space, quote, backslash,
 * '%' and non-ASCII byte becomes %XX. So a line stays one line, and a fact stays one word. */
slice log_word(struct arena *keep, slice value) MUST_USE;
/* Escapes a sentence that stands between double quotes, in the same way with two exceptions: spaces
 * and single quotes stay, and a double quote becomes a single one. */
slice log_sentence(struct arena *keep, slice value) MUST_USE;

#endif
