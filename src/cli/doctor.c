/* doctor.c - the subcommand doctor: measures where time goes, and names the narrowest place.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each measurement is bounded in bytes and time, and none needs a running service. The findings are
 * printed as a table, with one sentence below it. The narrowest place is the finding of the highest
 * grade; of equal grades, the one that is the most times worse than its limit. */
#include "cli/doctor.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define FETCH_MIB 16u
#define FETCH_MIB_MAX 1024u

/* ---- findings ---- */

struct finding *doctor_add(struct doctor *doctor, slice place, slice measured, slice usual)
{
    check(doctor->count < FINDINGS_MAX);
    struct finding *finding = &doctor->findings[doctor->count++];
    *finding = (struct finding){ place, measured, usual, GOOD, 0, S("") };
    return finding;
}

void doctor_grade(struct finding *finding, enum doctor_grade grade, double factor, slice advice)
{
    finding->grade = grade;
    finding->factor = factor;
    finding->advice = advice;
}

void doctor_judge(struct finding *finding, double value, double limit, slice advice)
{
    if (value > limit)
        doctor_grade(finding, SLOW, value / limit, advice);
}

const struct finding *doctor_narrowest(const struct doctor *doctor)
{
    const struct finding *worst = NULL;
    for (size_t i = 0; i < doctor->count; i++) {
        const struct finding *at = &doctor->findings[i];
        if (at->grade >= LIMITED && (!worst || at->grade > worst->grade ||
                                     (at->grade == worst->grade && at->factor > worst->factor)))
            worst = at;
    }
    return worst;
}

static const char *const grades[] = { "not measured", "good", "limited", "slow", "broken" };

/* ---- output ---- */

static int width_of(const struct doctor *doctor, size_t at)
{
    size_t most = strlen("MEASURED");
    for (size_t i = 0; i < doctor->count; i++)
        most = MAX(most, at ? doctor->findings[i].measured.len : doctor->findings[i].place.len);
    return (int)most;
}

static void print_row(const int widths[2], slice place, slice measured, const char *grade,
                      slice usual)
{
    printf("%-*.*s  %-*.*s  %-12s  %.*s\n", widths[0], SLICE_ARG(place), widths[1],
           SLICE_ARG(measured), grade, SLICE_ARG(usual));
}

static void print_table(const struct doctor *doctor)
{
    const int widths[2] = { width_of(doctor, 0), width_of(doctor, 1) };
    const struct finding *worst = doctor_narrowest(doctor);
    print_row(widths, S("PLACE"), S("MEASURED"), "VERDICT", S("USUAL"));
    for (size_t i = 0; i < doctor->count; i++) {
        const struct finding *at = &doctor->findings[i];
        print_row(widths, at->place, at->measured, grades[at->grade], at->usual);
    }
    if (worst)
        printf("\nThe narrowest place is %.*s. %.*s\n", SLICE_ARG(worst->place),
               SLICE_ARG(worst->advice));
    else
        puts("\nNo place is narrow: all that was measured is as usual. To see what the requests of "
             "a program wait for, run penstock doctor --while PROGRAM.");
}

static json_t *text(slice value)
{
    json_t *made = json_stringn(value.len ? value.ptr : "", value.len);
    return made ? made : json_string("(not UTF-8)");
}

static int print_json(const struct doctor *doctor)
{
    const struct finding *worst = doctor_narrowest(doctor);
    json_t *root = json_object(), *rows = json_array();
    for (size_t i = 0; i < doctor->count; i++) {
        const struct finding *at = &doctor->findings[i];
        json_array_append_new(rows, json_pack("{s:o, s:o, s:o, s:s, s:f, s:o}", "place",
                                              text(at->place), "measured", text(at->measured),
                                              "usual", text(at->usual), "verdict",
                                              grades[at->grade], "factor", at->factor, "advice",
                                              text(at->advice)));
    }
    json_object_set_new(root, "findings", rows);
    json_object_set_new(root, "narrowest", worst ? text(worst->place) : json_null());
    json_object_set_new(root, "advice", worst ? text(worst->advice) : json_null());
    int failed = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(root);
    return failed ? EXIT_FAILED : EXIT_GOOD;
}

/* ---- the command ---- */

