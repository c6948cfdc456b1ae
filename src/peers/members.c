/* members.c - the list of the fleet's nodes. SPDX-License-Identifier: Apache-2.0
 *
 * The thread `peers-list` makes a look, reports a change, and waits until the answers are no longer
 * valid: at least 1 s, at most LOOK_PAUSE_S_MAX. After a failed look it waits 1 s, then 2 s, 4 s
 * and 8 s. Only this thread changes the list, so it reads the list without the lock. */
#include "peers/members.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/periodic.h"
#include "base/url_kind.h"
#include "peers/look.h"

#define LOOK_S 20u                    /* the most that a look may take */
#define FAILED_PAUSE_S_MAX 8u

struct members {
    struct arena keep;                /* the texts of `options` and `source` */
    struct members_options options;
    struct members_source source;
    struct etcd *etcd;                /* NULL: the list is elsewhere */
    unsigned failures;                /* in a row */
    struct member_address *list;      /* MEMBERS_MAX */
    struct periodic look;             /* its lock guards what follows */
    struct members_status status;     /* its `why` is the next member */
    char why[600];
};

/* ---- a look ---- */

enum err look_may_go_on(struct look *look)
{
    if (atomic_load(look->stop))
        return ERR_STOPPING;
    if (mono_ns() < look->end_ns)
        return OK;
    return look_fail(look, ERR_TIMEOUT, "the look took longer than %u s", LOOK_S);
}

void look_add(struct look *look, const struct member_address *address)
{
    if (look->count == LOOK_FOUND_MAX)
        return;
    look->found = arena_grow(look->keep, look->found, look->count, sizeof(*look->found));
    look->found[look->count++] = *address;
}

enum err look_fail(struct look *look, enum err err, const char *fmt, ...)
{
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (!look->why.len)
        look->why = arena_copy(look->keep, slice_of(text));
    return err;
}

static enum err look_at(struct members *members, struct look *look)
{
    const struct members_source *source = &members->source;
    enum err e;
    dns_begin(look);
    if (source->kind == MEMBERS_ETCD)
        e = etcd_look(members->etcd, look);
    else if (source->has_services)
        e = dns_services(look, source->hosts->host);
    else
        e = dns_hosts(look, source->hosts, source->host_count);
    return e || look->count ? e : look_fail(look, ERR_NOT_FOUND, "there is no address in the list");
}

/* ---- what a look found ---- */

static void sort(struct look *look)
{
    size_t count = 0;
    if (look->count)
        qsort(look->found, look->count, sizeof(*look->found), member_order);
    for (size_t i = 0; i < look->count; i++)
        if (!count || member_order(&look->found[count - 1], &look->found[i]) != 0)
            look->found[count++] = look->found[i];
    look->count = count;
}

