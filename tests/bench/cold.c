/* cold.c - reads that no cache holds: our store, beside a bare reader of the same extent files.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     cold --folder F --bytes N --objects N --batch N --depth N --reads N --pairs N
 *          [--engine uring|threads] [--how direct|buffered] [--gap N] [--every N] [--each 1]
 *
 * Makes a store of `objects` objects of so many bytes (once: the folder is used again), then in each
 * pair has `reads` objects read, `depth` at a time, in random order: by a bare O_DIRECT reader,
 * which knows where the bytes lie and verifies nothing, and by the store, into memory of ours. A
 * batch is a row of objects that came one after the other, or every so many of such a row, asked
 * for together; the bare reader reads it as megabytes, or with --each 1 object by object. A line a
 * pair: name=number words. */
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metric.h"
#include "store/io.h"

#define PAGE ((uint64_t)4096)
#define UNDER_WAY 500

static struct {
    const char *folder, *engine, *how;
    uint64_t bytes, objects, commit, depth, reads, pairs, gap, every, each;
} told = { .engine = "uring", .how = "direct", .bytes = 131072, .objects = 1000, .commit = 1,
           .depth = 32, .reads = 1000, .pairs = 3, .gap = 16384, .every = 1 };

static struct store *store;
static struct metadata **metadata;
static uint64_t *order;    /* of batches */
static uint64_t rounds;

/* Where an object's bytes lie. */
static struct place {
    uint32_t extent;
    uint64_t at, end;
} *places;

static void die(const char *what)
{
    fprintf(stderr, "cold: %s\n", what);
    exit(1);
}

static uint64_t now_us(void)
{
    return mono_ns() / 1000;
}

/* ---- the store ---- */

static sem_t free_slots;
static atomic_uint failed;

static void stored(struct store_append *append, enum err err)
{
    atomic_fetch_add(&failed, err != OK);
    free((void *)(uintptr_t)append->bytes.ptr);
    free(append);
    sem_post(&free_slots);
}

static void store_one(uint64_t i)
{
    struct store_append *append = must_alloc(sizeof(*append));
    uint8_t *bytes = malloc(told.bytes);
    for (uint64_t at = 0; at + 8 <= told.bytes; at += 8)
        memcpy(bytes + at, &(uint64_t){ (i << 32 | at) * 0x9E3779B97F4A7C15u }, 8);
    *append = (struct store_append){ .metadata = metadata[i],
                                     .bytes = { (char *)bytes, told.bytes },
                                     .with_metadata = true, .done = stored };
    while (sem_wait(&free_slots) != 0)
        ;
    enum err e;
    while ((e = store_append(store, append)) == ERR_LIMIT)
        usleep(1000);
    if (e)
        die("an object can't be stored");
}

static void make_metadata(void)
{
    metadata = must_alloc(told.objects * sizeof(*metadata));
    for (uint64_t i = 0; i < told.objects; i++) {
        char key[32];
        snprintf(key, sizeof(key), "%08u", (unsigned)i);
        struct object_name name = { S("http://origin"), S("bench"), slice_of(key), S("") };
        struct object_id id;
        store_object_id(store, &name, &id);
        metadata[i] = metadata_new(&id, &name, S("\"cold\""), S(""), told.bytes, 1700000000,
                                         true);
    }
}

static bool find_place(uint64_t i)
{
    struct entry entry;
    uint32_t unit;
    if (index_get_metadata(store->volumes[0]->index, &metadata[i]->id, &unit, &entry) != OK ||
        !entry.whole)
        return false;
    places[i].extent = entry.extent;
    places[i].at = record_data_at(entry.offset, entry.len,
                                  (uint32_t)metadata_block_bytes(metadata[i]));
    places[i].end = places[i].at + told.bytes;
    return true;
}

static void open_store(void)
{
    struct store_folder folder = { told.folder,
                                   told.objects * (told.bytes + 8192) * 2 + 512 * MIB };
    struct store_options options = {
        .folders = &folder, .folder_count = 1,
        .reserve_bytes = 1, .extent_bytes = 64 * MIB, .metadata_bytes = MIB,
        .queue_bytes_max = 256 * MIB, .commit_ms_max = 60000, .read_gap_bytes = (uint32_t)told.gap,
        .cold_reads = *told.how == 'd' ? COLD_DIRECT : COLD_BUFFERED,
    };
    struct arena keep = { 0 };
    slice why;
    const char *engine_why;
    if (disk_choose(slice_of(told.engine), &options.engine, &engine_why) != OK)
        die(engine_why);
    if (store_open(&options, &keep, &store, &why) || why.len)
        die("the folder can't be used");
    arena_free(&keep);
}

