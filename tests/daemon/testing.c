/* testing.c - the tests' daemon: guards that can be off, a clock that can be ahead, steps that fail.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Takes the place of src/base/testing.c. PENSTOCK_GUARD_OFF names guards (guard.h), and
 * testing_value() reads variables of its own. PENSTOCK_TEST_CLOCK names a file of 8 bytes, little endian: the milliseconds that the ageing clock
 * is ahead. A story writes it while daemons run, and all that share it are ahead at once, those that
 * it starts later, too. A file that is missing or short ends the process: a test that means to be
 * ahead must not run on real time. PENSTOCK_FAILPOINTS names a file of steps that fail
 * (base/failpoint.h). */
#include "base/testing.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/guard.h"

static const atomic_ullong *clock_file;    /* NULL: the clock is the real one */
static const char *guards_off, *failpoints;
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

/* ---- steps that fail ---- */

#define LINES_BYTES 4096u

static const char *const points[] = {
#define POINT(id, name, fails) [FAIL_##id] = name,
#include "base/failpoint.def"
};

/* A line of the file for one step. */
struct wish {
    char action[16];
    unsigned skip, times;
};

static pthread_mutex_t failing = PTHREAD_MUTEX_INITIALIZER;
static char lines[LINES_BYTES];       /* the file as it was read last; under the lock */
static unsigned visits[FAILPOINTS];   /* since the file changed; under the lock */

static void add_line(const char *ending, const char *line)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s.%s", failpoints, ending);
    FILE *file = fopen(path, "a");
    if (!file)
        abort();
    fprintf(file, "%s\n", line);
    fclose(file);
}

static void tell_points(void)
{
    static const char *const fails[] = {
#define POINT(id, name, fails) [FAIL_##id] = fails ? " fails" : "",
#include "base/failpoint.def"
    };
    char line[64];
    for (size_t i = 0; i < FAILPOINTS; i++) {
        snprintf(line, sizeof(line), "%s%s", points[i], fails[i]);
        add_line("known", line);
    }
}

/* Under the lock. A file that can't be read has no lines. */
static void read_lines(void)
{
    char now[LINES_BYTES] = "";
    int fd = open(failpoints, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, now, sizeof(now) - 1) < 0)
        abort();
    if (fd >= 0)
        close(fd);
    if (strcmp(now, lines) == 0)
        return;
    memcpy(lines, now, sizeof(lines));
    memset(visits, 0, sizeof(visits));
}

/* Under the lock. Returns false if no line is for this step. */
static bool find_wish(enum failpoint where, struct wish *ret)
{
    char name[32];
    for (const char *line = lines; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        *ret = (struct wish){ .times = 1 };
        if (sscanf(line, "%31s %15s %u %u", name, ret->action, &ret->skip, &ret->times) >= 2 &&
            strcmp(name, points[where]) == 0)
            return true;
    }
    return false;
}

/* True if this visit of the step is one that the file names. */
static bool is_named(enum failpoint where, struct wish *ret)
{
    pthread_mutex_lock(&failing);
    read_lines();
    bool named = find_wish(where, ret);
    unsigned visit = visits[where] += named;
    named = named && visit > ret->skip && visit <= ret->skip + ret->times;
    pthread_mutex_unlock(&failing);
    return named;
}

static bool is_wished(enum failpoint where)
{
    struct wish wish;
    pthread_mutex_lock(&failing);
    read_lines();
    bool found = find_wish(where, &wish);
    pthread_mutex_unlock(&failing);
    return found;
}

static void look(void)
{
    const char *path = getenv("PENSTOCK_TEST_CLOCK");
    guards_off = getenv("PENSTOCK_GUARD_OFF");
    failpoints = getenv("PENSTOCK_FAILPOINTS");
    if (path)
        clock_file = map_clock(path);
    if (failpoints)
        tell_points();
}

bool failpoint(enum failpoint where)
{
    struct wish wish;
    pthread_once(&once, look);
    if (!failpoints || !is_named(where, &wish))
        return false;
    add_line("hits", points[where]);
    if (strcmp(wish.action, "crash") == 0)
        kill(getpid(), SIGKILL);
    while (strcmp(wish.action, "stop") == 0 && is_wished(where))
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    errno = strcmp(wish.action, "enospc") == 0 ? ENOSPC : EIO;
    return strcmp(wish.action, "enospc") == 0 || strcmp(wish.action, "eio") == 0;
}

bool guard_on(enum guard guard)
{
    static const char *const names[] = {
        "crc", "identity", "epoch", "if-match", "pages", "missing", "lists", "grants",
        "item-rights", "fill-bounds", "fill-drain", "meta", "leaf", "mark", "doubt",
        "bans", "pins", "breaker", "slow-down", "staging", "hints",
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
        [TESTING_NAME_SERVER] = "PENSTOCK_NAME_SERVER",
    };
    return getenv(names[which]);
}
