/* test_store_gather.c - reads that go to the disk together. SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include <sys/mman.h>

#include "store/io.h"

#define OBJECTS 40u

#define HANGS_MS 1500u                 /* a commit on a busy machine takes less */

struct batch {
    struct unit_store unit;
    struct metadata *metadata[OBJECTS];
    struct unit_answer answers[OBJECTS];
    struct store_op *ops[OBJECTS];
    uint8_t *memory[OBJECTS];         /* each its own; NULL: none */
    uint64_t gathered, merged, beyond, issued;    /* before the plug came */
};

static char *key_of(size_t i)
{
    static char key[2][16];
    static unsigned turn;
    char *to = key[turn++ % 2];
    snprintf(to, sizeof(key[0]), "o%02zu", i);
    return to;
}

/* Objects that lie side by side, in one append: the committer is held up until all are there. */
static void batch_begin_with(struct batch *batch, size_t count, uint64_t bytes,
                             struct store_options options)
{
    struct unit_put puts[OBJECTS];
    sem_t until;
    *batch = (struct batch){ 0 };
    ok(unit_try(&batch->unit, options) == OK);
    sem_init(&until, 0, 0);
    struct metadata *first = make_metadata(&batch->unit, "first", "\"v\"", 4);
    struct unit_append held = { .hang = &until };
    append_begin(&batch->unit, &held, first, 0, S("wxyz"), true);
    ok(commit_has_taken(&batch->unit, 0));
    for (size_t i = 0; i < count; i++)
        puts[i] = put_begin(&batch->unit, key_of(i), "\"v\"", bytes);
    sem_post(&until);
    ok(append_wait(&held) == OK);
    metadata_unref(&first);
    for (size_t i = 0; i < count; i++)
        ok(put_wait(&puts[i]) == OK);
    for (size_t i = 0; i < count; i++)
        batch->metadata[i] = get_metadata(&batch->unit, key_of(i));
}

static void batch_begin(struct batch *batch, size_t count, uint64_t bytes, uint32_t gap)
{
    struct store_options options = options_of(64 * MIB, 16 * MIB);
    options.read_gap_bytes = gap;
    batch_begin_with(batch, count, bytes, options);
}

/* The disk of this batch counts as hanging after HANGS_MS. */
static void batch_begin_hanging_soon(struct batch *batch)
{
    struct store_options options = options_of(64 * MIB, 16 * MIB);
    options.read_gap_bytes = 65536;
    options.commit_ms_max = HANGS_MS;
    batch_begin_with(batch, OBJECTS, 4096, options);
}

static void batch_end(struct batch *batch)
{
    for (size_t i = 0; i < OBJECTS; i++) {
        metadata_unref(&batch->metadata[i]);
        free(batch->memory[i]);
    }
    unit_close(&batch->unit);
}

/* false: the file system keeps what it has in memory, and there is nothing to see. */
static bool cold(struct batch *batch)
{
    struct unit_answer answer = { 0 };
    struct store_op *op = NULL;
    cool();
    batch->gathered = metric_read(M_STORE_GATHERED);
    batch->merged = metric_read(M_STORE_MERGED);
    batch->beyond = metric_read(M_STORE_BEYOND);
    store_io_plug(batch->unit.io);    /* looked up, not tried: else the kernel reads it */
    enum err e = store_read(batch->unit.io, batch->metadata[OBJECTS - 1], 0, UINT64_MAX, (struct store_to){ 0 },
                            bytes_came, &answer, &answer.held, &op);
    store_op_drop(&op);
    object_bytes_release(&answer.held);
    store_io_unplug(batch->unit.io);
    cool();
    batch->gathered = metric_read(M_STORE_GATHERED);
    batch->issued = metric_read(M_DISK_READS);
    return e == ERR_WAIT;
}

static void start(struct batch *batch, size_t i)
{
    batch->answers[i] = (struct unit_answer){ 0 };
    ok(store_read(batch->unit.io, batch->metadata[i], 0, UINT64_MAX, (struct store_to){ .memory = batch->memory[i] },
                  bytes_came, &batch->answers[i], &batch->answers[i].held, &batch->ops[i]) ==
                  ERR_WAIT);
}

static void await(struct batch *batch, size_t i)
{
    while (!batch->answers[i].came)
        unit_turn(&batch->unit);
    batch->ops[i] = NULL;
}

