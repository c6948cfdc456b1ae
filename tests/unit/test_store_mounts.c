/* test_store_mounts.c - a mount that belongs at or above a path, and is not there.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/mounts.h"

static char root[64];

static const char *in(struct arena *keep, const char *name)
{
    return arena_printf(keep, "%s/%s", root, name).ptr;
}

static void put(const char *name, const char *text)
{
    struct arena keep = { 0 };
    FILE *file = fopen(in(&keep, name), "w");
    check(file && fputs(text, file) >= 0 && fclose(file) == 0);
    arena_free(&keep);
}

/* The point that is missing for `path`, or "". */
static slice missing(struct arena *keep, const char *path)
{
    const char *const dirs[] = { in(keep, "etc"), in(keep, "usr"), NULL };
    const struct mounts_files files = {
        .fstab = in(keep, "fstab"), .mounts = in(keep, "mounts"), .booted = in(keep, "booted"),
        .unit_dirs = dirs, .own_dirs = 1,
    };
    struct mounts_missing found;
    return mounts_missing(path, &files, keep, &found) ? found.point : S("");
}

static bool is(const char *path, const char *want)
{
    struct arena keep = { 0 };
    slice found = missing(&keep, path);
    bool right = slice_eq(found, slice_of(want));
    if (!right)
        print_error("%s: \"%.*s\", not \"%s\"\n", path, SLICE_ARG(found), want);
    arena_free(&keep);
    return right;
}

static int set_up(void **state)
{
    struct arena keep = { 0 };
    (void)state;
    snprintf(root, sizeof(root), "/tmp/penstock-mounts-XXXXXX");
    check(mkdtemp(root));
    mkdir(in(&keep, "etc"), 0755);
    mkdir(in(&keep, "usr"), 0755);
    mkdir(in(&keep, "usr/local-fs.target.wants"), 0755);
    mkdir(in(&keep, "booted"), 0755);
    put("fstab", "# <file system> <mount point>\n"
                 "UUID=1 / ext4 defaults 0 1\n"
                 "/dev/nvme0n1\t/pt-nvme   xfs defaults,nofail 0 2\n"
                 "/dev/sdb /pt\\040space/ ext4 noauto 0 0\n"
                 "/dev/sdc none swap sw 0 0\n"
                 "#/dev/sdd /pt-comment ext4 defaults 0 0\n"
                 "broken\n");
    put("mounts", "/dev/root / ext4 rw 0 0\n"
           "/dev/x /pt-nvme/inner\\040one ext4 rw 0 0\n");
    arena_free(&keep);
    return 0;
}

static int tear_down(void **state)
{
    struct arena keep = { 0 };
    (void)state;
    check(system(arena_printf(&keep, "rm -r %s", root).ptr) == 0);
    arena_free(&keep);
    return 0;
}

TEST(what_fstab_names_at_or_above_a_path_must_be_mounted)
{
    ok(is("/pt-nvme", "/pt-nvme") && is("/pt-nvme/cache", "/pt-nvme"));
    ok(is("/pt-nvme/cache/deep/er/", "/pt-nvme") && is("/pt-nvme/inner one/c", "/pt-nvme"));
    ok(is("/pt space/cache", "/pt space"));
    ok(is("/pt-nvme2/cache", "") && is("/pt-comment/cache", "") && is("/pt", "") && is("/", ""));
    put("mounts", "/dev/root / ext4 rw 0 0\n"
           "/dev/nvme0n1 /pt-nvme xfs rw 0 0\n");
    ok(is("/pt-nvme/cache", ""));
    ok(is("/pt space/cache", "/pt space"));
}

