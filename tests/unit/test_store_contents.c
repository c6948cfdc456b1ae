/* test_store_contents.c - what an extent says of itself: kind and volume, rows and names, after a
 * seal, a crash, and damage. SPDX-License-Identifier: Apache-2.0 */
#include "store_unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "store/extent_inside.h"

#define EXTENT (2 * MIB)

static const struct format format = { .extent_bytes = EXTENT, .secret = "a secret of 16b",
                                      .volume = "id of the volume" };

static struct extents *open_extents(void)
{
    struct extents *all = extents_new(UINT64_MAX);
    ok(find_extents(all, &format) == OK);
    return all;
}

static struct metadata *metadata_of(const char *key, uint64_t size)
{
    struct object_name name = name_of(key);
    struct object_id id;
    object_id_of(format.secret, &name, &id);
    return metadata_new(&id, &name, S("\"e\""), S("a: b\r\n"), size, 0, true);
}

/* Adds a record of this object: WHOLE or HEAD, with its metadata block, or UNITS. ERR_FULL if there
 * is no room. */
static enum err add_record(struct extents *all, enum record_kind kind, const char *key,
                           uint64_t size)
{
    static uint8_t bytes[RECORD_BYTES_MAX], block[METADATA_BLOCK_MAX];
    struct metadata *metadata = metadata_of(key, size);
    uint64_t bucket = bucket_hash(format.secret, S("http://origin"), S("bucket"));
    struct append_item item = { .bucket = bucket };
    item.record = (struct record){ .kind = (uint8_t)kind, .id = metadata->id,
                                   .etag_hash = metadata->etag_hash,
                                   .first_unit = kind == KIND_HEAD ? METADATA_UNIT : 0 };
    if (kind == KIND_UNITS) {
        item.record.mark = bucket;
    } else {
        item.record.metadata_len = (uint32_t)metadata_block_bytes(metadata);
        metadata_block_encode(metadata, block);
        item.record.metadata_crc = block_crc(&metadata->id, metadata->etag_hash, METADATA_UNIT,
                                             block, item.record.metadata_len);
        item.metadata_block = (slice){ (char *)block, item.record.metadata_len };
    }
    item.record.data_len = kind == KIND_HEAD ? 0 : (uint32_t)size;
    item.bytes = (slice){ (char *)bytes, item.record.data_len };
    enum err e = open_extent_add(all, OPEN_LOG, &item);
    if (!e)    /* the block is used again */
        e = open_extent_write(all, OPEN_LOG);
    metadata_unref(&metadata);
    return e;
}

/* ---- what is in an extent, as text ---- */

struct listing {
    char text[4096];
    size_t len;
};

static enum err list_row(void *arg, const struct toc_row *row)
{
    struct listing *listing = arg;
    slice name = row->name.name;
    const char *key = name.len ? memchr(name.ptr, '\0', name.len) : NULL;    /* bucket NUL key */
    key = key ? memchr(key + 1, '\0', name.len - (size_t)(key + 1 - name.ptr)) : NULL;
    uint64_t bucket = bucket_hash(format.secret, S("http://origin"), S("bucket"));
    listing->len += (size_t)snprintf(
        listing->text + listing->len, sizeof(listing->text) - listing->len, "%u:%u:%s:%d%s%s ",
        row->ordinal, row->entry->kind, key ? key + 1 : "", (int)row->name.size,
        row->entry->bucket == bucket ? "" : "?",
        row->entry->etag_hash == metadata_etag_hash(S("\"e\"")) ? "" : "!");
    return OK;
}

/* Stays until the next call. */
static const char *rows_of(struct extents *all, uint32_t number)
{
    static struct listing listing;
    listing.len = 0;
    listing.text[0] = '\0';
    if (extent_each_row(all, number, list_row, &listing) != OK)
        return "none";
    return listing.text;
}

#define is(text, wanted) ok(strcmp(text, wanted) == 0)