static bool is_right(struct batch *batch, size_t i)
{
    struct unit_answer *answer = &batch->answers[i];
    size_t len = batch->metadata[i]->size;
    uint8_t *want = must_alloc(len);
    object_fill(key_of(i), "\"v\"", 0, want, len);
    bool right = !answer->err && answer->held.bytes.len == len &&
                 memcmp(answer->held.bytes.ptr, want, len) == 0 &&
                 (!batch->memory[i] || answer->held.bytes.ptr == (char *)batch->memory[i]);
    free(want);
    object_bytes_release(&answer->held);
    return right;
}

/* Every step-th object, in one batch, to its end. */
static void read_each(struct batch *batch, size_t step)
{
    store_io_plug(batch->unit.io);
    for (size_t i = 0; i < OBJECTS; i += step)
        start(batch, i);
    store_io_unplug(batch->unit.io);
    for (size_t i = 0; i < OBJECTS; i += step)
        await(batch, i);
}

static void each_is_right(struct batch *batch, size_t step)
{
    read_each(batch, step);
    for (size_t i = 0; i < OBJECTS; i += step)
        ok(is_right(batch, i));
}

static bool counted(const struct batch *batch, uint64_t gathered, uint64_t issued, uint64_t merged)
{
    return metric_read(M_STORE_GATHERED) - batch->gathered == gathered &&
           metric_read(M_DISK_READS) - batch->issued == issued &&
           metric_read(M_STORE_MERGED) - batch->merged == merged;
}

TEST(neighbours_are_one_read_and_each_gets_its_own_bytes)
{
    for (int round = 0; round < 2; round++) {
        struct batch batch;
        batch_begin(&batch, OBJECTS, 4096, 64);    /* records lie on 64 bytes */
        for (size_t i = 0; round && i < OBJECTS; i++)
            batch.memory[i] = must_alloc(4096);
        if (cold(&batch)) {
            store_io_plug(batch.unit.io);
            for (size_t i = 0; i < OBJECTS; i++)
                start(&batch, i * 7 % OBJECTS);    /* in no order */
            ok(counted(&batch, OBJECTS, 0, 0));
            store_io_unplug(batch.unit.io);
            for (size_t i = 0; i < OBJECTS; i++) {
                await(&batch, i);
                ok(is_right(&batch, i));
            }
            ok(counted(&batch, OBJECTS, 1, OBJECTS));
        }
        batch_end(&batch);
    }
}

TEST(what_lies_between_is_read_up_to_the_gap_and_no_further)
{
    static const uint32_t gaps[] = { 0, 8000, 16000 };
    for (size_t round = 0; round < countof(gaps); round++) {
        struct batch batch;
        batch_begin(&batch, OBJECTS, 4096, gaps[round]);
        if (cold(&batch)) {
            each_is_right(&batch, 3);    /* two of about 4.4 KiB lie between */
            size_t count = (OBJECTS + 2) / 3;
            ok(gaps[round] > 9000 ? counted(&batch, count, 1, count)
                                  : counted(&batch, count, count, 0));
            uint64_t beyond = metric_read(M_STORE_BEYOND) - batch.beyond;
            if (unit_cold == COLD_BUFFERED)    /* else whole pages come */
                ok(gaps[round] > 9000 ? beyond > (count - 1) * 8192 && beyond < (count - 1) * 9500
                                      : beyond == 0);
        }
        batch_end(&batch);
    }
}

TEST(no_read_is_larger_than_a_megabyte_and_large_ones_stay_alone)
{
    static const struct {
        uint64_t bytes, issued, merged;
    } cases[] = { { 60000, 3, OBJECTS },    /* 17 to a megabyte */
                  { 200000, OBJECTS, 0 } };
    for (size_t i = 0; i < countof(cases); i++) {
        struct batch batch;
        batch_begin(&batch, OBJECTS, cases[i].bytes, 65536);
        if (cold(&batch)) {
            each_is_right(&batch, 1);
            ok(counted(&batch, OBJECTS, cases[i].issued, cases[i].merged));
        }
        batch_end(&batch);
    }
}

TEST(one_that_is_dropped_costs_its_neighbours_nothing)
{
    struct batch batch;
    batch_begin(&batch, OBJECTS, 4096, 65536);
    if (cold(&batch)) {
        store_io_plug(batch.unit.io);
        for (size_t i = 0; i < OBJECTS; i++)
            start(&batch, i);
        for (size_t i = 0; i < OBJECTS; i += 4)
            store_op_drop(&batch.ops[i]);    /* while they are gathered */
        store_io_unplug(batch.unit.io);
        for (size_t i = 1; i < OBJECTS; i += 4)
            store_op_drop(&batch.ops[i]);    /* and while they are read */
        for (size_t i = 0; i < OBJECTS; i++) {
            ok(i % 4 > 1 || !batch.answers[i].came);
            if (i % 4 > 1) {
                await(&batch, i);
                ok(is_right(&batch, i));
            }
        }
        ok(counted(&batch, OBJECTS, 1, OBJECTS - OBJECTS / 4));
    }
    batch_end(&batch);
}

