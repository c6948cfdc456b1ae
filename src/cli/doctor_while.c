/* doctor_while.c - what the requests of a command waited for. SPDX-License-Identifier: Apache-2.0
 *
 * The service adds up the time that requests wait, by what they wait for (penstock_wait_seconds).
 * The difference of its metrics after and before the command has the shares. Requests of other
 * programs in the same time count, too. Many requests wait at the same time, so the sum may be more
 * than the time of the command. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/doctor.h"

#define FULL 0.85                     /* of its capacity: the cache is full */
#define IDLE 0.05                     /* of the command's time; with less, requests hardly waited */
#define NOT_FOUND 127
#define NOT_RUN 126

enum wait { WAIT_MISS, WAIT_ORIGIN, WAIT_DISK, WAIT_CLIENT, WAITS };
static const char *const wait_names[] = { "misses", "origin", "disk", "client" };
static const char *const wait_texts[] = {
    "bytes of objects that are not cached", "other answers of an origin",
    "the disk of the cache", "clients that send or take bytes, and Penstock's own work",
};

struct difference {
    slice before, after;              /* metrics */
    double seconds[WAITS], sum;
    double command_s;
};

static double change(const struct difference *of, const char *name)
{
    slice metric = slice_of(name);
    return MAX(0, doctor_metric(of->after, metric) - doctor_metric(of->before, metric));
}

static void add_up(struct difference *of)
{
    double requests = change(of, "penstock_request_seconds_sum") +
                      change(of, "penstock_fill_seconds_sum");
    of->seconds[WAIT_MISS] = change(of, "penstock_wait_seconds_sum{on=\"miss\"}");
    of->seconds[WAIT_ORIGIN] = change(of, "penstock_wait_seconds_sum{on=\"origin\"}");
    of->seconds[WAIT_DISK] = change(of, "penstock_wait_seconds_sum{on=\"disk\"}");
    double waited = of->seconds[WAIT_MISS] + of->seconds[WAIT_ORIGIN] + of->seconds[WAIT_DISK];
    of->seconds[WAIT_CLIENT] = MAX(0, requests - waited);
    of->sum = waited + of->seconds[WAIT_CLIENT];
}

/* ---- why ---- */

static double number(const struct doctor *doctor, const char *path)
{
    return json_number_value(doctor_value(doctor->status, path));
}

/* Explains waits for bytes that are not cached. */
static slice why_missed(const struct doctor *doctor, const struct difference *of)
{
    double used = number(doctor, "cache.used_bytes"), most = number(doctor, "cache.capacity_bytes");
    double calls = change(of, "penstock_origin_first_byte_seconds_count");
    double first_s = change(of, "penstock_origin_first_byte_seconds_sum");
    double bytes = change(of, "penstock_origin_received_bytes_total");
    double miss_s = of->seconds[WAIT_MISS];
    slice reason = first_s > miss_s / 2
        ? arena_printf(doctor->keep, "The origin's first byte takes %.0f ms, on average",
                       1e3 * first_s / MAX(calls, 1))
        : arena_printf(doctor->keep, "The origin's bandwidth is the limit: a request waited for "
                       "%.1f MB in a second", bytes / 1e6 / MAX(miss_s, 1e-6));
    if (used > FULL * most)
        return arena_printf(doctor->keep, "The cache size: the cache is full, and the command read "
                            "what it does not hold. Raise cache_size, or add a folder to "
                            "cache_dirs (penstock stat says what that would change). %.*s.",
                            SLICE_ARG(reason));
    return arena_printf(doctor->keep, "%.*s. A second run finds the objects in the cache. Bring "
                        "them before they are read: penstock warm.", SLICE_ARG(reason));
}

static slice why(const struct doctor *doctor, const struct difference *of, enum wait widest)
{
    if (widest == WAIT_MISS)
        return why_missed(doctor, of);
    if (widest == WAIT_ORIGIN)
        return S("The origin is asked whether cached copies are current, or for lists or writes. "
                 "If objects rarely change, raise ttl, or set freshness to immutable. For lists, "
                 "set list_time.");
    if (widest == WAIT_DISK)
        return S("Bytes of the cache come from a disk that does not keep up. Put the cache folder "
                 "on a faster disk or on several disks (cache_dirs), or give the machine more "
                 "memory. penstock doctor measures the disk.");
    return S("The command takes or sends bytes more slowly than Penstock could, or the processors "
             "are busy. Let it read more objects at the same time.");
}

/* ---- output ---- */

