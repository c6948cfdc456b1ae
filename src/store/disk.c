/* disk.c - reads of the disk that never block the caller. SPDX-License-Identifier: Apache-2.0
 *
 *     disk_read ──> in progress (of all lanes at most DEPTH) ──> ended ──> done(), from disk_reap
 *          └──────> waiting ──────┘ when other reads of the lane end
 *
 * Only this file uses liburing. With io_uring, the kernel itself signals the owner's mailbox,
 * because the eventfd of the mailbox is registered with the ring. A read is submitted before
 * disk_read returns, so no read waits for an event that may not come. Only reads that a done() asks
 * for are submitted together, when its disk_reap ends. The other engine has a pool of threads for
 * each lane. All struct disks of the process share these pools, which end with the last struct
 * disk. A worker adds its finished read to `ended` under the disk's lock, and wakes the owner by a
 * ticket. Both engines repeat short reads, EINTR and EAGAIN.
 *
 * Threads: a disk belongs to its owner, except for `ended`, which disk->lock guards. The pools have
 * locks of their own; no thread holds one together with a disk's lock. An owner that sleeps in
 * epoll_wait may see EINTR when a read ends: the kernel finishes buffered reads on the thread that
 * asked for them. */
#include "store/disk.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/metric.h"
#include "base/workers.h"

#define DEPTH 256u                    /* most reads in progress in one disk */
#define POOL_THREADS 16u              /* of all lanes, or more */
#define POOL_THREADS_LEAST 4u         /* of a lane */
#define SYSCTL_BYTES_MAX 64u
#define URING_READ_MAX (1u << 30)     /* the kernel answers with an int */

struct lane {
    unsigned under_way;
    struct list waiting;
};

struct disk {
    enum disk_engine engine;
    struct ticket *ticket;            /* only wakes the owner; its function does nothing */
    bool reaping;                     /* disk_reap is on the stack */
    bool held;                        /* new reads are submitted by disk_go */
    unsigned lane_count;
    struct lane lanes[DISK_LANES_MAX];
    struct io_uring ring;
    pthread_mutex_t lock;             /* threads: guards `ended` */
    pthread_cond_t more_ended;
    struct list ended;
};

/* Removes the bytes that were read from the front of the parts. */
static void parts_advance(struct iovec *parts, unsigned count, ssize_t got)
{
    size_t bytes = got > 0 ? (size_t)got : 0;
    for (unsigned i = 0; i < count && bytes; i++) {
        size_t off = MIN(bytes, parts[i].iov_len);
        parts[i].iov_base = (char *)parts[i].iov_base + off;
        parts[i].iov_len -= off;
        bytes -= off;
    }
}

static size_t parts_len(const struct iovec *parts, unsigned count)
{
    size_t len = 0;
    for (unsigned i = 0; i < count; i++)
        len += parts[i].iov_len;
    return len;
}

/* Adds one answer of the kernel, a number of bytes or -errno, to the read. Returns false if the
 * rest must be read by another call. ECANCELED: the kernel can't make a thread for the read. This
 * and ENOMEM say nothing about the disk. */
static bool took(struct disk_read *read, ssize_t answer)
{
    if (answer > 0)
        read->got += (size_t)answer;
    else if (answer < 0 && answer != -EINTR && answer != -EAGAIN)
        read->err = answer == -EFAULT                          ? ERR_FAULT
                    : answer == -EINVAL && read->direct         ? ERR_BAD_ARGUMENT
                    : answer == -ECANCELED || answer == -ENOMEM ? ERR_LIMIT
                                                                : ERR_IO;
    if (answer == 0 || read->err || read->got >= read->len)
        return true;
    if (read->direct && read->got % DISK_ALIGN)    /* happens only at the end of the file */
        return true;
    metric_add(M_DISK_AGAIN, 1);
    parts_advance(read->parts, read->part_count, answer);
    return false;
}