static bool is_same(const struct members *members, const struct look *look, size_t count)
{
    if (count != members->status.count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (member_order(&members->list[i], &look->found[i]) != 0)
            return false;
    return true;
}

/* An event is logged when it begins, and when it ends. */
static void log_look(const struct members *members, const struct members_status *before,
                     bool changed)
{
    const struct members_status *now = &members->status;
    struct arena keep = { 0 };
    slice why = log_sentence(&keep, slice_of(members->why));
    if (changed)
        log_info("peers_listed", "count=%zu", now->count);
    if (now->left_out && !before->left_out)
        log_warn("peers_too_many", "count=%zu left_out=%zu why=\"a list has at most %u addresses, "
                 "so Penstock uses the first ones in their order. Divide the nodes into several "
                 "fleets, each with a list of its own\"", now->count, now->left_out, MEMBERS_MAX);
    if (now->failed_s && !before->failed_s)
        log_warn("peers_list_failed", "count=%zu why=\"%.*s. Penstock keeps the last list of "
                 "peers, and asks again and again: check the setting peers\"", now->count,
                 SLICE_ARG(why));
    if (!now->failed_s && before->failed_s)
        log_info("peers_list_back", "count=%zu", now->count);
    arena_free(&keep);
}

/* Takes the result of a look over. Returns true if the list has changed. */
static bool take(struct members *members, struct look *look, enum err e)
{
    struct members_status *status = &members->status, before = *status;
    for (size_t i = 0; e && i < before.count; i++)
        look_add(look, &members->list[i]);
    sort(look);
    size_t count = MIN(look->count, MEMBERS_MAX);
    bool changed = !is_same(members, look, count);
    pthread_mutex_lock(&members->look.lock);
    if (changed)
        memcpy(members->list, look->found, count * sizeof(*look->found));
    status->count = count;
    status->left_out = look->count - count;
    status->changed_s = changed ? wall_s() : status->changed_s;
    status->looked_s = e ? status->looked_s : wall_s();
    status->failed_s = !e ? 0 : status->failed_s ? status->failed_s : wall_s();
    snprintf(members->why, sizeof(members->why), "%.*s", e ? (int)look->why.len : 0,
             look->why.len ? look->why.ptr : "");
    pthread_mutex_unlock(&members->look.lock);
    members->failures = e ? members->failures + 1 : 0;
    log_look(members, &before, changed);
    return changed;
}

/* Returns the time until the next look. */
static uint32_t look_once(struct members *members)
{
    struct arena keep = { 0 };
    struct look look = {
        .keep = &keep, .stop = &members->look.stop, .pause_s = LOOK_PAUSE_S_MAX,
        .end_ns = mono_ns() + LOOK_S * (uint64_t)1000000000u,
    };
    slice listen = members->options.listen, port = url_cut_port(&listen);
    uint64_t number;
    if (slice_u64(port, &number))
        look.port = (unsigned)number;
    enum err e = look_at(members, &look);
    if (!atomic_load(&members->look.stop) && take(members, &look, e))
        members->options.changed(members->options.arg, members->list, members->status.count);
    uint32_t pause_s = e ? MIN(1u << MIN(members->failures - 1, 8u), FAILED_PAUSE_S_MAX)
                         : MAX(look.pause_s, 1u);
    arena_free(&keep);
    return pause_s;
}

/* ---- the thread ---- */

static void *run(void *arg)
{
    struct members *members = arg;
    while (!atomic_load(&members->look.stop)) {
        uint64_t next_ns = mono_ns() + look_once(members) * (uint64_t)1000000000u;
        pthread_mutex_lock(&members->look.lock);
        while (!atomic_load(&members->look.stop) && mono_ns() < next_ns)
            periodic_wait(&members->look, next_ns);
        pthread_mutex_unlock(&members->look.lock);
    }
    if (members->etcd)
        etcd_leave(members->etcd);
    return NULL;
}

static void keep_options(struct members *members, const struct members_options *options)
{
    struct arena *keep = &members->keep;
    members->options = *options;
    slice *const texts[] = { &members->options.peers, &members->options.listen,
                             &members->options.etcd_user, &members->options.etcd_password };
    for (size_t i = 0; i < countof(texts); i++)
        *texts[i] = arena_copy(keep, *texts[i]);
    members->options.etcd_ca_file = arena_copy(keep, slice_of(options->etcd_ca_file)).ptr;
}

enum err members_open(const struct members_options *options, struct members **ret)
{
    struct members *members = must_alloc(sizeof(*members));
    const char *why;
    periodic_init(&members->look);
    members->list = must_alloc(MEMBERS_MAX * sizeof(*members->list));
    keep_options(members, options);
    bool good = members_parse(members->options.peers, &members->keep, &members->source, &why);
    if (good && members->source.kind == MEMBERS_ETCD)
        members->etcd = etcd_new(&members->source, &members->options);
    if (!good)
        members_close(&members);
    *ret = members;
    return good ? OK : ERR_BAD_ARGUMENT;
}

enum err members_begin(struct members *members)
{
    bool begun = members->source.kind == MEMBERS_OFF ||
                 periodic_start(&members->look, run, members, "peers-list");
    return begun ? OK : ERR_LIMIT;
}

void members_status(struct members *members, struct arena *keep, struct members_status *ret)
{
    pthread_mutex_lock(&members->look.lock);
    *ret = members->status;
    ret->why = arena_copy(keep, slice_of(members->why));
    pthread_mutex_unlock(&members->look.lock);
}

void members_close(struct members **members)
{
    struct members *mine = *members;
    *members = NULL;
    if (!mine)
        return;
    periodic_end(&mine->look);
    etcd_free(&mine->etcd);
    arena_free(&mine->keep);
    free(mine->list);
    free(mine);
}
