/* body.c - where the body of a request is kept. SPDX-License-Identifier: Apache-2.0
 *
 *     up to body_memory --> memory, else the spill folder --+
 *                                                           +--> neither has room: refused
 *     above             --> the spill folder, else memory --+
 *
 * Before its first byte is read, a body gets room for all its bytes: it reserves them in the budget
 * of memory or of disk. A body of unknown length (chunked) grows. A growing body in memory moves to
 * a larger place. When the body outgrows memory, its further bytes go to a file. So a body in a
 * file has a front, which lies in memory: at least the bytes that came with the head.
 *
 * All bodies share one budget of memory and one of disk (rule H8 in src/README.md). One client with
 * several bodies may hold half of each budget, so a client that sends bodies and never ends them
 * leaves room for other clients. The folder is a cache folder. It takes a body only while it is in
 * service and keeps its reserve free: spill_folder checks both. A body's room in the budget of disk
 * is free again when the body is released, before its file is closed. Otherwise a client whose
 * write is done might find no room for its next write. The disk does not fill up by this, because
 * spill_folder looks at the bytes that are really free. A file descriptor counts until the file is
 * closed.
 *
 * The spill threads create the file and write to it (spill.c). Closing a file may wait for the
 * disk, and takes up to a second for gigabytes, so each file is closed on a thread of its own.
 *
 * Threads: a body belongs to one thread after another. While a spill thread writes a segment (a
 * block of the body's bytes), it shares the body; meanwhile only the spill thread touches `fd` and
 * `allocated`. Room is counted over all loops. */
#include "http/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/metric.h"
#include "base/thread.h"

#define HUGE_BYTES (2 * MIB)
#define ALLOCATE_BYTES (8 * MIB)    /* allocated in a file ahead of the bytes written */
#define CLIENTS 1024u               /* with more clients, some share a count */

enum room { ROOM_MEMORY, ROOM_DISK, ROOM_FILES, ROOM_KINDS };

#define BODY_MAGIC 0x626f6479u
struct http_body {
    unsigned magic;
    unsigned client;                /* from the judge; 0: no client */
    atomic_uint refs;               /* of the owner, of readers, of a segment being written */
    bool beyond_share;              /* room was free, but beyond the half of this client */
    size_t held[ROOM_KINDS];
    char *memory;
    const char *folder;             /* of the file; NULL: the body is in memory */
    int fd;                         /* -1: there is no file yet */
    size_t bytes, front;            /* bytes received so far; those of them that lie in memory */
    size_t room;                    /* the body may grow to this size */
    size_t allocated, counted;      /* bytes allocated in the file; counted in disk_allocated */
};

/* ---- room ---- */

static pthread_mutex_t room_lock = PTHREAD_MUTEX_INITIALIZER;    /* guards the next 3 variables */
static size_t all_hold[ROOM_KINDS], clients_hold[1 + CLIENTS][ROOM_KINDS];
static size_t disk_allocated;

static size_t *client_holds(const struct http_body *body)
{
    return clients_hold[body->client ? 1 + body->client % CLIENTS : 0];
}

/* The caller holds room_lock, here and for may_hold. */
static void change(struct http_body *body, enum room kind, int64_t more)
{
    body->held[kind] += (size_t)more;
    all_hold[kind] += (size_t)more;
    client_holds(body)[kind] += (size_t)more;
    if (kind != ROOM_FILES)
        metric_gauge_add(kind == ROOM_DISK ? M_HTTP_BODY_DISK : M_HTTP_BODY_MEMORY, more);
}

/* Returns true if there is room for `more`. All bodies together may hold `most`; 0: no limit. One
 * client may hold half of `most`, or more if it has only one body. */
static bool may_hold(struct http_body *body, enum room kind, size_t more, size_t most)
{
    size_t of_client = client_holds(body)[kind];
    if (!most)
        return true;
    if (all_hold[kind] + more > most)
        return false;
    if (!body->client || of_client == body->held[kind] || of_client + more <= most / 2)
        return true;
    body->beyond_share = true;
    return false;
}

/* Takes room of all kinds, or of none. *ret_promised is the number of bytes that all bodies, also
 * this one, have reserved in the budget of disk, less the bytes that the disk has allocated
 * already. */
static bool hold(const struct http_body_limits *limits, struct http_body *body,
                 const size_t more[ROOM_KINDS], size_t *ret_promised)
{
    const size_t most[ROOM_KINDS] = { [ROOM_MEMORY] = limits->memory_bytes,
                                      [ROOM_DISK] = limits->disk_bytes,
                                      [ROOM_FILES] = limits->files_max };
    bool may = true;
    pthread_mutex_lock(&room_lock);
    for (enum room kind = 0; kind < ROOM_KINDS; kind++)
        may = may && (!more[kind] || may_hold(body, kind, more[kind], most[kind]));
    for (enum room kind = 0; kind < ROOM_KINDS && may; kind++)
        change(body, kind, (int64_t)more[kind]);
    size_t held = all_hold[ROOM_DISK];
    *ret_promised = held > disk_allocated ? held - disk_allocated : 0;
    pthread_mutex_unlock(&room_lock);
    return may;
}

