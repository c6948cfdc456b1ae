/* test_store_direct.c - reads past the page cache: when, by which descriptor, and what if not.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "store/extent_inside.h"
#include "store/inside.h"
#include "store/io.h"

static struct unit_store unit_open_cold(enum cold_reads how, uint64_t memory_bytes)
{
    struct store_options options = options_of(64 * MIB, 4 * MIB);
    struct unit_store unit;
    options.cold_reads = how;
    options.memory_bytes = memory_bytes;
    ok(unit_try(&unit, options) == OK);
    return unit;
}

/* How many direct reads it took to read all of it, cold; fails the test if a byte is wrong. */
static uint64_t direct_reads_of(struct unit_store *unit, const char *key, uint64_t size)
{
    struct metadata *metadata = get_metadata(unit, key);    /* its own reads are no matter */
    uint64_t before = metric_read(M_STORE_DIRECT);
    cool();
    unit->io->wary = 1;
    for (uint64_t at = 0; at < size;) {
        size_t got = read_bytes(unit, metadata, key, at, size);
        ok(got > 0);
        at += got;
    }
    metadata_unref(&metadata);
    return metric_read(M_STORE_DIRECT) - before;
}

/* false: the file system keeps what it has in memory, or takes no direct reads. */
static bool can_be_seen(struct unit_store *unit)
{
    ok(put_object(unit, "probe", "\"v\"", 2 * MIB) == OK);
    uint64_t reads = metric_read(M_DISK_READS);
    bool direct = direct_reads_of(unit, "probe", 2 * MIB) > 0;
    return direct && metric_read(M_DISK_READS) > reads;
}

TEST(what_is_cold_is_read_past_the_page_cache_and_stays_cold)
{
    struct unit_store unit = unit_open_cold(COLD_DIRECT, 0);
    if (can_be_seen(&unit))
        for (int i = 0; i < 3; i++)
            ok(direct_reads_of(&unit, "probe", 2 * MIB) == 8);    /* pieces of 256 KiB */
    if (can_be_seen(&unit))
        ok(unit.io->kept_count[LARGE] == 1);    /* one buffer for disk and reader: no copy */
    ok(has_object(&unit, "probe", "\"v\"", 2 * MIB));
    unit_close(&unit);
}

/* True if the object is read without the disk. */
static bool is_in_memory(struct unit_store *unit)
{
    uint64_t before = metric_read(M_STORE_DIRECT), reads = metric_read(M_DISK_READS);
    ok(has_object(unit, "k", "\"v\"", 2 * MIB));
    return metric_read(M_STORE_DIRECT) == before && metric_read(M_DISK_READS) == reads;
}

/* On a busy machine, the kernel may refuse a read that must not wait, although the pages are in
 * memory. */
TEST(what_is_warm_is_read_from_memory)
{
    struct unit_store unit = unit_open_cold(COLD_DIRECT, 0);
    unsigned tries = 1;
    ok(put_object(&unit, "k", "\"v\"", 2 * MIB) == OK);
    while (tries < 10 && !is_in_memory(&unit))
        tries++;
    ok(tries < 10);
    unit_close(&unit);
}

TEST(by_itself_it_is_direct_only_where_memory_is_small_and_once)
{
    struct unit_store unit = unit_open_cold(COLD_DIRECT, 0);
    bool seen = can_be_seen(&unit);
    unit_close(&unit);
    unit = unit_open_cold(COLD_AUTO, 1024 * MIB);
    ok(direct_reads_of(&unit, "probe", 2 * MIB) == 0);
    unit_close(&unit);
    unit = unit_open_cold(COLD_AUTO, 3 * MIB);
    if (seen) {
        ok(direct_reads_of(&unit, "probe", 2 * MIB) == 8);
        ok(direct_reads_of(&unit, "probe", 2 * MIB) == 0);    /* it comes again: worth its place */
    }
    unit_close(&unit);
}

TEST(what_was_appended_just_now_is_read_past_the_page_cache)
{
    struct unit_store unit = unit_open_cold(COLD_DIRECT, 0);
    if (can_be_seen(&unit))
        for (int i = 0; i < 20; i++) {
            char key[16];
            snprintf(key, sizeof(key), "k%d", i);
            ok(put_object(&unit, key, "\"v\"", 300000) == OK);
            struct metadata *metadata = get_metadata(&unit, key);
            struct entry entry;
            struct extent *extent;
            ok(find_unit(unit.store->volumes[0]->index, &metadata->id, 0, &entry) == OK);
            ok(extent_hold(unit.store->volumes[0]->extents, entry.extent, &extent) == OK);
            int fd = extent_direct_fd(extent);
            uint8_t *page = aligned_alloc(4096, 8192), want[4096];
            object_fill(key, "\"v\"", 0, want, sizeof(want));
            ok(fd >= 0 && pread(fd, page, 8192, entry.offset) == 8192);
            ok(memcmp(page + 4096, want, 4096) == 0);    /* behind the page of its metadata */
            free(page);
            extent_release(&extent);
            metadata_unref(&metadata);
        }
    unit_close(&unit);
}

