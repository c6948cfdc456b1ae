/* log_inside.h - a log line under construction. SPDX-License-Identifier: Apache-2.0
 *
 * log.c builds all lines, and writes all but the access lines (one for each request), which
 * log_access.c writes. log_kept.c keeps warnings and errors. */
#ifndef BASE_LOG_INSIDE_H
#define BASE_LOG_INSIDE_H

#include <limits.h>

#include "base/log.h"

/* The line of one event. It has at most PIPE_BUF bytes, because the kernel never splits a write of
 * that size to a pipe. */
struct line {
    size_t len;
    bool cut;
    char bytes[PIPE_BUF];
};

/* The contents of a line. The facts are already in printed form: "name=value name=value". */
struct log_entry {
    uint64_t when_ns;    /* CLOCK_REALTIME */
    enum log_level level;
    const char *event;
    slice facts;
};
/* Builds the line in the current format. A signal handler may call it: it takes no lock of Penstock
 * and allocates nothing. */
void log_line_build(struct line *line, const struct log_entry *entry);

/* Cuts the first word off the facts. Spaces between double quotes do not end a word. */
slice log_next_word(slice *facts) MUST_USE;
/* Returns true if the text is a whole number in JSON, and so short that a double holds it
 * exactly. */
bool log_is_number(slice s) MUST_USE;
/* Keeps a warning or error for log_kept_read. Any thread, but no signal handler: it takes a lock. */
void log_keep(const struct log_entry *entry);

#endif
