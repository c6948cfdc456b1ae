/* index_fill.c - fills a cache folder with small objects, and reads some of them at random.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     index_fill --folder F --endpoint URL --size BYTES --extent BYTES --from N --to N
 *     index_fill --folder F --endpoint URL --size BYTES --extent BYTES --to N --gets N
 *
 * The first form stores the objects from N to N through the store's own interface, so that index,
 * extents and tables of contents are those of a daemon. Each object is a WHOLE record with DATA_BYTES
 * of data, because the index has one entry for an object of any size up to 1 MiB. The keys are
 * DD/object-NNNNNNNN in the bucket `pile`, where DD is N modulo 100. The second form reads `gets`
 * objects at random, index and record, and prints us=MEDIAN of a read. The metadata in RAM is a few
 * objects, so that each read asks the index. */
#include <getopt.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "store/metadata.h"
#include "store/store.h"

#define DATA_BYTES 64u
#define WINDOW 4000u                  /* appends under way */

struct options {
    const char *folder, *endpoint;
    uint64_t size, extent, from, to, gets;
};

/* An append, and room for the next one in its place. */
struct fill {
    struct store_append append;
    sem_t free;
};

static struct fill fills[WINDOW];
static char data[DATA_BYTES];
static atomic_uint failed;

static struct object_name name_of(const struct options *options, uint64_t number, char key[32])
{
    snprintf(key, 32, "%02u/object-%08llu", (unsigned)(number % 100), (unsigned long long)number);
    return (struct object_name){ .endpoint = slice_of(options->endpoint), .bucket = S("pile"),
                                 .key = slice_of(key), .version = S("") };
}

static void appended(struct store_append *append, enum err err)
{
    struct fill *fill = container_of(append, struct fill, append);
    atomic_fetch_add(&failed, err != OK);
    metadata_unref(&append->metadata);
    sem_post(&fill->free);
}

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        ;
}

static void put(const struct options *options, struct store *store, uint64_t number)
{
    struct fill *fill = &fills[number % WINDOW];
    char key[32], etag[40];
    struct object_id id;
    struct object_name name = name_of(options, number, key);
    wait_for(&fill->free);
    store_object_id(store, &name, &id);
    snprintf(etag, sizeof(etag), "\"%032llx\"", (unsigned long long)number);
    fill->append = (struct store_append){ .bytes = { data, sizeof(data) }, .must = true,
                                          .with_metadata = true, .done = appended };
    fill->append.metadata = metadata_new(&id, &name, slice_of(etag),
                                         S("content-type: image/jpeg\r\n"), sizeof(data),
                                         1700000000, true);
    while (store_append(store, &fill->append) != OK)
        poll(NULL, 0, 1);
}

static void fill(const struct options *options, struct store *store)
{
    for (size_t i = 0; i < WINDOW; i++)
        sem_init(&fills[i].free, 0, 1);
    for (uint64_t number = options->from; number < options->to; number++) {
        put(options, store, number);
        if (number % 100000 == 0)
            fprintf(stderr, "# %llu stored, %llu ms\n", (unsigned long long)number,
                    (unsigned long long)mono_ms());
    }
    for (size_t i = 0; i < WINDOW; i++)
        wait_for(&fills[i].free);
    struct store_status status;
    store_status(store, &status);
    printf("failed=%u entries=%llu index_bytes=%llu extents=%u\n", atomic_load(&failed),
           (unsigned long long)status.entries, (unsigned long long)status.index_bytes,
           status.extents);
}

/* ---- reads ---- */

struct reader {
    struct store_io *io;
    struct mailbox *box;
    bool came;
    enum err err;
    struct metadata *metadata;
    struct object_bytes held;
};

static void metadata_came(void *arg, enum err err, struct metadata *metadata)
{
    struct reader *reader = arg;
    reader->came = true;
    reader->err = err;
    reader->metadata = metadata;
}

static void bytes_came(void *arg, enum err err, struct object_bytes held)
{
    struct reader *reader = arg;
    reader->came = true;
    reader->err = err;
    reader->held = held;
}

static enum err ended(struct reader *reader, enum err e)
{
    while (e == ERR_WAIT && !reader->came) {
        struct pollfd waiting = { .fd = mailbox_fd(reader->box), .events = POLLIN };
        poll(&waiting, 1, 1000);
        mailbox_deliver(reader->box);
        store_io_reap(reader->io);
    }
    return e == ERR_WAIT ? reader->err : e;
}

