/* jobs.c - the subcommand jobs: shows the jobs of a bucket, and cancels them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <jansson.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/job_report.h"

struct jobs {
    const char *id, *cancel;          /* the options --job and --cancel; NULL: not given */
    const struct server *server;
    uint64_t count;
    bool malformed;                   /* the answer has a line that is no report */
    struct arena keep;                /* of one line */
};

static void print_row(struct jobs *jobs, const json_t *row)
{
    struct arena *keep = &jobs->keep;
    slice bucket = jobs->server->of.bucket, key = lines_name(row, "prefix", keep);
    uint64_t listed = lines_number(row, "listed");
    uint64_t end = lines_number(row, "ended"), began = lines_number(row, "began");
    uint64_t until = end ? end : (uint64_t)wall_s();
    bool follows = slice_eq(json_text(json_object_get(row, "mode")), S("follow"));
    slice what = listed ? arena_printf(keep, "a list of %" PRIu64 " key%s%s", listed,
                                       listed != 1 ? "s" : "", follows ? ", followed" : "")
                        : show_s3(keep, bucket, key);
    if (jobs->count++ == 0)
        printf("%-16s  %-8s  %10s  %6s  %6s  %s\n", "JOB", "STATE", "OBJECTS", "FAILED", "TIME",
               "WHAT");
    printf("%-16.*s  %-8.*s  %10" PRIu64 "  %6" PRIu64 "  %6.*s  %.*s\n",
           SLICE_ARG(show_text(keep, json_text(json_object_get(row, "id")))),
           SLICE_ARG(show_text(keep, json_text(json_object_get(row, "state")))),
           lines_number(row, "objects"), lines_number(row, "failed"),
           SLICE_ARG(show_seconds(keep, until - MIN(until, began))), SLICE_ARG(what));
}

static void visit(void *arg, slice line, const json_t *row)
{
    struct jobs *jobs = arg;
    if (!job_is_report(row)) {
        jobs->malformed = true;
        return;
    }
    if (!lines_print(jobs->server, line))
        print_row(jobs, row);
    arena_free(&jobs->keep);
}

static int list(struct jobs *jobs, struct arena *keep)
{
    slice body;
    int status = job_ask(jobs->server, "GET", S(""), S(""), keep, &body);
    if (!status)
        status = lines_each(jobs->server, body, visit, jobs);
    if (!status && jobs->malformed)
        status = lines_malformed(jobs->server);
    if (!status && !jobs->count && !jobs->server->json)
        printf("no job of s3://%.*s was found\n", SLICE_ARG(jobs->server->of.bucket));
    return status;
}

static int show_one(struct jobs *jobs, slice id, struct arena *keep)
{
    slice body;
    int status = job_ask(jobs->server, "GET", id, S(""), keep, &body);
    json_t *report = status ? NULL : job_read(jobs->server, body);
    if (!report)
        return EXIT_FAILED;
    if (!job_is_report(report)) {
        json_decref(report);
        return lines_malformed(jobs->server);
    }
    if (!lines_print(jobs->server, body))
        job_print(jobs->server, report);
    json_decref(report);
    return EXIT_GOOD;
}

static int ask(void *arg, const struct server *server, struct arena *keep)
{
    struct jobs *jobs = arg;
    slice ignored;
    jobs->server = server;
    if (!jobs->cancel)
        return jobs->id ? show_one(jobs, slice_of(jobs->id), keep) : list(jobs, keep);
    int status = job_ask(server, "DELETE", slice_of(jobs->cancel), S(""), keep, &ignored);
    return status ? status : show_one(jobs, slice_of(jobs->cancel), keep);
}

static bool is_id(const char *option, const char *text)
{
    slice id = slice_of(text);
    if (!text || (id.len == 16 && slice_only(id, DIGIT_CHARS "abcdef")))
        return true;
    fprintf(stderr, "penstock jobs: %s must be the id of a job, 16 hex digits in lower case, as "
            "penstock jobs shows it, not \"%s\"\n", option, text);
    return false;
}

static bool judge(const void *arg, const struct s3_url *of)
{
    const struct jobs *jobs = arg;
    if (jobs->id && jobs->cancel) {
        fprintf(stderr, "penstock jobs: give --job or --cancel, not both: --cancel shows the report, too\n");
        return false;
    }
    if (of->key.len)
        fprintf(stderr, "penstock jobs: the URL must name a bucket alone: s3://BUCKET\n");
    return !of->key.len && is_id("--job", jobs->id) && is_id("--cancel", jobs->cancel);
}

static int run(struct cli *cli)
{
    struct jobs jobs = { .id = cli_option(cli, "--job"), .cancel = cli_option(cli, "--cancel") };
    int status = server_run(cli, "jobs", judge, ask, &jobs);
    arena_free(&jobs.keep);
    return status;
}

static const struct command_option options[] = {
    { "--job", "ID", "show the report of one job, with the objects that failed" },
    { "--cancel", "ID", "cancel a job, and show its report" },
    SERVER_OPTIONS,
    { 0 },
};

const struct command command_jobs = {
    .name = "jobs", .args = "[--job ID] [--cancel ID] [--json] s3://BUCKET [SETTINGS]", .run = run,
    .takes_settings = true, .options = options,
    .help = "show the jobs of a bucket, or cancel one",
    .more = SERVER_MORE
            "An access key sees its own jobs. A key that has the right \"cache\" sees all jobs\n"
            "of the bucket. Reports are kept for 7 days after the end of a job.",
};