static void add_some(struct extents *all)
{
    ok(open_extent_roll(all) == OK);
    ok(add_record(all, KIND_WHOLE, "a", 700) == OK);
    ok(add_record(all, KIND_UNITS, "big", 300000) == OK);
    ok(add_record(all, KIND_HEAD, "big", 5000000) == OK);
    ok(add_record(all, KIND_WHOLE, "empty", 0) == OK);
}
#define SOME "0:2:a:700 1:1::0 2:3:big:5000000 3:2:empty:0 "

TEST(rows_and_names_are_the_same_open_unsealed_and_sealed)
{
    struct extents *all = open_extents();
    add_some(all);
    is(rows_of(all, 1), SOME);
    extents_close(all);    /* as after a crash */
    ok(find_extents(all, &format) == OK);
    ok(!extent_is_sealed(all, 1));
    is(rows_of(all, 1), SOME);
    ok(extent_seal_old(all, 1) == OK && extent_is_sealed(all, 1));
    is(rows_of(all, 1), SOME);
    add_some(all);
    ok(open_extent_seal(all, OPEN_LOG) == OK);
    extents_close(all);
    ok(find_extents(all, &format) == OK);
    ok(extent_is_sealed(all, 1) && extent_is_sealed(all, 2));
    is(rows_of(all, 1), SOME);
    is(rows_of(all, 2), SOME);
    is(rows_of(all, 3), "none");
    extents_free(&all);
}

TEST(a_footer_has_the_kind_and_the_totals)
{
    struct extents *all = open_extents();
    struct toc_footer footer;
    add_some(all);
    ok(extent_footer(all, 1, &footer) == ERR_GONE);
    ok(open_extent_seal(all, OPEN_LOG) == OK && extent_footer(all, 1, &footer) == OK);
    ok(footer.version == 2 && footer.kind == EXTENT_LOG && footer.count == 4);
    ok(footer.data_bytes == 700 + 300000);
    /* the header of 64 bytes, a CRC for each 64 KiB, metadata; data of units at 4 KiB */
    struct metadata *a = metadata_of("a", 1), *big = metadata_of("big", 1),
                    *empty = metadata_of("empty", 1);
    size_t heads = metadata_block_bytes(a) + metadata_block_bytes(big) +
                   metadata_block_bytes(empty);
    ok(footer.record_bytes == 64 + 4 + 700 + PAGE_BYTES + 300000 + 64 + 64 + heads);
    metadata_unref(&a);
    metadata_unref(&big);
    metadata_unref(&empty);
    extents_free(&all);
}

TEST(a_row_that_was_not_written_is_forgotten)
{
    struct extents *all = open_extents();
    add_some(all);
    int fd = all->opens[OPEN_LOG]->extent->fd, saved = dup(fd), null = open("/dev/null", O_RDONLY);
    ok(dup2(null, fd) == fd);
    ok(add_record(all, KIND_WHOLE, "lost", 10) != OK);
    ok(dup2(saved, fd) == fd);
    close(saved);
    close(null);
    ok(add_record(all, KIND_WHOLE, "later", 10) == ERR_FULL);    /* no more goes there */
    is(rows_of(all, 1), SOME);
    ok(open_extent_seal(all, OPEN_LOG) == OK);
    is(rows_of(all, 1), SOME);
    extents_free(&all);
}

static off_t largest;

static void note_largest(const char *path)
{
    struct stat st;
    ok(stat(path, &st) == 0);
    largest = MAX(largest, st.st_size);
}

TEST(rows_and_names_leave_room_for_themselves)
{
    struct extents *all = open_extents();
    char key[40001];
    uint32_t count = 0;
    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    ok(open_extent_roll(all) == OK);
    while (add_record(all, KIND_HEAD, key, 1) == OK)
        count++;
    ok(open_extent_seal(all, OPEN_LOG) == OK);
    /* twice 40,000 bytes each: a name in the record, and one in the table */
    ok(count == (EXTENT - 2 * PAGE_BYTES) / (round_up(40000, PAGE_BYTES) + 40000 + 48));
    ok(open_extent_roll(all) == OK);
    for (count = 0; add_record(all, KIND_HEAD, "k", 1) == OK; count++)
        ;
    ok(open_extent_seal(all, OPEN_LOG) == OK && count > 400);
    each_extent(note_largest);
    ok(largest <= (off_t)EXTENT);
    extents_free(&all);
}

