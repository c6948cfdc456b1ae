/* test_store_lend.c - extents that stay in memory, and lend their bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "base/metric.h"
#include "store/change_watch.h"
#include "store/extent_inside.h"
#include "store/inside.h"
#include "store/io.h"

/* The extent that holds the object's first bytes, held. */
static struct extent *extent_of(struct unit_store *unit, const struct metadata *metadata,
                                uint32_t *ret_offset)
{
    struct entry entry;
    struct extent *extent;
    ok(find_unit(unit->store->volumes[0]->index, &metadata->id, 0, &entry) == OK);
    ok(extent_hold(unit->store->volumes[0]->extents, entry.extent, &extent) == OK);
    *ret_offset = entry.offset;
    return extent;
}

/* A store with the object `key` in an extent, which is held. */
struct lending {
    struct unit_store unit;
    const char *key;
    struct metadata *metadata;
    struct extent *extent;
    uint32_t offset;                  /* of the record, or of its first unit */
};

static struct lending begin_open(uint64_t size, uint64_t locked_bytes)
{
    struct lending all = { .key = "key" };
    struct store_options options = options_of(64 * MIB, 4 * MIB);
    options.locked_bytes = locked_bytes;
    ok(unit_try(&all.unit, options) == OK);
    ok(put_object(&all.unit, "key", "\"v\"", size) == OK);
    all.metadata = get_metadata(&all.unit, "key");
    all.extent = extent_of(&all.unit, all.metadata, &all.offset);
    return all;
}

static void seal(struct unit_store *unit, const struct extent *extent)
{
    for (int i = 0; !atomic_load(&extent->sealed); i++) {
        char key[48];
        snprintf(key, sizeof(key), "fill-%u-%d", extent->number, i);
        ok(i < 20 && put_object(unit, key, "\"v\"", MIB) == OK);
    }
}

static struct lending begin(uint64_t size, uint64_t locked_bytes)
{
    struct lending all = begin_open(size, locked_bytes);
    seal(&all.unit, all.extent);
    return all;
}

static void end(struct lending *all)
{
    extent_release(&all->extent);
    metadata_unref(&all->metadata);
    unit_close(&all->unit);
}

/* Begins a read that may be lent. The caller releases the bytes. */
static enum err read_to(struct lending *all, uint64_t from, uint64_t to, void *memory,
                        struct object_bytes *ret)
{
    struct unit_answer answer = { 0 };
    struct store_op *op = NULL;
    enum err e = store_read(all->unit.io, all->metadata, from, to,
                            (struct store_to){ .memory = memory, .lends = true }, bytes_came, &answer, ret, &op);
    while (e == ERR_WAIT && !answer.came)
        unit_turn(&all->unit);
    if (e == ERR_WAIT)
        *ret = answer.held;
    return e == ERR_WAIT ? answer.err : e;
}

static enum err read_lent(struct lending *all, uint64_t from, uint64_t to, struct object_bytes *ret)
{
    return read_to(all, from, to, NULL, ret);
}

/* Reads, and verifies each byte. Returns true if they were lent. */
static bool is_lent(struct lending *all, uint64_t from, uint64_t to)
{
    struct object_bytes held;
    int fd;
    uint64_t offset;
    ok(read_lent(all, from, to, &held) == OK && held.bytes.len > 0 && held.bytes.len <= to - from);
    uint8_t *want = must_alloc(held.bytes.len), *got = must_alloc(held.bytes.len);
    object_fill(all->key, "\"v\"", from, want, held.bytes.len);
    ok(memcmp(want, held.bytes.ptr, held.bytes.len) == 0);
    bool lent = object_bytes_file(&held, &fd, &offset);
    if (lent) {    /* as sendfile finds them */
        ok(pread(fd, got, held.bytes.len, (off_t)offset) == (ssize_t)held.bytes.len);
        ok(memcmp(want, got, held.bytes.len) == 0);
    }
    object_bytes_release(&held);
    free(want);
    free(got);
    return lent;
}