static void fill(void)
{
    make_metadata();
    places = must_alloc(told.objects * sizeof(*places));
    sem_init(&free_slots, 0, UNDER_WAY);
    if (!find_place(told.objects - 1))
        for (uint64_t i = 0; i < told.objects; i++)
            store_one(i);
    for (int i = 0; i < UNDER_WAY; i++)
        while (sem_wait(&free_slots) != 0)
            ;
    if (atomic_load(&failed))
        die("an object was not stored");
    for (uint64_t i = 0; i < told.objects; i++)
        if (!find_place(i))
            die("an object is not there");
}

/* ---- extents ---- */

static int fds[1 << 16];

static void drop_caches(void)
{
    char path[4200];
    for (uint32_t i = 1; i <= extents_highest(store->volumes[0]->extents); i++) {
        snprintf(path, sizeof(path), "%s/extents/%08x", told.folder, i);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        fdatasync(fd);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
        if (!fds[i])
            fds[i] = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
        if (fds[i] < 0)
            die("the file system takes no direct reads");
    }
}

static void shuffle(uint64_t seed)
{
    uint64_t count = told.objects / (told.commit * told.every);
    rounds = MIN(told.reads / told.commit, count);
    if (!order)
        order = must_alloc(count * sizeof(*order));
    for (uint64_t i = 0; i < count; i++)
        order[i] = i;
    srand((unsigned)seed);
    for (uint64_t i = count - 1; i > 0; i--) {
        uint64_t j = (uint64_t)rand() % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* ---- the bare reader ---- */

struct stretch {
    uint32_t extent;
    uint64_t at, end;
};

/* What it reads, in order: each object, or rows of a batch's up to a megabyte. */
static uint64_t plan_bare(struct stretch *to)
{
    uint64_t count = 0;
    for (uint64_t round = 0; round < rounds; round++) {
        for (uint64_t i = 0; i < told.commit; i++) {
            const struct place *place = &places[(order[round] * told.commit + i) * told.every];
            uint64_t at = place->at / PAGE * PAGE, end = round_up(place->end, PAGE);
            struct stretch *last = count ? &to[count - 1] : NULL;
            if (i && !told.each && last->extent == place->extent && at >= last->at &&
                at <= last->end + told.gap && end - last->at <= MIB)
                last->end = MAX(end, last->end);
            else
                to[count++] = (struct stretch){ place->extent, at, end };
        }
    }
    return count;
}

static void bare_queue(struct io_uring *ring, const struct stretch *stretch, uint8_t *memory)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(ring);
    io_uring_prep_read(entry, fds[stretch->extent], memory, (unsigned)(stretch->end - stretch->at),
                       stretch->at);
    io_uring_sqe_set_data(entry, memory);
}

/* How many bytes it read. */
static uint64_t bare_run(uint8_t *memory)
{
    struct io_uring ring;
    struct stretch *all = must_alloc(rounds * told.commit * sizeof(*all));
    uint64_t count = plan_bare(all), next = 0, ended = 0, bytes = 0;
    /* of a row in megabytes about two: as many as the store has under way */
    uint64_t depth = told.commit > 1 && !told.each ? MAX(told.depth / 2, 1) : told.depth;
    if (io_uring_queue_init((unsigned)depth, &ring, 0) != 0)
        die("there is no ring");
    for (; next < MIN(depth, count); next++)
        bare_queue(&ring, &all[next], memory + next * 2 * MIB);
    while (ended < count) {
        struct io_uring_cqe *answer;
        io_uring_submit_and_wait(&ring, 1);
        while (io_uring_peek_cqe(&ring, &answer) == 0) {
            uint8_t *mine = io_uring_cqe_get_data(answer);
            if (answer->res <= 0)
                die("a bare read failed");
            bytes += (uint64_t)answer->res;
            io_uring_cqe_seen(&ring, answer);
            ended++;
            if (next < count)
                bare_queue(&ring, &all[next++], mine);
        }
    }
    io_uring_queue_exit(&ring);
    free(all);
    return bytes;
}

/* ---- ours ---- */

static struct reader {
    struct mailbox *box;
    struct store_io *io;
    uint64_t next;                    /* batch */
    uint64_t ended;
} reader;

struct slot {
    uint8_t *memory;
    uint64_t first, left;             /* of its batch */
    struct slot *again;               /* of those whose batch is over */
};
static struct slot *over;

static void item_ended(struct slot *slot, enum err err, struct object_bytes *held)
{
    if (err || held->bytes.len != told.bytes)
        die("a read failed");
    object_bytes_release(held);
    reader.ended++;
    if (--slot->left == 0) {
        slot->again = over;
        over = slot;
    }
}

static void bytes_came(void *arg, enum err err, struct object_bytes held)
{
    item_ended(arg, err, &held);
}

static void start_batch(struct slot *slot)
{
    slot->first = order[reader.next++] * told.commit * told.every;
    slot->left = told.commit;
    for (uint64_t i = 0; i < told.commit; i++) {
        struct object_bytes held = { 0 };
        struct store_op *op;
        enum err e = store_read(reader.io, metadata[slot->first + i * told.every], 0,
                                told.bytes, (struct store_to){ .memory = slot->memory + i * told.bytes }, bytes_came, slot, &held,
                                &op);
        if (e != ERR_WAIT)
            item_ended(slot, e, &held);
    }
}

static void start_more(void)
{
    if (told.commit > 1)
        store_io_plug(reader.io);
    while (over && reader.next < rounds) {
        struct slot *slot = over;
        over = slot->again;
        start_batch(slot);
    }
    if (told.commit > 1)
        store_io_unplug(reader.io);
}

static void ours_run(uint8_t *memory)
{
    reader = (struct reader){ .box = mailbox_new() };
    reader.io = store_io_new(store, reader.box);
    uint64_t count = told.commit > 1 ? MAX(told.depth / 4, 1) : told.depth;
    struct slot *slots = must_alloc(count * sizeof(*slots));
    over = NULL;
    for (uint64_t i = 0; i < count; i++) {
        slots[i] = (struct slot){ .memory = memory + i * 2 * MIB, .again = over };
        over = &slots[i];
    }
    start_more();
    while (reader.ended < rounds * told.commit) {
        poll(&(struct pollfd){ .fd = mailbox_fd(reader.box), .events = POLLIN }, 1, -1);
        mailbox_deliver(reader.box);
        store_io_reap(reader.io);
        start_more();
    }
    store_io_free(&reader.io);
    mailbox_free(&reader.box);
    free(slots);
}

/* ---- pairs ---- */

static void pair(uint64_t seed, uint8_t *memory)
{
    shuffle(seed);
    drop_caches();
    uint64_t reads = metric_read(M_DISK_READS), direct = metric_read(M_STORE_DIRECT);
    uint64_t bytes = rounds * told.commit * told.bytes, began = now_us();
    uint64_t bare_bytes = bare_run(memory), bare_us = now_us() - began;
    drop_caches();
    began = now_us();
    ours_run(memory);
    uint64_t ours_us = now_us() - began;
    printf("objects=%u bare_mbs=%.1f ours_mbs=%.1f bare_read=%.4f reads=%u direct=%u\n",
           (unsigned)(rounds * told.commit), (double)bytes / (double)bare_us,
           (double)bytes / (double)ours_us, (double)bare_bytes / (double)bytes,
           (unsigned)(metric_read(M_DISK_READS) - reads),
           (unsigned)(metric_read(M_STORE_DIRECT) - direct));
    fflush(stdout);
}

static void read_flags(int argc, char **argv)
{
    static const struct {
        const char *name;
        uint64_t *number;
        const char **text;
    } flags[] = {
        { "--folder", NULL, &told.folder }, { "--engine", NULL, &told.engine },
        { "--how", NULL, &told.how }, { "--bytes", &told.bytes, NULL },
        { "--objects", &told.objects, NULL }, { "--batch", &told.commit, NULL },
        { "--depth", &told.depth, NULL }, { "--reads", &told.reads, NULL },
        { "--pairs", &told.pairs, NULL }, { "--gap", &told.gap, NULL },
        { "--every", &told.every, NULL }, { "--each", &told.each, NULL },
    };
    for (int i = 1; i + 1 < argc; i += 2) {
        size_t n = 0;
        while (n < countof(flags) && strcmp(flags[n].name, argv[i]) != 0)
            n++;
        if (n == countof(flags))
            die("there is no such flag");
        if (flags[n].number)
            *flags[n].number = strtoull(argv[i + 1], NULL, 10);
        else
            *flags[n].text = argv[i + 1];
    }
    if (!told.folder || told.bytes > MIB || told.bytes * told.commit > 2 * MIB || !told.depth)
        die("--folder F, objects of at most 1 MiB, batches of at most 2");
}

int main(int argc, char **argv)
{
    read_flags(argc, argv);
    uint8_t *memory = mmap(NULL, told.depth * 2 * MIB, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        die("too little memory");
    open_store();
    fill();
    for (uint64_t i = 0; i < told.pairs; i++)
        pair(i + 1, memory);
    for (uint64_t i = 0; i < told.objects; i++)
        metadata_unref(&metadata[i]);
    store_close(&store);
    return 0;
}
