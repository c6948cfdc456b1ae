/* body.c - where the body of a request lies. SPDX-License-Identifier: Apache-2.0
 *
 *     up to body_memory --> memory, else the spill folder --+
 *                                                           +--> neither has room: refused
 *     above             --> the spill folder, else memory --+
 *
 * Room for all of a body is taken before its first byte is read. A body of unknown length (chunked)
 * grows: in memory it moves, and where it outgrows memory a file takes what comes from then on. So
 * the first bytes of a body in a file lie in memory, its front: at least what came with the head.
 *
 * All bodies share one budget of memory and one of disk (H8), and one client may hold half of
 * either: a client that sends bodies and never ends them leaves room for others. The folder is a
 * cache's: it takes a body only while it serves and keeps its reserve, which may_spill knows. The
 * room on disk is free again when a body is released, before its file is closed, or a client whose
 * write is done would find no room for the next: may_spill looks at what the disk has. The
 * descriptor counts until the file is closed.
 *
 * Other threads make the file and write to it (spill.c). Closing it may wait for the disk, and
 * takes as long as a second for gigabytes: a thread of its own does that.
 *
 * Threads: a body belongs to one thread after another. A piece on its way to the file shares it
 * with a spill thread, which alone touches `fd` and `allocated` then. Room is counted over all
 * loops. */
#include "http/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/metric.h"
#include "base/thread.h"

#define HUGE_BYTES (2 * MIB)
#define ALLOCATE_BYTES (8 * MIB)    /* of a file, ahead of what is written */
#define CLIENTS 1024u               /* of more, some share what one may hold */

enum room { ROOM_MEMORY, ROOM_DISK, ROOM_FILES, ROOM_KINDS };

#define BODY_MAGIC 0x626f6479u
struct http_body {
    unsigned magic;
    unsigned client;                /* as the judge said; 0: nobody's */
    atomic_uint refs;               /* whoever has it, and a piece on its way */
    bool beyond_share;              /* others could have what was not given */
    size_t held[ROOM_KINDS];
    char *memory;
    int fd;                         /* -1: no file was made yet */
    size_t bytes, front, room;      /* so far; of these, in memory; it may come to so many now */
    size_t allocated, counted;      /* of the file on the disk; and in disk_allocated */
};

/* ---- room ---- */

static atomic_size_t all_hold[ROOM_KINDS], clients_hold[1 + CLIENTS][ROOM_KINDS];
static atomic_size_t disk_allocated;

static atomic_size_t *client_holds(const struct http_body *body)
{
    return clients_hold[body->client ? 1 + body->client % CLIENTS : 0];
}

static void count(struct http_body *body, enum room kind, int64_t more)
{
    body->held[kind] += (size_t)more;
    if (kind != ROOM_FILES)
        metric_gauge_add(kind == ROOM_DISK ? M_HTTP_BODY_DISK : M_HTTP_BODY_MEMORY, more);
}

static void give(struct http_body *body, enum room kind, size_t less)
{
    atomic_fetch_sub(&all_hold[kind], less);
    atomic_fetch_sub(&client_holds(body)[kind], less);
    count(body, kind, -(int64_t)less);
}

/* Is there so much more to be had, of what may be `most`? 0: any number. */
static bool take(struct http_body *body, enum room kind, size_t more, size_t most)
{
    size_t before = atomic_fetch_add(&all_hold[kind], more);
    size_t mine = atomic_fetch_add(&client_holds(body)[kind], more);
    count(body, kind, (int64_t)more);
    bool fits = !most || before + more <= most;
    bool beyond = most && body->client && mine && mine + more > most / 2;
    if (fits && !beyond)
        return true;
    body->beyond_share |= fits;
    give(body, kind, more);
    return false;
}

/* In huge pages as far as whole ones fit: to fault in small ones takes longer than to fill them. */
static void *allocate_memory(size_t bytes)
{
    if (bytes < HUGE_BYTES)
        return malloc(bytes);
    size_t whole = bytes / HUGE_BYTES * HUGE_BYTES;
    void *at = aligned_alloc(HUGE_BYTES, whole + (bytes > whole ? HUGE_BYTES : 0));
    if (at)
        madvise(at, whole, MADV_HUGEPAGE);    /* or not: it is memory all the same */
    return at;
}