/* The first reader verifies blocks in the page cache, and is lent them. The thread `lock` verifies
 * blocks that had to come from the disk. */
static bool becomes_lent(struct lending *all, uint64_t from, uint64_t to)
{
    for (int i = 0; i < 2000; i++) {
        if (is_lent(all, from, to))
            return true;
        usleep(5000);
    }
    return false;
}

/* A direct read leaves nothing in the page cache, where the thread looks for the bytes. */
static void warm(const struct lending *all)
{
    char *bytes = must_alloc(4 * MIB);
    ok(pread(extent_fd(all->extent), bytes, 4 * MIB, 0) > 0);
    free(bytes);
}

static void lock(struct lending *all)
{
    warm(all);
    ok(extent_lock(all->extent) == OK);
}

static void unlock(struct lending *all)
{
    extent_lend_no_more(all->extent);
    soon(extent_unlock(all->extent));    /* the thread may have a lease */
}

static const uint64_t sizes[] = { 1, 4096, 70000, 131072, 300000, MIB, 2 * MIB };

TEST(a_locked_extent_lends_what_others_copy)
{
    for (size_t i = 0; i < countof(sizes); i++) {
        struct lending all = begin(sizes[i], 0);
        uint64_t locked = metric_read(M_STORE_LOCKED_BYTES);
        ok(!is_lent(&all, 0, sizes[i]));
        lock(&all);
        ok(metric_read(M_STORE_LOCKED_BYTES) == locked + extent_lock_bytes(all.extent));
        for (uint64_t at = 0; at < sizes[i]; at += READ_BYTES_MAX)
            ok(becomes_lent(&all, at, sizes[i]));
        uint64_t lent = metric_read(M_STORE_LENT);
        const uint64_t ranges[][2] = { { 0, sizes[i] }, { 0, 1 }, { sizes[i] - 1, sizes[i] },
                                       { sizes[i] / 3, sizes[i] / 2 + 1 } };
        for (size_t k = 0; k < 2 * countof(ranges); k++)
            ok(is_lent(&all, ranges[k % countof(ranges)][0], ranges[k % countof(ranges)][1]));
        ok(metric_read(M_STORE_LENT) == lent + 2 * countof(ranges));
        extent_lend_no_more(all.extent);
        ok(!is_lent(&all, 0, sizes[i]));
        unlock(&all);
        ok(metric_read(M_STORE_LOCKED_BYTES) == locked);
        end(&all);
    }
}

/* The plan of a read of the object's first unit, as locker_wants gets it. */
static struct read_plan plan_of(struct lending *all)
{
    struct volume *volume = all->unit.store->volumes[0];
    struct read_plan plan = { .volume = volume, .extent = all->extent, .id = all->metadata->id,
                              .metadata = all->metadata, .unit_count = 1, .span_count = 1,
                              .blocks = { .count = 2, .len = UNIT_BYTES }, .give = UNIT_BYTES };
    ok(index_get_run(volume->index, &plan.id, 0, 1, plan.entries) == 1 && !plan.entries[0].whole);
    plan.spans[0] = (struct span){ .at = plan.entries[0].offset, .len = UNIT_BYTES };
    return plan;
}

static void flip_byte(const struct extent *extent, off_t at)
{
    uint8_t byte;
    ok(pread(extent_fd(extent), &byte, 1, at) == 1);
    byte ^= 1;
    ok(pwrite(extent_fd(extent), &byte, 1, at) == 1);
}

