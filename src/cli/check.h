/* check.h - what the files of `penstock check` share. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

#include "cli/inherited.h"
#include "cli/memory.h"

/* The exit status that a finding causes. NOTED: 0. WARNED: 1 with --strict, otherwise 0. STOPPED:
 * 1, because serve would not start, or would run without its cache. MISTAKEN: 2, because the
 * settings are wrong. */
enum check_grade { NOTED, WARNED, STOPPED, MISTAKEN, CHECK_GRADES };

struct check {
    struct arena *keep;
    const struct config *config;
    struct memory memory;
    bool offline;                        /* no other machine is asked */
    bool running;                        /* a Penstock with these settings answers */
    bool uses[CONFIG_FOLDERS_MAX];       /* as far as is known, it has this folder */
    struct inherited inherited;          /* sockets that were passed to this process */
    size_t count[CHECK_GRADES];
};

/* Prints a finding on a line, and counts it. */
void check_report(struct check *check, enum check_grade grade, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
void probe_all(struct check *check);     /* probe.c: looks for problems on this machine */
void probe_origins(struct check *check); /* probe_origin.c: looks for problems with the origins */
void probe_peers(struct check *check);   /* probe_peers.c: looks for nodes that do not answer */

#endif
