/* body.c - where the body of a request lies. SPDX-License-Identifier: Apache-2.0
 *
 *     up to body_memory --> memory, else the spill folder --+
 *                                                           +--> neither has room: refused
 *     above             --> the spill folder, else memory --+
 *
 * The library would double a socket's buffer as bytes come, and fail where its file can't be made.
 * So it gets one that the whole body fits into before the first byte is read; one whose length
 * nobody knows (chunked) moves as it grows. In memory all bodies share one budget, in the folder
 * another (H8), and of either one client may hold half: who sends bodies and never ends them leaves
 * room for others. The folder is a cache's: it takes a body only while it serves and keeps its
 * reserve, which may_spill knows. What a buffer holds of the limits is its claim. A file is written
 * to by calls that fail where its map would fault; who reads the body by the map does it in a trap
 * (store/trap.h). What lies in a file is page cache; to let go of gigabytes of it takes as long as
 * a second, so a thread of its own does that.
 *
 * A complete body is taken out of the connection, so that it can outlive it (http_body_hold).
 * Threads: a body may be let go on any; claims are counted over all loops. */
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

#define BUFFER_HEAD offsetof(h2o_buffer_t, _buf)
#define LARGE_BYTES (64 * MIB)
#define HUGE_BYTES (2 * MIB)
#define ALLOCATE_BYTES (8 * MIB)    /* of a file, ahead of what is written */

/* What no pool of the library's takes back, which looks at a buffer's size alone: any thread frees
 * it. */
static h2o_buffer_prototype_t unpooled;

#define CLIENTS 1024u    /* of more, some share what one may hold */

struct held { atomic_size_t memory, disk, files; };
static struct held all_hold, client_holds[1 + CLIENTS];    /* the first is nobody's */
static atomic_size_t disk_allocated;

static struct held *held_by(unsigned client)
{
    return &client_holds[client ? 1 + client % CLIENTS : 0];
}

/* Is there so much more to be had, of what may be `most`? It counts from now on, either way. */
static bool take(struct body_claim *claim, atomic_size_t *all, atomic_size_t *own, size_t more,
                 size_t most)
{
    size_t before = atomic_fetch_add(all, more), mine = atomic_fetch_add(own, more);
    if (most && before + more > most)
        return false;
    bool beyond = most && claim->client && mine && mine + more > most / 2;
    claim->beyond_share |= beyond;
    return !beyond;
}

void body_claim_end(struct body_claim *claim)
{
    if (!claim->memory_bytes && !claim->file_bytes)
        return;
    struct held *holds[] = { &all_hold, held_by(claim->client) };
    for (size_t i = 0; i < countof(holds); i++) {
        atomic_fetch_sub(&holds[i]->files, claim->file_bytes ? 1 : 0);
        atomic_fetch_sub(&holds[i]->disk, claim->file_bytes);
        atomic_fetch_sub(&holds[i]->memory, claim->memory_bytes);
    }
    atomic_fetch_sub(&disk_allocated, claim->allocated_bytes);
    metric_gauge_add(M_HTTP_BODY_DISK, -(int64_t)claim->file_bytes);
    metric_gauge_add(M_HTTP_BODY_MEMORY, -(int64_t)claim->memory_bytes);
    claim->memory_bytes = claim->file_bytes = claim->allocated_bytes = 0;
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

static h2o_buffer_t *in_memory(const struct http *http, size_t bytes, struct body_claim *claim)
{
    bool may = take(claim, &all_hold.memory, &held_by(claim->client)->memory, bytes,
                    http->options.bodies_memory_bytes);
    h2o_buffer_t *buffer = may ? allocate_memory(BUFFER_HEAD + bytes) : NULL;
    claim->memory_bytes = bytes;
    metric_gauge_add(M_HTTP_BODY_MEMORY, (int64_t)bytes);
    if (buffer)
        *buffer = (h2o_buffer_t){ .capacity = bytes, ._fd = -1 };
    else
        body_claim_end(claim);
    return buffer;
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Its first page, where the library keeps the buffer's own data, is memory: what the disk does to
 * the rest is seen by who reads the body alone. */
static void *map(int fd, size_t bytes)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (mmap(at, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) != MAP_FAILED)
        return at;
    munmap(at, bytes);
    return NULL;
}

/* Blocks come as the body does (allocate), so that no call for gigabytes of them stops the loop. */
static h2o_buffer_t *map_file(const struct http_options *options, size_t bytes)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/body.XXXXXX", options->spill_folder);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return NULL;
    unlink(path);
    bool sized = ftruncate(fd, (off_t)(BUFFER_HEAD + bytes)) == 0;
    h2o_buffer_t *buffer = sized ? map(fd, BUFFER_HEAD + bytes) : NULL;
    if (buffer)
        *buffer = (h2o_buffer_t){ .capacity = bytes, ._fd = fd };
    else
        close(fd);
    return buffer;
}

