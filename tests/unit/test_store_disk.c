/* test_store_disk.c - reads under both engines, and how one is chosen.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "store/disk.c"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "refuse_unit.h"

#define FILE_BYTES (4u << 20)
#define PATIENCE_MS 20000
#define NOBODY 65534

static enum disk_engine uring = DISK_URING, threads = DISK_THREADS;

/* A disk under test, its owner's mailbox, and a file whose every byte is known. */
struct bench {
    struct mailbox *box;
    struct disk *disk;
    int file;
};

static uint8_t byte_at(uint64_t offset)
{
    return (uint8_t)((offset * 2654435761u) >> 13);
}

static int file_make(void)
{
    char path[] = "test-disk-XXXXXX";
    int file = mkstemp(path);
    ok(file >= 0);
    unlink(path);
    uint8_t *bytes = malloc(FILE_BYTES);
    for (uint64_t i = 0; i < FILE_BYTES; i++)
        bytes[i] = byte_at(i);
    ok(write(file, bytes, FILE_BYTES) == FILE_BYTES);
    free(bytes);
    return file;
}

static struct bench bench_make(void **state)
{
    enum disk_engine engine = *(enum disk_engine *)*state;
    if (engine == DISK_URING && probe() != 0)
        skip();
    struct bench bench = { .box = mailbox_new() };
    bench.disk = disk_new(engine, bench.box, 1);
    ok(bench.disk->engine == engine);
    bench.file = file_make();
    return bench;
}

static void bench_end(struct bench *bench)
{
    disk_free(&bench->disk);
    ok(bench->disk == NULL);
    mailbox_free(&bench->box);
    close(bench->file);
}

/* As a loop does: sleeps on the descriptor, delivers, reaps. False: nothing came. */
static bool turn(struct bench *bench)
{
    struct pollfd waiting = { .fd = mailbox_fd(bench->box), .events = POLLIN };
    int ready;
    do
        ready = poll(&waiting, 1, PATIENCE_MS);
    while (ready < 0 && errno == EINTR);
    mailbox_deliver(bench->box);
    disk_reap(bench->disk);
    return ready == 1;
}

struct job {
    struct disk_read read;
    unsigned times_done;
    unsigned again;           /* so many more reads from done() */
    uint8_t *bytes;
    size_t len, got;
    enum err err;
    size_t *ended;
};

/* In one part, two or three, as its length says. */
static void job_aim(struct job *job)
{
    size_t at = 0, cuts[] = { job->len / 5, job->len / 2 };
    job->read.part_count = 0;
    for (size_t i = 0; i < job->len % DISK_PARTS; at = cuts[i++])
        job->read.parts[job->read.part_count++] =
            (struct iovec){ job->bytes + at, cuts[i] - at };
    job->read.parts[job->read.part_count++] = (struct iovec){ job->bytes + at, job->len - at };
}

static void job_done(struct disk_read *read, enum err err, size_t got)
{
    struct job *job = container_of(read, struct job, read);
    job->err = err;
    job->got = got;
    job->times_done++;
    (*job->ended)++;
    if (job->again) {
        job->again--;
        job_aim(job);
        disk_read(read->disk, read);
    }
}

static void job_make(struct job *job, int file, uint64_t offset, size_t len, size_t *ended)
{
    *job = (struct job){ .read = { .fd = file, .offset = offset, .done = job_done },
                         .len = len, .bytes = calloc(1, len), .ended = ended };
    job_aim(job);
}

static bool job_is_right(const struct job *job)
{
    const uint8_t *bytes = job->bytes;
    for (size_t i = 0; i < job->got; i++)
        if (bytes[i] != byte_at(job->read.offset + i))
            return false;
    return job->err == OK;
}

static struct job *jobs_make(size_t count, int file, size_t *ended)
{
    struct job *jobs = calloc(count, sizeof(*jobs));
    uint32_t random = 1;
    for (size_t i = 0; i < count; i++) {
        random = random * 1664525 + 1013904223;
        job_make(&jobs[i], file, random % (FILE_BYTES - 70000), 1 + (random >> 4) % 65536, ended);
    }
    return jobs;
}