static enum wait widest_of(const struct difference *of)
{
    enum wait widest = WAIT_MISS;
    for (unsigned i = 0; i < WAITS; i++)
        if (of->seconds[i] > of->seconds[widest])
            widest = (enum wait)i;
    return widest;
}

static void print_json(const struct difference *of, slice reason)
{
    json_t *root = json_object(), *shares = json_object();
    for (unsigned i = 0; i < WAITS; i++)
        json_object_set_new(shares, wait_names[i],
                            of->sum > 0 ? json_real(of->seconds[i] / of->sum) : json_null());
    json_object_set_new(root, "command_seconds", json_real(of->command_s));
    json_object_set_new(root, "request_seconds", json_real(of->sum));
    json_object_set_new(root, "shares", shares);
    json_object_set_new(root, "narrowest", of->sum > 0 ? json_string(wait_names[widest_of(of)])
                                                       : json_null());
    json_object_set_new(root, "advice", json_stringn(reason.ptr, reason.len));
    (void)json_dumpf(root, stderr, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    fputc('\n', stderr);
    json_decref(root);
}

static void print_shares(const struct doctor *doctor, const struct difference *of, slice reason)
{
    enum wait widest = widest_of(of);
    fprintf(stderr, "penstock doctor: the command took %.1f s; all requests of that time together "
            "took %.1f s:\n", of->command_s, of->sum);
    for (unsigned i = 0; i < WAITS && of->sum > 0; i++)
        fprintf(stderr, "%5.1f %%  %-8s %s\n", 100 * of->seconds[i] / of->sum, wait_names[i],
                wait_texts[i]);
    if (of->sum > 0)
        fprintf(stderr, "The narrowest place is %s. %.*s\n", wait_names[widest],
                SLICE_ARG(reason));
    if (of->sum < IDLE * of->command_s)
        fputs("But the command hardly waited for Penstock: most of its time it did something "
              "else.\n", stderr);
}

/* ---- the command ---- */

/* Runs the command. Returns its exit status as a shell would. Ctrl-C ends only the command, because
 * what it waited for until then is of use. */
static int run(const char *const *command, size_t count)
{
    struct sigaction ignored = { .sa_handler = SIG_IGN }, old;
    const char **words = must_alloc((count + 1) * sizeof(*words));
    memcpy(words, command, count * sizeof(*words));
    fflush(NULL);
    check(sigaction(SIGINT, &ignored, &old) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        check(sigaction(SIGINT, &old, NULL) == 0);
        (void)execvp(words[0], (char *const *)(uintptr_t)words);
        fprintf(stderr, "penstock doctor: can't run %s: %s\n", words[0], strerror(errno));
        _exit(errno == ENOENT ? NOT_FOUND : NOT_RUN);
    }
    free(words);
    int status = 0;
    if (pid < 0) {
        fprintf(stderr, "penstock doctor: can't start a process: %s\n", strerror(errno));
        return NOT_RUN;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    check(sigaction(SIGINT, &old, NULL) == 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool look(struct doctor *doctor, slice *ret)
{
    doctor_find_service(doctor);
    *ret = doctor->metrics;
    return doctor->status && doctor->metrics.len;
}

int doctor_while(struct doctor *doctor, const char *const *command, size_t count, bool json)
{
    struct difference of = { .sum = 0 };
    bool there = look(doctor, &of.before);
    intmax_t pid = json_integer_value(doctor_value(doctor->status, "pid"));
    uint64_t begin = mono_ns();
    if (!there) {
        fprintf(stderr, "penstock doctor: no Penstock answers at admin_listen, %s, so it can't be "
                "found out what the command waits for. Start the service, or give its address by "
                "--admin-listen HOST:PORT before --while\n", doctor->config->admin_listen);
        return EXIT_FAILED;
    }
    int status = run(command, count);
    of.command_s = (double)(mono_ns() - begin) / 1e9;
    there = look(doctor, &of.after);
    if (!there || json_integer_value(doctor_value(doctor->status, "pid")) != pid) {
        fputs("penstock doctor: the service was restarted or stopped meanwhile, so nothing is "
              "known of what the command waited for\n", stderr);
        return status;
    }
    add_up(&of);
    slice reason = of.sum > 0 ? why(doctor, &of, widest_of(&of))
                              : S("No request came in this time. Does the command use this "
                                  "Penstock as its endpoint (AWS_ENDPOINT_URL)?");
    if (json)
        print_json(&of, reason);
    else
        print_shares(doctor, &of, reason);
    if (!json && of.sum <= 0)
        fprintf(stderr, "%.*s\n", SLICE_ARG(reason));
    return status;
}
