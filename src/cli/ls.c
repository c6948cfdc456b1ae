/* ls.c - the subcommand ls: which keys are cached. SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <jansson.h>

#include "cli/lines.h"

struct listing {
    bool exact;
    const struct server *server;
    uint64_t keys, bytes, cached_bytes;
    struct arena keep;        /* of one line */
};

static slice bytes_text(struct listing *listing, uint64_t bytes)
{
    return listing->exact ? arena_printf(&listing->keep, "%" PRIu64, bytes)
                          : show_bytes(&listing->keep, bytes);
}

static slice age_text(struct listing *listing, const json_t *row)
{
    const json_t *age = json_object_get(row, "age");
    return json_is_number(age) ? arena_printf(&listing->keep, "%.2f", json_number_value(age))
                               : S("-");
}

/* Says how much of the cached bytes is pinned: all, a part, or nothing. */
static slice pinned_text(const json_t *row)
{
    uint64_t pinned = lines_number(row, "pinned_bytes");
    return !pinned ? S("-") : pinned < lines_number(row, "cached_bytes") ? S("part") : S("yes");
}

static void print_line(slice size, slice cached, slice age, slice pinned, slice name)
{
    printf("%12.*s  %12.*s  %5.*s  %-6.*s  %.*s\n", SLICE_ARG(size), SLICE_ARG(cached),
           SLICE_ARG(age), SLICE_ARG(pinned), SLICE_ARG(name));
}

static void print_row(struct listing *listing, const json_t *row)
{
    uint64_t bytes = lines_number(row, "bytes"), cached = lines_number(row, "cached_bytes");
    struct text name = text_in(&listing->keep);
    show_name(&name, lines_name(row, "key", &listing->keep));
    if (listing->keys++ == 0)
        print_line(S("SIZE"), S("CACHED"), S("AGE"), S("PINNED"), S("KEY"));
    listing->bytes += bytes;
    listing->cached_bytes += cached;
    slice share = listing->exact ? bytes_text(listing, cached)
                                 : show_share(&listing->keep, cached, bytes);
    print_line(bytes_text(listing, bytes), share,
               age_text(listing, row), pinned_text(row), text_slice(&name));
}

static void visit(void *arg, slice line, const json_t *row)
{
    struct listing *listing = arg;
    if (!lines_print(listing->server, line))
        print_row(listing, row);
    arena_free(&listing->keep);
}

static void print_total(struct listing *listing, const struct s3_url *of)
{
    if (listing->keys)
        printf("%" PRIu64 " %s: %.*s of %.*s cached\n", listing->keys,
               listing->keys == 1 ? "key" : "keys",
               SLICE_ARG(bytes_text(listing, listing->cached_bytes)),
               SLICE_ARG(bytes_text(listing, listing->bytes)));
    else
        printf("no cached key of %.*s was found\n",
               SLICE_ARG(show_s3(&listing->keep, of->bucket, of->key)));
    arena_free(&listing->keep);
}

static int ask(void *arg, const struct server *server, struct arena *keep)
{
    struct listing *listing = arg;
    const struct s3_url *url = &server->of;
    struct lines_end end;
    struct text query = text_in(keep);
    listing->server = server;
    text_add(&query, S("penstock-ls="));
    query_add(&query, "prefix", url->key);
    struct question question = { .method = "GET", .of = { url->bucket, S("") },
                                 .query = text_slice(&query), .right = SERVER_LIST_RIGHT,
                                 .slow = SERVER_SLOW_WALK };
    int status = lines_read(server, &question, visit, listing, &end);
    if (status == EXIT_FAILED)
        return status;
    if (server->json)
        lines_print_end(&end);
    else
        print_total(listing, url);
    lines_warn(server, &end, keep);
    return status;
}

static int run(struct cli *cli)
{
    struct listing listing = { .exact = cli_flag(cli, "--bytes") };
    int status = server_run(cli, "ls", NULL, ask, &listing);
    arena_free(&listing.keep);
    return status;
}

static const struct command_option options[] = {
    { "--bytes", NULL, "print exact numbers of bytes" },
    SERVER_OPTIONS,
    { 0 },
};

const struct command command_ls = {
    .name = "ls", .args = "[--json] [--bytes] s3://BUCKET/PREFIX [SETTINGS]", .run = run,
    .takes_settings = true, .options = options,
    .help = "show which keys of a bucket are cached, and how much of each",
    .more = SERVER_MORE
            "PREFIX is compared byte by byte: train matches training/1, and train/ does not.",
};