static void end(struct disk *disk, struct disk_read *read)
{
    struct lane *lane = &disk->lanes[read->lane];
    check(lane->under_way > 0);
    lane->under_way--;
    if (read->err == ERR_IO)
        metric_add(M_DISK_ERRORS, 1);
    if (read->err == ERR_LIMIT)
        metric_add(M_DISK_REFUSED, 1);
    read->done(read, read->err, read->got);
}

/* ---- io_uring ---- */

/* A thread that begins a read sleeps if the queue of the device is full, and that of a disk that
 * hangs stays full. This holds for direct reads, too: file systems do not pass RWF_NOWAIT on to the
 * queue. So threads of the kernel begin all reads. The ring has DEPTH entries, and each read in
 * progress uses at most one. So one is free. */
static void uring_queue(struct disk *disk, struct disk_read *read)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&disk->ring);
    check(entry != NULL);
    uint64_t at = read->offset + read->got;
    if (read->part_count == 1)
        io_uring_prep_read(entry, read->fd, read->parts[0].iov_base,
                           (unsigned)MIN(read->parts[0].iov_len, URING_READ_MAX), at);
    else
        io_uring_prep_readv(entry, read->fd, read->parts, read->part_count, at);
    io_uring_sqe_set_flags(entry, IOSQE_ASYNC);
    io_uring_sqe_set_data(entry, read);
}

static void uring_submit(struct disk *disk)
{
    while (io_uring_sq_ready(&disk->ring)) {
        int count = io_uring_submit(&disk->ring);
        if (count <= 0 && count != -EINTR) {    /* the kernel lacks memory: disk_reap retries */
            ticket_wake(disk->ticket);
            return;
        }
    }
}

static void uring_reap(struct disk *disk)
{
    struct io_uring_cqe *answer;
    while (io_uring_peek_cqe(&disk->ring, &answer) == 0) {
        struct disk_read *read = io_uring_cqe_get_data(answer);
        int res = answer->res;
        io_uring_cqe_seen(&disk->ring, answer);
        if (took(read, res))
            end(disk, read);
        else
            uring_queue(disk, read);
    }
}

/* Held while a ring is made or ended. Only the thread sanitizer needs this lock. It does not see
 * how liburing maps memory. The lock shows it that one thread's ring ended before another thread's
 * ring took the same addresses. */
static pthread_mutex_t ring_door = PTHREAD_MUTEX_INITIALIZER;

static int ring_make(struct io_uring *ring, unsigned depth, int event)
{
    pthread_mutex_lock(&ring_door);
    int failed = io_uring_queue_init(depth, ring, 0);
    if (!failed) {
        /* Reads that would block go to threads of the kernel. By default these are few, and a disk
         * that hangs could take them all. A kernel before 5.15 refuses. */
        (void)io_uring_register_iowq_max_workers(ring, (unsigned[]){ depth, 0 });
        failed = io_uring_register_eventfd(ring, event);
        if (failed)
            io_uring_queue_exit(ring);
    }
    pthread_mutex_unlock(&ring_door);
    return failed;
}

static void ring_end(struct io_uring *ring)
{
    pthread_mutex_lock(&ring_door);
    io_uring_queue_exit(ring);
    pthread_mutex_unlock(&ring_door);
}

/* ---- the pools of threads ---- */

static void hand_back(struct disk_read *read)
{
    struct disk *disk = read->disk;
    pthread_mutex_lock(&disk->lock);
    list_add(&disk->ended, &read->link);
    ticket_wake(disk->ticket);        /* without the lock, the owner could free the disk first */
    pthread_cond_signal(&disk->more_ended);
    pthread_mutex_unlock(&disk->lock);
}

static bool run_blocking(struct list *link)
{
    struct disk_read *read = list_of(link, struct disk_read, link);
    ssize_t answer;
    do {
        answer = preadv(read->fd, read->parts, (int)read->part_count,
                        (off_t)(read->offset + read->got));
        if (answer < 0)
            answer = -errno;
    } while (!took(read, answer));
    hand_back(read);
    return true;
}

