/* du.c - the subcommand du: how many bytes and objects are cached below each prefix.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <jansson.h>

#include "cli/lines.h"

#define DEPTH_MAX 1024u

struct usage {
    bool json, exact;
    slice bucket;
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
    if (usage->json) {
        fwrite(line.ptr, 1, line.len, stdout);
        return;
    }
    struct text name = text_in(&usage->keep);
    text_printf(&name, "s3://%.*s/", SLICE_ARG(usage->bucket));
    show_name(&name, lines_name(row, "prefix", &usage->keep));
    if (!usage->objects)
        print_head(usage);
    print_line(usage, cached, bytes, objects, text_slice(&name));
    usage->objects += objects;
    usage->bytes += bytes;
    usage->cached_bytes += cached;
    arena_free(&usage->keep);
}

static int sum(struct cli *cli, const struct server *server, const struct s3_url *url,
               uint64_t depth, struct usage *usage)
{
    struct lines_end end;
    struct text query = text_in(&cli->arena);
    text_add(&query, S("penstock-du="));
    query_add(&query, "prefix", url->key);
    text_printf(&query, "&depth=%" PRIu64, depth);
    struct question question = { .method = "GET", .of = { url->bucket, S("") },
                                 .query = text_slice(&query), .right = SERVER_LIST_RIGHT,
                                 .slow = SERVER_SLOW_WALK };
    int status = lines_read(server, &question, visit, usage, &end);
    if (status == EXIT_FAILED)
        return status;
    if (usage->json)
        lines_print_end(&end);
    else
        print_line(usage, usage->cached_bytes, usage->bytes, usage->objects, S("total"));
    lines_warn(server, &end, &cli->arena);
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
    struct usage usage = { .json = cli_flag(cli, "--json"), .exact = cli_flag(cli, "--bytes") };
    struct server server;
    struct s3_url url;
    uint64_t depth;
    if (!take_depth(cli, &depth) || !server_word(cli, "du", &url))
        return EXIT_USAGE;
    usage.bucket = url.bucket;
    int status = server_find(cli, "du", &server);
    if (!status)
        status = sum(cli, &server, &url, depth, &usage);
    server_end(&server);
    arena_free(&usage.keep);
    return status;
}

static const struct command_option options[] = {
    { "--depth", "N", "a line for each prefix that ends after N slashes (default 1)" },
    { "--json", NULL, "print the JSON lines of the service" },
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
