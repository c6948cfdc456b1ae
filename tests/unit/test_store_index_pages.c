/* test_store_index_pages.c - pages of the index, crafted and real. SPDX-License-Identifier:
 * Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/index.h"
#include "store/index_pages.h"

/* ---- crafted: a root, page 2, above two leaves, 3 and 4; free pages in 5 ---- */

#define PAGE 4096u
#define PAGES 8u
#define KEY 16u
#define VALUE 36u
#define TRANSACTION 7u
enum { ROOT = 2, LEFT, RIGHT, FREE };

static const struct node_shape shapes[] = { { KEY, VALUE } };

static void set(uint8_t *at, uint64_t value, size_t bytes)
{
    memcpy(at, &value, bytes);
}

static uint16_t get16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static uint8_t *page_begin(uint8_t *map, uint64_t number, uint16_t flags)
{
    uint8_t *page = map + number * PAGE;
    set(page, number, 8);
    set(page + 10, flags, 2);
    set(page + 12, 16, 2);
    set(page + 14, PAGE, 2);
    return page;
}

/* `low` and `flags`: a value's length, or the halves of a child's number. */
static void page_add(uint8_t *page, uint32_t low, uint16_t flags, slice key, slice value)
{
    uint32_t lower = get16(page + 12), upper = get16(page + 14);
    upper -= (uint32_t)(8 + key.len + value.len);
    set(page + lower, upper, 2);
    set(page + upper, low, 4);
    set(page + upper + 4, flags, 2);
    set(page + upper + 6, key.len, 2);
    memcpy(page + upper + 8, key.ptr, key.len);
    memcpy(page + upper + 8 + key.len, value.ptr, value.len);
    set(page + 12, lower + 2, 2);
    set(page + 14, upper, 2);
}

static slice key_of(uint32_t number)
{
    static char key[KEY + 1];
    snprintf(key, sizeof(key), "key %012u", number);
    return (slice){ key, KEY };
}

static void tree_set(uint8_t *at, uint16_t flags, uint16_t depth, uint64_t leaves, uint64_t root)
{
    set(at, PAGE, 4);
    set(at + 4, flags, 2);
    set(at + 6, depth, 2);
    set(at + 8, depth - 1u, 8);
    set(at + 16, leaves, 8);
    set(at + 40, root, 8);
}

static void leaf(uint8_t *map, uint64_t number, uint32_t first, uint32_t count)
{
    uint8_t *page = page_begin(map, number, 2);
    for (uint32_t i = 0; i < count; i++)
        page_add(page, VALUE, 0, key_of(first + i), S("the value is thirty-six bytes long.."));
}

/* Keys 0 to 59 and 100 to 159. In memory of its own length: the sanitizer sees a step beyond. */
static struct index_pages crafted(void)
{
    uint8_t *map = must_alloc(PAGES * PAGE);
    uint8_t *meta = page_begin(map, (TRANSACTION - 1) & 1, 8);
    set(meta + 16, 0xBEEFC0DE, 4);
    set(meta + 20, 1, 4);
    tree_set(meta + 40, 8, 1, 1, FREE);
    tree_set(meta + 88, 0, 2, 2, ROOT);
    set(meta + 136, PAGES - 1, 8);
    set(meta + 144, TRANSACTION - 1, 8);
    uint8_t *root = page_begin(map, ROOT, 1);
    page_add(root, LEFT, 0, S(""), S(""));
    page_add(root, RIGHT, 0, key_of(100), S(""));
    leaf(map, LEFT, 0, 60);
    leaf(map, RIGHT, 100, 60);
    uint64_t list[] = { 2, 7, 6 }, key = TRANSACTION - 1;
    page_add(page_begin(map, FREE, 2), sizeof(list), 0, (slice){ (char *)&key, 8 },
             (slice){ (char *)list, sizeof(list) });
    return (struct index_pages){ .map = map, .count = PAGES, .page_bytes = PAGE, .shapes = shapes,
                                 .shape_count = countof(shapes) };
}

static uint8_t *bytes_of(const struct index_pages *pages, uint64_t page)
{
    return (uint8_t *)(uintptr_t)pages->map + page * PAGE;
}

