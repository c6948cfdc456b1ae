/* doctor_service.c - what the running service says of itself. SPDX-License-Identifier: Apache-2.0
 *
 * Without a running service, or without the right to ask it, there is one row that says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ask.h"
#include "cli/doctor.h"

#define FULL 0.85                     /* of its capacity: the cache is full */
#define GAIN 0.1                      /* of the hit ratio, from which on more space is worth it */

json_t *doctor_value(const json_t *root, const char *path)
{
    json_t *at = (json_t *)(uintptr_t)root;
    slice rest = slice_of(path);
    while (at && rest.len) {
        slice name = slice_cut(&rest, '.');
        at = json_object_getn(at, name.ptr, name.len);
    }
    return at;
}

double doctor_metric(slice metrics, slice name)
{
    double sum = 0;
    while (metrics.len) {
        slice line = slice_cut(&metrics, '\n');
        slice rest = slice_from(line, name.len);
        bool is_it = slice_starts(line, name) && rest.len &&
                     (rest.ptr[0] == ' ' || rest.ptr[0] == '{');
        char number[40] = "";
        for (size_t at = rest.len; is_it && at > 0; at--) {
            if (rest.ptr[at - 1] != ' ')
                continue;
            slice value = slice_sub(rest, at, sizeof(number) - 1);
            memcpy(number, value.ptr, value.len);
            break;
        }
        sum += strtod(number, NULL);
    }
    return sum;
}

/* ---- the service ---- */

static slice get(struct doctor *doctor, const char *path, slice token)
{
    const struct config *config = doctor->config;
    if (strcmp(config->admin_listen, "off") == 0)
        return S("");
    struct answer answer = ask(doctor->keep, slice_of(config->admin_listen), slice_of(path), token,
                               ASK_MS);
    return answer.status == 200 ? answer.body : S("");
}

void doctor_find_service(struct doctor *doctor)
{
    const struct config *config = doctor->config;
    json_error_t error;
    slice admin = slice_of(config->admin_token), body = get(doctor, "/status", admin);
    json_decref(doctor->status);
    doctor->status = body.len ? json_loadb(body.ptr, body.len, 0, &error) : NULL;
    const char *name = json_string_value(doctor_value(doctor->status, "name"));
    if (!name || strcmp(name, "penstock") != 0) {
        json_decref(doctor->status);
        doctor->status = NULL;
    }
    doctor->metrics = get(doctor, "/metrics", admin);
}

static double number(const struct doctor *doctor, const char *path)
{
    return json_number_value(doctor_value(doctor->status, path));
}

static void works(struct doctor *doctor)
{
    const char *why = json_string_value(doctor_value(doctor->status, "cache.why"));
    struct finding *finding =
        doctor_add(doctor, S("service"),
                   arena_printf(doctor->keep, "runs, up %.0f s, %.0f requests",
                                number(doctor, "uptime_s"), number(doctor, "requests")),
                   S("runs"));
    if (!json_is_true(doctor_value(doctor->status, "cache.serving"))) {
        finding->measured = S("runs without a cache");
        doctor_grade(finding, BROKEN, 100,
                     arena_printf(doctor->keep, "All reads go to the origin, because no cache "
                                  "folder is in service: %s", why ? why : "the reason is unknown"));
    }
}

static void cache(struct doctor *doctor)
{
    double used = number(doctor, "cache.used_bytes"), most = number(doctor, "cache.capacity_bytes");
    double now = number(doctor, "cache.what_if.hit_ratio");
    double twice = number(doctor, "cache.what_if.double.hit_ratio");
    bool known = number(doctor, "cache.what_if.reads") > 0;
    slice share = show_share(doctor->keep, (uint64_t)used, (uint64_t)MAX(most, 1));
    slice measured = known
        ? arena_printf(doctor->keep, "%.*s full, hit ratio %.0f %%; twice the size: %.0f %%",
                       SLICE_ARG(share), 100 * now, 100 * twice)
        : arena_printf(doctor->keep, "%.*s full", SLICE_ARG(share));
    struct finding *finding = doctor_add(doctor, S("cache size"), measured,
                                         S("twice the size would change little"));
    if (known && used > FULL * most && twice > now + GAIN)
        doctor_grade(finding, SLOW, (twice - now) / GAIN,
                     arena_printf(doctor->keep, "The cache is full, and clients read more than it "
                                  "holds: with twice the size, %.0f %% of the reads would be "
                                  "hits, and not %.0f %%. Raise cache_size, or add a folder to "
                                  "cache_dirs.", 100 * twice, 100 * now));
}

/* The text of a node's member, as the service sent it. */
static const char *of_peer(json_t *peer, const char *member)
{
    const char *text = json_string_value(json_object_get(peer, member));
    return text ? text : "";
}

/* No row if there are no other nodes. */
static void peers(struct doctor *doctor)
{
    size_t i, others = 0, answer = 0;
    double slowest_us = 0;
    json_t *peer, *away = NULL;
    json_array_foreach(doctor_value(doctor->status, "peers"), i, peer) {
        bool answers = strcmp(of_peer(peer, "state"), "answers") == 0;
        bool is_self = strcmp(of_peer(peer, "state"), "this node") == 0;
        others += !is_self;
        answer += answers;
        if (answers)
            slowest_us = MAX(slowest_us, json_number_value(json_object_get(peer, "round_trip_us")));
        else if (!is_self && !away)
            away = peer;
    }
    if (!others)
        return;
    struct finding *finding =
        doctor_add(doctor, S("peers"), arena_printf(doctor->keep, "%zu of %zu other nodes answer, "
                   "the slowest after %.2f ms", answer, others, slowest_us / 1000),
                   S("all answer"));
    if (away)
        doctor_grade(finding, LIMITED, (double)others / (double)(answer + 1),
                     arena_printf(doctor->keep, "Node %s does not answer: %s. What it owns comes "
                                  "from the next node, or from the origin. penstock peers says "
                                  "more.", of_peer(away, "address"), of_peer(away, "why")));
}

static void waits(struct doctor *doctor)
{
    static const char *const names[] = { "disk", "miss", "origin" };
    double of[countof(names)], sum = 0;
    for (size_t i = 0; i < countof(names); i++) {
        slice name = arena_printf(doctor->keep, "penstock_wait_seconds_sum{on=\"%s\"}", names[i]);
        sum += of[i] = doctor_metric(doctor->metrics, name);
    }
    slice measured = sum > 0
        ? arena_printf(doctor->keep, "%.1f s: %.0f %% misses, %.0f %% origin, %.0f %% disk", sum,
                       100 * of[1] / sum, 100 * of[2] / sum, 100 * of[0] / sum)
        : S("none yet");
    doctor_add(doctor, S("waits since the start"), measured, S("only to compare"));
}

void doctor_service(struct doctor *doctor)
{
    if (!doctor->status) {
        struct finding *finding = doctor_add(doctor, S("service"),
                                             S("no answer at admin_listen"), S("runs"));
        finding->grade = UNKNOWN;
        return;
    }
    works(doctor);
    cache(doctor);
    peers(doctor);
    if (doctor->metrics.len)
        waits(doctor);
}
