/* log_access.c - access lines, which a thread writes later. SPDX-License-Identifier: Apache-2.0
 *
 *     loop-0 ──> ring ──┐
 *     loop-1 ──> ring ──┼──> thread "log": many lines in each write ──> stderr
 *     fill-0 ──> ring ──┘
 *
 * If access_log is on, each request leaves one access line. A thread takes a ring at its first
 * access line. Only that thread fills the ring. Only the writer (the thread "log") empties it,
 * except at the end of the process: then log_access_last does. So head and tail are plain counters,
 * and each has one thread that writes it. A record in a ring has the time, the event's name, and
 * the text of its facts. The writer turns records into lines of text or JSON, the oldest first. If
 * a ring is full, the line is dropped: if the reader of stderr stalls, lines are lost, but no loop
 * waits. Rings are never freed. When a thread ends, the next new thread takes its ring.
 *
 * The writer sleeps while all rings are empty. The first line wakes it; it then waits 50 ms for
 * more lines, or until a ring is half full. So a busy loop makes one system call for some hundred
 * lines, and an idle process makes none.
 *
 * A write to a file has up to 64 KiB. A write to anything else has at most PIPE_BUF bytes and
 * begins when there is room. So a pipe takes each write as a whole, and lines of other processes
 * never mix with ours. And a pipe whose reader stalls does not block the writer, so the writer can
 * be stopped in time. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log_inside.h"
#include "base/metric.h"
#include "base/thread.h"

#ifndef LOG_RING_BYTES    /* a test defines it, to get small rings */
#define LOG_RING_BYTES (1 * MIB)
#endif
#define GATHER_MS 50
#ifndef STOP_MS
#define STOP_MS 2000u
#endif
#define LAST_MS 500u
#define WRITE_BYTES (64 * KIB)

struct record {
    uint64_t when_ns;
    const char *event;    /* a string literal */
    uint64_t len;
    char facts[];
};
/* The most bytes that a record needs. If fewer bytes are left before the end of the ring, the
 * record begins at the start of the ring. */
#define RECORD_BYTES (sizeof(struct record) + PIPE_BUF)
static_assert(LOG_RING_BYTES >= 4 * RECORD_BYTES && LOG_RING_BYTES % 8 == 0,
              "a ring has room for four records, and its size is a multiple of 8");

struct ring {
    struct ring *next;              /* fixed, as rings are never freed */
    atomic_bool taken;              /* a thread uses this ring */
    uint64_t seen_tail;             /* tail when the filling thread last read it */
    _Atomic uint64_t dropped;
    _Alignas(64) _Atomic uint64_t head;    /* bytes ever put in; the filling thread writes it */
    _Alignas(64) _Atomic uint64_t tail;    /* bytes ever taken out; the writer writes it */
    _Alignas(64) char bytes[LOG_RING_BYTES];
};

enum state { BUSY, GATHERING, ASLEEP };

static struct writer {
    _Atomic(struct ring *) rings;
    atomic_bool runs, ending;
    atomic_int state;
    atomic_bool draining;           /* the writer, or the handler of a signal, is draining */
    pthread_t thread;
    int wake_fd;
    _Atomic uint64_t give_up_ms;    /* when to stop waiting for a reader of stderr that stalls */
    uint64_t lost, reported;        /* lines that could not be written; losses already logged */
    size_t len, lines;              /* bytes and lines that are to be written next */
    char bytes[WRITE_BYTES];
} writer = { .wake_fd = -1 };

static _Thread_local struct ring *mine;
static _Thread_local bool is_writer;
static pthread_key_t at_thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- the threads that fill rings ---- */

static void thread_ends(void *arg)
{
    struct ring *ring = arg;
    mine = NULL;
    atomic_store_explicit(&ring->taken, false, memory_order_release);
}

static void make_key(void)
{
    check(pthread_key_create(&at_thread_end, thread_ends) == 0);
}

static struct ring *ring_take(void)
{
    struct ring *ring = atomic_load(&writer.rings);
    while (ring && atomic_exchange(&ring->taken, true))
        ring = ring->next;
    if (!ring) {
        ring = aligned_alloc(64, sizeof(*ring));
        check(ring != NULL);
        memset(ring, 0, offsetof(struct ring, bytes));
        atomic_init(&ring->taken, true);
        ring->next = atomic_load(&writer.rings);
        while (!atomic_compare_exchange_weak(&writer.rings, &ring->next, ring))
            ;
    }
    pthread_once(&once, make_key);
    pthread_setspecific(at_thread_end, ring);
    return ring;
}

/* Returns the start of the record at or after `at`. The filling thread and the writer compute the
 * same value. */
static uint64_t begin_of(uint64_t at)
{
    uint64_t rest = LOG_RING_BYTES - at % LOG_RING_BYTES;
    return rest < RECORD_BYTES ? at + rest : at;
}

static uint64_t end_of(uint64_t begin, uint64_t len)
{
    return begin + (sizeof(struct record) + len + 7) / 8 * 8;
}