static void jobs_free(struct job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(jobs[i].bytes);
    free(jobs);
}

TEST(reads_beyond_the_queue_depth_all_end_with_their_own_bytes)
{
    struct bench bench = bench_make(unit_state);
    size_t count = 5 * DEPTH, ended = 0;
    struct job *jobs = jobs_make(count, bench.file, &ended);
    uint64_t queued = metric_read(M_DISK_QUEUED);
    for (size_t i = 0; i < count; i++) {
        disk_read(bench.disk, &jobs[i].read);
        ok(in_progress(bench.disk) <= DEPTH);
    }
    ok(ended == 0);    /* never from within disk_read */
    ok(metric_read(M_DISK_QUEUED) - queued == 4 * DEPTH);
    while (ended < count)
        ok(turn(&bench));
    for (size_t i = 0; i < count; i++)
        ok(jobs[i].times_done == 1 && jobs[i].got == jobs[i].len && job_is_right(&jobs[i]));
    jobs_free(jobs, count);
    bench_end(&bench);
}

TEST(one_read_is_enough_to_make_the_mailbox_readable)
{
    struct bench bench = bench_make(unit_state);
    size_t ended = 0;
    struct job job;
    for (int i = 0; i < 50; i++) {
        job_make(&job, bench.file, (uint64_t)i * 4096, 4096, &ended);
        disk_read(bench.disk, &job.read);
        while (!job.times_done)
            ok(turn(&bench));
        ok(job.got == 4096 && job_is_right(&job));
        free(job.bytes);
    }
    bench_end(&bench);
}

TEST(done_may_ask_for_more)
{
    struct bench bench = bench_make(unit_state);
    size_t count = DEPTH + 20, ended = 0;
    struct job *jobs = jobs_make(count, bench.file, &ended);
    for (size_t i = 0; i < count; i++) {
        jobs[i].again = 9;
        disk_read(bench.disk, &jobs[i].read);
    }
    while (ended < 10 * count)
        ok(turn(&bench));
    for (size_t i = 0; i < count; i++)
        ok(jobs[i].times_done == 10 && jobs[i].got == jobs[i].len && job_is_right(&jobs[i]));
    jobs_free(jobs, count);
    bench_end(&bench);
}

TEST(a_read_ends_short_only_where_the_file_does)
{
    struct bench bench = bench_make(unit_state);
    size_t ended = 0;
    struct job across, beyond;
    job_make(&across, bench.file, FILE_BYTES - 100, 4096, &ended);
    job_make(&beyond, bench.file, FILE_BYTES + 100, 4096, &ended);
    disk_read(bench.disk, &across.read);
    disk_read(bench.disk, &beyond.read);
    while (ended < 2)
        ok(turn(&bench));
    ok(across.got == 100 && job_is_right(&across));
    ok(beyond.got == 0 && beyond.err == OK);
    free(across.bytes);
    free(beyond.bytes);
    bench_end(&bench);
}

TEST(a_file_that_fails_is_an_error_and_is_counted)
{
    struct bench bench = bench_make(unit_state);
    size_t ended = 0;
    uint64_t errors = metric_read(M_DISK_ERRORS);
    int folder = open(".", O_RDONLY | O_DIRECTORY);
    struct job of_folder, of_nothing;
    job_make(&of_folder, folder, 0, 10, &ended);
    job_make(&of_nothing, -1, 0, 10, &ended);
    disk_read(bench.disk, &of_folder.read);
    disk_read(bench.disk, &of_nothing.read);
    while (ended < 2)
        ok(turn(&bench));
    ok(of_folder.err == ERR_IO && of_nothing.err == ERR_IO);
    ok(metric_read(M_DISK_ERRORS) - errors == 2);
    free(of_folder.bytes);
    free(of_nothing.bytes);
    close(folder);
    bench_end(&bench);
}

