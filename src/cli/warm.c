/* warm.c - the subcommand warm: brings objects into the cache. SPDX-License-Identifier: Apache-2.0
 *
 * The service does the work, as a job (jobs/jobs.h). The command starts the job, shows how it gets
 * on, and prints its report. If the command ends before the job, the job goes on. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/job_report.h"

#define LIST_BYTES_MAX (64 * MIB)     /* the service takes no longer list */
#define POLL_MS 500u
#define AWAY_MS 60000u                /* a restart of the service may take so long */
#define NOTICE_MS 30000u              /* between two lines of progress, if stderr is no terminal */

struct warm {
    const char *list;                 /* the option --list: a file, or "-"; NULL: none */
    const char *ranges;               /* the option --ranges; NULL: whole objects */
    bool detach, check, pin;          /* check: only say how much is there */
};

/* ---- the job, as the body of a request ---- */

/* True for A-B, A- and -N. */
static bool is_range(slice range)
{
    uint64_t first = 0, last = UINT64_MAX;
    slice rest = range, begin = slice_cut(&rest, '-');
    bool dash = begin.len < range.len;
    return dash && (begin.len || rest.len) && (!begin.len || slice_u64(begin, &first)) &&
           (!rest.len || slice_u64(rest, &last)) && (begin.len ? first <= last : last > 0);
}

static bool add_ranges(const struct warm *warm, struct text *to)
{
    slice rest = slice_of(warm->ranges);
    text_add(to, S(",\"ranges\":["));
    for (const char *comma = ""; rest.ptr; comma = ",") {
        slice range = slice_trim(slice_cut(&rest, ','));
        if (!is_range(range)) {
            fprintf(stderr, "penstock warm: --ranges must be ranges with commas between them, as "
                    "0-65535,-1024 (the last 1024 bytes), not \"%s\"\n", warm->ranges);
            return false;
        }
        text_printf(to, "%s\"bytes=%.*s\"", comma, SLICE_ARG(range));
    }
    text_char(to, ']');
    return true;
}

/* Adds a JSON text. False: the bytes are not UTF-8. */
static bool add_json(struct text *to, slice s)
{
    json_t *value = json_stringn(s.ptr, s.len);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    if (text)
        text_add(to, slice_of(text));
    free(text);
    json_decref(value);
    return text != NULL;
}

static bool read_list(const struct warm *warm, struct arena *keep, slice *ret)
{
    const char *path = strcmp(warm->list, "-") == 0 ? "/dev/stdin" : warm->list;
    if (file_read(path, LIST_BYTES_MAX, keep, ret))
        return true;
    int error = errno;
    fprintf(stderr, "penstock warm: %s can't be read: %s. %s\n", warm->list,
            file_read_fault(path, LIST_BYTES_MAX, error, keep),
            error == EFBIG ? "Split the list, and start several jobs"
                           : "Name a file with a key on each line, or - for standard input (--list)");
    return false;
}

/* Each line of the list is a key. Empty lines do not count. */
static bool add_list(const struct warm *warm, struct arena *keep, struct text *to)
{
    slice rest;
    if (!read_list(warm, keep, &rest))
        return false;
    for (uint64_t line = 1; rest.ptr; line++) {
        slice key = slice_without_line_end(slice_cut(&rest, '\n'));
        if (!key.len)
            continue;
        text_char(to, '\n');
        if (!add_json(to, key)) {
            fprintf(stderr, "penstock warm: line %" PRIu64 " of %s is not UTF-8: a list can't name "
                    "such a key\n", line, warm->list);
            return false;
        }
    }
    return true;
}

static bool make_body(const struct warm *warm, const struct server *server, struct arena *keep,
                      slice *ret)
{
    struct text body = text_in(keep);
    text_add(&body, warm->list ? S("{\"keys\":[]") : S("{\"prefix\":"));
    if (!warm->list && !add_json(&body, server->of.key)) {
        fprintf(stderr, "penstock warm: the prefix is not UTF-8\n");
        return false;
    }
    if (warm->ranges && !add_ranges(warm, &body))
        return false;
    text_add(&body, warm->pin ? S(",\"pin\":true}") : S("}"));
    if (warm->list && !add_list(warm, keep, &body))
        return false;
    *ret = text_slice(&body);
    return true;
}

/* ---- progress ---- */

static void show(const struct server *server, const json_t *report, uint64_t *next_ms)
{
    struct arena keep = { 0 };
    slice progress = job_progress(report, &keep);
    bool terminal = isatty(STDERR_FILENO);
    if (terminal)
        fprintf(stderr, "\r\033[K%.*s", SLICE_ARG(progress));
    else if (mono_ms() >= *next_ms)
        fprintf(stderr, "penstock %s: %.*s\n", server->command, SLICE_ARG(progress));
    if (mono_ms() >= *next_ms)
        *next_ms = mono_ms() + NOTICE_MS;
    arena_free(&keep);
}

int warm_found_nothing(const struct server *server)
{
    struct arena keep = { 0 };
    slice url = show_s3(&keep, server->of.bucket, server->of.key);
    fprintf(stderr, "penstock %s: the origin has no key that begins with %.*s. Check the URL\n",
            server->command, SLICE_ARG(url));
    arena_free(&keep);
    return EXIT_FAILED;
}