TEST(a_block_is_verified_in_the_locked_map_before_it_is_lent)
{
    for (uint64_t i = 0; i < 2 * BLOCK_BYTES; i += BLOCK_BYTES - 1) {
        struct lending all = begin(2 * MIB, 0);
        struct read_plan plan = plan_of(&all);
        struct object_bytes held;
        uint64_t bad = metric_read(M_STORE_CRC_BAD);
        uint32_t first = (uint32_t)plan.entries[0].mark;
        ok(read_plan_verify(&plan) == ERR_NOT_FOUND);    /* it is not locked */
        lock(&all);
        flip_byte(all.extent, (off_t)(plan.entries[0].offset + i));    /* the disk gave it */
        ok(read_plan_verify(&plan) == ERR_GONE && metric_read(M_STORE_CRC_BAD) == bad + 1);
        ok(extent_lend(all.extent) != NULL);
        ok(extent_is_verified(all.extent, plan.entries[0].offset, first) == (i >= BLOCK_BYTES));
        extent_lend_end(all.extent);
        enum err e;
        while ((e = read_lent(&all, 0, UNIT_BYTES, &held)) == OK)    /* until the index forgets it */
            object_bytes_release(&held);
        ok(e == ERR_NOT_FOUND || e == ERR_GONE);
        unlock(&all);
        end(&all);
    }
}

TEST(a_verified_block_is_none_for_another_checksum)
{
    struct lending all = begin(2 * MIB, 0);
    lock(&all);
    ok(becomes_lent(&all, 0, MIB) && extent_lend(all.extent) != NULL);
    struct entry entry;
    ok(find_unit(all.unit.store->volumes[0]->index, &all.metadata->id, 0, &entry) == OK);
    uint32_t crc = (uint32_t)entry.mark;
    ok(!entry.whole && extent_is_verified(all.extent, entry.offset, crc));
    ok(!extent_is_verified(all.extent, entry.offset, crc + 1));
    ok(!extent_is_verified(all.extent, entry.offset, 0));
    ok(!extent_is_verified(all.extent, 0, crc));
    extent_lend_end(all.extent);
    unlock(&all);
    end(&all);
}

TEST(a_read_that_was_verified_as_a_whole_looks_at_no_header_again)
{
    struct lending all = begin(70000, 0);
    struct object_bytes held;
    lock(&all);
    ok(becomes_lent(&all, 0, 70000));
    flip_byte(all.extent, all.offset);    /* only a reader of the header would notice */
    ok(is_lent(&all, 0, 70000) && is_lent(&all, 0, 70000));
    unlock(&all);
    ok(read_lent(&all, 0, 70000, &held) != OK);
    end(&all);
}

TEST(a_verified_plan_is_none_for_another_mark)
{
    struct lending all = begin(70000, 0);
    lock(&all);
    ok(extent_lend(all.extent) != NULL && !extent_plan_is_verified(all.extent, all.offset, 7));
    extent_set_plan_verified(all.extent, all.offset, 7);
    extent_set_resident(all.extent, all.offset, 1);    /* which it is already */
    ok(extent_plan_is_verified(all.extent, all.offset, 7));
    ok(!extent_plan_is_verified(all.extent, all.offset, 8));
    for (uint32_t mark = 0; mark < 2; mark++) {    /* these mean something else in a page's row */
        extent_set_plan_verified(all.extent, all.offset, mark);
        ok(extent_plan_is_verified(all.extent, all.offset, mark));
        ok(!extent_plan_is_verified(all.extent, all.offset, 7));
    }
    extent_lend_end(all.extent);
    unlock(&all);
    end(&all);
}

TEST(an_extent_that_is_larger_than_a_map_is_not_locked)
{
    struct lending all = begin(MIB, 0);
    uint64_t map_bytes = all.extent->map_bytes;
    all.extent->map_bytes = extent_size(all.extent) - 1;
    ok(!extent_can_lock(all.extent));
    all.extent->map_bytes = map_bytes;
    ok(extent_can_lock(all.extent) && extent_lock(all.extent) == OK);
    unlock(&all);
    end(&all);
}

/* The object becomes the one that is read. */
static void choose(struct lending *all, const char *key)
{
    metadata_unref(&all->metadata);
    all->key = key;
    all->metadata = get_metadata(&all->unit, key);
}