TEST(a_reader_that_goes_takes_along_what_it_gathered)
{
    struct batch batch;
    batch_begin(&batch, OBJECTS, 4096, 65536);
    if (cold(&batch)) {
        store_io_plug(batch.unit.io);
        for (size_t i = 0; i < OBJECTS; i++) {
            start(&batch, i);
            store_op_drop(&batch.ops[i]);
        }
    }
    batch_end(&batch);
}

static void cut(const char *path)
{
    struct stat st;
    ok(stat(path, &st) == 0);
    if (st.st_size > 20000)    /* the one with all the objects: behind about half of them */
        ok(truncate(path, 100000) == 0);
}

TEST(a_file_that_is_cut_is_a_miss_for_those_behind_the_cut_alone)
{
    struct batch batch;
    batch_begin(&batch, OBJECTS, 4096, 65536);
    if (cold(&batch)) {
        uint64_t bad = metric_read(M_STORE_CRC_BAD), lost = 0;
        each_extent(cut);
        read_each(&batch, 1);
        for (size_t i = 0; i < OBJECTS; i++) {
            ok(batch.answers[i].err ? batch.answers[i].err == ERR_GONE : is_right(&batch, i));
            lost += batch.answers[i].err != OK;
        }
        ok(lost > OBJECTS / 4 && lost < OBJECTS * 3 / 4);
        ok(metric_read(M_STORE_CRC_BAD) == bad + lost);
    }
    batch_end(&batch);
}

static void flip(const char *path)
{
    int fd = open(path, O_RDWR);
    uint8_t byte;
    ok(fd >= 0);
    if (pread(fd, &byte, 1, 60000) == 1) {
        byte ^= 4;
        ok(pwrite(fd, &byte, 1, 60000) == 1);
    }
    close(fd);
}

TEST(one_that_fails_its_checksum_says_nothing_about_its_neighbours)
{
    struct batch batch;
    batch_begin(&batch, OBJECTS, 4096, 65536);
    if (cold(&batch)) {
        each_extent(flip);
        cool();
        uint64_t bad = metric_read(M_STORE_CRC_BAD), lost = 0;
        read_each(&batch, 1);
        for (size_t i = 0; i < OBJECTS; i++)
            lost += batch.answers[i].err == ERR_GONE || !is_right(&batch, i);
        ok(lost == 1 && metric_read(M_STORE_CRC_BAD) == bad + 1);
    }
    batch_end(&batch);
}

TEST(one_whose_memory_is_gone_fails_alone)
{
    struct batch batch;
    batch_begin(&batch, OBJECTS, 4096, 65536);
    if (cold(&batch)) {
        int file = memfd_create("cut", 0);
        ok(file >= 0 && ftruncate(file, 4096) == 0);
        uint8_t *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        batch.memory[5] = map;
        ok(ftruncate(file, 0) == 0);
        read_each(&batch, 1);
        for (size_t i = 0; i < OBJECTS; i++)
            ok(i == 5 ? batch.answers[i].err == ERR_FAULT : is_right(&batch, i));
        batch.memory[5] = NULL;
        munmap(map, 4096);
        close(file);
        ok(has_object(&batch.unit, key_of(5), "\"v\"", 4096));
    }
    batch_end(&batch);
}

/* While a read is gathered, it waits as if the disk hung. */
TEST(reads_that_hang_are_given_up_and_the_folder_serves_again_when_they_end)
{
    struct batch batch;
    batch_begin_hanging_soon(&batch);
    struct volume *volume = batch.unit.store->volumes[0];
    uint64_t late = metric_read(M_STORE_GIVEN_UP);
    if (cold(&batch)) {
        store_io_plug(batch.unit.io);
        start(&batch, 0);
        ok(volume_is_serving(volume));
        await(&batch, 0);
        ok(batch.answers[0].err == ERR_GONE && metric_read(M_STORE_GIVEN_UP) == late + 1);
        ok(!volume_is_serving(volume) && volume_is_good(volume));
        store_io_unplug(batch.unit.io);
        ok(volume_is_serving(volume));
        ok(has_object(&batch.unit, key_of(0), "\"v\"", 4096));
    }
    batch_end(&batch);
}