/* Held while a disk joins or leaves the pools. */
static pthread_mutex_t pool_door = PTHREAD_MUTEX_INITIALIZER;
static struct workers *pools[DISK_LANES_MAX];    /* by lane */
static size_t pool_users;

static void pools_enter(unsigned lanes)
{
    unsigned most = MAX(POOL_THREADS / lanes, POOL_THREADS_LEAST);
    pthread_mutex_lock(&pool_door);
    pool_users++;
    for (unsigned i = 0; i < lanes; i++)
        if (!pools[i])
            check((pools[i] = workers_new(most, "disk", run_blocking)) != NULL);
    pthread_mutex_unlock(&pool_door);
}

/* To be called when the disk has no read in progress. */
static void pools_leave(void)
{
    pthread_mutex_lock(&pool_door);
    if (--pool_users == 0)
        for (size_t i = 0; i < countof(pools); i++)
            workers_free(&pools[i]);
    pthread_mutex_unlock(&pool_door);
}

static void threads_reap(struct disk *disk)
{
    struct list mine;
    list_init(&mine);
    pthread_mutex_lock(&disk->lock);
    list_move(&mine, &disk->ended);
    pthread_mutex_unlock(&disk->lock);
    while (!list_empty(&mine))
        end(disk, list_of(list_take(&mine), struct disk_read, link));
}

static void threads_wait(struct disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    while (list_empty(&disk->ended))
        pthread_cond_wait(&disk->more_ended, &disk->lock);
    pthread_mutex_unlock(&disk->lock);
}

/* ---- a disk ---- */

static void nothing(void *arg)
{
    (void)arg;
}

/* If the kernel refuses a ring now (no descriptors, no locked memory), the disk uses threads. */
struct disk *disk_new(enum disk_engine engine, struct mailbox *box, unsigned lanes)
{
    struct disk *disk = must_alloc(sizeof(*disk));
    check(lanes > 0 && lanes <= DISK_LANES_MAX);
    disk->engine = engine;
    disk->ticket = ticket_new(box, nothing, NULL);
    disk->lane_count = lanes;
    for (unsigned i = 0; i < lanes; i++)
        list_init(&disk->lanes[i].waiting);
    list_init(&disk->ended);
    pthread_mutex_init(&disk->lock, NULL);
    pthread_cond_init(&disk->more_ended, NULL);
    if (engine == DISK_URING && ring_make(&disk->ring, DEPTH, mailbox_fd(box)) != 0)
        disk->engine = DISK_THREADS;
    if (disk->engine == DISK_THREADS)
        pools_enter(lanes);
    return disk;
}

static unsigned in_progress(const struct disk *disk)
{
    unsigned count = 0;
    for (unsigned i = 0; i < disk->lane_count; i++)
        count += disk->lanes[i].under_way;
    return count;
}

void disk_free(struct disk **disk)
{
    struct disk *mine = *disk;
    if (!mine)
        return;
    check(!mine->reaping);
    while (in_progress(mine)) {
        if (mine->engine == DISK_URING)
            io_uring_submit_and_wait(&mine->ring, 1);    /* after a failure, the loop retries */
        else
            threads_wait(mine);
        disk_reap(mine);
    }
    if (mine->engine == DISK_URING)
        ring_end(&mine->ring);
    else
        pools_leave();
    pthread_mutex_lock(&mine->lock);    /* waits until hand_back of the last read has unlocked */
    pthread_mutex_unlock(&mine->lock);
    pthread_mutex_destroy(&mine->lock);
    pthread_cond_destroy(&mine->more_ended);
    ticket_end(&mine->ticket);
    free(mine);
    *disk = NULL;
}

static void start(struct disk *disk, struct disk_read *read)
{
    disk->lanes[read->lane].under_way++;
    if (disk->engine == DISK_URING)
        uring_queue(disk, read);
    else
        workers_put(pools[read->lane], &read->link);
}

