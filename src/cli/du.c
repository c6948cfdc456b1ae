/* du.c - the subcommand du: how many bytes and objects are cached below each prefix.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <jansson.h>

#include "cli/lines.h"

#define DEPTH_MAX 1024u

struct usage {
    bool exact;
    uint64_t depth;
    const struct server *server;
    uint64_t objects, bytes, cached_bytes;
    struct arena keep;        /* of one line */
};

static void print_line(struct usage *usage, uint64_t cached, uint64_t bytes, uint64_t objects,
                       slice name)
{
    if (usage->exact)
        printf("%14" PRIu64 "  %14" PRIu64, cached, bytes);
    else
        printf("%10.*s  %10.*s", SLICE_ARG(show_bytes(&usage->keep, cached)),
               SLICE_ARG(show_bytes(&usage->keep, bytes)));
    printf("  %10" PRIu64 "  %.*s\n", objects, SLICE_ARG(name));
}

static void print_head(const struct usage *usage)
{
    int width = usage->exact ? 14 : 10;
    printf("%*s  %*s  %10s  %s\n", width, "CACHED", width, "SIZE", "OBJECTS", "PREFIX");
}

static void visit(void *arg, slice line, const json_t *row)
{
    struct usage *usage = arg;
    uint64_t objects = lines_number(row, "objects"), bytes = lines_number(row, "bytes");
    uint64_t cached = lines_number(row, "cached_bytes");
    if (lines_print(usage->server, line))
        return;
    slice name = show_s3(&usage->keep, usage->server->of.bucket,
                         lines_name(row, "prefix", &usage->keep));
    if (!usage->objects)
        print_head(usage);
    print_line(usage, cached, bytes, objects, name);
    usage->objects += objects;
    usage->bytes += bytes;
    usage->cached_bytes += cached;
    arena_free(&usage->keep);
}

static void print_total(struct usage *usage)
{
    if (!usage->objects)
        print_head(usage);
    print_line(usage, usage->cached_bytes, usage->bytes, usage->objects, S("total"));
}

static int ask(void *arg, const struct server *server, struct arena *keep)
{
    struct usage *usage = arg;
    const struct s3_url *url = &server->of;
    struct lines_end end;
    struct text query = text_in(keep);
    usage->server = server;
    text_add(&query, S("penstock-du="));
    query_add(&query, "prefix", url->key);
    text_printf(&query, "&depth=%" PRIu64, usage->depth);
    struct question question = { .method = "GET", .of = { url->bucket, S("") },
                                 .query = text_slice(&query), .right = SERVER_LIST_RIGHT,
                                 .slow = SERVER_SLOW_WALK };
    int status = lines_read(server, &question, visit, usage, &end);
    if (status == EXIT_FAILED)
        return status;
    if (server->json)
        lines_print_end(&end);
    else
        print_total(usage);
    lines_warn(server, &end, keep);
    return status;
}

static bool take_depth(struct cli *cli, uint64_t *ret)
{
    const char *text = cli_option(cli, "--depth");
    *ret = 1;
    if (!text || (slice_u64(slice_of(text), ret) && *ret <= DEPTH_MAX))
        return true;
    fprintf(stderr, "penstock du: --depth must be a number from 0 to %u, not \"%s\"\n", DEPTH_MAX,
            text);
    return false;
}

static int run(struct cli *cli)
{
    struct usage usage = { .exact = cli_flag(cli, "--bytes") };
    int status = take_depth(cli, &usage.depth) ? server_run(cli, "du", NULL, ask, &usage) : EXIT_USAGE;
    arena_free(&usage.keep);
    return status;
}

static const struct command_option options[] = {
    { "--depth", "N", "keys that are equal up to the Nth slash after PREFIX share one line "
                       "(default 1)" },
    { "--bytes", NULL, "print exact numbers of bytes" },
    SERVER_OPTIONS,
    { 0 },
};

const struct command command_du = {
    .name = "du", .args = "[--depth N] [--json] [--bytes] s3://BUCKET/PREFIX [SETTINGS]",
    .run = run, .takes_settings = true, .options = options,
    .help = "show how much of a bucket is cached, by prefix",
    .more = SERVER_MORE
            "Each object counts in one line. --depth 0 gives one line.",
};
