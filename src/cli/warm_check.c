/* warm_check.c - penstock warm --check: how much of a prefix is in the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The origin's list says what there is, and penstock-du says what the cache has. Nothing is
 * fetched. The list comes through Penstock, page by page, as any client would get it. */
#include <inttypes.h>

#include "cli/job_report.h"
#include "s3/list_pages.h"

#define PAGE_KEYS 1000u

struct amounts {
    uint64_t objects, bytes;          /* of the origin's list */
    uint64_t cached_objects, cached_bytes;
};

static void visit(void *arg, slice line, const struct json_t *row)
{
    struct amounts *amounts = arg;
    (void)line;
    amounts->cached_objects += lines_number(row, "objects");
    amounts->cached_bytes += lines_number(row, "cached_bytes");
}

static int ask_cache(const struct server *server, struct arena *keep, struct amounts *ret)
{
    struct lines_end end;
    struct text query = text_in(keep);
    text_add(&query, S("penstock-du="));
    query_add(&query, "prefix", server->of.key);
    text_add(&query, S("&depth=0"));
    struct question question = { .method = "GET", .of = { server->of.bucket, S("") },
                                 .query = text_slice(&query), .right = SERVER_LIST_RIGHT,
                                 .slow = SERVER_SLOW_WALK };
    int status = lines_read(server, &question, visit, ret, &end);
    if (status != EXIT_FAILED)
        lines_warn(server, &end, keep);
    return status;
}

static int malformed(const struct server *server)
{
    fprintf(stderr, "penstock %s: the origin's list of keys can't be read, or does not go on after "
            "its first pages, so its objects can't be counted\n", server->command);
    return EXIT_FAILED;
}

static int ask_page(const struct server *server, struct list_pages *pages, struct amounts *ret)
{
    struct arena keep = { 0 };
    struct listing page = { .truncated = false };
    slice body;
    struct question question = {
        .method = "GET", .of = { server->of.bucket, S("") },
        .query = list_pages_query(pages, PAGE_KEYS, &keep), .right = SERVER_LIST_RIGHT,
        .slow = "The origin makes a list of its keys", .is_xml = true };
    int status = server_ask(server, &question, &keep, &body);
    if (!status && (xml_read_listing(&keep, body, &page) != OK ||
                    list_pages_take(pages, &page) != LIST_GOES_ON))
        status = malformed(server);
    ret->objects += page.object_count;
    for (size_t i = 0; i < page.object_count; i++)
        ret->bytes += page.objects[i].size;
    arena_free(&keep);
    return status;
}

static int ask_origin(const struct server *server, struct amounts *ret)
{
    struct list_pages pages;
    int status;
    list_pages_begin(&pages, server->of.key, S(""));
    do
        status = ask_page(server, &pages, ret);
    while (!status && pages.more);
    list_pages_end(&pages);
    return status;
}

static void print(const struct server *server, const struct amounts *amounts, struct arena *keep)
{
    if (server->json) {
        printf("{\"objects\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"cached_objects\":%" PRIu64
               ",\"cached_bytes\":%" PRIu64 "}\n", amounts->objects, amounts->bytes,
               amounts->cached_objects, amounts->cached_bytes);
        return;
    }
    printf("%.*s: %.*s of %.*s in the cache (%.*s), of %" PRIu64 " of %" PRIu64 " objects\n",
           SLICE_ARG(show_s3(keep, server->of.bucket, server->of.key)),
           SLICE_ARG(show_bytes_as(keep, amounts->cached_bytes, amounts->bytes)),
           SLICE_ARG(show_bytes(keep, amounts->bytes)),
           SLICE_ARG(show_share(keep, amounts->cached_bytes, amounts->bytes)),
           amounts->cached_objects, amounts->objects);
}

int warm_check(const struct server *server, struct arena *keep)
{
    struct amounts amounts = { 0 };
    int status = ask_cache(server, keep, &amounts);
    if (status != EXIT_FAILED && ask_origin(server, &amounts) != EXIT_GOOD)
        status = EXIT_FAILED;
    if (status == EXIT_FAILED)
        return status;
    /* The cache may have objects that the origin no longer has. */
    amounts.cached_objects = MIN(amounts.cached_objects, amounts.objects);
    amounts.cached_bytes = MIN(amounts.cached_bytes, amounts.bytes);
    print(server, &amounts, keep);
    return status || amounts.cached_bytes < amounts.bytes ? EXIT_INCOMPLETE : EXIT_GOOD;
}