/* The disk may still write to the memory of the reader. */
TEST(a_read_into_the_memory_of_its_reader_is_not_given_up)
{
    struct batch batch;
    batch_begin_hanging_soon(&batch);
    batch.memory[1] = aligned_alloc(4096, 4096);
    if (cold(&batch)) {
        store_io_plug(batch.unit.io);
        start(&batch, 0);
        start(&batch, 1);
        batch.ops[1]->reads[0].straight = true;    /* as if the disk had it */
        await(&batch, 0);
        ok(batch.answers[0].err == ERR_GONE && !batch.answers[1].came);
        store_io_unplug(batch.unit.io);
        await(&batch, 1);
        ok(is_right(&batch, 1));
    }
    batch_end(&batch);
}

TEST(a_reader_that_does_not_look_at_its_reads_puts_no_folder_out_of_service)
{
    struct batch batch;
    batch_begin_hanging_soon(&batch);
    struct volume *volume = batch.unit.store->volumes[0];
    if (cold(&batch)) {
        start(&batch, 0);
        uint64_t until = mono_ms() + 3 * HANGS_MS;
        while (mono_ms() < until) {
            ok(volume_is_serving(volume));
            usleep(10000);
        }
        await(&batch, 0);
        ok(is_right(&batch, 0));
    }
    batch_end(&batch);
}

/* A second reader of the store of this batch. */
static struct unit_store second_begin(const struct batch *batch)
{
    struct unit_store second = { .store = batch->unit.store, .box = mailbox_new() };
    second.io = store_io_new(second.store, second.box);
    store_io_plug(second.io);
    return second;
}

static void second_end(struct unit_store *second)
{
    store_io_free(&second->io);
    mailbox_free(&second->box);
}

/* The second reader begins to read an object of the batch. */
static struct store_op *second_start(const struct unit_store *second, const struct batch *batch,
                                     size_t i, struct unit_answer *answer)
{
    struct store_op *op = NULL;
    ok(store_read(second->io, batch->metadata[i], 0, UINT64_MAX, (struct store_to){ 0 }, bytes_came, answer,
                  &answer->held, &op) == ERR_WAIT);
    return op;
}

TEST(reads_that_end_without_the_disk_do_not_show_that_it_answers)
{
    struct batch batch;
    batch_begin_hanging_soon(&batch);
    if (cold(&batch)) {
        struct unit_store second = second_begin(&batch);
        store_io_plug(batch.unit.io);
        start(&batch, 0);
        uint64_t until = mono_ms() + 20 * HANGS_MS;
        while (!batch.answers[0].came && mono_ms() < until) {
            struct unit_answer answer = { 0 };
            struct store_op *op = NULL;
            if (volume_is_serving(batch.unit.store->volumes[0]))
                op = second_start(&second, &batch, 1, &answer);
            store_op_drop(&op);
            store_io_unplug(second.io);
            store_io_plug(second.io);
            unit_turn(&batch.unit);
        }
        ok(batch.answers[0].came && batch.answers[0].err == ERR_GONE);
        store_io_unplug(batch.unit.io);
        store_io_unplug(second.io);
        second_end(&second);
    }
    batch_end(&batch);
}

TEST(a_read_that_began_late_is_given_up_with_the_others)
{
    struct batch batch;
    batch_begin_hanging_soon(&batch);
    struct volume *volume = batch.unit.store->volumes[0];
    if (cold(&batch)) {
        struct unit_store second = second_begin(&batch);
        struct unit_answer answer = { 0 };
        store_io_plug(batch.unit.io);
        start(&batch, 0);
        struct store_op *op = second_start(&second, &batch, 1, &answer);
        op->began_ms = mono_ms() + 1000 * HANGS_MS;    /* alone, it would wait */
        while (!volume_reads_wait_long(volume))
            usleep(10000);
        while (volume_is_serving(volume)) {
            unit_turn(&second);
            ok(!answer.came || !volume_is_serving(volume));
            unit_turn(&batch.unit);
        }
        atomic_store(&volume->service.read_ms, mono_ms() + 1000 * HANGS_MS);    /* one was answered */
        uint64_t until = mono_ms() + 20 * HANGS_MS;
        while (!answer.came && mono_ms() < until)
            unit_turn(&second);
        ok(answer.came && answer.err == ERR_GONE && batch.answers[0].err == ERR_GONE);
        store_io_unplug(batch.unit.io);
        store_io_unplug(second.io);
        ok(volume_is_serving(volume));
        second_end(&second);
    }
    batch_end(&batch);
}

