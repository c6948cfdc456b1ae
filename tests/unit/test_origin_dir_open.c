/* test_origin_dir_open.c - paths beneath a folder, where openat2 is refused.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A thread to which the kernel refuses openat2 opens each path, and so does the test itself, with
 * openat2. Both must find the same file or the same error. For races, the thread's openat and
 * readlinkat rename something just before they do their work. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "origin/dir.h"
#include "refuse_unit.h"

#define READ (O_RDONLY | O_NONBLOCK)

static char tree[32];               /* has the folders "in" and "out" */
static int folder = -1;             /* "in": nothing outside it may be opened */

/* ---- the thread ---- */

static struct {
    pthread_t thread;
    sem_t asked, answered;
    const char *path;               /* NULL: the thread ends */
    int flags;
    bool follow;
    int fd, error;
    bool refused;                   /* the kernel does refuse openat2 */
} other;

static void *other_main(void *arg)
{
    bool may_filter = refuse_call(SYS_openat2, ENOSYS);
    other.refused = may_filter && syscall(SYS_openat2, -1, "", NULL, 0) < 0 && errno == ENOSYS;
    for (;;) {
        sem_post(&other.answered);
        while (sem_wait(&other.asked) != 0)
            ;
        if (!other.path)
            return NULL;
        other.fd = dir_open(folder, other.path, other.flags, other.follow);
        other.error = errno;
    }
}

static void other_answers(void)
{
    while (sem_wait(&other.answered) != 0)
        ;
}

/* dir_open without openat2. */
static int open_refused(const char *path, int flags, bool follow)
{
    other.path = path;
    other.flags = flags;
    other.follow = follow;
    sem_post(&other.asked);
    other_answers();
    errno = other.error;
    return other.fd;
}

/* ---- the tree ---- */

static int remove_one(const char *path, const struct stat *file, int type, struct FTW *ftw)
{
    return remove(path);
}

static const char *path_of(const char *name)
{
    static char path[2][4200];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", tree, name);
    return path[turn];
}

