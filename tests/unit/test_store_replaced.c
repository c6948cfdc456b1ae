/* test_store_replaced.c - a cache folder that is open, while its path leads to another folder.
 * SPDX-License-Identifier: Apache-2.0
 *
 * So it is after an unmount, after another disk was mounted over the folder, or after the folder was
 * moved. Nothing may be written to the folder that the path leads to then. */
#include "store_unit.h"

#include "store/ban_list.h"
#include "store/bans.h"
#include "store/folder.h"
#include "store/names.h"
#include "store/restated.h"

static const uint8_t secret[STORE_SECRET_BYTES] = { 7 };
static char moved[80];

static enum err open_it(struct folder *folder)
{
    struct route_row self = { .weight = 1, .id = { 5 } };
    struct folder_wish wish = { .size_bytes = 64 * MIB, .extent_bytes = 4 * MIB, .self = &self,
                                .list = &self, .list_count = 1, .serial = 1 };
    const char *why;
    return folder_open(folder, &wish, secret, &why);
}

static struct folder open_new(void)
{
    struct folder folder = { .path = unit_folder, .fd = -1, .lock_fd = -1, .index = index_new(),
                             .extents = extents_new(0) };
    ok(open_it(&folder) == OK);
    return folder;
}

static void end(struct folder *folder)
{
    folder_close(folder, true);
    index_free(&folder->index);
    extents_free(&folder->extents);
    free(folder->point);
}

static void replace_by_an_empty_one(void)
{
    snprintf(moved, sizeof(moved), "%s-moved", unit_folder);
    ok(rename(unit_folder, moved) == 0 && mkdir(unit_folder, 0700) == 0);
}

static size_t files_in(const char *path)
{
    size_t count = 0;
    DIR *dir = opendir(path);
    for (struct dirent *item; dir && (item = readdir(dir));)
        count += item->d_name[0] != '.';
    closedir(dir);
    return count;
}

static bool moved_has(const char *name)
{
    char path[120];
    snprintf(path, sizeof(path), "%s/%s", moved, name);
    return access(path, F_OK) == 0;
}

TEST(what_is_written_goes_to_the_open_folder)
{
    struct folder folder = open_new();
    struct restated *restated = restated_new();
    struct names *names = names_new();
    static struct ban_list list;
    struct bans *bans = bans_new(secret, 0);
    struct object_id bucket = { { 3 } };
    struct format format;
    slice prefix = S("http://o\0bucket\0");
    size_t merged;
    uint64_t serial;
    const char *why;
    ban_list_init(&list);
    ok(restated_open(restated, &folder) == OK && bans_open(bans, &list, &folder, NULL) == OK);
    replace_by_an_empty_one();

    struct format next = folder.format;
    next.serial = 77;
    ok(folder_set_format(&folder, &next) == OK);
    ok(restated_add(restated, &folder, &bucket) == OK);
    names_set(names, secret, &(struct store_name){ S("http://o"), S("me") }, 1);
    names_apply(names, &folder);
    ok(ban_list_add(&list, &prefix, 1, &serial, &merged) == OK);
    ok(bans_follow(bans, &list, &folder) == OK);
    ok(open_extent_begin(folder.extents, OPEN_LOG) == OK);
    folder_doubt(&folder, secret);
    ok(folder_why_lost(&folder) != NULL);

    ok(files_in(unit_folder) == 0);
    ok(folder_peek(moved, &format, &why) == OK && format.serial == 77);
    ok(moved_has("restated") && moved_has("names") && moved_has("bans") && moved_has("doubt"));
    ok(moved_has("extents/00000001"));
    end(&folder);
    ok(files_in(unit_folder) == 0);
    ok(!moved_has("clean"));    /* the stop was not clean: the folder was lost */
    ban_list_end(&list);
    bans_free(&bans);
    names_free(&names);
    restated_free(&restated);
    remove_tree(moved);
}

TEST(a_doubt_is_not_left_in_the_folder_of_another_installation)
{
    static const uint8_t other[STORE_SECRET_BYTES] = { 8 };
    struct folder folder = open_new();
    end(&folder);
    folder_doubt(&folder, other);
    ok(access(in_folder("doubt"), F_OK) != 0);
    folder_doubt(&folder, secret);
    ok(access(in_folder("doubt"), F_OK) == 0);
}

TEST(the_index_is_that_of_the_folder_and_not_of_the_path)
{
    struct folder folder = { .path = unit_folder, .fd = -1, .lock_fd = -1, .index = index_new(),
                             .extents = extents_new(0) };
    folder.fd = folder_dir(unit_folder);
    ok(folder.fd >= 0);
    replace_by_an_empty_one();
    ok(open_it(&folder) == OK);
    ok(files_in(unit_folder) == 0 && moved_has("index/data.mdb") && moved_has("lock"));
    end(&folder);
    ok(files_in(unit_folder) == 0);
    remove_tree(moved);
}

RUN(STORE_TEST(what_is_written_goes_to_the_open_folder),
    STORE_TEST(a_doubt_is_not_left_in_the_folder_of_another_installation),
    STORE_TEST(the_index_is_that_of_the_folder_and_not_of_the_path))
