/* fsck.c - the subcommand fsck: checks the cache folders while Penstock does not run.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The store does the work (store/fsck.h). This file chooses the folders, shows the progress on a
 * terminal, and prints the report, for people or as JSON. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/show.h"
#include "store/fsck.h"

#define PROGRESS_MS 200u

enum { STATUS_CLEAN = 0, STATUS_WRONG = 1, STATUS_UNCHECKED = 2 };    /* documented in penstock(1) */

/* ---- progress ---- */

struct progress {
    uint64_t shown_ms;                /* 0: nothing is on the line */
};

static void show_progress(void *arg, const char *folder, uint64_t done, uint64_t all)
{
    struct progress *progress = arg;
    struct arena keep = { 0 };
    uint64_t now = mono_ms();
    if (progress->shown_ms && now < progress->shown_ms + PROGRESS_MS)
        return;
    slice part = show_bytes(&keep, done), whole = show_bytes(&keep, all);
    fprintf(stderr, "\r\033[K%s: %.*s of %.*s", folder, SLICE_ARG(part), SLICE_ARG(whole));
    fflush(stderr);
    progress->shown_ms = now;
    arena_free(&keep);
}

static void end_progress(const struct progress *progress)
{
    if (progress->shown_ms)
        fputs("\r\033[K", stderr);
}

/* ---- for people ---- */

static void print_totals(struct arena *keep, const struct fsck_report *report)
{
    const struct fsck_totals *totals = &report->totals;
    slice size = show_bytes(keep, totals->extent_bytes);
    printf("  format version %u, generation %u\n", report->version, report->generation);
    printf("  extents: %" PRIu64 " (%.*s)\n", totals->extents, SLICE_ARG(size));
    printf("  records: %" PRIu64 ", of which %" PRIu64 " are no longer in use\n", totals->records,
           totals->dead_records);
    printf("  entries in the index: %" PRIu64 "; after a clean stop, Penstock trusts %" PRIu64
           " of them, and revalidates the others once\n", totals->entries, totals->proved_entries);
}

static void print_finding(const struct fsck_report *report, enum fsck_kind kind)
{
    const struct fsck_finding *finding = &report->findings[kind];
    const struct fsck_words *words = &fsck_words[kind];
    if (!finding->count)
        return;
    printf("\n  %s %s: %" PRIu64 "\n", words->grade == FSCK_NOTED ? "noted" : "WRONG", words->name,
           finding->count);
    for (size_t i = 0; i < FSCK_EXAMPLES && i < finding->count; i++)
        printf("      %.*s\n", SLICE_ARG(finding->examples[i]));
    if (finding->count > FSCK_EXAMPLES)
        puts("      ...");
    printf("    %s.\n    %s.\n", words->what, words->start);
    if (report->repaired && report->left[kind] && words->grade != FSCK_NOTED)
        printf("    After the repair, %" PRIu64 " of these are left.\n", report->left[kind]);
}

/* If --repair does not change a finding, the text of the finding says how to mend it. */
static void print_by_hand(uint64_t by_hand, uint64_t left)
{
    if (by_hand && by_hand == left)
        puts("  --repair does not change what is still wrong: the findings above say what to do");
    else if (by_hand)
        printf("  --repair does not change %" PRIu64 " of these: the findings above say what to "
               "do\n", by_hand);
}

static void print_result(const struct fsck_report *report, const struct fsck_ask *ask)
{
    uint64_t found = fsck_found_wrong(report), left = fsck_wrong(report);
    uint64_t by_hand = fsck_by_hand(report);
    const char *advice = by_hand < left ? ". penstock fsck --repair removes what is wrong" : "";
    if (!found)
        puts("  nothing is wrong");
    else if (report->repaired)
        printf("\n  wrong: %" PRIu64 "; after the repair: %" PRIu64 ". Penstock revalidates each "
               "object of this folder once at the origin\n", found, left);
    else if (ask->repair)
        printf("\n  wrong: %" PRIu64 "; nothing was repaired\n", found);
    else
        printf("\n  wrong: %" PRIu64 "; nothing was changed%s\n", found, advice);
    print_by_hand(by_hand, left);
}

static void print_report(struct arena *keep, const struct fsck_report *report,
                         const struct fsck_ask *ask)
{
    printf("%s%s\n", report->path, ask->quick ? " (without checksums of data)" : "");
    if (report->checked && report->version)
        print_totals(keep, report);
    for (int i = 0; i < FSCK_KINDS; i++)
        print_finding(report, (enum fsck_kind)i);
    if (report->checked)
        print_result(report, ask);
    if (report->why.len)
        printf("  %s: %.*s\n", report->checked ? "not repaired" : "not checked",
               SLICE_ARG(report->why));
}

/* ---- for machines ---- */

static json_t *text_value(slice text)
{
    return json_stringn(text.len ? text.ptr : "", text.len);
}

