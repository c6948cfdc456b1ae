/* test_store_straight.c - bytes that are read straight into their reader's memory, which others may
 * write to as well. SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/trap.h"
#include "store/extent_inside.h"
#include "store/inside.h"

#define GUARD 64u

/* What a read into `to` came to: where the bytes lie, and that nobody wrote beside what is given. */
struct straight {
    enum err err;
    size_t len;
    bool in_place;
};

/* cool(), which leaves alone what a map shows. */
static void cool_all(struct unit_store *unit)
{
    struct extents *extents = unit->store->volumes[0]->extents;
    for (uint32_t n = 1; n <= extents_highest(extents); n++) {
        struct extent *extent = extent_find(extents, n);
        if (extent && extent->map)
            ok(madvise(extent->map, extent->map_bytes, MADV_DONTNEED) == 0);
    }
    cool();
}

static enum err wait_for(struct unit_store *unit, enum err e, struct unit_answer *answer)
{
    while (e == ERR_WAIT && !answer->came)
        unit_turn(unit);
    return e == ERR_WAIT ? answer->err : e;
}

static struct straight read_to(struct unit_store *unit, const struct metadata *metadata,
                               uint64_t offset, uint64_t end, void *to)
{
    struct unit_answer answer = { 0 };
    struct store_op *op = NULL;
    enum err e = store_read(unit->io, metadata, offset, end, (struct store_to){ .memory = to }, bytes_came, &answer, &answer.held,
                            &op);
    struct straight got = { .err = wait_for(unit, e, &answer) };
    if (got.err)
        return got;
    got.len = answer.held.bytes.len;
    got.in_place = answer.held.bytes.ptr == to;
    ok(!got.in_place || !answer.held.owner);
    if (!got.in_place && !trap_copy_to(to, answer.held.bytes.ptr, got.len))
        got.err = ERR_FAULT;
    object_bytes_release(&answer.held);
    return got;
}

/* Reads [offset, end) as a filler would. How many bytes lay in place at once; SIZE_MAX: not all of
 * them are here, and right. */
static size_t fill(struct unit_store *unit, const char *key, uint64_t offset, uint64_t end,
                   size_t skew)
{
    struct metadata *metadata = get_metadata(unit, key);
    size_t room = end - offset, in_place = 0;
    uint8_t *memory = must_alloc(skew + room + 2 * GUARD), *want = must_alloc(room + 1);
    memset(memory, 0xA5, skew + room + 2 * GUARD);
    uint8_t *to = memory + skew + GUARD;
    for (uint64_t at = offset; metadata && at < end;) {
        struct straight got = read_to(unit, metadata, at, end, to + (at - offset));
        if (got.err || !got.len || got.len > end - at) {
            in_place = SIZE_MAX;
            break;
        }
        in_place += got.in_place ? got.len : 0;
        at += got.len;
    }
    object_fill(key, "\"v\"", offset, want, room);
    for (size_t i = 0; i < GUARD; i++)
        ok(to[-1 - (int)i] == 0xA5 && to[room + i] == 0xA5);
    bool right = metadata && memcmp(to, want, room) == 0;
    metadata_unref(&metadata);
    free(memory);
    free(want);
    return right ? in_place : SIZE_MAX;
}

TEST(objects_of_every_shape_lie_in_place_warm_and_cold)
{
    static const uint64_t sizes[] = { 1, 100, 4095, 65535, 65536, 65537, 131072, 131073, 262144,
                                      300000, 1048575, 1048576, 1048577, 3 * MIB + 5 };
    struct unit_store unit = unit_open();
    char key[32];
    for (size_t i = 0; i < countof(sizes); i++) {
        snprintf(key, sizeof(key), "o%zu", i);
        ok(put_object(&unit, key, "\"v\"", sizes[i]) == OK);
    }
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < countof(sizes); i++) {
            snprintf(key, sizeof(key), "o%zu", i);
            ok(fill(&unit, key, 0, sizes[i], i % 3) == sizes[i]);
        }
        cool_all(&unit);
    }
    unit_close(&unit);
}

TEST(a_record_takes_one_read_whatever_lies_around_it)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "whole", "\"v\"", MIB) == OK);
    ok(put_object(&unit, "units", "\"v\"", 3 * MIB) == OK);
    uint8_t *to = must_alloc(3 * MIB);
    const char *const keys[] = { "whole", "units" };
    for (size_t i = 0; i < countof(keys); i++) {
        struct metadata *metadata = get_metadata(&unit, keys[i]);
        struct straight got = read_to(&unit, metadata, 0, metadata->size, to);
        ok(!got.err && got.in_place && got.len == MIB);
        got = read_to(&unit, metadata, 1000, MIB - 1000, to);    /* both of its ends are cut */
        ok(!got.err && got.in_place && got.len == MIB - 2000);
        /* no whole block: the caller copies */
        got = read_to(&unit, metadata, 500000, 500100, to);
        ok(!got.err && !got.in_place && got.len == 100);
        metadata_unref(&metadata);
    }
    free(to);
    unit_close(&unit);
}

