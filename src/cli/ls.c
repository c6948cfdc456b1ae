/* ls.c - the subcommand ls: which keys are cached. SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <jansson.h>

#include "cli/lines.h"

struct listing {
    bool json, exact;
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

/* Pinned is the whole, a part, or nothing of what is cached. */
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
    if (listing->json)
        fwrite(line.ptr, 1, line.len, stdout);
    else
        print_row(listing, row);
    arena_free(&listing->keep);
}

static void print_total(struct listing *listing, const struct s3_url *of)
{
    struct text name = text_in(&listing->keep);
    show_name(&name, of->key);
    if (listing->keys)
        printf("%" PRIu64 " %s: %.*s of %.*s cached\n", listing->keys,
               listing->keys == 1 ? "key" : "keys",
               SLICE_ARG(bytes_text(listing, listing->cached_bytes)),
               SLICE_ARG(bytes_text(listing, listing->bytes)));
    else
        printf("no key of s3://%.*s/%.*s is cached\n", SLICE_ARG(of->bucket), (int)name.len,
               name.len ? name.ptr : "");
    arena_free(&listing->keep);
}

static int list(struct cli *cli, const struct server *server, const struct s3_url *url,
                struct listing *listing)
{
    struct lines_end end;
    struct text query = text_in(&cli->arena);
    text_add(&query, S("penstock-ls="));
    query_add(&query, "prefix", url->key);
    struct question question = { .method = "GET", .of = { url->bucket, S("") },
                                 .query = text_slice(&query), .right = SERVER_LIST_RIGHT,
                                 .slow = SERVER_SLOW_WALK };
    int status = lines_read(server, &question, visit, listing, &end);
    if (status == EXIT_FAILED)
        return status;
    if (listing->json)
        lines_print_end(&end);
    else
        print_total(listing, url);
    lines_warn(server, &end, &cli->arena);
    return status;
}

static int run(struct cli *cli)
{
    struct listing listing = { .json = cli_flag(cli, "--json"), .exact = cli_flag(cli, "--bytes") };
    struct server server;
    struct s3_url url;
    if (!server_word(cli, "ls", &url))
        return EXIT_USAGE;
    int status = server_find(cli, "ls", &server);
    if (!status)
        status = list(cli, &server, &url, &listing);
    server_end(&server);
    arena_free(&listing.keep);
    return status;
}

static const struct command_option options[] = {
    { "--json", NULL, "print the JSON lines of the service" },
    { "--bytes", NULL, "print exact numbers of bytes" },
    SERVER_OPTIONS,
    { 0 },
};

const struct command command_ls = {
    .name = "ls", .args = "[--json] [--bytes] s3://BUCKET/PREFIX [SETTINGS]", .run = run,
    .takes_settings = true, .options = options,
    .help = "show which keys of a bucket are cached, and how much of each",
    .more = SERVER_MORE
            "PREFIX is compared byte by byte: train also names training/1, and train/ does not.",
};