static bool take_fetch(struct cli *cli, struct doctor *doctor)
{
    const char *given = cli_option(cli, "--fetch");
    uint64_t mib = FETCH_MIB;
    bool good = !given || (slice_u64(slice_of(given), &mib) && mib <= FETCH_MIB_MAX);
    if (!good)
        fprintf(stderr, "penstock doctor: --fetch must be a number of MiB, from 0 to %u, not "
                "\"%s\"\n", FETCH_MIB_MAX, given);
    doctor->fetch_bytes = mib * MIB;
    return good;
}

static bool take_object(struct cli *cli, struct doctor *doctor)
{
    const char *given = cli_option(cli, "--object"), *why;
    if (!given || s3_url_read(given, &doctor->object, &why))
        return true;
    fprintf(stderr, "penstock doctor: --object \"%s\" %s: write s3://BUCKET/KEY\n", given, why);
    return false;
}

static int measure(struct doctor *doctor, bool json)
{
    doctor_find_service(doctor);
    doctor_service(doctor);
    doctor_disks(doctor);
    doctor_machine(doctor);
    doctor_origins(doctor);
    if (json)
        return print_json(doctor);
    print_table(doctor);
    return ferror(stdout) ? EXIT_FAILED : EXIT_GOOD;
}

/* Cuts the words behind --while off the command line. Returns their number. */
static size_t cut_command(struct cli *cli, const char *const **ret)
{
    for (size_t i = 0; i < cli->argc; i++) {
        if (strcmp(cli->argv[i], "--while") != 0)
            continue;
        size_t count = cli->argc - i - 1;
        *ret = (const char *const *)(cli->argv + i + 1);
        cli->argc = i;
        return count ? count : SIZE_MAX;
    }
    return 0;
}

static int run_doctor(struct cli *cli)
{
    const char *const *command = NULL;
    size_t count = cut_command(cli, &command);
    bool json = cli_flag(cli, "--json");
    struct doctor *doctor = arena_alloc(&cli->arena, sizeof(*doctor));
    doctor->keep = &cli->arena;
    doctor->offline = cli_flag(cli, "--offline");
    if (count == SIZE_MAX)
        fputs("penstock doctor: the command is missing: penstock doctor --while COMMAND "
              "[ARGUMENT ...]\n", stderr);
    if (count == SIZE_MAX || !take_fetch(cli, doctor) || !take_object(cli, doctor))
        return EXIT_USAGE;
    struct config *config = cli_load(cli, NULL);
    if (cli_mistakes(cli, config, count ? "command line" : NULL, stderr)) {
        config_free(&config);
        return EXIT_USAGE;
    }
    log_setup(LOG_LEVEL_OFF, false);
    doctor->config = config;
    doctor->memory = memory_of(config, doctor->keep);
    int status = count ? doctor_while(doctor, command, count, json) : measure(doctor, json);
    json_decref(doctor->status);
    config_free(&config);
    return status;
}

static const struct command_option options[] = {
    { "--json", NULL, "print JSON" },
    { "--offline", NULL, "measure only this machine: ask no origin and no DNS server" },
    { "--object", "URL", "measure the origin's bandwidth with s3://BUCKET/KEY, or with the largest "
                         "object of the first 1000 of s3://BUCKET/PREFIX" },
    { "--fetch", "MIB", "fetch at most so much from each origin for it (default 16; 0: nothing)" },
    { "--while", "COMMAND", "run this command, and say what its requests waited for; must be the "
                            "last option, as all words behind it belong to the command" },
    { 0 },
};

const struct command command_doctor = {
    .name = "doctor", .args = "[OPTIONS] [SETTINGS] [--while COMMAND [ARGUMENT ...]]",
    .run = run_doctor, .takes_settings = true, .options = options,
    .help = "measure where time goes, and name the narrowest place",
    .more = "doctor reads the settings as serve does. It works with and without a running\n"
            "service, takes some seconds, and changes nothing. Run it as the service's user.\n"
            "It reads at most 8 MiB of each cache folder. If a folder has no extents yet, it\n"
            "writes 4 MiB to a file without a name there, if there is room.\n"
            "--while asks the running service for its metrics before and after the command,\n"
            "and prints the result on stderr. The exit status is that of the command.",
};