static json_t *finding_json(const struct fsck_report *report, enum fsck_kind kind)
{
    const struct fsck_finding *finding = &report->findings[kind];
    const struct fsck_words *words = &fsck_words[kind];
    json_t *examples = json_array();
    for (size_t i = 0; i < FSCK_EXAMPLES && i < finding->count; i++)
        json_array_append_new(examples, text_value(finding->examples[i]));
    return json_pack("{s:s, s:b, s:I, s:I, s:s, s:s, s:o}", "name", words->name, "wrong",
                     words->grade != FSCK_NOTED, "count", (json_int_t)finding->count, "left",
                     (json_int_t)(report->repaired ? report->left[kind] : finding->count), "what",
                     words->what, "start", words->start, "examples", examples);
}

static json_t *totals_json(const struct fsck_totals *totals)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
                     "extents", (json_int_t)totals->extents,
                     "extent_bytes", (json_int_t)totals->extent_bytes,
                     "records", (json_int_t)totals->records,
                     "record_bytes", (json_int_t)totals->record_bytes,
                     "dead_records", (json_int_t)totals->dead_records,
                     "entries", (json_int_t)totals->entries,
                     "proved_entries", (json_int_t)totals->proved_entries);
}

static json_t *report_json(const struct fsck_report *report)
{
    json_t *findings = json_array();
    for (int i = 0; i < FSCK_KINDS; i++)
        if (report->findings[i].count)
            json_array_append_new(findings, finding_json(report, (enum fsck_kind)i));
    return json_pack("{s:s, s:b, s:o, s:b, s:i, s:i, s:o, s:o, s:I}", "path", report->path,
                     "checked", report->checked, "why", text_value(report->why), "repaired",
                     report->repaired, "version", (int)report->version, "generation",
                     (int)report->generation, "totals", totals_json(&report->totals), "findings",
                     findings, "left", (json_int_t)fsck_wrong(report));
}

static void print_json(const struct fsck_report *reports, size_t count)
{
    json_t *folders = json_array(), *root = json_pack("{s:O}", "folders", folders);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(folders, report_json(&reports[i]));
    json_dumpf(root, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(folders);
    json_decref(root);
}

/* ---- the command ---- */

static int status_of(const struct fsck_report *reports, size_t count)
{
    int status = STATUS_CLEAN;
    for (size_t i = 0; i < count; i++)
        if (!reports[i].checked || reports[i].why.len || reports[i].findings[FSCK_UNREAD].count)
            status = STATUS_UNCHECKED;
        else if (fsck_wrong(&reports[i]) && !status)
            status = STATUS_WRONG;
    return status;
}

static int check_folders(struct cli *cli, struct fsck_ask *ask, bool json)
{
    struct progress progress = { 0 };
    struct fsck_report *reports = arena_alloc(&cli->arena, ask->count * sizeof(*reports));
    if (isatty(STDERR_FILENO)) {
        ask->progress = show_progress;
        ask->arg = &progress;
    }
    fsck_run(ask, &cli->arena, reports);
    end_progress(&progress);
    for (size_t i = 0; i < ask->count && !json; i++)
        print_report(&cli->arena, &reports[i], ask);
    if (json)
        print_json(reports, ask->count);
    return status_of(reports, ask->count);
}

static int run_fsck(struct cli *cli)
{
    bool json = cli_flag(cli, "--json");
    struct fsck_ask ask = { .repair = cli_flag(cli, "--repair"),
                            .quick = cli_flag(cli, "--quick") };
    struct config *config = cli_load(cli, NULL);
    int status = EXIT_USAGE;
    log_setup(LOG_LEVEL_OFF, false);
    /* Only the folders count here, so mistakes in the settings file do not matter. But if the file
     * can't be read, the folders are not known. */
    if (cli_mistakes(cli, config, config->file_unread ? NULL : "command line", stderr) == 0) {
        const char **paths = arena_alloc(&cli->arena, config->folder_count * sizeof(*paths));
        for (size_t i = 0; i < config->folder_count; i++)
            paths[i] = config->folders[i].path;
        ask.folders = paths;
        ask.count = config->folder_count;
        status = check_folders(cli, &ask, json);
    }
    config_free(&config);
    return status;
}

static const struct command_option options[] = {
    { "--repair", NULL, "remove what is wrong; the report says what you must do by hand. Penstock "
                        "then revalidates each object once" },
    { "--quick", NULL, "do not verify the checksums of data: read headers, metadata and the "
                       "index" },
    { "--json", NULL, "print the report as JSON" },
    { 0 },
};

const struct command command_fsck = {
    .name = "fsck", .args = "[--repair] [--quick] [--json] [SETTINGS]", .run = run_fsck,
    .takes_settings = true,
    .help = "check the cache folders while Penstock does not run, and repair them",
    .options = options,
    .more = "fsck checks the folders of cache_dirs, or cache_dir. No process may use\n"
            "them meanwhile. Without --repair it changes nothing. The exit status is 0 if\n"
            "nothing is wrong, or if --repair has removed all that was wrong. It is 1 if\n"
            "something is wrong. It is 2 if a folder could not be checked or repaired\n"
            "completely, if the command line is wrong, or if the settings file can't be read.",
};