TEST(what_is_appended_to_a_locked_extent_is_lent_too)
{
    struct lending all = begin_open(70000, 0);
    uint64_t locked = metric_read(M_STORE_LOCKED_BYTES);
    lock(&all);
    ok(metric_read(M_STORE_LOCKED_BYTES) == locked + all.extent->map_bytes);
    ok(!atomic_load(&all.extent->sealed) && becomes_lent(&all, 0, 70000));
    ok(put_object(&all.unit, "later", "\"v\"", 300000) == OK);
    ok(is_lent(&all, 0, 70000));
    choose(&all, "later");
    warm(&all);
    ok(is_lent(&all, 0, 300000));    /* its first reader verifies it */
    ok(!atomic_load(&all.extent->sealed));
    seal(&all.unit, all.extent);
    ok(is_lent(&all, 0, 300000));
    unlock(&all);
    ok(metric_read(M_STORE_LOCKED_BYTES) == locked);
    end(&all);
}

TEST(an_extent_stays_locked_until_its_last_reader_has_gone)
{
    struct lending all = begin(MIB, 0);
    struct object_bytes first, second;
    lock(&all);
    ok(becomes_lent(&all, 0, MIB));
    ok(read_lent(&all, 0, MIB, &first) == OK && read_lent(&all, 0, MIB, &second) == OK);
    extent_lend_no_more(all.extent);
    ok(!extent_lend(all.extent) && !is_lent(&all, 0, MIB) && !extent_unlock(all.extent));
    object_bytes_release(&first);
    ok(!extent_unlock(all.extent));
    object_bytes_release(&second);
    unlock(&all);
    lock(&all);
    ok(becomes_lent(&all, 0, MIB));    /* and again */
    unlock(&all);
    end(&all);
}

TEST(lent_bytes_outlive_the_extent)
{
    struct lending all = begin(MIB, 0);
    struct object_bytes held;
    int fd;
    uint64_t offset;
    uint8_t *want = must_alloc(MIB);
    lock(&all);
    ok(becomes_lent(&all, 0, MIB) && read_lent(&all, 0, MIB, &held) == OK);
    ok(object_bytes_file(&held, &fd, &offset));
    extent_drop(all.unit.store->volumes[0]->extents, all.extent->number);
    object_fill("key", "\"v\"", 0, want, held.bytes.len);
    ok(memcmp(held.bytes.ptr, want, held.bytes.len) == 0);
    struct object_bytes again;
    ok(read_lent(&all, 0, MIB, &again) == ERR_NOT_FOUND);
    object_bytes_release(&held);
    unlock(&all);
    free(want);
    end(&all);
}

TEST(a_truncated_file_ends_no_process)
{
    struct lending all = begin(MIB, 0);
    struct object_bytes held;
    lock(&all);
    ok(becomes_lent(&all, 0, MIB));
    ok(ftruncate(extent_fd(all.extent), 4096) == 0);
    for (int i = 0; i < 10; i++)    /* the header of a WHOLE record is read in the map */
        if (read_lent(&all, 0, MIB, &held) == OK)
            object_bytes_release(&held);
    unlock(&all);
    end(&all);
}

/* The kernel zeroes the rest of the page, which stays in memory. No thread but the watch's looks. */
TEST(a_file_that_is_changed_is_not_lent_any_more)
{
    static uint8_t want[70000];
    for (int truncates = 0; truncates < 2; truncates++) {
        struct lending all = begin(70000, 0);
        struct change_watch *watch = change_watch_new();
        struct object_bytes held;
        lock(&all);
        ok(watch && change_watch_add(watch, all.extent));
        ok(becomes_lent(&all, 0, 70000));
        usleep(50000);
        ok(extent_is_lending(all.extent));
        int fd = extent_fd(all.extent);
        off_t inside = (off_t)all.offset + 70000;
        ok(truncates ? ftruncate(fd, inside) == 0 : pwrite(fd, "x", 1, inside) == 1);
        soon(!extent_is_lending(all.extent));
        object_fill("key", "\"v\"", 0, want, sizeof(want));
        for (int i = 0; i < 10; i++)
            if (read_lent(&all, 0, sizeof(want), &held) == OK) {    /* not the block that changed */
                ok(memcmp(held.bytes.ptr, want, held.bytes.len) == 0);
                object_bytes_release(&held);
            }
        change_watch_remove(watch, all.extent);
        change_watch_free(&watch);
        unlock(&all);
        end(&all);
    }
}

