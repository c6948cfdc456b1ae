/* fill_probe.c - the C client, told what to do by its arguments. SPDX-License-Identifier: Apache-2.0
 *
 *     fill_probe SOCKET BUCKET BYTES [--skip] [--apart] [--pause] [--many N] [--prefetch] KEY:OFFSET:LENGTH:TO[:MAX] ...
 *
 * Fills a buffer of BYTES with the items and writes all of it to stdout; on stderr a line "bytes hits
 * misses failed", one "length status" an item, or "error CODE STATUS ITEM MESSAGE" and exit status 1.
 * --many: N items of 8 bytes of the first key instead. --apart: a list an item, all under way at once,
 * waited for in reverse. --pause: waits for a line on stdin first, with the buffer there. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/penstock.h"

struct told {
    const char *socket, *bucket;
    size_t bytes, many, count;
    int skip, apart, pause, prefetch;
    struct penstock_item *items;
};

static struct penstock_item item_of(char *text)
{
    struct penstock_item item = { .length = PENSTOCK_TO_END };
    char *words[5] = { 0 };
    size_t count = 0;
    for (char *word = strtok(text, ":"); word && count < 5; word = strtok(NULL, ":"))
        words[count++] = word;
    if (count < 4)
        errx(2, "not KEY:OFFSET:LENGTH:TO: %s", text);
    item.key = words[0];
    item.offset = strtoull(words[1], NULL, 10);
    item.length = strtoll(words[2], NULL, 10);
    item.to = strtoull(words[3], NULL, 10);
    item.max = words[4] ? strtoull(words[4], NULL, 10) : 0;
    return item;
}

static struct told read_arguments(int argc, char **argv)
{
    if (argc < 4)
        errx(2, "SOCKET BUCKET BYTES ...");
    struct told told = { .socket = argv[1], .bucket = argv[2], .bytes = strtoull(argv[3], NULL, 10),
                         .items = calloc(argc > 0 ? (size_t)argc : 1, sizeof(*told.items)) };
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "--skip") == 0)
            told.skip = 1;
        else if (strcmp(argv[i], "--apart") == 0)
            told.apart = 1;
        else if (strcmp(argv[i], "--pause") == 0)
            told.pause = 1;
        else if (strcmp(argv[i], "--prefetch") == 0)
            told.prefetch = 1;
        else if (strcmp(argv[i], "--many") == 0 && i + 1 < argc)
            told.many = strtoull(argv[++i], NULL, 10);
        else
            told.items[told.count++] = item_of(argv[i]);
    }
    return told;
}

static void multiply(struct told *told)
{
    struct penstock_item first = told->items[0];
    free(told->items);
    told->items = calloc(told->many, sizeof(*told->items));
    told->count = told->many;
    for (size_t i = 0; i < told->many; i++)
        told->items[i] = (struct penstock_item){ .key = first.key, .offset = i, .length = 8, .to = 8 * i };
}

static int each_apart(struct penstock *client, struct penstock_buffer *buffer, const struct told *told,
                      struct penstock_result *result, struct penstock_error *error)
{
    struct penstock_fill **fills = calloc(told->count, sizeof(struct penstock_fill *));
    int status = 0;
    for (size_t i = 0; i < told->count && status == 0; i++)
        status = penstock_fill_begin(client, buffer, told->bucket, &told->items[i], 1, NULL, &fills[i], error);
    for (size_t i = told->count; i-- > 0 && status == 0;) {
        struct penstock_result one = { .lengths = &result->lengths[i], .statuses = &result->statuses[i] };
        status = penstock_fill_wait(&fills[i], &one, error);
        result->bytes += one.bytes;
        result->hits += one.hits;
        result->misses += one.misses;
    }
    free(fills);
    return status;
}

static int play(struct penstock *client, struct penstock_buffer *buffer, const struct told *told,
                struct penstock_result *result, struct penstock_error *error)
{
    struct penstock_fill_options options = { .skip = told->skip };
    if (told->pause && (puts("ready") < 0 || fflush(stdout) || getchar() == EOF))
        errx(2, "nobody says go");
    if (told->prefetch)
        return penstock_prefetch(client, told->bucket, told->items, told->count, &options, result, error);
    if (told->apart)
        return each_apart(client, buffer, told, result, error);
    return penstock_fill(client, buffer, told->bucket, told->items, told->count, &options, result, error);
}

int main(int argc, char **argv)
{
    struct told told = read_arguments(argc, argv);
    struct penstock_options options = { .socket = told.socket };
    struct penstock_error error;
    struct penstock *client = NULL;
    struct penstock_buffer *buffer = NULL;
    if (told.many)
        multiply(&told);
    struct penstock_result result = { .lengths = calloc(told.count + 1, sizeof(*result.lengths)),
                                      .statuses = calloc(told.count + 1, sizeof(*result.statuses)) };
    int status = penstock_connect(&client, &options, &error);
    if (status == 0)
        status = penstock_buffer_new(client, told.bytes, &buffer, &error);
    if (status == 0)
        status = play(client, buffer, &told, &result, &error);
    if (status == 0) {
        fprintf(stderr, "%ju %zu %zu %zu\n", (uintmax_t)result.bytes, result.hits, result.misses, result.failed);
        for (size_t i = 0; i < told.count && !told.many; i++)
            fprintf(stderr, "%ju %d\n", (uintmax_t)result.lengths[i], result.statuses[i]);
        fwrite(penstock_buffer_data(buffer), 1, penstock_buffer_bytes(buffer), stdout);
        penstock_buffer_free(&buffer);
    } else {
        fprintf(stderr, "error %s %d %zd %s\n", error.code, error.status, (ssize_t)error.item, error.message);
    }
    penstock_close(&client);
    free(result.lengths);
    free(result.statuses);
    free(told.items);
    return status ? 1 : 0;
}