static struct record *record_at(struct ring *ring, uint64_t at)
{
    return (struct record *)(ring->bytes + at % LOG_RING_BYTES);
}

static bool has_room(struct ring *ring, uint64_t begin)
{
    if (begin + RECORD_BYTES - ring->seen_tail > LOG_RING_BYTES / 2)
        ring->seen_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return begin + RECORD_BYTES - ring->seen_tail <= LOG_RING_BYTES;
}

static void wake(void)
{
    uint64_t one = 1;
    (void)!write(writer.wake_fd, &one, sizeof(one));
}

/* Uses sequentially consistent order, as rest() does: either this thread sees that the writer
 * rests, or the writer sees the line. */
static void publish(struct ring *ring, uint64_t head)
{
    atomic_store(&ring->head, head);
    int state = atomic_load(&writer.state);
    bool late = state == ASLEEP ||
                (state == GATHERING && head - ring->seen_tail > LOG_RING_BYTES / 2);
    if (late && atomic_compare_exchange_strong(&writer.state, &state, BUSY))
        wake();
}

void log_access_line(const char *event, slice facts)
{
    if (!log_enabled(LOG_LEVEL_INFO))
        return;
    facts = slice_sub(facts, 0, PIPE_BUF - 1u);
    if (!atomic_load_explicit(&writer.runs, memory_order_relaxed)) {
        log_info(event, "%.*s", SLICE_ARG(facts));
        return;
    }
    if (!mine)
        mine = ring_take();
    struct ring *ring = mine;
    uint64_t begin = begin_of(atomic_load_explicit(&ring->head, memory_order_relaxed));
    metric_add(M_ACCESS_LINES, 1);
    if (has_room(ring, begin)) {
        struct record *record = record_at(ring, begin);
        record->len = slice_put(record->facts, facts);
        record->event = event;
        record->when_ns = clock_ns(CLOCK_REALTIME);
        publish(ring, end_of(begin, record->len));
    } else {
        metric_add(M_ACCESS_DROPPED, 1);
        atomic_fetch_add_explicit(&ring->dropped, 1, memory_order_relaxed);
    }
}

void log_access(const char *event, const char *fmt, ...)
{
    char facts[PIPE_BUF];
    if (!log_enabled(LOG_LEVEL_INFO))
        return;
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(facts, sizeof(facts), fmt, args);
    check(len >= 0);
    va_end(args);
    log_access_line(event, (slice){ facts, MIN((size_t)len, sizeof(facts) - 1) });
}

/* ---- the writer ---- */

/* Waits until stderr has room. Returns false if there was none until give_up_ms. */
static bool wait_for_room(void)
{
    struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
    for (;;) {
        uint64_t end_ms = atomic_load(&writer.give_up_ms);
        bool over = end_ms && mono_ms() > end_ms;
        if (poll(&out, 1, over ? 0 : 20) > 0)
            return true;
        if (over)
            return false;
    }
}

static size_t lines_in(const char *bytes, size_t len)
{
    size_t lines = 0;
    for (size_t i = 0; i < len; i++)
        lines += bytes[i] == '\n';
    return lines;
}

/* Returns false if some of the bytes could not be written. Only the writer counts the access lines;
 * the handler of a signal must not, because counting may allocate memory. */
static bool write_out(void)
{
    size_t done = 0;
    while (done < writer.len) {
        if (!wait_for_room())
            break;
        ssize_t put = write(STDERR_FILENO, writer.bytes + done, writer.len - done);
        if (put > 0)
            done += (size_t)put;
        else if (errno != EAGAIN && errno != EINTR)
            break;
    }
    size_t lost = MIN(lines_in(writer.bytes + done, writer.len - done), writer.lines);
    bool whole = done == writer.len;
    writer.lost += lost;
    if (is_writer) {
        metric_add(M_ACCESS_WRITTEN, writer.lines - lost);
        metric_add(M_ACCESS_DROPPED, lost);
    }
    writer.len = writer.lines = 0;
    return whole;
}

static void put_line(const struct log_entry *entry, size_t room)
{
    struct line line;
    log_line_build(&line, entry);
    if (writer.len + line.len > room)
        write_out();
    check(writer.len + line.len <= sizeof(writer.bytes));
    memcpy(writer.bytes + writer.len, line.bytes, line.len);
    writer.len += line.len;
}

/* The records that a ring held when the writer looked at it, and the next record to be written. */
struct cursor {
    struct ring *ring;
    uint64_t at, end;
    const struct record *record;
};
#define CURSORS_MAX 64u    /* rings beyond this number are drained in the next round */

static void cursor_set(struct cursor *cursor, uint64_t at)
{
    cursor->at = at;
    cursor->record = at < cursor->end ? record_at(cursor->ring, begin_of(at)) : NULL;
}

static size_t look_at_rings(struct cursor *ret)
{
    size_t count = 0;
    struct ring *ring = atomic_load(&writer.rings);
    for (; ring && count < CURSORS_MAX; ring = ring->next) {
        ret[count] = (struct cursor){ .ring = ring, .end = atomic_load_explicit(
                                          &ring->head, memory_order_acquire) };
        cursor_set(&ret[count], atomic_load_explicit(&ring->tail, memory_order_relaxed));
        count += ret[count].record != NULL;
    }
    return count;
}