/* An append behind the new end would leave a hole, and clients would get its zeroes as verified
 * bytes. */
TEST(a_truncated_file_is_not_filled_up_again)
{
    struct lending all = begin_open(70000, 0);
    struct stat st;
    uint32_t offset;
    lock(&all);
    ok(becomes_lent(&all, 0, 70000));
    ok(ftruncate(extent_fd(all.extent), 4096) == 0);
    ok(put_object(&all.unit, "later", "\"v\"", 300000) == OK);
    struct metadata *later = get_metadata(&all.unit, "later");
    struct extent *next = extent_of(&all.unit, later, &offset);
    ok(next != all.extent && !atomic_load(&all.extent->sealed));
    ok(fstat(extent_fd(all.extent), &st) == 0 && st.st_size == 4096);
    extent_release(&next);
    metadata_unref(&later);
    unlock(&all);
    end(&all);
}

TEST(a_truncated_file_gets_no_table)
{
    struct lending all = begin_open(70000, 0);
    struct extents *extents = all.unit.store->volumes[0]->extents;
    struct stat st;
    lock(&all);
    ok(becomes_lent(&all, 0, 70000));
    ok(ftruncate(extent_fd(all.extent), 4096) == 0);
    ok(open_extent_seal(extents, OPEN_LOG) == OK && !open_extent_is_open(extents, OPEN_LOG));
    ok(fstat(extent_fd(all.extent), &st) == 0 && st.st_size == 4096);
    ok(!atomic_load(&all.extent->sealed));
    unlock(&all);
    end(&all);
}

/* ---- lent bytes for a caller with memory ---- */

TEST(a_reader_with_memory_is_lent_the_bytes_and_copies_them)
{
    struct lending all = begin(MIB, 0);
    struct object_bytes held;
    uint8_t *want = must_alloc(MIB), *got = must_alloc(MIB);
    object_fill("key", "\"v\"", 0, want, MIB);
    ok(read_to(&all, 0, MIB, got, &held) == OK && held.bytes.ptr == (const char *)got);
    ok(memcmp(got, want, held.bytes.len) == 0);
    lock(&all);
    ok(becomes_lent(&all, 0, MIB));
    memset(got, 0, MIB);
    ok(read_to(&all, 100, MIB, got, &held) == OK && held.bytes.len > 65536);
    ok(held.bytes.ptr != (const char *)got && got[0] == 0);
    slice later = slice_from(held.bytes, 1000);
    ok(object_bytes_copy(&held, later, got, COPY_READ_SOON) == OK);
    ok(memcmp(got, want + 1100, later.len) == 0);
    object_bytes_release(&held);
    unlock(&all);
    free(want);
    free(got);
    end(&all);
}

/* Memory of a file, as a client shares it. */
static char *map_of(uint64_t bytes, int *ret_file)
{
    *ret_file = memfd_create("shared", MFD_CLOEXEC);
    ok(*ret_file >= 0 && ftruncate(*ret_file, (off_t)bytes) == 0);
    char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_file, 0);
    ok(map != MAP_FAILED);
    return map;
}

TEST(a_copy_of_lent_bytes_fails_if_either_file_is_truncated)
{
    struct lending all = begin(MIB, 0);
    struct object_bytes held;
    int file;
    char *map = map_of(MIB, &file);
    lock(&all);
    ok(becomes_lent(&all, 0, 131072) && read_lent(&all, 0, 131072, &held) == OK);
    ok(object_bytes_copy(&held, held.bytes, map, COPY_READ_SOON) == OK);
    ok(ftruncate(file, 4096) == 0);
    ok(object_bytes_copy(&held, held.bytes, map, COPY_READ_SOON) == ERR_FAULT);
    ok(object_bytes_copy(&held, held.bytes, map, COPY_READ_LATER) == ERR_FAULT);
    ok(ftruncate(file, MIB) == 0 && ftruncate(extent_fd(all.extent), 4096) == 0);
    ok(object_bytes_copy(&held, held.bytes, map, COPY_READ_SOON) == ERR_IO);
    ok(object_bytes_copy(&held, held.bytes, map, COPY_READ_LATER) == ERR_IO);
    object_bytes_release(&held);
    unlock(&all);
    munmap(map, MIB);
    close(file);
    end(&all);
}

