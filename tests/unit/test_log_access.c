/* test_log_access.c - access lines behind the requests: order, limits, ends.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/trap.h"

/* What write() does in here: counts, and may take but a little of what it is given. */
static atomic_uint writes;
static atomic_size_t write_most = SIZE_MAX;
static ssize_t test_write(int fd, const void *bytes, size_t len)
{
    if (fd != STDERR_FILENO)
        return write(fd, bytes, len);
    atomic_fetch_add(&writes, 1);
    return write(fd, bytes, MIN(len, atomic_load(&write_most)));
}

#define LOG_RING_BYTES (32 * KIB)
#define STOP_MS 200u
#define write test_write
#include "base/log_access.c"
#undef write

/* stderr, while a test has it. */
static int old_stderr = -1, reader = -1;

static void begin_on(int fd)
{
    old_stderr = dup(STDERR_FILENO);
    check(dup2(fd, STDERR_FILENO) >= 0);
    close(fd);
    log_setup(LOG_LEVEL_INFO, false);
    check(log_access_start());
}

static void begin_on_pipe(int flags)
{
    int ends[2];
    check(pipe(ends) == 0 && fcntl(ends[1], F_SETPIPE_SZ, 4096) >= 0);
    if (flags)
        fcntl(ends[1], F_SETFL, flags);
    reader = ends[0];
    begin_on(ends[1]);
}

static void end(void)
{
    log_access_stop();
    dup2(old_stderr, STDERR_FILENO);
    close(old_stderr);
}

#define HEARD_BYTES (8 * MIB)
static char heard[HEARD_BYTES];
static size_t heard_len;

static void *listen_on(void *arg)
{
    heard_len = 0;
    for (;;) {
        ssize_t got = read(reader, heard + heard_len, HEARD_BYTES - 1 - heard_len);
        if (got <= 0)
            break;
        heard_len += (size_t)got;
    }
    heard[heard_len] = '\0';
    close(reader);
    return arg;
}

static pthread_t listener(void)
{
    pthread_t thread;
    check(pthread_create(&thread, NULL, listen_on, NULL) == 0);
    return thread;
}

/* How many lines say so; a line has nothing before its time and nothing behind its end. */
static size_t count_lines(const char *event)
{
    size_t count = 0;
    slice rest = { heard, heard_len };
    while (rest.len) {
        slice line = slice_cut(&rest, '\n');
        ok(line.len > 24 && line.ptr[4] == '-' && line.ptr[23] == 'Z');
        slice said = slice_from(line, 25);
        (void)slice_cut(&said, ' ');
        count += slice_eq(slice_cut(&said, ' '), slice_of(event));
    }
    return count;
}

#define SPEAKERS 4
#define LINES 3000
static bool patient;    /* waits for room, so that nothing is dropped */

static void *speak(void *arg)
{
    unsigned who = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; i < LINES; i++) {
        log_access("said", "who=%u number=%u some=\"more facts\"", who, i);
        while (patient && mine->head - mine->tail > LOG_RING_BYTES / 2)
            usleep(100);
    }
    return NULL;
}

static void speak_all(void)
{
    pthread_t threads[SPEAKERS];
    for (uintptr_t i = 0; i < SPEAKERS; i++)
        check(pthread_create(&threads[i], NULL, speak, (void *)i) == 0);
    for (size_t i = 0; i < SPEAKERS; i++)
        pthread_join(threads[i], NULL);
}

/* Each line of a speaker has a number above that of the one before it; how many there are. */
static size_t in_order(void)
{
    long last[SPEAKERS] = { -1, -1, -1, -1 };
    size_t count = 0;
    for (const char *at = heard; (at = strstr(at, "who=")) != NULL; at += 4, count++) {
        unsigned who, number;
        ok(sscanf(at, "who=%u number=%u", &who, &number) == 2 && who < SPEAKERS);
        ok((long)number > last[who]);
        last[who] = number;
    }
    return count;
}

TEST(lines_of_one_thread_keep_their_order_and_none_is_lost)
{
    uint64_t dropped = metric_read(M_ACCESS_DROPPED), written = metric_read(M_ACCESS_WRITTEN);
    begin_on_pipe(0);
    pthread_t thread = listener();
    patient = true;
    speak_all();
    end();
    pthread_join(thread, NULL);
    ok(metric_read(M_ACCESS_DROPPED) == dropped);
    ok(metric_read(M_ACCESS_WRITTEN) - written == SPEAKERS * LINES);
    ok(in_order() == SPEAKERS * LINES && count_lines("said") == SPEAKERS * LINES);
}

static sem_t turn[2];

static void *speak_in_turn(void *arg)
{
    uintptr_t who = (uintptr_t)arg;
    for (unsigned i = 0; i < 20; i++) {
        sem_wait(&turn[who]);
        log_access("said", "who=%u number=%u", (unsigned)who, i);
        sem_post(&turn[!who]);
    }
    return NULL;
}

TEST(lines_of_several_threads_come_in_the_order_of_their_times)
{
    pthread_t threads[2];
    begin_on_pipe(0);
    pthread_t thread = listener();
    sem_init(&turn[0], 0, 1);
    sem_init(&turn[1], 0, 0);
    for (uintptr_t i = 0; i < 2; i++)
        check(pthread_create(&threads[i], NULL, speak_in_turn, (void *)i) == 0);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    end();
    pthread_join(thread, NULL);
    const char *at = heard;
    for (unsigned i = 0; i < 40; i++, at++) {
        unsigned who, number;
        at = strstr(at, "who=");
        ok(at && sscanf(at, "who=%u number=%u", &who, &number) == 2);
        ok(who == i % 2 && number == i / 2);
    }
}