TEST(a_link_is_followed_to_where_the_mount_is)
{
    struct arena keep = { 0 };
    const char *link = in(&keep, "link"), *real = in(&keep, "real");
    mkdir(real, 0755);
    check(symlink(real, link) == 0);
    put("fstab", arena_printf(&keep, "/dev/x %s xfs defaults 0 0\n", real).ptr);
    ok(is(arena_printf(&keep, "%s/cache", link).ptr, real));
    put("fstab", arena_printf(&keep, "/dev/x %s xfs defaults 0 0\n", link).ptr);
    ok(is(arena_printf(&keep, "%s/cache", real).ptr, link));
    put("mounts", arena_printf(&keep, "x / x rw 0 0\nx %s x rw 0 0\n",
                                  real).ptr);
    ok(is(arena_printf(&keep, "%s/cache", link).ptr, ""));
    arena_free(&keep);
}

TEST(a_mount_unit_counts_where_systemd_runs_and_somebody_wants_it)
{
    struct arena keep = { 0 };
    put("etc/pt\\x2ddata.mount", "[Unit]\nDescription=Where=/pt-no\n[Mount]\nWhat=/dev/x\n"
                                 "Where = /pt-data\n");
    put("usr/pt-tmp.mount", "[Mount]\nWhat=tmpfs\nWhere=/pt-tmp\n");
    put("usr/pt-masked.mount", "[Mount]\nWhere=/pt-masked\n");
    check(symlink("/dev/null", in(&keep, "etc/pt-masked.mount")) == 0);
    check(symlink("../pt-masked.mount", in(&keep, "usr/local-fs.target.wants/pt-masked.mount")) == 0);
    ok(is("/pt-data/cache", "/pt-data") && is("/pt-no", ""));
    ok(is("/pt-tmp/cache", "") && is("/pt-masked/cache", ""));
    check(symlink("../pt-tmp.mount", in(&keep, "usr/local-fs.target.wants/pt-tmp.mount")) == 0);
    ok(is("/pt-tmp/cache", "/pt-tmp"));
    check(rmdir(in(&keep, "booted")) == 0);
    ok(is("/pt-data/cache", "") && is("/pt-tmp/cache", "") && is("/pt-nvme/c", "/pt-nvme"));
    arena_free(&keep);
}

TEST(a_path_lies_on_the_innermost_mount_above_it_until_that_is_unmounted)
{
    struct arena keep = { 0 };
    const struct mounts_files files = { .mounts = in(&keep, "mounts") };
    slice inner = mounts_point("/pt-nvme/inner one/cache", &files, &keep);
    ok(slice_eq(inner, S("/pt-nvme/inner one")) && !mounts_gone(inner, &files));
    ok(slice_eq(mounts_point("/pt-nvme/cache", &files, &keep), S("/")));
    put("mounts", "/dev/root / ext4 rw 0 0\n/dev/x /pt-nvme ext4 rw 0 0\n");
    ok(mounts_gone(inner, &files) && !mounts_gone(S("/"), &files));
    ok(slice_eq(mounts_point("/pt-nvme2/cache", &files, &keep), S("/")));
    put("mounts", "proc /proc proc rw 0 0\n");    /* a chroot whose root is no mount point */
    slice none = mounts_point("/pt-nvme/cache", &files, &keep);
    ok(none.len == 0 && !mounts_gone(none, &files));
    unlink(in(&keep, "mounts"));
    ok(!mounts_gone(inner, &files));
    ok(mounts_point("/pt-nvme/cache", &files, &keep).len == 0);
    arena_free(&keep);
}

TEST(who_can_t_see_the_mounts_misses_none)
{
    struct arena keep = { 0 };
    unlink(in(&keep, "mounts"));
    ok(is("/pt-nvme/cache", ""));
    unlink(in(&keep, "fstab"));
    ok(is("/pt-nvme/cache", ""));
    arena_free(&keep);
}

#define UNIT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
RUN(UNIT(what_fstab_names_at_or_above_a_path_must_be_mounted),
    UNIT(a_link_is_followed_to_where_the_mount_is),
    UNIT(a_path_lies_on_the_innermost_mount_above_it_until_that_is_unmounted),
    UNIT(a_mount_unit_counts_where_systemd_runs_and_somebody_wants_it),
    UNIT(who_can_t_see_the_mounts_misses_none))