/* ---- damage ---- */

/* Returns the number of extents with a damaged table. */
static uint32_t damage_in(const struct extents *all)
{
    uint32_t last, count = extents_damaged(all, &last);
    ok(last == count);    /* extent 1, or none */
    return count;
}

/* Flips a byte of extent 1, and opens it. */
static struct extents *damaged(bool sealed, off_t at)
{
    struct extents *all = open_extents();
    add_some(all);
    if (sealed)
        ok(open_extent_seal(all, OPEN_LOG) == OK);
    extents_close(all);
    flip_at(1, at);
    ok(find_extents(all, &format) == OK);
    return all;
}

static void end(struct extents **all)
{
    extents_free(all);
    remove_tree(in_folder("extents"));
}

TEST(any_damage_of_a_table_is_found_and_the_records_tell_the_same)
{
    /* the rows, and the names after 4 rows of 48 bytes; both in the page of the footer */
    for (off_t at = -4096; at < 0; at += at < -4096 + 400 ? 1 : 37) {
        struct extents *all = damaged(true, at);
        is(rows_of(all, 1), SOME);
        end(&all);
    }
    for (off_t at = -64; at < 0; at++) {    /* the footer: unsealed then */
        struct extents *all = damaged(true, at);
        ok(!extent_is_sealed(all, 1));
        is(rows_of(all, 1), SOME);
        end(&all);
    }
}

TEST(an_unsealed_extent_with_a_damaged_head_page_is_not_used)
{
    for (off_t at = 0; at < 100; at++) {
        struct extents *all = damaged(false, at);
        is(rows_of(all, 1), at < 64 ? "none" : SOME);    /* what follows is not looked at */
        ok(extents_count(all) == 1 && extents_bytes(all) > 300000);
        struct stat before, after;
        ok(stat(in_folder("extents/00000001"), &before) == 0);
        ok(at >= 64 || extent_seal_old(all, 1) == ERR_NOT_FOUND);    /* and nothing is appended */
        ok(stat(in_folder("extents/00000001"), &after) == 0 && after.st_size >= before.st_size);
        ok(at >= 64 || after.st_size == before.st_size);
        end(&all);
        all = damaged(true, at);
        is(rows_of(all, 1), SOME);
        end(&all);
    }
}

TEST(a_damaged_record_hides_its_name_and_no_other_when_the_table_has_lost_its_names)
{
    struct extents *all = damaged(true, -4096 + 4 * 48 + 3);    /* the names */
    extents_close(all);
    flip_at(1, PAGE_BYTES + 64 + 4 + 40);    /* the first name in its metadata block */
    ok(find_extents(all, &format) == OK);
    is(rows_of(all, 1), "0:2::0 1:1::0 2:3:big:5000000 3:2:empty:0 ");
    extents_free(&all);
}

/* A reader that gets fewer bytes than it asks for still has the records that are there. */
TEST(an_extent_that_is_cut_short_while_it_is_in_use_loses_only_its_table)
{
    struct extents *all = open_extents();
    add_some(all);
    ok(open_extent_seal(all, OPEN_LOG) == OK);
    ok(truncate(in_folder("extents/00000001"), footer_of(1).offset) == 0);
    is(rows_of(all, 1), SOME);
    ok(damage_in(all) == 1);
    end(&all);
}

/* Each reader finds the damage. */
TEST(a_damaged_table_counts_once)
{
    struct extents *all = damaged(true, -4096);
    ok(damage_in(all) == 0);
    for (int i = 0; i < 3; i++)
        is(rows_of(all, 1), SOME);
    ok(damage_in(all) == 1);
    end(&all);
}

/* A stop that seals nothing leaves no table behind the records. */
TEST(an_extent_that_lost_its_footer_counts_as_damaged)
{
    struct extents *all = damaged(true, -1);
    ok(damage_in(all) == 0 && !extent_is_sealed(all, 1) && extent_seal_old(all, 1) == OK);
    ok(damage_in(all) == 1);
    is(rows_of(all, 1), SOME);
    end(&all);
    all = damaged(false, -1);    /* of the padding */
    ok(extent_seal_old(all, 1) == OK && damage_in(all) == 0);
    end(&all);
}