TEST(its_descriptor_counts_and_goes_with_the_other)
{
    struct unit_store unit = unit_open_cold(COLD_DIRECT, 0);
    if (can_be_seen(&unit)) {
        struct extents *extents = unit.store->volumes[0]->extents;
        ok(atomic_load(&extents->fds) == extents_count(extents) + 1);
        ok(put_object(&unit, "more", "\"v\"", 6 * MIB) == OK);    /* another extent, or two */
        ok(atomic_load(&extents->fds) == extents_count(extents) + 1);
        while (extent_close_idle(extents))
            ;
        ok(atomic_load(&extents->fds) == 1);    /* the committer holds the newest */
        ok(direct_reads_of(&unit, "probe", 2 * MIB) == 8);
        ok(atomic_load(&extents->fds) == 3);
        while (extent_close_idle(extents))
            ;
        ok(atomic_load(&extents->fds) == 1);
        extents->fds_max = 2;    /* no room for a second: buffered, and no miss */
        ok(direct_reads_of(&unit, "probe", 2 * MIB) == 0);
    }
    unit_close(&unit);
}

TEST(a_cut_file_is_a_miss_and_no_more)
{
    struct unit_store unit = unit_open_cold(COLD_DIRECT, 0);
    ok(put_object(&unit, "k", "\"v\"", 2 * MIB) == OK);
    struct metadata *metadata = get_metadata(&unit, "k");
    struct entry entry;
    char path[64];
    ok(find_unit(unit.store->volumes[0]->index, &metadata->id, 15, &entry) == OK);
    snprintf(path, sizeof(path), "extents/%08x", entry.extent);
    cool();
    ok(truncate(in_folder(path), entry.offset + 5000) == 0);
    ok(read_bytes(&unit, metadata, "k", 0, MIB) > 0);
    ok(read_bytes(&unit, metadata, "k", 2 * MIB - 100000, 2 * MIB) == 0);
    metadata_unref(&metadata);
    unit_close(&unit);
}

/* Runs in a child whose file system says EINVAL to O_DIRECT. */
static int with_refusal(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_DIRECT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { countof(filter), filter };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 77;
    struct unit_store unit = unit_open_cold(COLD_DIRECT, 0);
    if (put_object(&unit, "k", "\"v\"", 2 * MIB) != OK || direct_reads_of(&unit, "k", 2 * MIB) > 0)
        return 1;
    if (!atomic_load(&unit.store->volumes[0]->extents->direct_refused))
        return metric_read(M_DISK_READS) ? 2 : 0;    /* nothing was ever cold */
    if (atomic_load(&unit.store->volumes[0]->extents->fds) != extents_count(unit.store->volumes[0]->extents))
        return 3;
    unit_close(&unit);
    return 0;
}

TEST(a_file_system_that_refuses_is_read_through_the_page_cache_for_good)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(with_refusal());
    int step = step_of(child);
    if (step != 77)
        assert_int_equal(step, 0);
}

TEST(what_a_direct_read_fails_to_bring_is_read_once_more)
{
    struct unit_store unit = unit_open_cold(COLD_DIRECT, 0);
    if (can_be_seen(&unit)) {
        struct metadata *metadata = get_metadata(&unit, "probe");
        struct entry entry;
        struct extent *extent;
        ok(find_unit(unit.store->volumes[0]->index, &metadata->id, 0, &entry) == OK);
        ok(extent_hold(unit.store->volumes[0]->extents, entry.extent, &extent) == OK);
        int none = open("/dev/null", O_WRONLY), fd = extent_direct_fd(extent);
        ok(fd >= 0 && none >= 0 && dup2(none, fd) == fd);    /* no read of this succeeds */
        close(none);
        extent_release(&extent);
        metadata_unref(&metadata);
        cool();
        ok(has_object(&unit, "probe", "\"v\"", 2 * MIB));    /* read again, buffered */
    }
    unit_close(&unit);
}

/* Takes `count` large buffers, and gives back every seventh first: they lie in different huge
 * pages. */
static void take_and_give(struct store_io *io, size_t count)
{
    struct read_buffer *taken[100];
    ok(count <= countof(taken));
    for (size_t i = 0; i < count; i++)
        ok((taken[i] = read_buffer_take(io, LARGE_BYTES)) != NULL);
    for (size_t first = 0; first < 7; first++)
        for (size_t i = first; i < count; i += 7)
            read_buffer_give(taken[i]);
}

TEST(buffers_that_nobody_uses_leave_room_for_readers)
{
    struct store_options options = options_of(64 * MIB, 4 * MIB);
    struct unit_store unit;
    struct store_io *others[8];
    options.held_bytes = 12 * MIB;    /* the least of the budget */
    ok(unit_try(&unit, options) == OK);
    for (size_t i = 0; i < countof(others); i++) {    /* as many as there are loops */
        others[i] = store_io_new(unit.store, unit.box);
        take_and_give(others[i], 1);
    }
    ok(!store_held_bytes_scarce(unit.io));
    take_and_give(unit.io, 80);
    ok(!store_held_bytes_scarce(unit.io));
    for (size_t i = 0; i < countof(others); i++)
        store_io_free(&others[i]);
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(what_is_cold_is_read_past_the_page_cache_and_stays_cold),
          STORE_TEST(what_is_warm_is_read_from_memory),
          STORE_TEST(by_itself_it_is_direct_only_where_memory_is_small_and_once),
          STORE_TEST(what_was_appended_just_now_is_read_past_the_page_cache),
          STORE_TEST(its_descriptor_counts_and_goes_with_the_other),
          STORE_TEST(a_cut_file_is_a_miss_and_no_more),
          STORE_TEST(a_file_system_that_refuses_is_read_through_the_page_cache_for_good),
          STORE_TEST(what_a_direct_read_fails_to_bring_is_read_once_more),
          STORE_TEST(buffers_that_nobody_uses_leave_room_for_readers))
