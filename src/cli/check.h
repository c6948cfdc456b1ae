/* check.h - what the files of `penstock check` share. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

#include "cli/cli.h"

struct carriers;

/* NOTED changes nothing; WARNED is 1 with --strict; STOPPED: serve would not start, or would run
 * without its cache: 1; MISTAKEN: the settings are wrong: 2. */
enum check_grade { NOTED, WARNED, STOPPED, MISTAKEN, CHECK_GRADES };

struct check {
    struct arena *keep;
    const struct config *config;
    struct carriers *carriers;
    bool offline;                        /* nobody beyond this machine is asked */
    bool running;                        /* a Penstock of these settings answers */
    size_t count[CHECK_GRADES];
};

/* Prints it, and counts it. */
void check_say(struct check *check, enum check_grade grade, slice text);
void probe_all(struct check *check);     /* probe.c: what serve would meet on this machine */
void probe_origins(struct check *check); /* probe_origin.c: ... and at its origins */

#endif