/* Writes the lines of all threads in the order of their times. */
static void drain_rings(size_t room)
{
    struct cursor cursors[CURSORS_MAX];
    size_t count = look_at_rings(cursors);
    while (count) {
        struct cursor *first = &cursors[0];
        for (size_t i = 1; i < count; i++)
            if (cursors[i].record->when_ns < first->record->when_ns)
                first = &cursors[i];
        const struct record *record = first->record;
        struct log_entry entry = { record->when_ns, LOG_LEVEL_INFO, record->event,
                                 { record->facts, record->len } };
        put_line(&entry, room);
        writer.lines++;
        uint64_t at = end_of(begin_of(first->at), record->len);
        atomic_store_explicit(&first->ring->tail, at, memory_order_release);
        cursor_set(first, at);
        if (!first->record)
            *first = cursors[--count];
    }
}

static void report_drops(uint64_t dropped, size_t room)
{
    char facts[256];
    uint64_t count = dropped + writer.lost - writer.reported;
    if (!count)
        return;
    int len = snprintf(facts, sizeof(facts), "lines=%ju why=\"access lines were lost: they came "
                       "faster than stderr took them, or a write to stderr failed. Check the "
                       "program or disk behind stderr, or set access_log to false\"",
                       (uintmax_t)count);
    struct log_entry entry = { clock_ns(CLOCK_REALTIME), LOG_LEVEL_WARN, "log_dropped",
                             { facts, (size_t)len } };
    put_line(&entry, room);
    if (write_out())
        writer.reported += count;
}

/* Returns the largest size of a write. Only a file gets large writes: a pipe or a terminal may have
 * other writers, or a reader that stalls. */
static size_t room_of_a_write(void)
{
    struct stat st;
    return fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode) ? WRITE_BYTES : PIPE_BUF;
}

static void drain(void)
{
    size_t room = room_of_a_write();
    uint64_t dropped = 0;
    drain_rings(room);
    for (struct ring *ring = atomic_load(&writer.rings); ring; ring = ring->next)
        dropped += atomic_load_explicit(&ring->dropped, memory_order_relaxed);
    write_out();
    report_drops(dropped, room);
}

/* Returns true if any ring holds more than `bytes`. */
static bool holds_more(uint64_t bytes)
{
    for (struct ring *ring = atomic_load(&writer.rings); ring; ring = ring->next)
        if (atomic_load(&ring->head) - atomic_load_explicit(&ring->tail, memory_order_relaxed) >
            bytes)
            return true;
    return false;
}

/* Sleeps until a thread wakes the writer or the timeout passes (-1: no timeout). Returns at once if
 * a ring holds more than `bytes`. */
static void rest(enum state state, uint64_t bytes, int timeout_ms)
{
    struct pollfd woken = { .fd = writer.wake_fd, .events = POLLIN };
    atomic_store(&writer.state, (int)state);
    if (!holds_more(bytes) && !atomic_load(&writer.ending))
        poll(&woken, 1, timeout_ms);
    atomic_store(&writer.state, BUSY);
    uint64_t count;
    (void)!read(writer.wake_fd, &count, sizeof(count));
}

static bool take_draining(void)
{
    return !atomic_exchange(&writer.draining, true);
}

static void *run(void *arg)
{
    is_writer = true;
    bool last = false;
    while (!last) {
        rest(ASLEEP, 0, -1);
        rest(GATHERING, LOG_RING_BYTES / 2, GATHER_MS);
        last = atomic_load(&writer.ending);    /* later lines are not written */
        if (!take_draining())
            break;    /* the handler of a signal drains: the process ends */
        do
            drain();
        while (last && holds_more(0));
        atomic_store(&writer.draining, false);
    }
    return arg;
}

bool log_access_start(void)
{
    check(!atomic_load(&writer.runs));
    if (writer.wake_fd < 0)
        writer.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    check(writer.wake_fd >= 0);
    atomic_store(&writer.ending, false);
    atomic_store(&writer.give_up_ms, 0);
    atomic_store(&writer.state, BUSY);
    bool started = thread_start(&writer.thread, run, NULL, "log");
    atomic_store(&writer.runs, started);
    return started;
}

void log_access_stop(void)
{
    if (!atomic_exchange(&writer.runs, false))
        return;
    atomic_store(&writer.give_up_ms, mono_ms() + STOP_MS);
    atomic_store(&writer.ending, true);
    wake();
    pthread_join(writer.thread, NULL);
}

void log_access_last(void)
{
    if (!atomic_exchange(&writer.runs, false))
        return;
    uint64_t end_ms = mono_ms() + LAST_MS;
    atomic_store(&writer.give_up_ms, end_ms);
    while (!is_writer && !take_draining()) {
        if (mono_ms() > end_ms)
            return;
        poll(NULL, 0, 5);
    }
    is_writer = false;
    drain();
}