TEST(any_range_of_any_record_lands_where_it_should)
{
    static const uint64_t sizes[] = { 900000, 5 * MIB + 77, 70000 };
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "0", "\"v\"", sizes[0]) == OK);
    ok(put_object(&unit, "1", "\"v\"", sizes[1]) == OK);
    ok(put_object(&unit, "2", "\"v\"", sizes[2]) == OK);
    srand(7);
    for (int i = 0; i < 400; i++) {
        const char key[2] = { (char)('0' + i % 3), '\0' };
        uint64_t size = sizes[i % 3];
        uint64_t from = (uint64_t)rand() % size, end = from + 1 + (uint64_t)rand() % (size - from);
        if (i % 40 == 0)
            cool_all(&unit);
        if (i % 4 == 0)
            from = from / 65536 * 65536;
        ok(fill(&unit, key, from, end, i % 7) != SIZE_MAX);
    }
    unit_close(&unit);
}

/* The same `part` bytes, seen over and over: what is written to one place overwrites the others, as
 * somebody would who writes there meanwhile. */
static uint8_t *one_part_many_times(size_t bytes, size_t part)
{
    int file = memfd_create("scribbled", MFD_CLOEXEC);
    ok(file >= 0 && ftruncate(file, (off_t)part) == 0);
    uint8_t *map = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ok(map != MAP_FAILED);
    for (size_t at = 0; at < bytes; at += part)
        ok(mmap(map + at, part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
           map + at);
    close(file);
    return map;
}

static void who_scribbles_blames_no_record(uint64_t size)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"v\"", size) == OK);
    struct metadata *metadata = get_metadata(&unit, "k");
    uint8_t *to = one_part_many_times(131072, 65536), *want = must_alloc(131072);
    object_fill("k", "\"v\"", 0, want, 131072);
    for (int i = 0; i < 4; i++) {
        uint64_t bad = metric_read(M_STORE_CRC_BAD), again = metric_read(M_STORE_REREADS);
        struct unit_answer answer = { 0 };
        struct store_op *op = NULL;
        if (i % 2)
            cool_all(&unit);
        enum err e = store_read(unit.io, metadata, 0, 131072, (struct store_to){ .memory = to }, bytes_came, &answer,
                                &answer.held, &op);
        ok(wait_for(&unit, e, &answer) == OK);
        ok(answer.held.bytes.len == 131072 && answer.held.owner);
        ok(memcmp(answer.held.bytes.ptr, want, 131072) == 0);
        object_bytes_release(&answer.held);
        ok(metric_read(M_STORE_CRC_BAD) == bad && metric_read(M_STORE_REREADS) == again + 1);
    }
    ok(has_object(&unit, "k", "\"v\"", size));
    munmap(to, 131072);
    free(want);
    metadata_unref(&metadata);
    unit_close(&unit);
}

TEST(who_scribbles_on_units_gets_them_elsewhere_and_blames_nobody)
{
    who_scribbles_blames_no_record(2 * MIB);
}

TEST(who_scribbles_on_a_small_object_gets_it_elsewhere_and_blames_nobody)
{
    who_scribbles_blames_no_record(300000);
}

static void spoil(const char *path)
{
    int fd = open(path, O_RDWR);
    uint8_t bytes[64];
    struct stat st;
    ok(fd >= 0 && fstat(fd, &st) == 0);
    for (off_t at = 8192; at < st.st_size; at += 65536) {
        ok(pread(fd, bytes, sizeof(bytes), at) == sizeof(bytes));
        bytes[0] ^= 1;
        ok(pwrite(fd, bytes, sizeof(bytes), at) == sizeof(bytes));
    }
    close(fd);
}