TEST(many_lines_are_one_write)
{
    begin_on(memfd_create("log", MFD_CLOEXEC));    /* a regular file */
    atomic_store(&writes, 0);
    for (unsigned i = 0; i < 100; i++)
        log_access("said", "who=0 number=%u", i);
    end();
    ok(atomic_load(&writes) <= 2);
}

TEST(a_reader_that_stalls_costs_lines_and_says_so)
{
    uint64_t before = metric_read(M_ACCESS_DROPPED), written = metric_read(M_ACCESS_WRITTEN);
    begin_on_pipe(0);
    patient = false;
    speak_all();    /* comes back although nobody reads */
    uint64_t dropped = metric_read(M_ACCESS_DROPPED) - before;
    ok(dropped > 0 && dropped < SPEAKERS * LINES);
    pthread_t thread = listener();
    while (metric_read(M_ACCESS_WRITTEN) - written < SPEAKERS * LINES - dropped)
        usleep(1000);
    end();
    pthread_join(thread, NULL);
    ok(in_order() == SPEAKERS * LINES - dropped);
    uint64_t told = 0, one;
    for (const char *at = heard; (at = strstr(at, "log_dropped lines=")) != NULL; at += 18) {
        ok(sscanf(at + 18, "%ju", &one) == 1);
        told += one;
    }
    ok(told == dropped);
    ok(count_lines("log_dropped") >= 1);
}

TEST(a_stop_does_not_wait_for_a_reader_that_stalls)
{
    begin_on_pipe(0);
    for (unsigned i = 0; i < 500; i++)
        log_access("said", "who=0 number=%u", i);
    end();    /* comes back */
    close(reader);
}

TEST(a_write_that_takes_a_part_or_nothing_is_gone_on_with)
{
    begin_on_pipe(O_NONBLOCK);
    atomic_store(&write_most, 7);
    pthread_t thread = listener();
    for (unsigned i = 0; i < 300; i++)
        log_access("said", "who=0 number=%u", i);
    while (mine->head != mine->tail)
        usleep(1000);
    atomic_store(&write_most, SIZE_MAX);
    end();
    pthread_join(thread, NULL);
    ok(in_order() == 300 && count_lines("said") == 300);
}

TEST(lines_that_cannot_be_written_count_as_dropped)
{
    uint64_t before = metric_read(M_ACCESS_DROPPED);
    signal(SIGPIPE, SIG_IGN);
    begin_on_pipe(0);
    close(reader);
    for (unsigned i = 0; i < 10; i++)
        log_access("said", "who=0 number=%u", i);
    end();
    ok(metric_read(M_ACCESS_DROPPED) - before == 10);
}

TEST(a_line_of_any_length_is_one_line)
{
    char longest[2 * PIPE_BUF];
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    begin_on_pipe(0);
    pthread_t thread = listener();
    for (unsigned i = 0; i < 40; i++) {
        log_access("said", "%.*s", (int)(i * 200), longest);
        while (mine->head - mine->tail > LOG_RING_BYTES / 2)
            usleep(100);
    }
    end();
    pthread_join(thread, NULL);
    ok(count_lines("said") == 40);
}

TEST(what_waits_is_written_when_the_process_dies)
{
    int ends[2];
    check(pipe(ends) == 0);
    reader = ends[0];
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        begin_on(ends[1]);
        trap_install();
        for (unsigned i = 0; i < 50; i++)
            log_access("said", "who=0 number=%u", i);
        abort();
    }
    close(ends[1]);
    listen_on(NULL);
    int status;
    ok(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    ok(in_order() == 50);
}

static void speak_alone(void) { log_access("alone", "a=%d", 1); }

TEST(without_the_writer_a_line_is_written_at_once)
{
    int ends[2], old = dup(STDERR_FILENO);
    check(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    speak_alone();
    ssize_t len = read(ends[0], heard, HEARD_BYTES);
    dup2(old, STDERR_FILENO);
    ok(len > 25);
    same(slice_from((slice){ heard, (size_t)len }, 24), S(" info alone a=1\n"));
}

TEST(below_the_level_nothing_is_said)
{
    uint64_t said = metric_read(M_ACCESS_LINES);
    begin_on_pipe(0);
    log_setup(LOG_LEVEL_WARN, false);
    speak_alone();
    end();
    close(reader);
    ok(metric_read(M_ACCESS_LINES) == said);
}

RUN(cmocka_unit_test(what_waits_is_written_when_the_process_dies),    /* forks: first */
    cmocka_unit_test(lines_of_one_thread_keep_their_order_and_none_is_lost),
    cmocka_unit_test(lines_of_several_threads_come_in_the_order_of_their_times),
    cmocka_unit_test(many_lines_are_one_write),
    cmocka_unit_test(a_reader_that_stalls_costs_lines_and_says_so),
    cmocka_unit_test(a_stop_does_not_wait_for_a_reader_that_stalls),
    cmocka_unit_test(a_write_that_takes_a_part_or_nothing_is_gone_on_with),
    cmocka_unit_test(lines_that_cannot_be_written_count_as_dropped),
    cmocka_unit_test(a_line_of_any_length_is_one_line),
    cmocka_unit_test(without_the_writer_a_line_is_written_at_once),
    cmocka_unit_test(below_the_level_nothing_is_said))