static void drop(struct index_pages *pages)
{
    free(bytes_of(pages, 0));
}

TEST(a_tree_of_sound_pages_is_sound)
{
    struct index_pages pages = crafted();
    ok(index_pages_begin(&pages, TRANSACTION) && index_pages_put(&pages, key_of(3)));
    ok(index_pages_put(&pages, key_of(99999)) && index_pages_delete(&pages, key_of(100)));
    ok(!index_pages_begin(&pages, TRANSACTION + 1) && !index_pages_begin(&pages, TRANSACTION + 2));
    drop(&pages);
}

TEST(the_map_begins_where_a_page_and_its_number_say)
{
    uint8_t *map = aligned_alloc(PAGE, PAGES * PAGE);
    ok(map);
    leaf(map, RIGHT, 0, 3);
    int file = memfd_create("index", MFD_CLOEXEC);
    ok(file >= 0 && write(file, map, PAGES * PAGE) == PAGES * PAGE);
    ok(index_pages_map_of(map + RIGHT * PAGE + 4000, PAGE, file) == map);
    const uint64_t wrong[] = { UINT64_MAX, PAGES, RIGHT - 1, 0 };
    for (size_t i = 0; i < countof(wrong); i++) {
        set(map + RIGHT * PAGE, wrong[i], 8);
        ok(!index_pages_map_of(map + RIGHT * PAGE + 4000, PAGE, file));
        ok(pwrite(file, map + RIGHT * PAGE, 8, RIGHT * PAGE) == 8);    /* the file is damaged, too */
        ok(!index_pages_map_of(map + RIGHT * PAGE + 4000, PAGE, file));
        set(map + RIGHT * PAGE, RIGHT, 8);
        ok(pwrite(file, map + RIGHT * PAGE, 8, RIGHT * PAGE) == 8);
    }
    set(map + RIGHT * PAGE + PAGE - 8, 1, 8);    /* an older copy of the page differs at its end */
    ok(!index_pages_map_of(map + RIGHT * PAGE + 4000, PAGE, file));
    ok(!index_pages_map_of(map + RIGHT * PAGE + 4000, 0, file));
    close(file);
    free(map);
}

/* One damaged field. */
static bool is_found(uint64_t page, uint32_t at, uint64_t value, size_t bytes)
{
    struct index_pages pages = crafted();
    set(bytes_of(&pages, page) + at, value, bytes);
    bool sound = index_pages_begin(&pages, TRANSACTION) && index_pages_put(&pages, key_of(3));
    ok(!sound || index_pages_lead(&pages, key_of(3)));
    drop(&pages);
    return !sound;
}