static void give(struct http_body *body, enum room kind, size_t less)
{
    pthread_mutex_lock(&room_lock);
    check(less <= body->held[kind] && body->held[kind] <= all_hold[kind]);
    change(body, kind, -(int64_t)less);
    pthread_mutex_unlock(&room_lock);
}

/* Allocates memory in huge pages, as far as whole ones fit: the page faults of small pages would
 * take longer than the copy of the bytes. */
static void *allocate_memory(size_t bytes)
{
    if (bytes < HUGE_BYTES)
        return malloc(bytes);
    size_t whole = bytes / HUGE_BYTES * HUGE_BYTES;
    void *at = aligned_alloc(HUGE_BYTES, whole + (bytes > whole ? HUGE_BYTES : 0));
    if (at)
        madvise(at, whole, MADV_HUGEPAGE);    /* a failure leaves small pages, which will do */
    return at;
}

static bool in_memory(const struct http_body_limits *limits, struct http_body *body, size_t bytes)
{
    size_t before = body->held[ROOM_MEMORY], promised;
    if (!hold(limits, body, (size_t[ROOM_KINDS]){ [ROOM_MEMORY] = bytes }, &promised))
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

static bool in_a_file(const struct http_body_limits *limits, struct http_body *body, size_t bytes)
{
    bool first = !body->held[ROOM_FILES];
    size_t more[ROOM_KINDS] = { [ROOM_DISK] = bytes - (first ? 0 : body->room),
                                [ROOM_FILES] = first }, promised;
    if (!hold(limits, body, more, &promised))
        return false;
    const char *folder = limits->spill_folder(limits->spill_arg, body->folder, promised);
    if (!folder) {
        give(body, ROOM_DISK, more[ROOM_DISK]);
        give(body, ROOM_FILES, first);
        return false;
    }
    if (first)
        body->front = body->bytes;
    body->folder = folder;
    body->room = bytes;
    return true;
}

static bool place(const struct http_body_limits *limits, struct http_body *body, size_t bytes)
{
    bool small = bytes <= limits->body_memory_bytes;
    body->beyond_share = false;
    if (http_body_in_file(body))
        return in_a_file(limits, body, bytes);
    return (small && in_memory(limits, body, bytes)) || in_a_file(limits, body, bytes) ||
           (!small && in_memory(limits, body, bytes));
}

static bool place_or_refuse(struct conn *conn, size_t bytes)
{
    struct http_body *body = conn->request->body.content;
    if (place(&conn->loop->http->options.bodies, body, bytes))
        return true;
    metric_add(body->beyond_share ? M_HTTP_REFUSED_SHARE : M_HTTP_REFUSED_SPILL, 1);
    gate_refuse(conn, ERR_LIMIT, body->beyond_share
                                     ? "this client's request bodies would take more than half of "
                                       "what the bodies of all clients may take (bodies_memory, "
                                       "bodies_disk, or an eighth of the limit of open files): "
                                       "send fewer requests with bodies at once, or try again later"
                                     : "there is no room for the request body, neither in memory "
                                       "(bodies_memory) nor in the cache folder (bodies_disk, free "
                                       "space, open files; or the folder is out of service): try "
                                       "again later, or send the object in smaller parts");
    return false;
}

/* A body takes nothing of the budget if head and body together fit into a socket's first buffer. */
bool body_begin(struct conn *conn, slice first, size_t bytes)
{
    struct http_request *request = conn->request;
    bool counts = conn->large_head || request->head.bytes + bytes > HEAD_SMALL_BYTES;
    struct http_body *body = request->body.content = must_alloc(sizeof(*body));
    body->magic = BODY_MAGIC;
    body->client = request->body.client;
    atomic_init(&body->refs, 1);
    body->fd = -1;
    body->bytes = first.len;
    body->front = body->room = counts ? first.len : bytes;
    body->memory = must_alloc(MAX(body->room, 1u));
    memcpy(body->memory, first.ptr, first.len);
    return !counts || place_or_refuse(conn, bytes);
}

/* A growing body gets twice its present room, so that it rarely moves. If the budget has less, the
 * body gets less, but at least `bytes`. */
bool body_make_room(struct conn *conn, size_t bytes)
{
    struct http_body *body = conn->request->body.content;
    size_t most = conn->request->body.bytes_max + BODY_READ_BYTES;
    check(bytes <= most);
    if (bytes <= body->room)
        return true;
    size_t spare = MIN(MAX(bytes, 2 * body->room), most) - bytes;
    for (; spare >= BODY_READ_BYTES; spare /= 2)
        if (place(&conn->loop->http->options.bodies, body, bytes + spare))
            return true;
    return place_or_refuse(conn, bytes);
}

bool http_body_in_file(const struct http_body *body)
{
    return body && body->held[ROOM_FILES];
}

char *body_end(struct http_body *body, size_t *ret_room)
{
    check(body->bytes <= body->room);
    *ret_room = body->room - body->bytes;
    return body->memory + body->bytes;
}

size_t body_grow(struct http_body *body, size_t bytes)
{
    size_t at = body->bytes;
    check(at <= body->room && bytes <= body->room - at);
    body->bytes += bytes;
    return at;
}

/* ---- its bytes ---- */

enum way { WAY_IN, WAY_IN_NOW, WAY_OUT };

/* Makes one read or write of the file. WAY_IN_NOW does not wait for the disk, except on a file
 * system that does not know RWF_NOWAIT. */
static ssize_t transfer_some(int fd, off_t at, char *bytes, size_t len, enum way way)
{
    struct iovec part = { bytes, len };
    if (way == WAY_OUT)
        return pwrite(fd, bytes, len, at);
    ssize_t got = preadv2(fd, &part, 1, at, way == WAY_IN_NOW ? RWF_NOWAIT : 0);
    return got < 0 && errno == EOPNOTSUPP ? pread(fd, bytes, len, at) : got;
}

/* Moves bytes to or from the body at offset `at`. Returns false if the disk failed, or if
 * WAY_IN_NOW would have to wait. */
static bool transfer(const struct http_body *body, size_t at, char *bytes, size_t len, enum way way)
{
    size_t done = at < body->front ? MIN(len, body->front - at) : 0;
    bool out = way == WAY_OUT;
    check(at <= body->room && len <= body->room - at);
    if (done)
        memmove(out ? body->memory + at : bytes, out ? bytes : body->memory + at, done);
    while (done < len) {
        off_t to = (off_t)(at + done - body->front);
        ssize_t moved = transfer_some(body->fd, to, bytes + done, len - done, way);
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

/* Allocates room on the disk ahead of the next bytes, so that a full disk is noticed here. */
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

bool body_spill(struct http_body *body, size_t at, char *bytes, size_t len)
{
    check(http_body_in_file(body) && at >= body->front);
    if (body->fd < 0)
        body->fd = open_file(body->folder);
    return body->fd >= 0 && allocate(body, at + len - body->front) &&
           transfer(body, at, bytes, len, WAY_OUT);
}

void body_spilled(struct http_body *body)
{
    check(body->counted <= body->allocated);
    pthread_mutex_lock(&room_lock);
    disk_allocated += body->allocated - body->counted;
    pthread_mutex_unlock(&room_lock);
    body->counted = body->allocated;
}

size_t http_body_bytes(const struct http_body *body)
{
    return body ? body->bytes : 0;
}

bool http_body_read(const struct http_body *body, size_t at, char *to, size_t bytes)
{
    return !bytes || transfer(body, at, to, bytes, WAY_IN);
}

bool http_body_read_now(const struct http_body *body, size_t at, char *to, size_t bytes)
{
    return !bytes || transfer(body, at, to, bytes, WAY_IN_NOW);
}

bool http_body_write(struct http_body *body, size_t at, char *from, size_t bytes)
{
    return !bytes || transfer(body, at, from, bytes, WAY_OUT);
}

char *http_body_part(const struct http_body *body, size_t at, char *buffer, size_t *bytes)
{
    check(at < body->bytes);
    *bytes = MIN(*bytes, body->bytes - at);
    if (at >= body->front)
        return transfer(body, at, buffer, *bytes, WAY_IN) ? buffer : NULL;
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

struct http_body *http_body_ref(struct http_body *body)
{
    check(body->magic == BODY_MAGIC);
    atomic_fetch_add(&body->refs, 1);
    return body;
}

void http_body_unref(struct http_body **body)
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
    struct http_body *body = request->body.content;
    request->body.content = NULL;
    return body;
}

void http_body_release(struct http_body **body)
{
    struct http_body *mine = *body;
    *body = NULL;
    if (!mine)
        return;
    pthread_mutex_lock(&room_lock);
    check(mine->counted <= disk_allocated);
    change(mine, ROOM_DISK, -(int64_t)mine->held[ROOM_DISK]);
    disk_allocated -= mine->counted;
    pthread_mutex_unlock(&room_lock);
    http_body_unref(&mine);
}