TEST(the_end_waits_for_what_is_under_way)
{
    struct bench bench = bench_make(unit_state);
    size_t count = 2 * DEPTH, ended = 0;
    struct job *jobs = jobs_make(count, bench.file, &ended);
    for (size_t i = 0; i < count; i++)
        disk_read(bench.disk, &jobs[i].read);
    ok(ended == 0 && in_progress(bench.disk) == DEPTH);
    disk_free(&bench.disk);
    ok(ended == count);
    for (size_t i = 0; i < count; i++)
        ok(jobs[i].times_done == 1 && jobs[i].got == jobs[i].len && job_is_right(&jobs[i]));
    jobs_free(jobs, count);
    bench_end(&bench);
}

static void *read_alone(void *state)
{
    struct bench bench = bench_make(&state);
    size_t count = 300, ended = 0;
    struct job *jobs = jobs_make(count, bench.file, &ended);
    for (size_t i = 0; i < count; i++)
        disk_read(bench.disk, &jobs[i].read);
    bool in_time = true;
    while (ended < count && in_time)
        in_time = turn(&bench);
    bool right = in_time;
    for (size_t i = 0; i < count; i++)
        right = right && jobs[i].got == jobs[i].len && job_is_right(&jobs[i]);
    bench_end(&bench);
    jobs_free(jobs, count);
    return right ? NULL : state;
}

TEST(each_thread_has_a_disk_of_its_own)
{
    if (*(enum disk_engine *)*unit_state == DISK_URING && probe() != 0)
        skip();
    for (int round = 0; round < 5; round++) {
        pthread_t ids[4];
        for (size_t i = 0; i < countof(ids); i++)
            ok(pthread_create(&ids[i], NULL, read_alone, *unit_state) == 0);
        for (size_t i = 0; i < countof(ids); i++) {
            void *wrong;
            pthread_join(ids[i], &wrong);
            ok(wrong == NULL);
        }
    }
    ok(!pools[0] && pool_users == 0);
}

/* Reads that hang until hang_end: of a pipe without bytes, or, because a pipe has no offsets for
 * preadv, into memory whose first access waits. */
struct hang {
    int ends[2], faults;
    uint8_t *memory;
    size_t bytes;
};

