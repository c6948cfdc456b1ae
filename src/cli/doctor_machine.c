/* doctor_machine.c - what this machine gives a service: checksums, loopback, clock, locked memory,
 * io_uring, page cache. SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc.h"
#include "base/file.h"
#include "base/thread.h"
#include "cli/doctor.h"
#include "store/disk.h"

#define SUM_BLOCK 65536u
#define SUM_MS 50u
#define SUM_SLOW 1.0                    /* GB a second */
#define TRIPS 200u
#define TRIP_SLOW_MS 2.0
#define STREAM_BYTES (32 * MIB)
#define STREAM_SLOW 0.2                 /* GB a second */
#define SOCKET_S 5
#define SKEW_BAD_S 300                  /* S3 refuses requests at 900 s */
#define SKEW_OFF_S 30u
#define CAP_IPC_LOCK 14
#define PROC_BYTES_MAX 16384u

/* ---- checksum ---- */

static void checksum(struct doctor *doctor)
{
    char *block = must_alloc(SUM_BLOCK);
    uint64_t begin = mono_ns(), bytes = 0;
    uint32_t sum = 0;
    for (; mono_ns() - begin < SUM_MS * UINT64_C(1000000); bytes += SUM_BLOCK)
        sum = crc32c(sum, block, SUM_BLOCK);
    double rate = (double)bytes / (double)(mono_ns() - begin);
    block[0] = (char)sum;
    free(block);
    struct finding *finding =
        doctor_add(doctor, S("checksum"), arena_printf(doctor->keep, "%.1f GB/s", rate),
                   arena_printf(doctor->keep, "over %g GB/s", SUM_SLOW));
    doctor_judge(finding, SUM_SLOW, rate,
                 S("Each block that comes from the disk is verified by CRC-32C, and this processor "
                   "is slow at it, or busy. Use a processor with SSE 4.2 or the CRC instructions "
                   "of ARMv8, or give the service more processor time."));
}

/* ---- loopback ---- */

/* The server's side of a connection: echoes TRIPS bytes, then takes the stream. */
static void *echo(void *arg)
{
    int listener = *(int *)arg, fd = accept(listener, NULL, NULL);
    struct timeval limit = { .tv_sec = SOCKET_S };
    char *room = must_alloc(SUM_BLOCK);
    char byte;
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    for (unsigned i = 0; fd >= 0 && i < TRIPS; i++)
        if (recv(fd, &byte, 1, 0) != 1 || send(fd, &byte, 1, MSG_NOSIGNAL) != 1)
            break;
    while (fd >= 0 && recv(fd, room, SUM_BLOCK, 0) > 0)
        continue;
    if (fd >= 0)
        close(fd);
    free(room);
    return NULL;
}

struct loopback {
    double trip_ms, rate;               /* rate in GB a second */
};

static bool run_trips(int fd, struct loopback *ret)
{
    char byte = 0;
    uint64_t begin = mono_ns();
    for (unsigned i = 0; i < TRIPS; i++)
        if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1 || recv(fd, &byte, 1, 0) != 1)
            return false;
    ret->trip_ms = (double)(mono_ns() - begin) / 1e6 / TRIPS;
    return true;
}

static bool run_stream(int fd, struct loopback *ret)
{
    char *room = must_alloc(SUM_BLOCK);
    uint64_t begin = mono_ns(), sent = 0;
    ssize_t got = 1;
    for (; sent < STREAM_BYTES && got > 0; sent += (uint64_t)MAX(got, 0))
        got = send(fd, room, SUM_BLOCK, MSG_NOSIGNAL);
    ret->rate = (double)sent / (double)(mono_ns() - begin);
    free(room);
    return got > 0;
}

static bool run_client(const struct sockaddr_in *address, struct loopback *ret)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct timeval limit = { .tv_sec = SOCKET_S };
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    bool good = fd >= 0 &&
                connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
                run_trips(fd, ret) && run_stream(fd, ret);
    if (fd >= 0)
        close(fd);
    return good;
}

static bool measure_loopback(struct loopback *ret)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t thread;
    bool good = listener >= 0 &&
                bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                listen(listener, 1) == 0 &&
                getsockname(listener, (struct sockaddr *)&address, &len) == 0 &&
                thread_start(&thread, echo, &listener, "echo");
    if (good) {
        good = run_client(&address, ret);
        (void)shutdown(listener, SHUT_RDWR);    /* ends the accept if nobody has connected */
        pthread_join(thread, NULL);
    }
    if (listener >= 0)
        close(listener);
    return good;
}