/* ---- the choice of extents ---- */

TEST(extents_that_are_read_are_locked)
{
    struct lending all = begin(MIB, 64 * MIB);
    warm(&all);
    ok(becomes_lent(&all, 0, MIB));
    ok(metric_read(M_STORE_LOCKED_BYTES) > 0);
    /* It is unlocked after it was dropped. */
    extent_drop(all.unit.store->volumes[0]->extents, all.extent->number);
    soon(!atomic_load(&all.extent->lock.pages));
    end(&all);
}

TEST(what_was_just_written_is_lent_to_its_first_reader)
{
    struct lending all = begin_open(3 * MIB, 64 * MIB);
    soon(atomic_load(&all.extent->lock.pages));    /* nobody has read */
    warm(&all);
    ok(is_lent(&all, 0, MIB));
    end(&all);
}

/* True if a watch of this process has the file, as the kernel lists them. */
static bool is_watched(const struct extent *extent)
{
    char wanted[64], path[32], line[256];
    struct stat st;
    bool found = false;
    ok(fstat(extent_fd(extent), &st) == 0);
    snprintf(wanted, sizeof(wanted), " ino:%jx ", (uintmax_t)st.st_ino);
    for (int fd = 0; fd < 256 && !found; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof(line), file))
            found |= strncmp(line, "inotify", 7) == 0 && strstr(line, wanted);
        if (file)
            fclose(file);
    }
    return found;
}

/* A set of objects that fits into one extent would never be locked, if the extent had to be full. */
TEST(an_open_extent_is_locked_if_it_is_read)
{
    struct lending all = begin_open(MIB, 64 * MIB);
    warm(&all);
    ok(becomes_lent(&all, 0, MIB) && !atomic_load(&all.extent->sealed) && !is_watched(all.extent));
    seal(&all.unit, all.extent);
    soon(is_watched(all.extent));
    for (int i = 0; i < 300; i++) {    /* three looks: its file may have changed until it was sealed */
        ok(is_lent(&all, 0, MIB));
        usleep(10000);
    }
    /* Another program writes to the file. */
    ok(futimens(extent_fd(all.extent), NULL) == 0);
    soon(!is_lent(&all, 0, MIB));
    end(&all);
}

static bool reads_wrong_bytes(struct lending *all, uint64_t size)
{
    struct object_bytes held;
    uint8_t *want = must_alloc(size);
    object_fill(all->key, "\"v\"", 0, want, size);
    enum err e = read_lent(all, 0, size, &held);    /* another error: it is a miss */
    bool wrong = !e && memcmp(held.bytes.ptr, want, held.bytes.len) != 0;
    if (!e)
        object_bytes_release(&held);
    free(want);
    return wrong;
}

/* Nobody notices the change while Penstock itself writes to the file. */
TEST(blocks_of_an_open_extent_are_verified_again_when_it_is_sealed)
{
    struct lending all = begin_open(70000, 64 * MIB);
    char byte;
    warm(&all);
    ok(becomes_lent(&all, 0, 70000) && !atomic_load(&all.extent->sealed));
    off_t inside = (off_t)all.offset + 40000;
    ok(pread(extent_fd(all.extent), &byte, 1, inside) == 1);
    byte ^= 1;
    ok(pwrite(extent_fd(all.extent), &byte, 1, inside) == 1);
    seal(&all.unit, all.extent);
    soon(!reads_wrong_bytes(&all, 70000));
    for (int i = 0; i < 200; i++) {
        ok(!reads_wrong_bytes(&all, 70000));
        usleep(10000);
    }
    end(&all);
}