static bool in_memory(const struct http *http, struct http_body *body, size_t bytes)
{
    size_t before = body->held[ROOM_MEMORY];
    if (!take(body, ROOM_MEMORY, bytes, http->options.bodies_memory_bytes))
        return false;
    char *memory = allocate_memory(bytes);
    if (!memory) {
        give(body, ROOM_MEMORY, bytes);
        return false;
    }
    memcpy(memory, body->memory, body->bytes);
    free(body->memory);
    body->memory = memory;
    body->front = body->room = bytes;
    give(body, ROOM_MEMORY, before);
    return true;
}

/* Of what bodies hold: the disk has not given it yet. */
static size_t promised(void)
{
    size_t held = atomic_load(&all_hold[ROOM_DISK]), allocated = atomic_load(&disk_allocated);
    return held > allocated ? held - allocated : 0;
}

static bool in_a_file(const struct http *http, struct http_body *body, size_t bytes)
{
    const struct http_options *options = &http->options;
    bool first = !body->held[ROOM_FILES];
    size_t more = bytes - (first ? 0 : body->room);
    if (!http->spill || (first && !take(body, ROOM_FILES, 1, options->spill_files_max)))
        return false;
    bool has = take(body, ROOM_DISK, more, options->bodies_disk_bytes);
    if (has && (!options->may_spill || options->may_spill(options->spill_arg, promised()))) {
        if (first)
            body->front = body->bytes;
        body->room = bytes;
        return true;
    }
    give(body, ROOM_DISK, has ? more : 0);
    give(body, ROOM_FILES, first);
    return false;
}

static bool place(struct conn *conn, size_t bytes)
{
    const struct http *http = conn->loop->http;
    struct http_body *body = conn->request->body;
    bool small = bytes <= http->options.body_memory_bytes;
    if (http_body_in_file(body) ? in_a_file(http, body, bytes)
                                : (small && in_memory(http, body, bytes)) ||
                                      in_a_file(http, body, bytes) ||
                                      (!small && in_memory(http, body, bytes)))
        return true;
    metric_add(body->beyond_share ? M_HTTP_REFUSED_SHARE : M_HTTP_REFUSED_SPILL, 1);
    gate_refuse(conn, ERR_LIMIT, body->beyond_share
                                     ? "other bodies of this client take all the room one may have"
                                     : "there is no room for the request body just now");
    return false;
}

/* One that would have fitted behind its head into a socket's first buffer does not count. */
bool body_begin(struct conn *conn, slice first, size_t bytes)
{
    struct http_request *request = conn->request;
    bool counts = conn->large_head || request->head.bytes + bytes > HEAD_SMALL_BYTES;
    struct http_body *body = request->body = must_alloc(sizeof(*body));
    body->magic = BODY_MAGIC;
    body->client = request->client;
    atomic_init(&body->refs, 1);
    body->fd = -1;
    body->bytes = first.len;
    body->front = body->room = counts ? first.len : bytes;
    body->memory = must_alloc(MAX(body->room, 1u));
    memcpy(body->memory, first.ptr, first.len);
    return !counts || place(conn, bytes);
}

bool body_make_room(struct conn *conn, size_t bytes)
{
    const struct http_request *request = conn->request;
    size_t room = request->body->room, most = request->body_max + BODY_READ_BYTES;
    return bytes <= room || place(conn, MIN(MAX(bytes, 2 * room), most));
}

bool http_body_in_file(const struct http_body *body)
{
    return body && body->held[ROOM_FILES];
}

char *body_end(struct http_body *body, size_t *ret_room)
{
    *ret_room = body->room - body->bytes;
    return body->memory + body->bytes;
}

size_t body_grow(struct http_body *body, size_t bytes)
{
    size_t at = body->bytes;
    check(bytes <= body->room - at);
    body->bytes += bytes;
    return at;
}

