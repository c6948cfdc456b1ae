/* test_trap.c - what a trap catches, and what still ends the process.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/trap.h"

#define LIVED 7

static size_t page;

/* Four pages, of a file that has lost the last two; or of nothing that may be touched. */
static char *map_pages(bool of_file)
{
    if (!of_file)
        return mmap(NULL, 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FILE *file = tmpfile();
    ok(file && ftruncate(fileno(file), (off_t)(4 * page)) == 0);
    char *map = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    ok(map != MAP_FAILED && ftruncate(fileno(file), (off_t)(2 * page)) == 0);
    fclose(file);
    return map;
}

static int touch(void *at)
{
    return *(volatile char *)at;
}

static int divide(void *none)
{
    (void)none;
    return raise(SIGFPE);
}

/* What becomes of a process that makes this call while `map` is read: it lives, or dies of that. */
static int end_of(trap_call *call, void *ask, slice map)
{
    int status, ret;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        static const int signals[] = { SIGBUS, SIGSEGV, SIGFPE };
        for (size_t i = 0; i < countof(signals); i++)    /* as in the service: nobody has them */
            signal(signals[i], SIG_DFL);
        trap_install();
        _exit(trap_read(call, ask, map, &ret) ? LIVED + 1 : LIVED);
    }
    ok(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(what_the_disk_does_to_a_map_that_is_read_is_caught)
{
    char *map = map_pages(true), from[16] = "";
    int ret;
    trap_install();
    ok(trap_copy_to(map + page, from, sizeof(from)));
    ok(!trap_copy_to(map + 2 * page - 8, from, sizeof(from)));
    ok(!trap_read(touch, map + 3 * page, (slice){ map + 3 * page + 9, 1 }, &ret));
    ok(trap_copy_to(map, from, sizeof(from)));
    munmap(map, 4 * page);
}

TEST(any_other_fault_meanwhile_ends_the_process)
{
    char *map = map_pages(true), *other = map_pages(true), *none = map_pages(false);
    slice all = { map, 4 * page };
    ok(end_of(touch, map, all) == LIVED + 1);
    ok(end_of(touch, map + 2 * page, all) == LIVED);
    ok(end_of(touch, other + 2 * page, all) == -SIGBUS);
    ok(end_of(touch, map + 3 * page, (slice){ map, 2 * page }) == -SIGBUS);
    ok(end_of(touch, none, all) == -SIGSEGV);
    ok(end_of(touch, none, (slice){ none, page }) == -SIGSEGV);
    ok(end_of(divide, NULL, all) == -SIGFPE);
    ok(end_of(touch, other + 2 * page, (slice){ NULL, 0 }) == -SIGBUS);
    munmap(map, 4 * page);
    munmap(other, 4 * page);
    munmap(none, 4 * page);
}

TEST(a_library_that_nobody_vouches_for_may_fault_as_it_likes)
{
    char *none = map_pages(false), *map = map_pages(true);
    int ret;
    trap_install();
    ok(!trap_run(touch, none, &ret) && !trap_run(touch, map + 2 * page, &ret));
    ok(!trap_run(divide, NULL, &ret) && trap_run(touch, map, &ret));
    munmap(none, 4 * page);
    munmap(map, 4 * page);
}

static int setup(void **state)
{
    (void)state;
    page = (size_t)sysconf(_SC_PAGESIZE);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_disk_does_to_a_map_that_is_read_is_caught),
        cmocka_unit_test(any_other_fault_meanwhile_ends_the_process),
        cmocka_unit_test(a_library_that_nobody_vouches_for_may_fault_as_it_likes),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
