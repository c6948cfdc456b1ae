/* check.h - what the files of `penstock check` share. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

#include "cli/cli.h"
#include "cli/memory.h"

/* The effect of a finding on the exit status. NOTED: none. WARNED: 1 with --strict, else nothing.
 * STOPPED: 1, as serve would not start, or would run without its cache. MISTAKEN: 2, as the
 * settings are wrong. */
enum check_grade { NOTED, WARNED, STOPPED, MISTAKEN, CHECK_GRADES };

struct check {
    struct arena *keep;
    const struct config *config;
    struct memory memory;
    bool offline;                        /* no other machine is asked */
    bool running;                        /* a Penstock with these settings answers */
    size_t count[CHECK_GRADES];
};

/* Prints a finding on a line, and counts it. */
void check_report(struct check *check, enum check_grade grade, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
void probe_all(struct check *check);     /* probe.c: what serve would meet on this machine */
void probe_origins(struct check *check); /* probe_origin.c: ... and at its origins */

#endif