static void make_file(const char *name, const char *text)
{
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ok(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void make_dir(const char *name)
{
    ok(mkdir(path_of(name), 0700) == 0);
}

static void make_link(const char *name, const char *target)
{
    ok(symlink(target, path_of(name)) == 0);
}

static int clear(void **state)
{
    if (folder >= 0)
        close(folder);
    folder = -1;
    nftw(tree, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}

static int renew(void **state)
{
    strcpy(tree, "/tmp/penstock-open-XXXXXX");
    ok(mkdtemp(tree) != NULL);
    make_dir("in");
    make_dir("out");
    folder = open(path_of("in"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    ok(folder >= 0);
    return 0;
}

static void start(void)
{
    check(sem_init(&other.asked, 0, 0) == 0 && sem_init(&other.answered, 0, 0) == 0);
    check(pthread_create(&other.thread, NULL, other_main, NULL) == 0);
    other_answers();
}

static void stop(void)
{
    other.path = NULL;
    sem_post(&other.asked);
    pthread_join(other.thread, NULL);
}

static bool reads(int fd, const char *text)
{
    char got[16] = "";
    return fd >= 0 && read(fd, got, sizeof(got) - 1) >= 0 && strcmp(got, text) == 0;
}

/* True if both ways give the same file, with the same flags, or the same error. */
static bool equal(const char *path, int flags, bool follow, int *ret_error)
{
    int fd = dir_open(folder, path, flags, follow), error = fd < 0 ? errno : 0;
    int fd_2 = open_refused(path, flags, follow), error_2 = fd_2 < 0 ? errno : 0;
    struct stat file, file_2;
    bool same_end = error == error_2;
    if (!error && !error_2) {
        int kept = O_ACCMODE | O_PATH | O_DIRECTORY | O_NONBLOCK;
        same_end = fstat(fd, &file) == 0 && fstat(fd_2, &file_2) == 0 &&
                   file.st_dev == file_2.st_dev && file.st_ino == file_2.st_ino &&
                   (fcntl(fd, F_GETFL) & kept) == (fcntl(fd_2, F_GETFL) & kept) &&
                   fcntl(fd, F_GETFD) == fcntl(fd_2, F_GETFD);
    }
    if (!same_end)
        print_message("\"%s\" flags=%x follow=%d: %s with openat2, %s without\n", path,
                      (unsigned)flags, follow, strerror(error), strerror(error_2));
    if (fd >= 0)
        close(fd);
    if (fd_2 >= 0)
        close(fd_2);
    *ret_error = error;
    return same_end;
}

static unsigned open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;
    while (dir && readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* ---- what is found ---- */

static const char *const NAMES[] = { "a", "b", "c", "d" };
static const char *const PARTS[] = { "a", "b", "c", "d", "a", "b", "..", "..", ".", "" };

static void random_path(unsigned *seed, char *ret)
{
    *ret = '\0';
    int depth = 1 + rand_r(seed) % 5;
    for (int i = 0; i < depth; i++)
        sprintf(ret + strlen(ret), "%s%s", i ? "/" : "", PARTS[rand_r(seed) % (int)countof(PARTS)]);
}

/* Entries of random kinds, four names in each folder, three folders deep. */
static void random_tree(unsigned *seed, const char *name, int depth)
{
    char entry[256], target[64];
    for (size_t i = 0; i < countof(NAMES); i++) {
        snprintf(entry, sizeof(entry), "%s/%s", name, NAMES[i]);
        int kind = rand_r(seed) % 10;
        if (kind < 4 && depth < 3) {
            make_dir(entry);
            random_tree(seed, entry, depth + 1);
        } else if (kind < 5) {
            make_file(entry, "file");
        } else if (kind < 9) {
            random_path(seed, target);
            make_link(entry, *target ? target : "/");
        }
    }
}

TEST(each_path_leads_where_openat2_leads)
{
    static const int flags[] = { READ, O_RDONLY | O_DIRECTORY, O_PATH, O_PATH | O_DIRECTORY };
    unsigned seed = 11, found[256] = { 0 }, before = open_descriptors();
    char path[64];
    for (int round = 0; round < rounds_of(40, 10); round++) {
        random_tree(&seed, "in", 0);
        for (int i = 0; i < 1000; i++) {
            int error;
            random_path(&seed, path);
            ok(equal(path, flags[rand_r(&seed) % 4], rand_r(&seed) % 4, &error));
            found[error]++;
        }
        clear(NULL);
        renew(NULL);
    }
    ok(found[0] > 100 && found[ENOENT] > 100 && found[ENOTDIR] > 100 && found[ELOOP] > 100 &&
       found[EXDEV] > 100);
    ok(open_descriptors() == before);
}

TEST(long_names_and_chains_of_links_end_as_with_openat2)
{
    char name[32], target[32], path[4200];
    int error;
    make_file("in/0", "file");
    for (int i = 1; i <= 41; i++) {    /* 41 leads to 40, 40 to 39, ... */
        snprintf(name, sizeof(name), "in/%d", i);
        snprintf(target, sizeof(target), "%d", i - 1);
        make_link(name, target);
    }
    ok(equal("40", READ, true, &error) && error == 0);
    ok(equal("41", READ, true, &error) && error == ELOOP);
    make_link("in/round", "round");
    ok(equal("round", READ, true, &error) && error == ELOOP);
    memset(path, 'x', sizeof(path));
    path[255] = '\0';
    ok(equal(path, READ, true, &error) && error == ENOENT);
    path[255] = 'x', path[256] = '\0';
    ok(equal(path, READ, true, &error) && error == ENAMETOOLONG);
    for (size_t i = 0; i < sizeof(path); i += 2)
        path[i] = '.', path[i + 1] = '/';
    path[4094] = '0', path[4095] = '\0';
    ok(equal(path, READ, true, &error) && error == 0);
    path[4095] = '/', path[4096] = '\0';
    ok(equal(path, READ, true, &error) && error == ENAMETOOLONG);
    ok(equal("", READ, true, &error) && error == ENOENT);
    ok(equal("/", O_RDONLY | O_DIRECTORY, true, &error) && error == EXDEV);
}

/* A link as long as a path may be, with more of the path after it. */
TEST(a_link_that_makes_the_path_too_long_is_refused)
{
    char target[4096];
    make_dir("in/sub");
    make_file("in/sub/0", "file");
    for (size_t i = 0; i < 4090; i += 2)
        target[i] = '.', target[i + 1] = '/';
    strcpy(target + 4090, "sub");
    make_link("in/long", target);
    int fd = open_refused("long/0", READ, true);
    ok(reads(fd, "file"));
    close(fd);
    ok(open_refused("long/../long/0", READ, true) == -1 && errno == ENAMETOOLONG);
}

/* ---- races ---- */

static void (*rename_now)(void);    /* in the thread, before a call of dir_open.c */
static int rename_at;               /* before the nth of these calls */
static int calls_seen;

static void before_call(void)
{
    if (rename_now && pthread_equal(pthread_self(), other.thread) && ++calls_seen == rename_at)
        rename_now();
}

/* These take the place of the C library's functions. */
int openat(int dir, const char *name, int flags, ...)
{
    before_call();
    return (int)syscall(SYS_openat, dir, name, flags, 0);
}

int openat64(int dir, const char *name, int flags, ...)
{
    before_call();
    return (int)syscall(SYS_openat, dir, name, flags, 0);
}

ssize_t readlinkat(int dir, const char *restrict name, char *restrict target, size_t bytes)
{
    before_call();
    return syscall(SYS_readlinkat, dir, name, target, bytes);
}

static void swap(const char *one, const char *another)
{
    check(renameat2(AT_FDCWD, path_of(one), AT_FDCWD, path_of(another), RENAME_EXCHANGE) == 0);
}

static void swap_folders(void)
{
    swap("in/sub", "in/link");
}

static void swap_files(void)
{
    swap("in/sub/deep/file", "in/sub/deep/link");
}

static void move_out(void)
{
    check(rename(path_of("in/sub/deep"), path_of("out/deep")) == 0);
}

/* Opens the path once for each of its steps, with a rename before this step. Whatever is opened
 * must have the text "inside". Returns the number of times that it was opened. */
static unsigned race(const char *path, int flags, void (*change)(void), void (*restore)(void))
{
    unsigned opened = 0, failures = 0;
    rename_now = change;
    for (rename_at = 1; ; rename_at++) {
        calls_seen = 0;
        int fd = open_refused(path, flags, true);
        struct stat file;
        ok(fd >= 0 || errno == ENOENT || errno == EXDEV || errno == ELOOP || errno == ENOTDIR);
        ok(fd < 0 || (fstat(fd, &file) == 0 && file.st_size == (off_t)strlen("inside")));
        opened += fd >= 0;
        failures += fd < 0;
        if (fd >= 0)
            close(fd);
        if (calls_seen < rename_at)
            break;
        restore();
    }
    rename_now = NULL;
    ok(rename_at > 2);
    print_message("%s: a rename before each of %d calls, %u times opened, %u times not\n", path,
                  rename_at - 1, opened, failures);
    return opened;
}

static void move_back(void)
{
    ok(rename(path_of("out/deep"), path_of("in/sub/deep")) == 0);
}

static void make_race(void)
{
    make_dir("in/sub");
    make_dir("in/sub/deep");
    make_dir("out/deep");
    make_file("in/sub/file", "inside");
    make_file("in/sub/deep/file", "inside");
    make_file("out/file", "outside!");
    make_file("out/deep/file", "outside!");
    make_link("in/link", "../out");
    make_link("in/sub/deep/link", "../../../out/file");
    make_link("in/sub/deep/up", "../file");
}

TEST(a_link_that_takes_the_place_of_a_folder_leads_nowhere)
{
    make_race();
    ok(race("sub/deep/file", READ, swap_folders, swap_folders) > 0);
    ok(race("sub/deep/up", READ, swap_folders, swap_folders) > 0);
}

TEST(a_link_that_takes_the_place_of_a_file_leads_nowhere)
{
    make_race();
    ok(race("sub/deep/file", READ, swap_files, swap_files) > 0);
    ok(race("sub/deep/file", O_PATH, swap_files, swap_files) > 0);
}

/* The file takes the place of the link between openat and readlinkat. */
TEST(a_file_that_takes_the_place_of_a_link_is_opened)
{
    make_race();
    swap_files();
    ok(race("sub/deep/file", READ, swap_files, swap_files) > 0);
}

TEST(the_parent_of_a_folder_that_was_moved_out_is_not_entered)
{
    make_race();
    ok(unlink(path_of("out/deep/file")) == 0 && rmdir(path_of("out/deep")) == 0);
    ok(race("sub/deep/up", READ, move_out, move_back) > 0);
}

static atomic_bool racing;

static void *swap_on(void *arg)
{
    while (atomic_load(&racing))
        swap_folders();
    return NULL;
}

TEST(a_thousand_races_end_inside)
{
    make_race();
    make_dir("out/sub");
    pthread_t swapper;
    atomic_store(&racing, true);
    ok(pthread_create(&swapper, NULL, swap_on, NULL) == 0);
    unsigned opened = 0, refused = 0, outside = 0;
    while (opened < 1000 || refused < 1000) {
        int fd = open_refused("sub/deep/up", READ, true);
        opened += fd >= 0;
        refused += fd < 0;
        outside += fd >= 0 && !reads(fd, "inside");
        if (fd >= 0)
            close(fd);
    }
    atomic_store(&racing, false);
    pthread_join(swapper, NULL);
    ok(outside == 0);
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, renew, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(each_path_leads_where_openat2_leads),
        ONE(long_names_and_chains_of_links_end_as_with_openat2),
        ONE(a_link_that_makes_the_path_too_long_is_refused),
        ONE(a_link_that_takes_the_place_of_a_folder_leads_nowhere),
        ONE(a_link_that_takes_the_place_of_a_file_leads_nowhere),
        ONE(a_file_that_takes_the_place_of_a_link_is_opened),
        ONE(the_parent_of_a_folder_that_was_moved_out_is_not_entered),
        ONE(a_thousand_races_end_inside),
    };
    start();
    int failed = other.refused ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
    stop();
    return failed;
}