TEST(a_record_that_is_bad_is_forgotten_also_when_it_is_read_straight)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"v\"", 2 * MIB) == OK);
    struct metadata *metadata = get_metadata(&unit, "k");
    each_extent(spoil);
    uint8_t *to = must_alloc(2 * MIB);
    uint64_t bad = metric_read(M_STORE_CRC_BAD);
    for (int i = 0; i < 2; i++) {
        struct straight got = read_to(&unit, metadata, (uint64_t)i * MIB, 2 * MIB, to);
        ok(got.err == ERR_NOT_FOUND || got.err == ERR_GONE);
        if (i == 0)
            cool_all(&unit);
    }
    ok(metric_read(M_STORE_CRC_BAD) == bad + 2);
    soon(store_has_units(unit.store, metadata, 0, 1, RECORDS_ALL) == 0);
    free(to);
    metadata_unref(&metadata);
    unit_close(&unit);
}

/* ---- from a map ---- */

/* The kernel's answer, unless it shall be an old one: that all pages were there. */
static bool answer_is_old;

int mincore(void *at, size_t len, unsigned char *pages)
{
    if (!answer_is_old)
        return (int)syscall(SYS_mincore, at, len, pages);
    memset(pages, 1, len / 4096);
    return 0;
}

/* The extent that holds the object's first bytes, held. */
static struct extent *extent_of(struct unit_store *unit, const struct metadata *metadata)
{
    struct entry entry;
    struct extent *extent;
    ok(find_unit(unit->store->volumes[0]->index, &metadata->id, 0, &entry) == OK);
    ok(extent_hold(unit->store->volumes[0]->extents, entry.extent, &extent) == OK);
    return extent;
}

TEST(a_large_read_of_what_the_page_cache_has_is_copied_from_a_map)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "whole", "\"v\"", MIB) == OK);
    ok(put_object(&unit, "units", "\"v\"", 2 * MIB) == OK);
    for (int i = 0; i < 4; i++) {
        static const struct {
            uint64_t from, end, reads;
        } cases[] = { { 0, MIB, 1 }, { 1, MIB - 1, 1 }, { 0, 262144, 1 }, { 0, 262143, 0 } };
        uint64_t before = metric_read(M_STORE_MAPPED), disk = metric_read(M_DISK_READS);
        ok(fill(&unit, "whole", cases[i].from, cases[i].end, 0) != SIZE_MAX);
        ok(metric_read(M_STORE_MAPPED) == before + cases[i].reads);
        ok(metric_read(M_DISK_READS) == disk);
    }
    uint64_t before = metric_read(M_STORE_MAPPED);
    ok(fill(&unit, "units", 0, 2 * MIB, 5) == 2 * MIB);
    ok(metric_read(M_STORE_MAPPED) == before + 2);
    unit_close(&unit);
}

static void warm(const struct extent *extent)
{
    uint8_t *bytes = must_alloc(3 * MIB);
    ok(pread(extent_fd(extent), bytes, 3 * MIB, 0) >= (ssize_t)(2 * MIB));
    free(bytes);
}

TEST(a_large_read_of_what_the_page_cache_lacks_waits_for_no_page_of_a_map)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"v\"", 2 * MIB) == OK);
    struct metadata *metadata = get_metadata(&unit, "k");
    struct extent *extent = extent_of(&unit, metadata);
    for (int is_mapped = 0; is_mapped < 2; is_mapped++) {
        uint64_t before = metric_read(M_STORE_MAPPED), disk = metric_read(M_DISK_READS);
        ok(!extent->map == !is_mapped);
        cool_all(&unit);
        /* The kernel may keep some pages, so one in the middle counts, not that of the header. And a
         * fast disk may bring all of them while the page cache is asked. */
        if (!disk_is_cached(extent_fd(extent), MIB / 2, 1)) {
            for (int i = 0; i < 100 && metric_read(M_DISK_READS) == disk; i++) {
                cool_all(&unit);
                if (!disk_is_cached(extent_fd(extent), MIB / 2, 1))
                    ok(fill(&unit, "k", 0, MIB, 0) == MIB);
            }
            ok(metric_read(M_STORE_MAPPED) == before && metric_read(M_DISK_READS) > disk);
            ok(!extent->map == !is_mapped);    /* nor is one made for it */
        }
        warm(extent);    /* a direct read leaves nothing in the page cache, and no map is made */
        ok(fill(&unit, "k", 0, 2 * MIB, 0) == 2 * MIB);
    }
    extent_release(&extent);
    metadata_unref(&metadata);
    unit_close(&unit);
}