/* An extent of another volume, or under another number, with right checksums. */
static void is_foreign(bool sealed, bool other_volume)
{
    struct extents *all = open_extents();
    struct format other = format;
    add_some(all);
    if (sealed)
        ok(open_extent_seal(all, OPEN_LOG) == OK);
    extents_close(all);
    if (other_volume)
        other.volume[15]++;
    else
        ok(rename(in_folder("extents/00000001"), in_folder("extents/00000005")) == 0);
    ok(find_extents(all, &other) == OK);
    uint32_t number = other_volume ? 1 : 5;
    struct extent *held;
    ok(extent_hold(all, number, &held) == ERR_NOT_FOUND && !held);
    is(rows_of(all, number), "none");
    ok(extent_is_there(all, number) && !extent_is_sealed(all, number));
    ok(extents_highest(all) == number && open_extent_roll(all) == OK);
    ok(extents_highest(all) == number + 1);    /* its number stays used */
    extent_drop(all, number);
    ok(!extent_is_there(all, number) && each_extent(NULL) == 1);
    end(&all);
}

TEST(an_extent_of_another_volume_or_number_is_not_used_but_recycled)
{
    for (int i = 0; i < 4; i++)
        is_foreign(i & 1, i & 2);
}

/* ---- readers of tables beside the committer ---- */

struct race {
    struct extents *all;
    atomic_bool over;
    atomic_uint tables, wrong;
};

static enum err compare_row(void *arg, const struct toc_row *row)
{
    struct race *race = arg;
    if (row->entry->kind == KIND_WHOLE && row->name.size != 100 + row->ordinal)
        atomic_fetch_add(&race->wrong, 1);
    return OK;
}

static void *list_on(void *arg)
{
    struct race *race = arg;
    while (!atomic_load(&race->over))
        for (uint32_t number = 1; number <= extents_highest(race->all); number++)
            if (extent_each_row(race->all, number, compare_row, race) == OK)
                atomic_fetch_add(&race->tables, 1);
    return NULL;
}

TEST(tables_are_read_while_records_come_and_extents_are_sealed)
{
    struct race race = { .all = open_extents() };
    pthread_t threads[2];
    ok(open_extent_roll(race.all) == OK);
    for (size_t i = 0; i < countof(threads); i++)
        ok(pthread_create(&threads[i], NULL, list_on, &race) == 0);
    for (uint32_t extent = 1; extent <= 6; extent++) {
        for (uint32_t i = 0; i < 100; i++)
            ok(add_record(race.all, KIND_WHOLE, "k", 100 + i) == OK);
        soon(atomic_load(&race.tables) >= 5 * extent);
        ok(open_extent_roll(race.all) == OK);
        if (extent > 3)
            extent_drop(race.all, extent - 3);
    }
    atomic_store(&race.over, true);
    for (size_t i = 0; i < countof(threads); i++)
        pthread_join(threads[i], NULL);
    ok(atomic_load(&race.tables) > 0 && atomic_load(&race.wrong) == 0);
    extents_free(&race.all);
}

RUN(STORE_TEST(rows_and_names_are_the_same_open_unsealed_and_sealed),
    STORE_TEST(a_footer_has_the_kind_and_the_totals),
    STORE_TEST(an_extent_that_is_cut_short_while_it_is_in_use_loses_only_its_table),
    STORE_TEST(a_damaged_table_counts_once),
    STORE_TEST(an_extent_that_lost_its_footer_counts_as_damaged),
    STORE_TEST(a_row_that_was_not_written_is_forgotten),
    STORE_TEST(rows_and_names_leave_room_for_themselves),
    STORE_TEST(any_damage_of_a_table_is_found_and_the_records_tell_the_same),
    STORE_TEST(an_unsealed_extent_with_a_damaged_head_page_is_not_used),
    STORE_TEST(a_damaged_record_hides_its_name_and_no_other_when_the_table_has_lost_its_names),
    STORE_TEST(an_extent_of_another_volume_or_number_is_not_used_but_recycled),
    STORE_TEST(tables_are_read_while_records_come_and_extents_are_sealed))