TEST(each_damaged_field_on_the_way_to_a_key_is_found)
{
    static const struct {
        uint64_t page;
        uint32_t at;
        uint64_t value;
        size_t bytes;
    } damages[] = {
        { 0, 10, 4, 2 },                /* the meta page: flags */
        { 0, 16, 0, 4 },                /* magic */
        { 0, 40, 0, 4 },                /* page size */
        { 0, 44, 9, 2 },                /* flags of the free tree, */
        { 0, 92, 4, 2 },                /* of the main tree */
        { 0, 94, 3, 2 },                /* depth */
        { 0, 128, 77, 8 },              /* root */
        { 0, 128, 1, 8 },
        { 0, 136, 1u << 20, 8 },        /* last page */
        { 0, 144, 4, 8 },               /* transaction */
        { ROOT, 0, 9, 8 },              /* number */
        { ROOT, 10, 2, 2 },             /* flags */
        { LEFT, 10, 1, 2 },
        { LEFT, 10, 0x12, 2 },          /* "dirty": would be written in place */
        { LEFT, 12, 15, 2 },            /* lower */
        { LEFT, 12, 17, 2 },
        { LEFT, 12, 4000, 2 },
        { LEFT, 12, 16 + 2 * 59, 2 },
        { LEFT, 14, 4097, 2 },          /* upper */
        { LEFT, 14, 100, 2 },
        { LEFT, 14, PAGE - 60 * 59, 2 },
        { LEFT, 16, 4095, 2 },          /* an offset */
        { LEFT, 16, 100, 2 },
        { LEFT, 16, PAGE - 120, 2 },    /* the next one's */
        { LEFT, PAGE - 60, 37, 2 },     /* a value's length */
        { LEFT, PAGE - 58, 1, 2 },
        { LEFT, PAGE - 56, 1, 2 },      /* a node's flags */
        { LEFT, PAGE - 54, 17, 2 },     /* a key's length */
        { LEFT, PAGE - 54, 0xFFFF, 2 },
        { LEFT, PAGE - 52, 'z', 1 },    /* the order of keys */
        { ROOT, PAGE - 8, PAGES, 2 },   /* a child's number */
        { ROOT, PAGE - 8, RIGHT + 1, 2 },
        { ROOT, PAGE - 4, 1, 2 },
        { FREE, PAGE - 24, 3, 8 },      /* a list: its count, */
        { FREE, PAGE - 24, UINT64_MAX, 8 },
        { FREE, PAGE - 16, PAGES, 8 },  /* a page that is not there, */
        { FREE, PAGE - 16, 6, 8 },      /* the same twice, */
        { FREE, PAGE - 8, 1, 8 },       /* a meta page */
        { FREE, PAGE - 36, 1, 2 },      /* a long value that is none */
        { FREE, PAGE - 32, TRANSACTION, 8 },
    };
    for (size_t i = 0; i < countof(damages); i++)
        if (!is_found(damages[i].page, damages[i].at, damages[i].value, damages[i].bytes))
            fail_msg("page %d, byte %u = %d", (int)damages[i].page, damages[i].at,
                     (int)damages[i].value);
}

/* Under a sanitizer, one or two bits of each byte. */
TEST(no_bit_flipped_anywhere_leads_beyond_the_map)
{
    struct index_pages pages = crafted();
    uint32_t found = 0, step = rounds_of(1, 7);
    for (uint32_t bit = 0; bit < PAGES * PAGE * 8; bit += step) {
        uint8_t *byte = bytes_of(&pages, 0) + bit / 8;
        *byte ^= (uint8_t)(1u << bit % 8);
        bool begun = index_pages_begin(&pages, TRANSACTION);
        for (uint32_t key = 0; begun && key < 160; key += 53)
            (void)!index_pages_lead(&pages, key_of(key));
        found += !(begun && index_pages_put(&pages, key_of(3)) &&
                   index_pages_delete(&pages, key_of(150)));
        *byte ^= (uint8_t)(1u << bit % 8);
    }
    ok(found > 2 * 60 * 8 * 8 / step);    /* in the leaves' nodes alone */
    drop(&pages);
}

/* To the other leaf, and to one that is free and holds an older entry of the key. */
TEST(a_pointer_to_another_leaf_or_to_a_free_one_leads_nowhere)
{
    struct index_pages pages = crafted();
    uint8_t *root = bytes_of(&pages, ROOT);
    pages.free_pages = free_pages_new(PAGES);
    leaf(bytes_of(&pages, 0), 6, 100, 60);
    ok(index_pages_begin(&pages, TRANSACTION));
    ok(index_pages_lead(&pages, key_of(3)) && index_pages_lead(&pages, key_of(130)));
    ok(free_pages_has(pages.free_pages, 6, TRANSACTION - 1));
    ok(!free_pages_has(pages.free_pages, LEFT, TRANSACTION - 1));
    ok(!free_pages_has(pages.free_pages, 6, TRANSACTION - 2));
    uint8_t *child = root + get16(root + 18);
    set(child, LEFT, 4);
    ok(!index_pages_lead(&pages, key_of(130)) && !index_pages_put(&pages, key_of(130)));
    set(child, 6, 4);
    ok(!index_pages_lead(&pages, key_of(130)) && !index_pages_put(&pages, key_of(130)));
    set(child, RIGHT, 4);
    ok(index_pages_lead(&pages, key_of(130)) && index_pages_put(&pages, key_of(130)));
    free_pages_free(&pages.free_pages);
    drop(&pages);
}