static uint64_t get(const struct options *options, struct store *store, struct reader *reader,
                    uint64_t number)
{
    char key[32];
    struct object_id id;
    struct store_op *op = NULL;
    struct object_name name = name_of(options, number, key);
    uint64_t start = mono_ns();
    store_object_id(store, &name, &id);
    reader->came = false;
    enum err e = ended(reader, store_metadata(reader->io, &id, &name, metadata_came, reader,
                                              &reader->metadata, &op));
    check(e == OK);
    reader->came = false;
    e = ended(reader, store_read(reader->io, reader->metadata, 0, DATA_BYTES, (struct store_to){ 0 }, bytes_came,
                                 reader, &reader->held, &op));
    check(e == OK && reader->held.bytes.len == DATA_BYTES);
    object_bytes_release(&reader->held);
    metadata_unref(&reader->metadata);
    return mono_ns() - start;
}

static int by_value(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static void gets(const struct options *options, struct store *store)
{
    struct reader reader = { .box = mailbox_new() };
    uint64_t *took = must_alloc(options->gets * sizeof(*took)), random = 88172645463325252u;
    reader.io = store_io_new(store, reader.box);
    for (uint64_t i = 0; i < options->gets; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        took[i] = get(options, store, &reader, random % options->to);
    }
    qsort(took, options->gets, sizeof(*took), by_value);
    printf("us=%.2f p99_us=%.2f\n", (double)took[options->gets / 2] / 1000,
           (double)took[options->gets * 99 / 100] / 1000);
    free(took);
    store_io_free(&reader.io);
    mailbox_free(&reader.box);
}

/* ---- options ---- */

static uint64_t number_of(const char *text)
{
    uint64_t number;
    if (!slice_u64(slice_of(text), &number)) {
        fprintf(stderr, "index_fill: not a number: %s\n", text);
        exit(2);
    }
    return number;
}

static struct options read_options(int argc, char **argv)
{
    static const struct option names[] = {
        { "folder", 1, NULL, 'f' }, { "endpoint", 1, NULL, 'e' }, { "size", 1, NULL, 's' },
        { "extent", 1, NULL, 'x' }, { "from", 1, NULL, 'a' }, { "to", 1, NULL, 'b' },
        { "gets", 1, NULL, 'g' }, { NULL, 0, NULL, 0 } };
    struct options options = { .folder = NULL };
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        uint64_t *number = c == 's' ? &options.size : c == 'x' ? &options.extent
                         : c == 'a' ? &options.from : c == 'b' ? &options.to : &options.gets;
        if (c == '?')
            exit(2);
        if (c == 'f' || c == 'e')
            *(c == 'f' ? &options.folder : &options.endpoint) = optarg;
        else
            *number = number_of(optarg);
    }
    if (!options.folder || !options.endpoint || !options.size || !options.to) {
        fprintf(stderr, "index_fill: give --folder, --endpoint, --size and --to\n");
        exit(2);
    }
    return options;
}

int main(int argc, char **argv)
{
    struct options options = read_options(argc, argv);
    struct arena keep = { 0 };
    struct store *store;
    slice why;
    struct store_folder folder = { options.folder, options.size };
    struct store_options how = { .folders = &folder, .folder_count = 1, .reserve_bytes = MIB,
                                 .extent_bytes = (uint32_t)options.extent, .metadata_bytes = MIB,
                                 .queue_bytes_max = 64 * MIB, .commit_ms_max = 60000,
                                 .memory_bytes = 4 * GIB, .engine = DISK_THREADS };
    uint64_t start = mono_ms();
    if (store_open(&how, &keep, &store, &why) != OK || why.len) {
        fprintf(stderr, "index_fill: %.*s\n", SLICE_ARG(why));
        return 1;
    }
    printf("open_ms=%llu ", (unsigned long long)(mono_ms() - start));
    if (options.gets)
        gets(&options, store);
    else
        fill(&options, store);
    start = mono_ms();
    store_close(&store);
    fprintf(stderr, "# closed in %llu ms\n", (unsigned long long)(mono_ms() - start));
    arena_free(&keep);
    return atomic_load(&failed) > 0;
}
