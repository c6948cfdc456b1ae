/* job_report.c - asks the service about jobs, and shows their reports.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/job_report.h"

#include <inttypes.h>
#include <jansson.h>

#include "base/clock.h"
#include "base/json.h"

int job_ask(const struct server *server, const char *method, slice id, slice body,
            struct arena *keep, slice *ret_body)
{
    struct server mine = *server;
    struct text query = text_in(keep);
    mine.until_ms = mono_ms() + server->timeout_ms;    /* a job may take longer than any question */
    text_printf(&query, "penstock-job=%.*s", SLICE_ARG(id));
    struct question question = {
        .method = method, .of = { server->of.bucket, S("") }, .query = text_slice(&query),
        .body = body, .right = id.len ? JOB_OTHERS_RIGHT : JOB_RIGHT,
        .slow = *method == 'P'
            ? "The service writes the job to its cache folder, and the disk may be slow"
            : "The service has not answered yet. Maybe it is overloaded",
        .may_be_empty = *method == 'D' || (*method == 'G' && !id.len) };
    return server_ask(&mine, &question, keep, ret_body);
}

bool job_is_report(const json_t *row)
{
    return json_is_object(row) && json_is_string(json_object_get(row, "id")) &&
           json_is_string(json_object_get(row, "state")) &&
           json_is_integer(json_object_get(row, "began"));
}

json_t *job_read(const struct server *server, slice body)
{
    json_t *report = json_loadb(body.ptr, body.len, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(report) && json_is_string(json_object_get(report, "id")))
        return report;
    json_decref(report);
    lines_malformed(server);
    return NULL;
}

static slice member(const json_t *report, const char *name)
{
    return json_text(json_object_get(report, name));
}

bool job_runs(const json_t *report)
{
    return slice_eq(member(report, "state"), S("running"));
}

int job_exit(const json_t *report)
{
    slice state = member(report, "state");
    if (!slice_eq(state, S("done")) && !slice_eq(state, S("running")))
        return slice_eq(state, S("full")) ? EXIT_INCOMPLETE : EXIT_FAILED;
    return lines_number(report, "failed") || lines_number(report, "not_kept") ? EXIT_INCOMPLETE
                                                                             : EXIT_GOOD;
}

static slice count_of(const json_t *report, const char *name, const char *unit, struct arena *keep)
{
    uint64_t count = lines_number(report, name);
    return arena_printf(keep, "%" PRIu64 " %s%s", count, unit, count != 1 ? "s" : "");
}

slice job_progress(const json_t *report, struct arena *keep)
{
    struct text text = text_in(keep);
    uint64_t objects = lines_number(report, "objects");
    uint64_t total = lines_number(report, "total_objects"), began = lines_number(report, "began");
    uint64_t rate = lines_number(report, "rate"), failed = lines_number(report, "failed");
    text_add(&text, count_of(report, "objects", "object", keep));
    if (total && job_runs(report))
        text_printf(&text, " of %" PRIu64 " (%.*s)", total,
                    SLICE_ARG(show_share(keep, objects, total)));
    text_printf(&text, ", %.*s", SLICE_ARG(show_bytes(keep, lines_number(report, "bytes"))));
    if (rate)
        text_printf(&text, ", %.*s a second", SLICE_ARG(show_bytes(keep, rate)));
    uint64_t took_s = (uint64_t)wall_s() - MIN((uint64_t)wall_s(), began);
    if (rate && objects && total > objects)
        text_printf(&text, ", about %.*s left",
                    SLICE_ARG(show_seconds(keep, took_s * (total - objects) / objects)));
    if (failed)
        text_printf(&text, ", %" PRIu64 " failed", failed);
    if (member(report, "waits").len)
        text_printf(&text, "; waits: %.*s", SLICE_ARG(show_text(keep, member(report, "waits"))));
    return text_slice(&text);
}

static void print_failure(const struct server *server, const json_t *failure, struct arena *keep)
{
    slice key = lines_name(failure, "key", keep);
    printf("failed: %.*s: %" PRIu64 " %.*s\n", SLICE_ARG(show_s3(keep, server->of.bucket, key)),
           lines_number(failure, "status"), SLICE_ARG(show_text(keep, member(failure, "code"))));
}

/* Says what became of a list that clients follow. */
static void print_readers(const json_t *report, struct arena *keep)
{
    printf("%" PRIu64 " read by clients, %" PRIu64 " skipped, because clients were faster than the "
           "job; %.*s in the cache in time, but not read\n", lines_number(report, "read"),
           lines_number(report, "skipped"),
           SLICE_ARG(show_bytes(keep, lines_number(report, "unread_bytes"))));
}

/* Says how the job has ended, and what became of the objects. */
static void print_sums(const json_t *report, struct arena *keep)
{
    slice state = show_text(keep, member(report, "state"));
    slice why = show_text(keep, member(report, "why"));
    printf("%.*s%s%.*s: %.*s\n", SLICE_ARG(state), why.len ? ": " : "", SLICE_ARG(why),
           SLICE_ARG(job_progress(report, keep)));
    uint64_t peers = lines_number(report, "peers_bytes");
    slice more = peers ? arena_printf(keep, ", %.*s from other nodes",
                                      SLICE_ARG(show_bytes(keep, peers))) : S("");
    printf("%" PRIu64 " in the cache before, %" PRIu64 " fetched (%.*s from the origin%.*s), "
           "%" PRIu64 " failed\n", lines_number(report, "hits"), lines_number(report, "fetched"),
           SLICE_ARG(show_bytes(keep, lines_number(report, "origin_bytes"))), SLICE_ARG(more),
           lines_number(report, "failed"));
    if (slice_eq(member(report, "mode"), S("follow")))
        print_readers(report, keep);
    if (lines_number(report, "not_kept"))
        printf("%.*s that the cache did not keep completely: it is full, or a limit forbids it "
               "(quota, admit, max_object, a file of a dir: origin that has just changed)\n",
               SLICE_ARG(count_of(report, "not_kept", "fetched object", keep)));
}

void job_print(const struct server *server, const json_t *report)
{
    const json_t *failures = json_object_get(report, "failures"), *failure;
    struct arena keep = { 0 };
    size_t i;
    print_sums(report, &keep);
    json_array_foreach(failures, i, failure)
        print_failure(server, failure, &keep);
    uint64_t more = lines_number(report, "failed") - MIN(lines_number(report, "failed"), i);
    if (failures && more)
        printf("failed: %" PRIu64 " more\n", more);
    arena_free(&keep);
}
