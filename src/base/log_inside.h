/* log_inside.h - a log line under construction. SPDX-License-Identifier: Apache-2.0
 *
 * log.c builds lines and writes those that are written at once; log_access.c writes the others. */
#ifndef BASE_LOG_INSIDE_H
#define BASE_LOG_INSIDE_H

#include <limits.h>

#include "base/log.h"

/* One event, as it is written. No line is longer: a write of so much to a pipe is never split. */
struct line {
    size_t len;
    bool cut;
    char bytes[PIPE_BUF];
};

/* The contents of a line. The facts are printed already: "name=value name=value". */
struct log_said {
    uint64_t when_ns;    /* CLOCK_REALTIME */
    enum log_level level;
    const char *event;
    slice facts;
};
/* In the format that is set now. Takes no lock, allocates nothing: also for a signal handler. */
void log_line_build(struct line *line, const struct log_said *said);

#endif