/* ---- its bytes ---- */

/* Bytes at `at`, to or from there. */
static bool transfer(const struct http_body *body, size_t at, char *bytes, size_t len, bool out)
{
    size_t done = at < body->front ? MIN(len, body->front - at) : 0;
    if (done)
        memmove(out ? body->memory + at : bytes, out ? bytes : body->memory + at, done);
    while (done < len) {
        off_t to = (off_t)(at + done - body->front);
        ssize_t moved = out ? pwrite(body->fd, bytes + done, len - done, to)
                            : pread(body->fd, bytes + done, len - done, to);
        if (moved <= 0 && (moved == 0 || errno != EINTR))
            return false;
        done += moved > 0 ? (size_t)moved : 0;
    }
    return true;
}

static int open_file(const char *folder)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/body.XXXXXX", folder);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

/* Room on the disk for what comes next, ahead of it: a full one is seen here. */
static bool allocate(struct http_body *body, size_t until)
{
    if (until <= body->allocated)
        return true;
    size_t ahead = MAX(until, body->allocated + ALLOCATE_BYTES);
    size_t to = MIN(body->room - body->front, ahead);
    if (posix_fallocate(body->fd, (off_t)body->allocated, (off_t)(to - body->allocated)))
        return false;
    body->allocated = to;
    return true;
}

bool body_spill(struct http_body *body, const char *folder, size_t at, char *bytes, size_t len)
{
    if (body->fd < 0)
        body->fd = open_file(folder);
    return body->fd >= 0 && allocate(body, at + len - body->front) &&
           transfer(body, at, bytes, len, true);
}

void body_spilled(struct http_body *body)
{
    atomic_fetch_add(&disk_allocated, body->allocated - body->counted);
    body->counted = body->allocated;
}

size_t http_body_bytes(const struct http_body *body)
{
    return body ? body->bytes : 0;
}

bool http_body_read(const struct http_body *body, size_t at, char *to, size_t bytes)
{
    return !bytes || transfer(body, at, to, bytes, false);
}

bool http_body_write(struct http_body *body, size_t at, char *from, size_t bytes)
{
    return !bytes || transfer(body, at, from, bytes, true);
}

char *http_body_piece(const struct http_body *body, size_t at, char *buffer, size_t *bytes)
{
    check(at < body->bytes);
    *bytes = MIN(*bytes, body->bytes - at);
    if (at >= body->front)
        return transfer(body, at, buffer, *bytes, false) ? buffer : NULL;
    *bytes = MIN(*bytes, body->front - at);
    return body->memory + at;
}

/* ---- its end ---- */

static void *dispose(void *arg)
{
    struct http_body *body = arg;
    if (body->fd >= 0)
        close(body->fd);
    free(body->memory);
    give(body, ROOM_FILES, body->held[ROOM_FILES]);
    give(body, ROOM_MEMORY, body->held[ROOM_MEMORY]);
    free(body);
    return NULL;
}

struct http_body *body_ref(struct http_body *body)
{
    atomic_fetch_add(&body->refs, 1);
    return body;
}

void body_unref(struct http_body **body)
{
    struct http_body *mine = *body;
    *body = NULL;
    check(mine->magic == BODY_MAGIC);
    if (atomic_fetch_sub(&mine->refs, 1) > 1)
        return;
    pthread_t thread;
    mine->magic = 0;
    if (mine->fd >= 0 && thread_start(&thread, dispose, mine, "body-end"))
        pthread_detach(thread);
    else
        dispose(mine);
}

struct http_body *http_body_take(struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC);
    struct http_body *body = request->body;
    request->body = NULL;
    return body;
}

void http_body_release(struct http_body **body)
{
    struct http_body *mine = *body;
    *body = NULL;
    if (!mine)
        return;
    give(mine, ROOM_DISK, mine->held[ROOM_DISK]);
    atomic_fetch_sub(&disk_allocated, mine->counted);
    body_unref(&mine);
}