/* Its bytes are right, and its time says so. */
/* True if all blocks of the object were verified in the locked map, with the checksums of the index. */
static bool is_verified(struct lending *all)
{
    struct volume *volume = all->unit.store->volumes[0];
    bool verified = extent_lend(all->extent) != NULL;
    if (!verified)
        return false;
    for (uint32_t unit = 0; unit * UNIT_BYTES < all->metadata->size; unit++) {
        struct entry entry;
        ok(find_unit(volume->index, &all->metadata->id, unit, &entry) == OK && !entry.whole);
        verified = verified &&
                   extent_is_verified(all->extent, entry.offset, (uint32_t)entry.mark) &&
                   extent_is_verified(all->extent, entry.offset + BLOCK_BYTES,
                                      (uint32_t)(entry.mark >> 32)) &&
                   extent_is_resident(all->extent, entry.offset, UNIT_BYTES);
    }
    extent_lend_end(all->extent);
    return verified;
}

TEST(records_that_were_just_written_are_verified_before_a_client_reads_them)
{
    struct lending all = begin_open(2 * MIB, 64 * MIB);
    uint64_t before = metric_read(M_STORE_VERIFIED_AHEAD);
    soon(atomic_load(&all.extent->lock.pages));
    ok(!is_verified(&all));    /* it is open */
    warm(&all);
    seal(&all.unit, all.extent);
    soon(is_verified(&all));
    ok(metric_read(M_STORE_VERIFIED_AHEAD) >= before + 2 * MIB);
    ok(is_lent(&all, 0, MIB));
    end(&all);
}

TEST(a_bad_block_is_not_verified_ahead)
{
    struct lending all = begin_open(2 * MIB, 64 * MIB);
    uint64_t bad = metric_read(M_STORE_CRC_BAD);
    soon(atomic_load(&all.extent->lock.pages));
    flip_byte(all.extent, (off_t)all.offset + (off_t)BLOCK_BYTES + 7);
    warm(&all);
    seal(&all.unit, all.extent);
    ok(extent_lend(all.extent) != NULL);
    soon(extent_was_verified(all.extent, all.offset));
    usleep(100000);    /* the thread would have come to the second block */
    ok(!extent_was_verified(all.extent, all.offset + BLOCK_BYTES));
    ok(!extent_is_resident(all.extent, all.offset, 1));
    extent_lend_end(all.extent);
    ok(metric_read(M_STORE_CRC_BAD) == bad);    /* its first reader finds it */
    struct object_bytes held;
    ok(read_lent(&all, BLOCK_BYTES, MIB, &held) != OK && metric_read(M_STORE_CRC_BAD) > bad);
    end(&all);
}

TEST(an_extent_that_was_touched_for_nothing_is_lent_again)
{
    struct lending all = begin(MIB, 64 * MIB);
    struct stat st;
    char byte;
    warm(&all);
    ok(becomes_lent(&all, 0, MIB));
    soon(is_watched(all.extent));
    int fd = extent_fd(all.extent);
    ok(fstat(fd, &st) == 0 && pread(fd, &byte, 1, (off_t)all.offset + 40000) == 1);
    ok(pwrite(fd, &byte, 1, (off_t)all.offset + 40000) == 1);
    ok(futimens(fd, (struct timespec[]){ st.st_atim, st.st_mtim }) == 0);
    soon(!is_watched(all.extent));
    ok(becomes_lent(&all, 0, MIB));
    soon(is_watched(all.extent));
    end(&all);
}

/* An extent of a folder that was closed while a client has a lease, and the one of the folder that
 * was opened again: the kernel has one watch for both. */