static void loopback(struct doctor *doctor)
{
    struct loopback found = { 0 };
    if (!measure_loopback(&found)) {
        doctor_grade(doctor_add(doctor, S("loopback"), S("a connection to 127.0.0.1 fails"),
                                S("")), BROKEN, 1,
                     S("Clients on this machine can't reach a service at 127.0.0.1. Look at the "
                       "interface lo (ip link show lo) and at the firewall."));
        return;
    }
    struct finding *finding =
        doctor_add(doctor, S("loopback"),
                   arena_printf(doctor->keep, "a round trip in %.3f ms, %.1f GB/s", found.trip_ms,
                                found.rate),
                   arena_printf(doctor->keep, "below %g ms, over %g GB/s", TRIP_SLOW_MS,
                                STREAM_SLOW));
    double factor = MAX(found.trip_ms / TRIP_SLOW_MS, STREAM_SLOW / found.rate);
    doctor_judge(finding, factor, 1,
                 S("Even bytes that are in memory come to clients slowly. The processors are busy, "
                   "or the container has a small share of them: look at top and at the limits of "
                   "processor time."));
}

/* ---- clock ---- */

#define SET_CLOCK "Let NTP set the clock: timedatectl set-ntp true, or start chrony."

void doctor_clock(struct doctor *doctor, int64_t origin_s)
{
    struct timex state = { .modes = 0 };
    bool synced = adjtimex(&state) >= 0 && !(state.status & STA_UNSYNC);
    int64_t off_s = origin_s ? wall_s() - origin_s : 0;
    slice measured = origin_s ? arena_printf(doctor->keep, "%+" PRId64 " s against the origin%s",
                                             off_s, synced ? ", synchronized" : "")
                     : synced ? S("synchronized") : S("not synchronized by NTP, as far as known");
    struct finding *finding = doctor_add(doctor, S("clock"), measured,
                                         arena_printf(doctor->keep, "below %u s", SKEW_OFF_S));
    int64_t distance = off_s < 0 ? -off_s : off_s;
    if (!origin_s && !synced)
        finding->grade = UNKNOWN;
    if (distance >= SKEW_BAD_S)
        doctor_grade(finding, BROKEN, 1000.0 * (double)distance / SKEW_BAD_S,
                     S("The clocks of this machine and of the origin differ so much that the "
                       "origin refuses signed requests, or will soon. " SET_CLOCK));
    else if (distance >= SKEW_OFF_S)
        doctor_grade(finding, LIMITED, (double)distance / SKEW_BAD_S,
                     S("The clocks of this machine and of the origin differ. An origin refuses "
                       "signed requests if they differ by 15 minutes. " SET_CLOCK));
}

/* ---- locked memory ---- */

/* The id of the running service if it runs on this machine, else of this process. */
static intmax_t whose(const struct doctor *doctor)
{
    intmax_t pid = json_integer_value(doctor_value(doctor->status, "pid"));
    const char *path = arena_printf(doctor->keep, "/proc/%jd/limits", pid).ptr;
    return pid > 0 && access(path, R_OK) == 0 ? pid : getpid();
}

/* Returns the words that follow `name` in a file of the process. */
static slice proc_line(struct doctor *doctor, intmax_t pid, const char *file, slice name)
{
    slice text;
    const char *path = arena_printf(doctor->keep, "/proc/%jd/%s", pid, file).ptr;
    if (!file_read(path, PROC_BYTES_MAX, doctor->keep, &text))
        return S("");
    slice rest = slice_from(text, slice_find(text, name) + name.len);
    return slice_trim(slice_cut(&rest, '\n'));
}

static bool may_lock(struct doctor *doctor, intmax_t pid)
{
    slice caps = proc_line(doctor, pid, "status", S("CapEff:"));
    return strtoull(arena_copy(doctor->keep, caps).ptr, NULL, 16) >> CAP_IPC_LOCK & 1;
}