static int exit_of(const struct server *server, const json_t *report)
{
    bool none = !job_runs(report) && !lines_number(report, "objects");
    return none && job_exit(report) == EXIT_GOOD ? warm_found_nothing(server) : job_exit(report);
}

/* Waits for the end of the job, and prints its report. The job outlives a restart of the service,
 * so this function does, too. */
static int follow(const struct server *of, slice id)
{
    struct server patient = *of, *server = &patient;
    patient.away_ms = AWAY_MS;
    uint64_t next_ms = mono_ms() + NOTICE_MS;
    for (bool runs = true; runs;) {
        struct arena keep = { 0 };
        slice body;
        int status = job_ask(server, "GET", id, S(""), &keep, &body);
        json_t *report = status ? NULL : job_read(server, body);
        runs = report && job_runs(report);
        if (runs)
            show(server, report, &next_ms);
        else if (report && isatty(STDERR_FILENO))
            fprintf(stderr, "\r\033[K");
        if (report && !runs && !lines_print(server, body))
            job_print(server, report);
        status = report ? exit_of(server, report) : EXIT_FAILED;
        if (!report)
            fprintf(stderr, "penstock warm: the job goes on in the service: penstock jobs --job "
                    "%.*s s3://%.*s shows it\n", SLICE_ARG(id), SLICE_ARG(server->of.bucket));
        json_decref(report);
        arena_free(&keep);
        if (!runs)
            return status;
        usleep(POLL_MS * 1000);
    }
    return EXIT_FAILED;
}

static int start(const struct warm *warm, const struct server *server, struct arena *keep)
{
    slice body, answer;
    if (!make_body(warm, server, keep, &body))
        return EXIT_USAGE;
    int status = job_ask(server, "POST", S(""), body, keep, &answer);
    json_t *started = status ? NULL : job_read(server, answer);
    if (!started)
        return EXIT_FAILED;
    slice id = arena_copy(keep, json_text(json_object_get(started, "id")));
    json_decref(started);
    if (warm->detach && !lines_print(server, answer))
        printf("%.*s\n", SLICE_ARG(id));
    if (warm->detach)
        return EXIT_GOOD;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "penstock warm: job %.*s. It goes on if this command ends; penstock jobs "
                "--cancel %.*s s3://%.*s cancels it\n", SLICE_ARG(id), SLICE_ARG(id),
                SLICE_ARG(server->of.bucket));
    return follow(server, id);
}

/* ---- the command ---- */

static int ask(void *arg, const struct server *server, struct arena *keep)
{
    const struct warm *warm = arg;
    return warm->check ? warm_check(server, keep) : start(warm, server, keep);
}

static bool judge(const void *arg, const struct s3_url *of)
{
    const struct warm *warm = arg;
    if (warm->check && (warm->list || warm->ranges || warm->detach || warm->pin)) {
        fprintf(stderr, "penstock warm: --check is for a whole prefix: leave out --list, --ranges, "
                "--pin and --detach\n");
        return false;
    }
    if (warm->list && warm->pin) {
        fprintf(stderr, "penstock warm: only a prefix can be pinned: leave out --list or --pin\n");
        return false;
    }
    if (!warm->list || !of->key.len)
        return true;
    fprintf(stderr, "penstock warm: with --list, the URL must name a bucket alone, and each line "
            "of the list a whole key\n");
    return false;
}

static int run(struct cli *cli)
{
    struct warm warm = { .list = cli_option(cli, "--list"), .ranges = cli_option(cli, "--ranges"),
                         .detach = cli_flag(cli, "--detach"),
                         .check = cli_flag(cli, "--check"), .pin = cli_flag(cli, "--pin") };
    return server_run(cli, "warm", judge, ask, &warm);
}

static const struct command_option options[] = {
    { "--list", "FILE", "bring the keys of this file, one on each line. If FILE is \"-\", the keys "
                        "come from standard input. With --list, the URL names a bucket alone" },
    { "--ranges", "A-B,-N", "bring only these bytes of each object: the bytes from A to B, the last "
                           "N bytes. At most 16 ranges" },
    { "--pin", NULL, "pin the prefix first, so that its objects stay in the cache" },
    { "--check", NULL, "fetch nothing; say how much of the prefix is in the cache" },
    { "--detach", NULL, "print the id of the job, and don't wait for its end" },
    SERVER_OPTIONS,
    { 0 },
};

const struct command command_warm = {
    .name = "warm",
    .args = "[--check] [--list FILE] [--ranges A-B,-N] [--pin] [--detach] [--json] "
            "s3://BUCKET/PREFIX [SETTINGS]",
    .run = run, .takes_settings = true, .options = options,
    .help = "bring the objects of a prefix into the cache, before a client reads them",
    .more = SERVER_MORE
            "The service does the work, as a job. The job goes on if this command ends, and\n"
            "also if the service restarts. penstock jobs shows and cancels jobs.\n"
            "PREFIX is compared byte by byte: train matches training/1, and train/ does not.",
};