/* Its clients leave before commit_time, and come again. */
TEST(a_disk_that_hangs_is_seen_although_no_read_waits_for_long)
{
    struct batch batch;
    batch_begin_hanging_soon(&batch);
    if (cold(&batch)) {
        store_io_plug(batch.unit.io);
        start(&batch, 0);
        uint64_t until = mono_ms() + 20 * HANGS_MS;
        for (uint64_t began = mono_ms(); !batch.answers[0].came && mono_ms() < until;) {
            if (mono_ms() >= began + HANGS_MS / 2) {
                store_op_drop(&batch.ops[0]);
                start(&batch, 0);
                began = mono_ms();
            }
            usleep(10000);
            mailbox_deliver(batch.unit.box);
        }
        ok(batch.answers[0].came && batch.answers[0].err == ERR_GONE);
        store_io_unplug(batch.unit.io);
    }
    batch_end(&batch);
}

TEST(removals_go_on_while_only_reads_hang)
{
    struct batch batch;
    batch_begin_hanging_soon(&batch);
    struct volume *volume = batch.unit.store->volumes[0];
    if (cold(&batch)) {
        store_io_plug(batch.unit.io);
        start(&batch, 0);
        await(&batch, 0);
        ok(!volume_is_serving(volume));
        ok(remove_object(&batch.unit, key_of(0)) == OK);
        ok(volume_is_good(volume));
        store_io_unplug(batch.unit.io);
        ok(volume_is_serving(volume) && !get_metadata(&batch.unit, key_of(0)));
    }
    batch_end(&batch);
}

static void remove_versions(struct batch *batch, size_t i, struct store_versions versions)
{
    struct unit_removal removal;
    struct object_name name = name_of(key_of(i));
    removal_prepare(&batch->unit, &removal, &name);
    removal.removal.versions = versions;
    removal.removal.unawaited = true;
    store_remove(batch->unit.store, &removal.removal);
    ok(removal_wait(&removal) == OK);
}

/* While reads hang, nobody may look whether the folder has the version that was just read. */
TEST(a_version_that_was_just_read_stays_while_reads_hang)
{
    struct batch batch;
    batch_begin_hanging_soon(&batch);
    if (cold(&batch)) {
        struct store *store = batch.unit.store;
        struct metadata *newer = make_metadata(&batch.unit, key_of(2), "\"newer\"", 4096);
        struct store_versions same = store_versions_but(batch.metadata[1]);
        store_io_plug(batch.unit.io);
        start(&batch, 0);
        await(&batch, 0);
        ok(store_may_have(store, &batch.metadata[1]->id, &same));
        remove_versions(&batch, 1, same);
        remove_versions(&batch, 2, store_versions_but(newer));
        remove_versions(&batch, 3, store_version_of(batch.metadata[3]));
        remove_versions(&batch, 4, store_version_of(newer));
        store_io_unplug(batch.unit.io);
        ok(!store_may_have(store, &batch.metadata[1]->id, &same));
        for (size_t i = 1; i <= 4; i++) {
            struct metadata *metadata = get_metadata(&batch.unit, key_of(i));
            ok((metadata != NULL) == (i == 1 || i == 4));
            metadata_unref(&metadata);
        }
        metadata_unref(&newer);
    }
    batch_end(&batch);
}

RUN_STORE_COLD(STORE_TEST(a_version_that_was_just_read_stays_while_reads_hang),
          STORE_TEST(a_disk_that_hangs_is_seen_although_no_read_waits_for_long),
          STORE_TEST(removals_go_on_while_only_reads_hang),
          STORE_TEST(a_read_that_began_late_is_given_up_with_the_others),
          STORE_TEST(reads_that_end_without_the_disk_do_not_show_that_it_answers),
          STORE_TEST(a_read_into_the_memory_of_its_reader_is_not_given_up),
          STORE_TEST(a_reader_that_does_not_look_at_its_reads_puts_no_folder_out_of_service),
          STORE_TEST(reads_that_hang_are_given_up_and_the_folder_serves_again_when_they_end),
          STORE_TEST(neighbours_are_one_read_and_each_gets_its_own_bytes),
          STORE_TEST(what_lies_between_is_read_up_to_the_gap_and_no_further),
          STORE_TEST(no_read_is_larger_than_a_megabyte_and_large_ones_stay_alone),
          STORE_TEST(one_that_is_dropped_costs_its_neighbours_nothing),
          STORE_TEST(a_reader_that_goes_takes_along_what_it_gathered),
          STORE_TEST(a_file_that_is_cut_is_a_miss_for_those_behind_the_cut_alone),
          STORE_TEST(one_that_fails_its_checksum_says_nothing_about_its_neighbours),
          STORE_TEST(one_whose_memory_is_gone_fails_alone))
