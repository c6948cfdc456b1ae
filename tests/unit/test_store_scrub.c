/* test_store_scrub.c - the scrub finds damage that no reader has met. SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include "store/inside.h"

#define SIZE 300000u
#define KEYS 8u

static const char *key_of(unsigned number)
{
    static char key[32];
    snprintf(key, sizeof(key), "k%u", number);
    return key;
}

static struct unit_store open_scrubbed(uint64_t scrub_ms)
{
    struct unit_store unit;
    struct store_options options = options_of(64 * MIB, 4 * MIB);
    options.scrub_ms = scrub_ms;
    ok(unit_try(&unit, options) == OK);
    return unit;
}

/* A clean stop seals all extents. k0 was overwritten. */
static void make_folder(void)
{
    struct unit_store unit = unit_open();
    for (unsigned i = 0; i < KEYS; i++)
        ok(put_object(&unit, key_of(i), "\"one\"", SIZE) == OK);
    ok(put_object(&unit, "large", "\"one\"", 5 * MIB + 17) == OK);
    ok(put_object(&unit, "k0", "\"two\"", SIZE) == OK);
    unit_close(&unit);
}

struct search {
    uint8_t bytes[64];
    unsigned found;
};
static struct search search;

/* On the disk alone: the page cache is told by the write, too, so readers would notice. */
static void damage_one(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR);
    ok(fd >= 0 && fstat(fd, &st) == 0);
    char *all = must_alloc((size_t)st.st_size + 1);
    ok(read(fd, all, (size_t)st.st_size) == st.st_size);
    char *at = memmem(all, (size_t)st.st_size, search.bytes, sizeof(search.bytes));
    if (at) {
        char changed = (char)(*at ^ 1);
        ok(pwrite(fd, &changed, 1, at - all) == 1);
        search.found++;
    }
    free(all);
    close(fd);
}

static void damage(const char *key, const char *etag, uint64_t at)
{
    object_fill(key, etag, at, search.bytes, sizeof(search.bytes));
    search.found = 0;
    each_extent(damage_one);
    ok(search.found == 1);
}

static bool is_indexed(struct unit_store *unit, const char *key, uint32_t number)
{
    struct object_name name = name_of(key);
    struct object_id id;
    struct entry entry;
    store_object_id(unit->store, &name, &id);
    return find_unit(unit->store->volumes[0]->index, &id, number, &entry) == OK;
}

/* Waits until a pass has begun and ended from now on. */
static void wait_for_pass(void)
{
    uint64_t passes = metric_read(M_SCRUB_PASSES);
    soon(metric_read(M_SCRUB_PASSES) >= passes + 2);
}

TEST(a_damaged_record_is_forgotten_without_a_read)
{
    make_folder();
    damage("k3", "\"one\"", 65536);
    damage("large", "\"one\"", 3 * MIB);
    uint64_t bad = metric_read(M_SCRUB_BAD), blocks = metric_read(M_STORE_CRC_BAD);
    struct unit_store unit = open_scrubbed(1);
    soon(metric_read(M_SCRUB_BAD) >= bad + 2);
    soon(!is_indexed(&unit, "k3", 0));    /* looks without a read */
    soon(!is_indexed(&unit, "large", 3 * MIB / UNIT_BYTES));
    ok(is_indexed(&unit, "large", 0) && is_indexed(&unit, "k4", 0));
    ok(!get_metadata(&unit, "k3"));
    ok(metric_read(M_STORE_CRC_BAD) >= blocks + 2);
    for (unsigned i = 0; i < KEYS; i++)
        ok(i == 3 || has_object(&unit, key_of(i), i ? "\"one\"" : "\"two\"", SIZE));
    bad = metric_read(M_SCRUB_BAD);
    wait_for_pass();
    ok(metric_read(M_SCRUB_BAD) == bad);    /* forgotten records are not read again */
    unit_close(&unit);
}

TEST(a_record_that_nothing_uses_is_not_read)
{
    make_folder();
    damage("k0", "\"one\"", 0);
    uint64_t bad = metric_read(M_SCRUB_BAD);
    struct unit_store unit = open_scrubbed(1);
    struct store_status status;
    wait_for_pass();
    ok(metric_read(M_SCRUB_BAD) == bad && metric_read(M_SCRUB_BYTES) > 0);
    store_status(unit.store, &status);
    ok(status.work.scrubbed_s > 0);
    unit_close(&unit);
}

static uint64_t bad_blocks(struct unit_store *unit)
{
    struct store_status status;
    store_status(unit->store, &status);
    return status.work.bad_blocks;
}

/* The records are whole, so they stay. */
TEST(a_damaged_table_of_contents_is_counted_once)
{
    make_folder();
    flip_at(1, (off_t)footer_of(1).offset + 5);
    uint64_t bad = metric_read(M_SCRUB_BAD), blocks = metric_read(M_STORE_CRC_BAD);
    struct unit_store unit = open_scrubbed(1);
    uint32_t last;
    soon(store_folder_damaged(unit.store, 0, &last) == 1 && last == 1);
    wait_for_pass();
    ok(store_folder_damaged(unit.store, 0, &last) == 1 && bad_blocks(&unit) == 1);
    ok(metric_read(M_STORE_CRC_BAD) == blocks + 1 && metric_read(M_SCRUB_BAD) == bad);
    for (unsigned i = 0; i < KEYS; i++)
        ok(has_object(&unit, key_of(i), i ? "\"one\"" : "\"two\"", SIZE));
    unit_close(&unit);
}

TEST(the_scrub_waits_without_an_extent_and_stops_at_once)
{
    make_folder();
    uint64_t passes = metric_read(M_SCRUB_PASSES);
    struct unit_store unit = open_scrubbed(1000ull * 3600 * 24 * 30);
    ok(has_object(&unit, "k2", "\"one\"", SIZE));
    ok(extents_bytes(unit.store->volumes[0]->extents) ==
       extents_linked_bytes(unit.store->volumes[0]->extents));
    unit_close(&unit);    /* would wait for weeks */
    ok(metric_read(M_SCRUB_PASSES) == passes);
}

/* Fills and evicts while the scrub reads (for the thread sanitizer). */
TEST(a_scrub_races_with_appends_eviction_and_readers)
{
    struct unit_store unit = open_scrubbed(1);
    uint64_t read = metric_read(M_SCRUB_BYTES), bad = metric_read(M_SCRUB_BAD);
    for (unsigned i = 0; i < 144; i++) {
        char key[32];
        snprintf(key, sizeof(key), "r%u", i);
        enum err e = put_object(&unit, key, "\"one\"", 900000);
        ok(e == OK || e == ERR_FULL);
        read_range(&unit, key, 0, 900000);
    }
    ok(serving(&unit));
    soon(metric_read(M_SCRUB_BYTES) > read);
    ok(metric_read(M_SCRUB_BAD) == bad);
    unit_close(&unit);
}

RUN_STORE(STORE_TEST(a_damaged_record_is_forgotten_without_a_read),
          STORE_TEST(a_record_that_nothing_uses_is_not_read),
          STORE_TEST(a_damaged_table_of_contents_is_counted_once),
          STORE_TEST(the_scrub_waits_without_an_extent_and_stops_at_once),
          STORE_TEST(a_scrub_races_with_appends_eviction_and_readers))