static bool has_room(const struct disk *disk, const struct lane *lane)
{
    return lane->under_way < DEPTH / disk->lane_count;
}

void disk_read(struct disk *disk, struct disk_read *read)
{
    check(read->part_count > 0 && read->part_count <= DISK_PARTS && read->done != NULL);
    check(read->lane < disk->lane_count);
    struct lane *lane = &disk->lanes[read->lane];
    read->disk = disk;
    read->got = 0;
    read->len = parts_len(read->parts, read->part_count);
    read->err = OK;
    list_init(&read->link);
    metric_add(M_DISK_READS, 1);
    if (!has_room(disk, lane) || !list_empty(&lane->waiting)) {
        metric_add(M_DISK_QUEUED, 1);
        list_add(&lane->waiting, &read->link);    /* disk_reap starts it */
        return;
    }
    start(disk, read);
    if (disk->engine == DISK_URING && !disk->reaping && !disk->held)
        uring_submit(disk);
}

void disk_cancel(struct disk *disk, unsigned lane)
{
    struct list mine;
    list_init(&mine);
    list_move(&mine, &disk->lanes[lane].waiting);
    while (!list_empty(&mine)) {
        struct disk_read *read = list_of(list_take(&mine), struct disk_read, link);
        read->done(read, ERR_CANCELED, 0);
    }
}

void disk_hold(struct disk *disk)
{
    check(!disk->held);
    disk->held = true;
}

void disk_go(struct disk *disk)
{
    check(disk->held);
    disk->held = false;
    if (disk->engine == DISK_URING && !disk->reaping)
        uring_submit(disk);
}

void disk_reap(struct disk *disk)
{
    check(!disk->reaping);
    disk->reaping = true;
    if (disk->engine == DISK_URING)
        uring_reap(disk);
    else
        threads_reap(disk);
    disk->reaping = false;
    for (struct lane *lane = disk->lanes; lane < disk->lanes + disk->lane_count; lane++)
        while (has_room(disk, lane) && !list_empty(&lane->waiting))
            start(disk, list_of(list_take(&lane->waiting), struct disk_read, link));
    if (disk->engine == DISK_URING)
        uring_submit(disk);
}

enum err disk_read_cached(int fd, struct iovec *parts, unsigned count, uint64_t offset)
{
    size_t got = 0, len = parts_len(parts, count);
    while (got < len) {
        ssize_t answer = preadv2(fd, parts, (int)count, (off_t)(offset + got), RWF_NOWAIT);
        if (answer > 0)
            got += (size_t)answer;
        else if (answer == 0)
            return ERR_IO;
        else if (errno == EFAULT)
            return ERR_FAULT;
        else if (errno == EAGAIN || errno == EOPNOTSUPP || errno == ENOSYS || errno == ENOMEM)
            return ERR_WAIT;          /* not in the page cache, or the kernel can't tell now */
        else if (errno != EINTR)
            return ERR_IO;
        if (got < len)
            parts_advance(parts, count, answer);
    }
    return OK;
}

#define CACHESTAT 451                 /* Linux 6.5 */

/* Returns the number of pages in the page cache, or -errno. */
static int64_t cached_pages(int fd, uint64_t offset, uint64_t len)
{
    struct {
        uint64_t offset, len;
    } range = { offset, len };
    struct {
        uint64_t cached, dirty, writeback, evicted, recently_evicted;
    } answer;
    return syscall(CACHESTAT, fd, &range, &answer, 0) == 0 ? (int64_t)answer.cached : -errno;
}

bool disk_is_cached(int fd, uint64_t offset, size_t len)
{
    static atomic_bool refused;
    if (atomic_load_explicit(&refused, memory_order_relaxed))
        return true;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int64_t cached = cached_pages(fd, offset, len);
    if (cached == -ENOSYS)
        atomic_store(&refused, true);
    if (cached < 0)
        return true;    /* a failure of the disk comes again when the bytes are read */
    return (uint64_t)cached >= (offset + len + page - 1) / page - offset / page;
}