TEST(the_end_of_one_extent_ends_no_watch_of_another)
{
    struct lending all = begin(70000, 0);
    struct change_watch *watch = change_watch_new();
    struct extent twin = { .all = all.extent->all, .fd = extent_fd(all.extent), .sealed = true };
    static struct lock_page pages[1];
    atomic_store(&twin.lock.pages, pages);
    lock(&all);
    ok(watch && change_watch_add(watch, &twin) && change_watch_add(watch, all.extent));
    change_watch_remove(watch, &twin);
    ok(is_watched(all.extent));
    ok(pwrite(extent_fd(all.extent), "x", 1, (off_t)all.offset + 40000) == 1);
    soon(!extent_is_lending(all.extent));
    change_watch_remove(watch, all.extent);
    ok(!is_watched(all.extent));
    change_watch_free(&watch);
    unlock(&all);
    end(&all);
}

TEST(without_room_nothing_is_locked)
{
    struct lending all = begin(MIB, 1);
    for (int i = 0; i < 300; i++) {
        ok(!is_lent(&all, 0, MIB));
        usleep(10000);
    }
    ok(metric_read(M_STORE_LOCKED_BYTES) == 0);
    end(&all);
}

TEST(an_extent_that_is_read_more_takes_the_place_of_another)
{
    struct lending all = begin(MIB, 5 * MIB);    /* room for one */
    warm(&all);
    ok(becomes_lent(&all, 0, MIB));
    struct metadata *first = all.metadata;
    ok(put_object(&all.unit, "second", "\"v\"", MIB) == OK);
    all.metadata = get_metadata(&all.unit, "second");
    uint32_t offset;
    struct extent *second = extent_of(&all.unit, all.metadata, &offset);
    ok(second != all.extent);
    seal(&all.unit, second);
    bool lent = false;
    for (int i = 0; i < 2000 && !lent; i++) {
        struct object_bytes held;
        int fd;
        uint64_t at;
        ok(read_lent(&all, 0, MIB, &held) == OK);
        lent = object_bytes_file(&held, &fd, &at);
        object_bytes_release(&held);
        usleep(5000);
    }
    ok(lent && metric_read(M_STORE_LOCKED_BYTES) <= 5 * MIB);
    extent_release(&second);
    metadata_unref(&first);
    end(&all);
}

RUN_STORE_COLD(STORE_TEST(a_locked_extent_lends_what_others_copy),
               STORE_TEST(a_block_is_verified_in_the_locked_map_before_it_is_lent),
               STORE_TEST(a_verified_block_is_none_for_another_checksum),
               STORE_TEST(a_read_that_was_verified_as_a_whole_looks_at_no_header_again),
               STORE_TEST(a_verified_plan_is_none_for_another_mark),
               STORE_TEST(an_extent_that_is_larger_than_a_map_is_not_locked),
               STORE_TEST(what_is_appended_to_a_locked_extent_is_lent_too),
               STORE_TEST(an_extent_stays_locked_until_its_last_reader_has_gone),
               STORE_TEST(lent_bytes_outlive_the_extent),
               STORE_TEST(a_truncated_file_ends_no_process),
               STORE_TEST(a_file_that_is_changed_is_not_lent_any_more),
               STORE_TEST(blocks_of_an_open_extent_are_verified_again_when_it_is_sealed),
               STORE_TEST(records_that_were_just_written_are_verified_before_a_client_reads_them),
               STORE_TEST(a_bad_block_is_not_verified_ahead),
               STORE_TEST(an_extent_that_was_touched_for_nothing_is_lent_again),
               STORE_TEST(the_end_of_one_extent_ends_no_watch_of_another),
               STORE_TEST(a_truncated_file_is_not_filled_up_again),
               STORE_TEST(a_truncated_file_gets_no_table),
               STORE_TEST(a_reader_with_memory_is_lent_the_bytes_and_copies_them),
               STORE_TEST(a_copy_of_lent_bytes_fails_if_either_file_is_truncated),
               STORE_TEST(extents_that_are_read_are_locked),
               STORE_TEST(what_was_just_written_is_lent_to_its_first_reader),
               STORE_TEST(an_open_extent_is_locked_if_it_is_read),
               STORE_TEST(without_room_nothing_is_locked),
               STORE_TEST(an_extent_that_is_read_more_takes_the_place_of_another))