static struct hang hang_begin(const struct bench *bench, size_t bytes)    /* of whole pages */
{
    struct hang hang = { .bytes = bytes, .faults = -1 };
    ok(pipe(hang.ends) == 0);
    hang.memory = mmap(NULL, hang.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ok(hang.memory != MAP_FAILED);
    if (bench->disk->engine == DISK_URING)
        return hang;
    struct uffdio_api api = { .api = UFFD_API };
    struct uffdio_register range = { .range = { (uintptr_t)hang.memory, hang.bytes },
                                     .mode = UFFDIO_REGISTER_MODE_MISSING };
    hang.faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (hang.faults < 0)
        skip();
    ok(ioctl(hang.faults, UFFDIO_API, &api) == 0 && ioctl(hang.faults, UFFDIO_REGISTER, &range) == 0);
    return hang;
}

static void hang_end(struct hang *hang)
{
    struct uffdio_range range = { (uintptr_t)hang->memory, hang->bytes };
    close(hang->ends[1]);
    ok(hang->faults < 0 || ioctl(hang->faults, UFFDIO_UNREGISTER, &range) == 0);
    if (hang->faults >= 0)
        close(hang->faults);
}

/* More reads of one lane hang than there may be in progress in all lanes. */
TEST(a_lane_that_hangs_holds_no_other)
{
    struct bench bench = bench_make(unit_state);
    disk_free(&bench.disk);
    bench.disk = disk_new(*(enum disk_engine *)*unit_state, bench.box, 3);
    size_t count = 2 * DEPTH, ended = 0, others_ended = 0;
    struct hang hang = hang_begin(&bench, count * 4096);
    struct job *stuck = calloc(count, sizeof(*stuck));
    struct job *others = jobs_make(count, bench.file, &others_ended);
    for (size_t i = 0; i < count; i++) {
        stuck[i] = (struct job){ .ended = &ended, .read = {
            .fd = hang.faults < 0 ? hang.ends[0] : bench.file, .lane = 1, .done = job_done,
            .parts = { { hang.memory + i * 4096, 1 } }, .part_count = 1 } };
        disk_read(bench.disk, &stuck[i].read);
    }
    for (size_t i = 0; i < count; i++) {
        others[i].read.lane = 2 * (i % 2);
        disk_read(bench.disk, &others[i].read);
    }
    while (others_ended < count)
        ok(turn(&bench));
    ok(ended == 0);
    for (size_t i = 0; i < count; i++)
        ok(others[i].got == others[i].len && job_is_right(&others[i]));
    hang_end(&hang);
    while (ended < count)
        ok(turn(&bench));
    jobs_free(others, count);
    free(stuck);
    bench_end(&bench);
    munmap(hang.memory, hang.bytes);
    close(hang.ends[0]);
}

/* A pipe gives what it has: the ring has to ask again until it has all. */
TEST(a_ring_goes_on_after_a_short_read)
{
    struct bench bench = bench_make(unit_state);
    int ends[2];
    ok(pipe(ends) == 0);
    size_t ended = 0;
    uint64_t again = metric_read(M_DISK_AGAIN);
    struct job job;
    job_make(&job, ends[0], 0, 20, &ended);
    ok(write(ends[1], "0123456789", 10) == 10);
    disk_read(bench.disk, &job.read);
    ok(turn(&bench) && ended == 0);
    ok(write(ends[1], "abcdefghij", 10) == 10);
    while (!ended)
        ok(turn(&bench));
    ok(job.got == 20 && memcmp(job.bytes, "0123456789abcdefghij", 20) == 0);
    ok(metric_read(M_DISK_AGAIN) - again == 1);
    free(job.bytes);
    close(ends[0]);
    close(ends[1]);
    bench_end(&bench);
}

TEST(an_answer_ends_a_read_or_asks_for_the_rest)
{
    char bytes[10];
    struct disk_read read = { .len = 10, .part_count = 2, .parts = { { bytes, 3 }, { bytes + 3, 7 } } };
    ok(!took(&read, 4) && !took(&read, -EINTR) && !took(&read, -EAGAIN));
    ok(read.got == 4 && read.parts[0].iov_len == 0 && read.parts[1].iov_len == 6);
    ok(read.parts[1].iov_base == bytes + 4);
    ok(took(&read, 6) && read.got == 10 && read.err == OK);
    read = (struct disk_read){ .len = 10 };
    ok(!took(&read, 4) && took(&read, 0) && read.got == 4 && read.err == OK);
    read = (struct disk_read){ .len = 10 };
    ok(took(&read, -EIO) && read.err == ERR_IO);
    read = (struct disk_read){ .len = 10 };
    ok(took(&read, -EFAULT) && read.err == ERR_FAULT);
    read = (struct disk_read){ .len = 10 };
    ok(took(&read, -EINVAL) && read.err == ERR_IO);
    read = (struct disk_read){ .len = 10 };
    ok(took(&read, -ECANCELED) && read.err == ERR_LIMIT);
    read = (struct disk_read){ .len = 3 * DISK_ALIGN, .direct = true };
    ok(took(&read, -EINVAL) && read.err == ERR_BAD_ARGUMENT);
    read = (struct disk_read){ .len = 3 * DISK_ALIGN, .direct = true };
    ok(!took(&read, DISK_ALIGN) && took(&read, 100) && read.err == OK);    /* the file ends there */
}

TEST(memory_that_can_not_be_written_is_no_fault_of_the_file)
{
    struct bench bench = bench_make(unit_state);
    size_t ended = 0;
    uint64_t errors = metric_read(M_DISK_ERRORS);
    uint8_t *map = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ok(map != MAP_FAILED && mprotect(map, 4096, PROT_READ | PROT_WRITE) == 0);
    struct job job;
    job_make(&job, bench.file, 0, 8192, &ended);
    job.read.part_count = 1;
    job.read.parts[0] = (struct iovec){ map, 8192 };
    disk_read(bench.disk, &job.read);
    while (!ended)
        ok(turn(&bench));
    ok(job.err == ERR_FAULT && metric_read(M_DISK_ERRORS) == errors);
    ok(disk_read_cached(bench.file, &(struct iovec){ map, 8192 }, 1, 0) == ERR_FAULT);
    munmap(map, 8192);
    free(job.bytes);
    bench_end(&bench);
}

static enum err read_cached(int file, void *to, size_t len, uint64_t offset)
{
    struct iovec parts[] = { { to, len / 3 }, { (char *)to + len / 3, len - len / 3 } };
    return disk_read_cached(file, parts, 2, offset);
}

TEST(what_the_page_cache_has_comes_at_once)
{
    int file = file_make();
    uint8_t bytes[8192];
    ok(read_cached(file, bytes, sizeof(bytes), 4000) == OK);
    for (size_t i = 0; i < sizeof(bytes); i++)
        ok(bytes[i] == byte_at(4000 + i));
    ok(read_cached(file, bytes, sizeof(bytes), FILE_BYTES - 100) == ERR_IO);
    ok(read_cached(file, bytes, sizeof(bytes), FILE_BYTES) == ERR_IO);
    ok(read_cached(-1, bytes, sizeof(bytes), 0) == ERR_IO);
    close(file);
    file = open("/proc/self/status", O_RDONLY);    /* can't say: EOPNOTSUPP */
    ok(read_cached(file, bytes, 10, 0) == ERR_WAIT);
    close(file);
}

/* Reads a page that the page cache lacks. Returns ERR_STOPPING if the file system lets go of none. */
static enum err read_a_page_that_is_gone(int file)
{
    uint8_t byte;
    ok(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
    uint8_t *map = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, file, 0);
    unsigned char resident[FILE_BYTES / 4096];
    ok(map != MAP_FAILED && mincore(map, FILE_BYTES, resident) == 0);
    munmap(map, FILE_BYTES);
    size_t page = 0;
    while (page < countof(resident) && resident[page] & 1)
        page++;
    return page == countof(resident) ? ERR_STOPPING : read_cached(file, &byte, 1, page * 4096);
}

/* Where the file system won't let go of pages, there is nothing to see. The kernel may bring a page
 * back between the look and the read, and a fast disk often does, so one try is not enough. */
TEST(what_the_page_cache_lacks_is_not_waited_for)
{
    int file = file_make();
    ok(fsync(file) == 0);
    enum err e = OK;
    for (int i = 0; i < 1000 && e == OK; i++)
        e = read_a_page_that_is_gone(file);
    close(file);
    if (e == ERR_STOPPING)
        skip();
    ok(e == ERR_WAIT);
}

/* Runs disk_choose in a child whose kernel answers `number` to the system call `refused`. */
static void choose_refused(long refused, int number, const char *wanted, const char *expected)
{
    pid_t child = fork();
    if (child == 0) {
        if (!refuse_call(refused, number))
            _exit(77);
        enum disk_engine engine = DISK_URING;
        const char *why = "";
        enum err err = disk_choose(slice_of(wanted), &engine, &why);
        bool demanded = strcmp(wanted, "uring") == 0;
        bool right = err == (demanded ? ERR_IO : OK) && (demanded || engine == DISK_THREADS) &&
                     strstr(why, expected) != NULL;
        _exit(right ? 0 : 1);
    }
    int status;
    ok(waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    ok(WEXITSTATUS(status) == 0);
}

TEST(a_refused_ring_is_named_and_threads_stand_in)
{
    choose_refused(SYS_io_uring_setup, EPERM, "auto", "threads: io_uring is refused with EPERM");
    choose_refused(SYS_io_uring_setup, ENOSYS, "auto", "ENOSYS");
    choose_refused(SYS_io_uring_setup, EPERM, "uring", "io_uring is refused with EPERM");
    if (probe() == 0) {    /* set-up allowed, the rest not: only a real read finds that out */
        choose_refused(SYS_io_uring_enter, EACCES, "auto", "EACCES");
        choose_refused(SYS_io_uring_register, EPERM, "auto", "EPERM");
    }
}

TEST(an_engine_is_chosen_by_name)
{
    enum disk_engine engine = DISK_URING;
    const char *why = NULL;
    ok(disk_choose(S("threads"), &engine, &why) == OK && engine == DISK_THREADS);
    ok(disk_choose(S("Uring"), &engine, &why) == ERR_BAD_ARGUMENT);
    ok(strstr(why, "must be") != NULL);
    ok(disk_choose(S("auto"), &engine, &why) == OK && strlen(why) > 0);
    ok(engine == (probe() == 0 ? DISK_URING : DISK_THREADS));
}

/* Returns 77 if this process may have one more thread. */
static int read_without_threads(void **state)
{
    struct bench bench = bench_make(state);
    struct rlimit none = { 0, 0 };
    size_t ended = 0;
    struct job job;
    uint64_t errors = metric_read(M_DISK_ERRORS);
    job_make(&job, bench.file, 0, 8192, &ended);
    if (setrlimit(RLIMIT_NPROC, &none) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0)
        return 77;
    disk_read(bench.disk, &job.read);
    while (!ended)
        ok(turn(&bench));
    if (job.err == OK)
        return 77;
    return job.err == ERR_LIMIT && metric_read(M_DISK_ERRORS) == errors ? 0 : 1;
}

TEST(a_read_that_the_kernel_has_no_thread_for_says_nothing_about_the_disk)
{
    pid_t child = fork();
    if (child == 0)
        _exit(read_without_threads(unit_state));
    int status;
    ok(waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    ok(WEXITSTATUS(status) == 0);
}

#define BOTH(test)                                                                             \
    { #test " (uring)", test, NULL, NULL, &uring },                                            \
    { #test " (threads)", test, NULL, NULL, &threads }

TEST(a_file_that_can_not_be_asked_for_its_cached_pages_spoils_no_other)
{
    char path[] = "store-disk-XXXXXX", bytes[8192] = { 1 };
    int fd = mkstemp(path);
    ok(fd >= 0 && write(fd, bytes, sizeof(bytes)) == sizeof(bytes) && fsync(fd) == 0);
    ok(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    bool asked = !disk_is_cached(fd, 0, sizeof(bytes));
    ok(disk_is_cached(-1, 0, sizeof(bytes)));    /* not known, so it counts as cached */
    ok(!asked || !disk_is_cached(fd, 0, sizeof(bytes)));
    close(fd);
    unlink(path);
    if (!asked)
        skip();    /* this kernel, or this file system, can't tell */
}

RUN(BOTH(reads_beyond_the_queue_depth_all_end_with_their_own_bytes),
    BOTH(one_read_is_enough_to_make_the_mailbox_readable),
    BOTH(done_may_ask_for_more),
    BOTH(a_read_ends_short_only_where_the_file_does),
    BOTH(a_file_that_fails_is_an_error_and_is_counted),
    BOTH(the_end_waits_for_what_is_under_way),
    BOTH(a_lane_that_hangs_holds_no_other),
    BOTH(each_thread_has_a_disk_of_its_own),
    { "a_read_that_the_kernel_has_no_thread_for_says_nothing_about_the_disk",
      a_read_that_the_kernel_has_no_thread_for_says_nothing_about_the_disk, NULL, NULL, &uring },
    { "a_ring_goes_on_after_a_short_read", a_ring_goes_on_after_a_short_read, NULL, NULL, &uring },
    BOTH(memory_that_can_not_be_written_is_no_fault_of_the_file),
    cmocka_unit_test(an_answer_ends_a_read_or_asks_for_the_rest),
    cmocka_unit_test(what_the_page_cache_has_comes_at_once),
    cmocka_unit_test(what_the_page_cache_lacks_is_not_waited_for),
    cmocka_unit_test(a_refused_ring_is_named_and_threads_stand_in),
    cmocka_unit_test(an_engine_is_chosen_by_name),
    cmocka_unit_test(a_file_that_can_not_be_asked_for_its_cached_pages_spoils_no_other))
