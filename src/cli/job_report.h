/* job_report.h - asks the service about jobs, and shows their reports.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For the subcommands warm, which starts a job, and jobs, which lists and ends jobs. */
#ifndef CLI_JOB_REPORT_H
#define CLI_JOB_REPORT_H

#include "cli/lines.h"

#define JOB_RIGHT "\"read\" on the keys of the job, and for a prefix \"list\" on this prefix"
#define JOB_OTHERS_RIGHT "\"read\" or \"cache\" on a part of the bucket"

/* Sends a request about jobs: `id` is empty for a new job, and for the list of all jobs. Each
 * request has the whole time of --timeout. Returns EXIT_GOOD, or EXIT_FAILED after it has reported
 * what is wrong. */
int job_ask(const struct server *server, const char *method, slice id, slice body,
            struct arena *keep, slice *ret_body) MUST_USE;
/* Reads the answer, which is one JSON object. The caller calls json_decref. NULL: it is malformed,
 * which was reported. */
struct json_t *job_read(const struct server *server, slice body) MUST_USE;

/* Returns true if this is the report of a job. */
bool job_is_report(const struct json_t *row) MUST_USE;
bool job_runs(const struct json_t *report);
/* "12 objects, 1.5 MiB, 3 failed": for a line of progress. */
slice job_progress(const struct json_t *report, struct arena *keep) MUST_USE;
/* Prints the report of a job that has ended, or goes on, with its failures. */
void job_print(const struct server *server, const struct json_t *report);
/* Returns EXIT_GOOD if the job has all objects in the cache; EXIT_INCOMPLETE if some of them failed
 * or were not kept; EXIT_FAILED if it has ended early. */
int job_exit(const struct json_t *report);

/* ---- warm.c ---- */
/* Reports that no key begins with the prefix, which is most likely a typing error. Returns
 * EXIT_FAILED. */
int warm_found_nothing(const struct server *server) MUST_USE;

/* ---- warm_check.c ---- */
/* Prints how much of the prefix is in the cache. Returns EXIT_GOOD: all of it; EXIT_INCOMPLETE; or
 * EXIT_FAILED after it has reported what is wrong. */
int warm_check(const struct server *server, struct arena *keep) MUST_USE;

#endif