TEST(a_leaf_that_may_fall_below_a_quarter_has_its_neighbours_looked_at)
{
    struct index_pages pages = crafted();
    set(bytes_of(&pages, RIGHT) + 12, 17, 2);
    ok(index_pages_begin(&pages, TRANSACTION));
    uint32_t deleted = 0;
    while (deleted < 60 && index_pages_delete(&pages, key_of(deleted)))
        deleted++;
    ok(deleted > 0 && deleted < 30);    /* of 60, and a split may have halved it */
    ok(index_pages_put(&pages, key_of(3)));
    drop(&pages);
}

/* ---- real: what LMDB makes is sound ---- */

static uint64_t random_state = 1;

static uint32_t below(uint32_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % limit);
}

#define OBJECTS 4000u
#define UNITS 5u

static struct object_id id_of(uint32_t number)
{
    struct object_id id = { { 0 } };
    uint64_t mixed = number * 0x9E3779B97F4A7C15u;    /* scattered, like the store's */
    memcpy(&id, &mixed, sizeof(mixed));
    return id;
}

/* Puts or deletes every unit of `count` objects from `first` on, and remembers. */
static void change(struct index *index, bool *there, uint32_t first, uint32_t count, bool put)
{
    for (uint32_t i = first; i < MIN(first + count, OBJECTS); i++)
        for (uint32_t unit = 0; unit < UNITS; unit++) {
            struct object_id id = id_of(i);
            struct entry entry = { .extent = i + 1, .offset = 4096 * unit, .len = UNIT_BYTES };
            enum err e = put ? index_put(index, &id, unit, &entry) : index_delete(index, &id, unit);
            ok(e == (put || there[i] ? OK : ERR_NOT_FOUND));
            if (unit == UNITS - 1)
                there[i] = put;
        }
}

static bool as_remembered(struct index *index, const bool *there)
{
    struct entry entry;
    for (uint32_t i = 0; i < OBJECTS; i++) {
        struct object_id id = id_of(i);
        if (index_get_run(index, &id, i % UNITS, 1, &entry) != there[i])
            return false;
    }
    return !index_is_bad(index);
}

/* Transactions small and large; deletions scattered and in whole runs, down to nothing and up
 * again. */
static void live(struct index *index, bool *there)
{
    ok(index_begin(index) == OK && index_set_opening(index, 1) == OK && index_commit(index) == OK);
    for (int turn = 0; turn < 120; turn++) {
        uint32_t size = turn % 10 == 9 ? OBJECTS : 1 + below(200);
        bool shrink = turn % 20 > 12;
        ok(index_begin(index) == OK);
        if (turn % 2)
            change(index, there, size == OBJECTS ? 0 : below(OBJECTS), size, !shrink);
        else
            for (uint32_t i = 0; i < size; i++)
                change(index, there, below(OBJECTS), 1, !shrink);
        ok(index_commit(index) == OK && !index_is_bad(index));
        index_abort(index);
    }
}

TEST(what_lmdb_makes_of_puts_and_deletes_is_sound)
{
    char folder[] = "store-unit-XXXXXX", file[64];
    static bool there[OBJECTS];
    struct index *index = index_new();
    ok(mkdtemp(folder) && index_open(index, folder, 64 * MIB) == OK);
    live(index, there);
    ok(as_remembered(index, there));
    index_close(index);
    ok(index_open(index, folder, 64 * MIB) == OK);
    live(index, there);
    ok(as_remembered(index, there) && index_size(index).entries == 0);    /* it ended so */
    index_free(&index);
    snprintf(file, sizeof(file), "%s/data.mdb", folder);
    unlink(file);
    ok(rmdir(folder) == 0);
}

RUN(cmocka_unit_test(a_tree_of_sound_pages_is_sound),
    cmocka_unit_test(the_map_begins_where_a_page_and_its_number_say),
    cmocka_unit_test(each_damaged_field_on_the_way_to_a_key_is_found),
    cmocka_unit_test(no_bit_flipped_anywhere_leads_beyond_the_map),
    cmocka_unit_test(a_pointer_to_another_leaf_or_to_a_free_one_leads_nowhere),
    cmocka_unit_test(a_leaf_that_may_fall_below_a_quarter_has_its_neighbours_looked_at),
    cmocka_unit_test(what_lmdb_makes_of_puts_and_deletes_is_sound))
