/* testing.c - the tests' daemon: guards that can be off, a clock that can be ahead.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Takes the place of src/base/testing.c. PENSTOCK_GUARD_OFF names guards (guard.h), and
 * testing_value() reads variables of its own. PENSTOCK_TEST_CLOCK names a file of 8 bytes, little endian: the milliseconds that the ageing clock
 * is ahead. A story writes it while daemons run, and all that share it are ahead at once, those that
 * it starts later, too. A file that is missing or short ends the process: a test that means to be
 * ahead must not run on real time. */
#include "base/testing.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/guard.h"

static const atomic_ullong *clock_file;    /* NULL: the clock is the real one */
static const char *guards_off;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const atomic_ullong *map_clock(const char *path)
{
    struct stat file;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *map = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &file) == 0 && file.st_size >= (off_t)sizeof(*clock_file))
        map = mmap(NULL, sizeof(*clock_file), PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        fprintf(stderr, "PENSTOCK_TEST_CLOCK: can't use %s\n", path);
        abort();
    }
    close(fd);
    return map;
}

static void look(void)
{
    const char *path = getenv("PENSTOCK_TEST_CLOCK");
    guards_off = getenv("PENSTOCK_GUARD_OFF");
    if (path)
        clock_file = map_clock(path);
}

bool guard_on(enum guard guard)
{
    static const char *const names[] = {
        "crc", "identity", "epoch", "if-match", "pages", "missing", "lists", "grants",
        "item-rights", "fill-bounds", "fill-drain", "meta", "leaf", "mark", "doubt",
        "bans",
    };
    pthread_once(&once, look);
    return !guards_off || !strstr(guards_off, names[guard]);
}

bool testing_daemon(void) { return true; }

uint64_t testing_ahead_ms(void)
{
    pthread_once(&once, look);
    return clock_file ? atomic_load(clock_file) : 0;
}

const char *testing_value(enum testing_value which)
{
    static const char *const names[] = {
        [TESTING_GPU_MODULE] = "PENSTOCK_GPU_MODULE",
        [TESTING_GPU_IDLE_MS] = "PENSTOCK_GPU_IDLE_MS",
    };
    return getenv(names[which]);
}