/* ---- which engine ---- */

/* Reads one byte through the ring and waits for its eventfd, because some hosts allow a ring to be
 * made and refuse its use. Returns 0 or -errno. */
static int probe_read(struct io_uring *ring, int event, int file)
{
    char byte = 0;
    struct io_uring_cqe *answer;
    struct __kernel_timespec patience = { .tv_sec = 2 };
    struct io_uring_sqe *entry = io_uring_get_sqe(ring);
    check(entry != NULL);
    io_uring_prep_read(entry, file, &byte, 1, 0);
    int count = io_uring_submit(ring);
    if (count != 1)
        return count < 0 ? count : -EIO;
    int failed = io_uring_wait_cqe_timeout(ring, &answer, &patience);
    if (failed)
        return failed;
    int res = answer->res;
    io_uring_cqe_seen(ring, answer);
    uint64_t signals;
    struct pollfd signal = { .fd = event, .events = POLLIN };
    poll(&signal, 1, 2000);    /* the answer may be visible before its signal arrives */
    if (res == 1 && byte == 'p' && read(event, &signals, sizeof(signals)) == sizeof(signals))
        return 0;
    return res < 0 ? res : -EIO;
}

static int probe(void)
{
    struct io_uring ring;
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int file = memfd_create("penstock-probe", MFD_CLOEXEC);
    int failed = event < 0 || file < 0 || write(file, "p", 1) != 1 ? -errno : 0;
    if (!failed)
        failed = ring_make(&ring, 4, event);
    if (!failed) {
        failed = probe_read(&ring, event, file);
        ring_end(&ring);
    }
    if (event >= 0)
        close(event);
    if (file >= 0)
        close(file);
    return failed;
}

static bool sysctl_forbids(void)
{
    struct arena keep = { 0 };
    slice value;
    bool forbids = file_read("/proc/sys/kernel/io_uring_disabled", SYSCTL_BYTES_MAX, &keep,
                             &value) && !slice_starts(value, S("0"));
    arena_free(&keep);
    return forbids;
}

static const char *why_refused(int number)
{
    static _Thread_local char text[160];
    const char *hint = number == EPERM && sysctl_forbids()
                           ? "the sysctl kernel.io_uring_disabled forbids it"
                       : number == EPERM  ? "a seccomp profile forbids it, as in most containers"
                       : number == ENOSYS ? "this kernel lacks it, or a seccomp profile hides it"
                       : number == ENOMEM ? "the limit of locked memory (LimitMEMLOCK) is too low"
                                          : strerrordesc_np(number);
    const char *name = strerrorname_np(number);
    snprintf(text, sizeof(text), "threads: io_uring is refused with %s: %s",
             name ? name : "an unknown error", hint ? hint : "no description");
    return text;
}

enum err disk_choose(slice wanted, enum disk_engine *ret, const char **ret_why)
{
    if (slice_eq(wanted, S("threads"))) {
        *ret = DISK_THREADS;
        *ret_why = "threads: the setting 'io' says so";
        return OK;
    }
    bool demanded = slice_eq(wanted, S("uring"));
    if (!demanded && !slice_eq(wanted, S("auto"))) {
        *ret_why = "io must be auto, uring or threads";
        return ERR_BAD_ARGUMENT;
    }
    int refused = probe();
    if (!refused) {
        *ret = DISK_URING;
        *ret_why = demanded ? "uring: the setting 'io' says so"
                            : "uring: io is auto, and a test read by io_uring worked";
        return OK;
    }
    *ret_why = why_refused(-refused);
    if (demanded) {
        *ret_why += sizeof("threads: ") - 1;
        return ERR_IO;
    }
    *ret = DISK_THREADS;
    return OK;
}