/* The library, which would free it too, knows nothing of that page. */
static void free_buffer(h2o_buffer_t **buffer)
{
    int fd = (*buffer)->_fd;
    if (fd < 0) {
        h2o_buffer_dispose(buffer);
        return;
    }
    munmap(*buffer, BUFFER_HEAD + (*buffer)->capacity);
    *buffer = NULL;
    close(fd);
}

/* Of what bodies have claimed: the disk has not given it yet. */
static size_t promised(size_t claimed)
{
    size_t allocated = atomic_load(&disk_allocated);
    return claimed > allocated ? claimed - allocated : 0;
}

static h2o_buffer_t *in_a_file(const struct http *http, size_t bytes, struct body_claim *claim)
{
    const struct http_options *options = &http->options;
    struct held *own = held_by(claim->client);
    bool may = take(claim, &all_hold.files, &own->files, 1, options->spill_files_max);
    may &= take(claim, &all_hold.disk, &own->disk, bytes, options->bodies_disk_bytes);
    uint64_t wanted = promised(atomic_load(&all_hold.disk));
    if (may && options->may_spill)
        may = options->may_spill(options->spill_arg, wanted);
    h2o_buffer_t *buffer = may ? map_file(options, bytes) : NULL;
    claim->file_bytes = bytes;
    metric_gauge_add(M_HTTP_BODY_DISK, (int64_t)bytes);
    if (!buffer)
        body_claim_end(claim);
    return buffer;
}

static h2o_buffer_t *place(const struct http *http, size_t bytes, struct body_claim *claim)
{
    bool small = bytes <= http->options.body_memory_bytes;
    h2o_buffer_t *buffer = small ? in_memory(http, bytes, claim) : in_a_file(http, bytes, claim);
    if (!buffer)
        buffer = small ? in_a_file(http, bytes, claim) : in_memory(http, bytes, claim);
    return buffer;
}

/* ---- bytes in a file: by calls that fail, where the map would fault ---- */

/* How many of `bytes` from `at` on lie in the first page. */
static size_t in_memory_part(size_t at, size_t bytes)
{
    return at < page_bytes() ? MIN(bytes, page_bytes() - at) : 0;
}

/* Room on the disk for what comes next: a full one is seen here. */
static bool allocate(int fd, size_t until, size_t whole, size_t *allocated)
{
    if (until <= *allocated)
        return true;
    size_t to = MIN(whole, MAX(until, *allocated + ALLOCATE_BYTES));
    if (posix_fallocate(fd, (off_t)*allocated, (off_t)(to - *allocated)))
        return false;
    atomic_fetch_add(&disk_allocated, to - *allocated);
    *allocated = to;
    return true;
}