/* Each block is checked where it went, as what the map shows may be other bytes by then. */
TEST(what_is_copied_from_a_map_is_verified_where_it_lies)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"v\"", MIB) == OK);
    struct metadata *metadata = get_metadata(&unit, "k");
    uint8_t *to = one_part_many_times(MIB, 32768), *want = must_alloc(MIB);
    object_fill("k", "\"v\"", 0, want, MIB);
    uint64_t bad = metric_read(M_STORE_CRC_BAD), again = metric_read(M_STORE_REREADS);
    struct unit_answer answer = { 0 };
    struct store_op *op = NULL;
    enum err e = store_read(unit.io, metadata, 0, MIB, (struct store_to){ .memory = to }, bytes_came, &answer, &answer.held, &op);
    ok(wait_for(&unit, e, &answer) == OK && answer.held.owner);
    ok(memcmp(answer.held.bytes.ptr, want, answer.held.bytes.len) == 0);
    ok(metric_read(M_STORE_CRC_BAD) == bad && metric_read(M_STORE_REREADS) == again + 1);
    object_bytes_release(&answer.held);
    munmap(to, MIB);
    free(want);
    metadata_unref(&metadata);
    unit_close(&unit);
}

TEST(who_scribbles_on_what_is_copied_from_a_map_spoils_his_own_and_blames_nobody)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"v\"", MIB) == OK);
    struct metadata *metadata = get_metadata(&unit, "k");
    uint8_t *to = one_part_many_times(MIB, 65536);
    uint64_t bad = metric_read(M_STORE_CRC_BAD), again = metric_read(M_STORE_REREADS);
    struct straight got = read_to(&unit, metadata, 0, MIB, to);
    ok(!got.err && got.in_place && got.len == MIB);
    ok(metric_read(M_STORE_REREADS) == again);
    ok(metric_read(M_STORE_CRC_BAD) == bad && has_object(&unit, "k", "\"v\"", MIB));
    munmap(to, MIB);
    metadata_unref(&metadata);
    unit_close(&unit);
}

/* The pages that the extent's map shows are gone, as when the disk fails them after we asked. */
static void lose_pages(struct unit_store *unit, const struct metadata *metadata)
{
    struct extent *extent = extent_of(unit, metadata);
    uint8_t *map = atomic_load(&extent->map);
    int file = memfd_create("lost", MFD_CLOEXEC);
    ok(map && file >= 0);
    ok(mmap(map, extent->map_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == map);
    close(file);
    extent_release(&extent);
}

TEST(what_the_disk_fails_under_its_map_is_read_again)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"v\"", MIB) == OK);
    struct metadata *metadata = get_metadata(&unit, "k");
    uint8_t *to = must_alloc(MIB), *want = must_alloc(MIB);
    object_fill("k", "\"v\"", 0, want, MIB);
    ok(!read_to(&unit, metadata, 0, MIB, to).err);
    lose_pages(&unit, metadata);
    for (int old = 0; old < 2; old++) {
        uint64_t bad = metric_read(M_STORE_CRC_BAD), again = metric_read(M_STORE_REREADS);
        memset(to, 0, MIB);
        answer_is_old = old;
        struct straight got = read_to(&unit, metadata, 0, MIB, to);
        answer_is_old = false;
        ok(!got.err && got.in_place == !old && got.len > 0 && memcmp(to, want, got.len) == 0);
        ok(metric_read(M_STORE_REREADS) == again + (uint64_t)old);
        ok(metric_read(M_STORE_CRC_BAD) == bad);
    }
    free(to);
    free(want);
    metadata_unref(&metadata);
    unit_close(&unit);
}

TEST(a_read_beyond_the_map_is_a_read)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"v\"", MIB) == OK);
    struct metadata *metadata = get_metadata(&unit, "k");
    struct extent *extent = extent_of(&unit, metadata);
    uint64_t all = extent->map_bytes, before = metric_read(M_STORE_MAPPED);
    extent->map_bytes = MIB;    /* the record's header and metadata come first */
    ok(fill(&unit, "k", 0, MIB, 0) == MIB);
    ok(metric_read(M_STORE_MAPPED) == before && !extent->map);
    ok(!extent_cached(extent, MIB + 1, 0) && !extent_cached(extent, 1, UINT64_MAX));
    extent->map_bytes = all;
    extent_release(&extent);
    metadata_unref(&metadata);
    unit_close(&unit);
}

/* Of a file that has lost its second half: a page there can't be written, nor read. */
static uint8_t *half_a_map(int *ret_file)
{
    *ret_file = memfd_create("cut", MFD_CLOEXEC);
    ok(*ret_file >= 0 && ftruncate(*ret_file, MIB) == 0);
    uint8_t *map = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_file, 0);
    ok(map != MAP_FAILED);
    return map;
}

