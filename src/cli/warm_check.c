/* warm_check.c - penstock warm --check: how much of a prefix is in the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The origin's list says what there is, and penstock-ls says what the cache has. Cached bytes count
 * only if the cached object has the size that the list gives for its key. Nothing is fetched. The
 * list comes through Penstock, page by page, as any client would get it. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/job_report.h"
#include "s3/list_pages.h"

#define PAGE_KEYS 1000u

struct cached {
    slice key;
    uint64_t versions, bytes, cached_bytes;
};

struct tally {
    struct arena keep;                /* the keys */
    struct cached *rows;              /* sorted by key, as they come */
    size_t count, capacity;
    uint64_t objects, bytes;          /* of the origin's list */
    uint64_t cached_objects, cached_bytes;
};

static void visit(void *arg, slice line, const struct json_t *row)
{
    struct tally *tally = arg;
    (void)line;
    if (tally->count == tally->capacity) {
        tally->capacity = tally->capacity ? tally->capacity * 2 : 1024;
        tally->rows = realloc(tally->rows, tally->capacity * sizeof(*tally->rows));
        check(tally->rows != NULL);
    }
    tally->rows[tally->count++] = (struct cached){
        lines_name(row, "key", &tally->keep), lines_number(row, "objects"),
        lines_number(row, "bytes"), lines_number(row, "cached_bytes") };
}

static int ask_cache(const struct server *server, struct arena *keep, struct tally *ret)
{
    struct lines_end end;
    struct text query = text_in(keep);
    text_add(&query, S("penstock-ls="));
    query_add(&query, "prefix", server->of.key);
    struct question question = { .method = "GET", .of = { server->of.bucket, S("") },
                                 .query = text_slice(&query), .right = SERVER_LIST_RIGHT,
                                 .slow = SERVER_SLOW_WALK };
    int status = lines_read(server, &question, visit, ret, &end);
    if (status != EXIT_FAILED)
        lines_warn(server, &end, keep);
    return status;
}

static int compare(const void *a, const void *b)
{
    const struct cached *left = a, *right = b;
    return slice_cmp(left->key, right->key);
}

static void count(struct tally *tally, const struct listed *object)
{
    struct cached wanted = { .key = object->key };
    const struct cached *row = bsearch(&wanted, tally->rows, tally->count, sizeof(wanted), compare);
    tally->objects++;
    tally->bytes += object->size;
    /* If the cache has several versions of the key, it is unknown which of them has which bytes.
     * They count only if all of them are complete. */
    if (!row || (row->versions == 1 ? row->bytes != object->size
                                    : row->cached_bytes != row->bytes || row->bytes < object->size))
        return;
    uint64_t cached = MIN(row->cached_bytes, object->size);
    tally->cached_bytes += cached;
    tally->cached_objects += cached == object->size;
}

static int list_failed(const struct server *server)
{
    fprintf(stderr, "penstock %s: the origin's list of keys can't be read, or does not go on after "
            "its first pages, so its objects can't be counted. Check that the origin answers "
            "ListObjectsV2 as S3 does\n", server->command);
    return EXIT_FAILED;
}

static int ask_page(const struct server *server, struct list_pages *pages, struct tally *ret)
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
        status = list_failed(server);
    for (size_t i = 0; i < page.object_count && !status; i++)
        count(ret, &page.objects[i]);
    arena_free(&keep);
    return status;
}

static int ask_origin(const struct server *server, struct tally *ret)
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

static void print(const struct server *server, const struct tally *tally, struct arena *keep)
{
    if (server->json) {
        printf("{\"objects\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"cached_objects\":%" PRIu64
               ",\"cached_bytes\":%" PRIu64 "}\n", tally->objects, tally->bytes,
               tally->cached_objects, tally->cached_bytes);
        return;
    }
    printf("%.*s: %.*s of %.*s in the cache (%.*s); %" PRIu64 " of %" PRIu64 " objects are "
           "cached completely\n",
           SLICE_ARG(show_s3(keep, server->of.bucket, server->of.key)),
           SLICE_ARG(show_bytes_as(keep, tally->cached_bytes, tally->bytes)),
           SLICE_ARG(show_bytes(keep, tally->bytes)),
           SLICE_ARG(show_share(keep, tally->cached_bytes, tally->bytes)),
           tally->cached_objects, tally->objects);
}

static int say(const struct server *server, const struct tally *tally, int status,
               struct arena *keep)
{
    if (!tally->objects)
        return warm_found_nothing(server);
    print(server, tally, keep);
    return status || tally->cached_objects < tally->objects ? EXIT_INCOMPLETE : EXIT_GOOD;
}

int warm_check(const struct server *server, struct arena *keep)
{
    struct tally tally = { .count = 0 };
    int status = ask_cache(server, keep, &tally);
    if (status != EXIT_FAILED && ask_origin(server, &tally) != EXIT_GOOD)
        status = EXIT_FAILED;
    if (status != EXIT_FAILED)
        status = say(server, &tally, status, keep);
    arena_free(&tally.keep);
    free(tally.rows);
    return status;
}