/* The second number of "Max locked memory" is the hard limit, which the service takes. */
static uint64_t locked_limit(struct doctor *doctor, intmax_t pid)
{
    slice rest = proc_line(doctor, pid, "limits", S("Max locked memory"));
    uint64_t bytes = 0;
    (void)slice_cut(&rest, ' ');
    rest = slice_trim(rest);
    slice hard = slice_cut(&rest, ' ');
    return slice_u64(hard, &bytes) ? bytes : slice_eq(hard, S("unlimited")) ? UINT64_MAX : 0;
}

static void locked_memory(struct doctor *doctor)
{
    intmax_t pid = whose(doctor);
    uint64_t wanted = doctor->memory.locked_bytes, limit = locked_limit(doctor, pid);
    bool free = limit == UINT64_MAX || may_lock(doctor, pid);
    slice allowed = free ? S("no limit") : show_bytes(doctor->keep, limit);
    struct finding *finding = doctor_add(
        doctor, S("locked memory"),
        arena_printf(doctor->keep, "%.*s, wanted %.*s", SLICE_ARG(allowed),
                     SLICE_ARG(show_bytes(doctor->keep, wanted))), S("as much as is wanted"));
    if (!free && limit < wanted)
        doctor_grade(finding, LIMITED, 0.5,
                     S("The service can lock less of the cache in memory than it would, so it "
                       "verifies and copies such bytes again for each hit. Raise LimitMEMLOCK in "
                       "the unit, or give the container CAP_IPC_LOCK."));
}

/* ---- io_uring ---- */

static void io_uring(struct doctor *doctor)
{
    enum disk_engine engine;
    const char *why = "", *used = json_string_value(doctor_value(doctor->status, "cache.io"));
    enum err err = disk_choose(slice_of(doctor->config->io), &engine, &why);
    bool chosen = strcmp(doctor->config->io, "threads") == 0;
    bool threads = err || engine == DISK_THREADS || (used && strcmp(used, "threads") == 0);
    struct finding *finding = doctor_add(doctor, S("io_uring"),
                                         !threads ? S("in use")
                                         : chosen ? S("off, by the setting io")
                                         : arena_copy(doctor->keep, slice_of(why)),
                                         S("in use"));
    bool by_limit = slice_find(slice_of(why), S("LimitMEMLOCK")) < strlen(why);
    if (threads && by_limit)    /* older kernels lock the memory of io_uring */
        doctor_grade(finding, LIMITED, 0.4, S("Raise the limit of locked memory (LimitMEMLOCK)."));
    else if (threads && !chosen)
        doctor_grade(finding, LIMITED, 0.7,
                     S("Reads of the disk go through a pool of threads, which costs processor time "
                       "and delays reads. Allow io_uring_setup, io_uring_enter and "
                       "io_uring_register in the container's seccomp profile, or set the sysctl "
                       "kernel.io_uring_disabled to 0."));
}

/* ---- page cache ---- */

static uint64_t available_bytes(struct doctor *doctor)
{
    slice text, name = S("MemAvailable:");
    uint64_t kib = 0;
    if (!file_read("/proc/meminfo", PROC_BYTES_MAX, doctor->keep, &text))
        return 0;
    slice rest = slice_trim(slice_from(text, slice_find(text, name) + name.len));
    return slice_u64(slice_cut(&rest, ' '), &kib) ? kib * KIB : 0;
}

static void page_cache(struct doctor *doctor)
{
    uint64_t room = MIN(available_bytes(doctor), doctor->memory.allowed_bytes);
    json_t *known = doctor_value(doctor->status, "cache.index_bytes");
    uint64_t index = (uint64_t)MAX(json_integer_value(known), 0);
    slice measured = arena_printf(doctor->keep, "%.*s free for it%s%.*s",
                                  SLICE_ARG(show_bytes(doctor->keep, room)),
                                  index ? ", index " : "",
                                  SLICE_ARG(index ? show_bytes(doctor->keep, index) : S("")));
    struct finding *finding = doctor_add(doctor, S("page cache"), measured,
                                         S("more than the index and the data that is read often"));
    if (room < MAX(index, 64 * MIB))
        doctor_grade(finding, LIMITED, 0.9,
                     S("There is so little memory for the page cache that hits and look-ups wait "
                       "for the disk. Give the machine or the container more memory, or lower the "
                       "setting memory."));
}

void doctor_machine(struct doctor *doctor)
{
    page_cache(doctor);
    checksum(doctor);
    loopback(doctor);
    locked_memory(doctor);
    io_uring(doctor);
}