TEST(memory_that_is_gone_fails_the_read_and_no_record)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "units", "\"v\"", 2 * MIB) == OK);
    ok(put_object(&unit, "whole", "\"v\"", 900000) == OK);
    const char *const keys[] = { "units", "whole" };
    uint64_t bad = metric_read(M_STORE_CRC_BAD);
    for (int i = 0; i < 4; i++) {
        int file;
        uint8_t *to = half_a_map(&file);
        struct metadata *metadata = get_metadata(&unit, keys[i % 2]);
        ok(ftruncate(file, MIB / 2) == 0);
        if (i / 2)
            cool_all(&unit);
        ok(read_to(&unit, metadata, 0, 900000, to).err == ERR_FAULT);
        ok(has_object(&unit, keys[i % 2], "\"v\"", metadata->size));
        metadata_unref(&metadata);
        munmap(to, MIB);
        close(file);
    }
    ok(metric_read(M_STORE_CRC_BAD) == bad);
    unit_close(&unit);
}

TEST(memory_that_goes_between_the_disk_and_the_checksum_fails_the_read_and_no_record)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"v\"", 2 * MIB) == OK);
    struct metadata *metadata = get_metadata(&unit, "k");
    struct unit_answer answer = { 0 };
    struct store_op *op = NULL;
    int file;
    uint8_t *to = half_a_map(&file);
    uint64_t bad = metric_read(M_STORE_CRC_BAD);
    cool_all(&unit);
    enum err e = store_read(unit.io, metadata, 1000, MIB, (struct store_to){ .memory = to + 1000 }, bytes_came, &answer,
                            &answer.held, &op);
    if (e == ERR_WAIT) {    /* else nothing was to be waited for */
        struct pollfd waiting = { .fd = mailbox_fd(unit.box), .events = POLLIN };
        ok(store_op_writes(op));
        while (poll(&waiting, 1, 1000) != 1)
            ;
        ok(ftruncate(file, MIB / 2) == 0);
        ok(wait_for(&unit, e, &answer) == ERR_FAULT);
    } else {
        object_bytes_release(&answer.held);
    }
    ok(metric_read(M_STORE_CRC_BAD) == bad && has_object(&unit, "k", "\"v\"", 2 * MIB));
    munmap(to, MIB);
    close(file);
    metadata_unref(&metadata);
    unit_close(&unit);
}

TEST(a_dropped_read_writes_until_its_reader_has_ended_and_no_longer)
{
    struct unit_store unit = unit_open();
    ok(put_object(&unit, "k", "\"v\"", 2 * MIB) == OK);
    struct metadata *metadata = get_metadata(&unit, "k");
    uint8_t *to = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct unit_answer answer = { 0 };
    ok(to != MAP_FAILED);
    for (size_t i = 0; i < 8; i++) {
        struct store_op *op = NULL;
        cool_all(&unit);
        enum err e = store_read(unit.io, metadata, 0, MIB, (struct store_to){ .memory = to + i * MIB }, bytes_came, &answer,
                                &answer.held, &op);
        if (e == ERR_WAIT)
            store_op_drop(&op);
        if (i % 2)
            unit_turn(&unit);
    }
    store_io_free(&unit.io);
    munmap(to, 8 * MIB);
    ok(!answer.came);
    metadata_unref(&metadata);
    unit_close(&unit);
}

RUN_STORE_COLD(STORE_TEST(objects_of_every_shape_lie_in_place_warm_and_cold),
          STORE_TEST(a_record_takes_one_read_whatever_lies_around_it),
          STORE_TEST(any_range_of_any_record_lands_where_it_should),
          STORE_TEST(who_scribbles_on_units_gets_them_elsewhere_and_blames_nobody),
          STORE_TEST(who_scribbles_on_a_small_object_gets_it_elsewhere_and_blames_nobody),
          STORE_TEST(a_record_that_is_bad_is_forgotten_also_when_it_is_read_straight),
          STORE_TEST(a_large_read_of_what_the_page_cache_has_is_copied_from_a_map),
          STORE_TEST(a_large_read_of_what_the_page_cache_lacks_waits_for_no_page_of_a_map),
          STORE_TEST(what_is_copied_from_a_map_is_verified_where_it_lies),
          STORE_TEST(who_scribbles_on_what_is_copied_from_a_map_spoils_his_own_and_blames_nobody),
          STORE_TEST(what_the_disk_fails_under_its_map_is_read_again),
          STORE_TEST(a_read_beyond_the_map_is_a_read),
          STORE_TEST(memory_that_is_gone_fails_the_read_and_no_record),
          STORE_TEST(memory_that_goes_between_the_disk_and_the_checksum_fails_the_read_and_no_record),
          STORE_TEST(a_dropped_read_writes_until_its_reader_has_ended_and_no_longer))