static bool write_at(h2o_buffer_t *buffer, size_t at, slice bytes, struct body_claim *claim)
{
    size_t here = buffer->_fd < 0 ? bytes.len : in_memory_part(at, bytes.len);
    memcpy((char *)buffer + at, bytes.ptr, here);
    at += here;
    bytes = slice_from(bytes, here);
    if (bytes.len && !allocate(buffer->_fd, at + bytes.len, BUFFER_HEAD + buffer->capacity,
                               &claim->allocated_bytes))
        return false;
    while (bytes.len) {
        ssize_t put = pwrite(buffer->_fd, bytes.ptr, bytes.len, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        bytes = slice_from(bytes, (size_t)put);
        at += (size_t)put;
    }
    return true;
}

static bool read_at(const h2o_buffer_t *buffer, size_t at, char *to, size_t bytes)
{
    size_t here = buffer->_fd < 0 ? bytes : in_memory_part(at, bytes);
    memcpy(to, (const char *)buffer + at, here);
    while (here < bytes) {
        ssize_t got = pread(buffer->_fd, to + here, bytes - here, (off_t)(at + here));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        here += (size_t)got;
    }
    return true;
}

/* ---- a connection's ---- */

static bool move(struct conn *conn, size_t bytes, struct body_claim *claim)
{
    h2o_buffer_t *from = conn->sock->input;
    h2o_buffer_t *to = place(conn->loop->http, bytes, claim);
    if (!to)
        return false;
    to->bytes = to->_buf;
    to->_prototype = &unpooled;
    slice have = { from->bytes, from->size };
    if (!write_at(to, BUFFER_HEAD, have, claim)) {
        free_buffer(&to);
        body_claim_end(claim);
        return false;
    }
    to->size = from->size;
    free_buffer(&from);
    conn->sock->input = to;
    body_claim_end(&conn->request->claim);
    conn->request->claim = *claim;
    return true;
}

bool body_claimed(const struct http_request *request)
{
    return request->claim.memory_bytes || request->claim.file_bytes;
}

bool body_make_room(struct conn *conn, size_t bytes)
{
    const h2o_buffer_t *input = conn->sock->input;
    check(input->bytes != NULL);
    bool counts = !conn->large_head || body_claimed(conn->request);    /* else it moves, and does */
    if (counts && bytes <= input->capacity - (size_t)(input->bytes - input->_buf))
        return true;
    bytes = MAX(bytes, conn->request->head.chunked ? 2 * input->capacity : input->size);
    struct body_claim claim = { .client = conn->request->claim.client };
    if (move(conn, bytes, &claim))
        return true;
    metric_add(claim.beyond_share ? M_HTTP_REFUSED_SHARE : M_HTTP_REFUSED_SPILL, 1);
    gate_refuse(conn, ERR_LIMIT, claim.beyond_share
                                     ? "other bodies of this client take all the room one may have"
                                     : "there is no room for the request body just now");
    return false;
}

/* A fault in the map would cost a page of zeroes first, and a signal if the disk fails: this costs
 * neither. The map sees what is written. */
bool body_append(struct conn *conn, slice bytes)
{
    h2o_buffer_t *input = conn->sock->input;
    size_t at = (size_t)(input->bytes + input->size - (char *)input);
    if (write_at(input, at, bytes, &conn->request->claim))
        return true;
    metric_add(M_HTTP_REFUSED_SPILL, 1);
    gate_refuse(conn, ERR_LIMIT, "the request body could not be written to the disk");
    return false;
}

/* ---- taken out of its connection ---- */

/* The buffer, with its claim: the connection gets an empty one. */
static struct http_body *take_out(struct http_request *request)
{
    h2o_socket_t *sock = request->conn->sock;
    struct http_body *body = must_alloc(sizeof(*body));
    body->magic = BODY_MAGIC;
    atomic_init(&body->holds, 1);
    body->buffer = sock->input;
    h2o_buffer_set_prototype(&body->buffer, &unpooled);
    body->claim = request->claim;
    request->claim = (struct body_claim){ 0 };
    h2o_buffer_init(&sock->input, &h2o_socket_buffer_prototype);
    return body;
}

bool body_take(struct http_request *request)
{
    struct http_body *body = request->body = take_out(request);
    h2o_buffer_t *buffer = body->buffer, **input = &request->conn->sock->input;
    size_t whole = request->head.bytes + request->body_bytes, rest = buffer->size - whole;
    body->bytes = (slice){ buffer->bytes + request->head.bytes, request->body_bytes };
    if (!rest)
        return true;
    if (rest > HEAD_SMALL_BYTES && !conn_grow_head(request->conn))
        return false;
    char *to = h2o_buffer_reserve(input, rest).base;
    if (!read_at(buffer, (size_t)(buffer->bytes + whole - (char *)buffer), to, rest)) {
        gate_refuse(request->conn, ERR_LIMIT, "the disk lost what came behind the request body");
        return false;
    }
    (*input)->size = rest;
    return true;
}

void body_drop(struct http_request *request)
{
    struct http_body *body = body_claimed(request) ? take_out(request) : NULL;
    http_body_release(&body);
}

struct http_body *http_body_hold(struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC);
    if (request->body)
        check(atomic_fetch_add(&request->body->holds, 1) > 0);
    return request->body;
}

static void dispose(struct http_body *body)
{
    free_buffer(&body->buffer);
    body_claim_end(&body->claim);
    free(body);
}

static void *dispose_large(void *arg)
{
    dispose(arg);
    return NULL;
}

void http_body_release(struct http_body **body)
{
    struct http_body *mine = *body;
    *body = NULL;
    if (!mine)
        return;
    check(mine->magic == BODY_MAGIC);
    if (atomic_fetch_sub(&mine->holds, 1) > 1)
        return;
    mine->magic = 0;
    pthread_t thread;
    if (mine->claim.file_bytes >= LARGE_BYTES &&
        thread_start(&thread, dispose_large, mine, "body-end"))
        pthread_detach(thread);
    else
        dispose(mine);
}
