/* unit.h - what every unit test includes first. SPDX-License-Identifier: Apache-2.0
 * cmocka, with ok() for a condition and TEST() for a sentence as a name. */
#ifndef UNIT_H
#define UNIT_H

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/slice.h"

#define TEST(name) static void name(void **unit_state __attribute__((unused)))
#define ok(condition) ok_as(condition, #condition)
#define ok_as(condition, text)                                                                 \
    do {                                                                                       \
        bool unit_ok = (condition);                                                            \
        _assert_true(unit_ok, text, __FILE__, __LINE__);                                       \
        if (!unit_ok)                                                                          \
            abort();    /* not reached: tells the compiler what holds from here on */          \
    } while (0)
#define same(a, b)                                                                             \
    do {                                                                                       \
        slice same_a = (a), same_b = (b);                                                      \
        if (!slice_eq(same_a, same_b))                                                         \
            fail_msg("\"%.*s\" is not \"%.*s\"", SLICE_ARG(same_a), SLICE_ARG(same_b));         \
    } while (0)
#define RUN(...)                                                                               \
    int main(void)                                                                             \
    {                                                                                          \
        const struct CMUnitTest tests[] = { __VA_ARGS__ };                                     \
        return cmocka_run_group_tests(tests, NULL, NULL);                                      \
    }

/* True in a build with the address or the thread sanitizer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNDER_SANITIZER 1
#endif
#endif
#ifndef UNDER_SANITIZER
#define UNDER_SANITIZER 0
#endif

/* The count of a loop. A sanitizer checks the paths that run and makes each of them slow, so under
 * one the loop ends after `fewer`, a count that still reaches every path. */
#define rounds_of(plain, fewer) (UNDER_SANITIZER ? (fewer) : (plain))

/* Drops a file's pages from the page cache. The kernel skips pages that it is still busy with, so
 * this goes on until none is resident, for half a second at most: false then. */
__attribute__((unused)) static bool cool_file(const char *path)
{
    bool cold = false;
    int fd = open(path, O_RDONLY);
    struct stat st;
    ok(fd >= 0 && fstat(fd, &st) == 0);
    size_t pages = ((size_t)st.st_size + 4095) / 4096;
    uint8_t *map = pages ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0) : NULL;
    unsigned char *resident = calloc(pages + 1, 1);
    ok(map != MAP_FAILED && resident);
    for (int tries = 0; tries < 50 && !cold; tries++) {
        ok(fdatasync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
        ok(!map || mincore(map, (size_t)st.st_size, resident) == 0);
        cold = true;
        for (size_t i = 0; i < pages && cold; i++)
            cold = !(resident[i] & 1);
        if (!cold)
            usleep(10000);
    }
    if (map)
        munmap(map, (size_t)st.st_size);
    free(resident);
    close(fd);
    return cold;
}

/* The bytes of a file, in memory. */
__attribute__((unused)) static slice whole_file(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    ok(fd >= 0 && fstat(fd, &st) == 0);
    char *bytes = must_alloc((size_t)st.st_size);
    ok(read(fd, bytes, (size_t)st.st_size) == st.st_size);
    close(fd);
    return (slice){ bytes, (size_t)st.st_size };
}

/* Waits for the end of a child, for so long at most. Then it kills the child, and returns false. */
__attribute__((unused)) static bool child_ended(pid_t child, int most_ms, int *ret_status)
{
    for (int ms = 0; ms < most_ms; ms++) {
        if (waitpid(child, ret_status, WNOHANG) == child)
            return true;
        usleep(ms < 50 ? 200 : 1000);
    }
    kill(child, SIGKILL);
    waitpid(child, ret_status, 0);
    return false;
}

#endif
