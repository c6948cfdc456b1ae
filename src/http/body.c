/* body.c - where the body of a request lies. SPDX-License-Identifier: Apache-2.0
 *
 *     up to body_memory --> memory, else the spill folder --+
 *                                                           +--> neither has room: refused
 *     above             --> the spill folder, else memory --+
 *
 * The library would double a socket's buffer as bytes come, and fail where its file can't be made.
 * So it gets one that the whole body fits into before the first byte is read; one whose length
 * nobody knows (chunked) grows: in memory it moves, and one that lies in a file has the address
 * space of the largest. In memory all bodies share one budget, in the folder another (H8), and of
 * either one client may hold half: who sends bodies and never ends them leaves room for others. The
 * folder is a cache's: it takes a body only while it serves and keeps its reserve, which may_spill
 * knows. What a buffer holds of the limits is its claim.
 *
 * The file is made and written to by other threads (spill.c), by calls that fail where its map would
 * fault; who reads the body by the map does it in a trap (base/trap.h). What was there before is
 * memory, the buffer's front: the library keeps data of its own there. To let go of a file may
 * wait for the disk, and takes as long as a second for gigabytes: a thread of its own does that.
 * Its bytes can be claimed again before, or who is told that a write is done would find no room for
 * the next: may_spill looks at what the disk has, and the file counts until it is closed.
 *
 * A complete body is taken out of the connection, so that it can outlive it (http_body_take).
 * Threads: a body may be let go on any; claims are counted over all loops. */
#include "http/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/metric.h"
#include "base/thread.h"

#define BUFFER_HEAD offsetof(h2o_buffer_t, _buf)
#define HUGE_BYTES (2 * MIB)
#define FD_NONE_YET (-2)    /* the buffer is mapped; the library's -1 is memory */

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

static void disk_claim_end(struct body_claim *claim)
{
    atomic_fetch_sub(&all_hold.disk, claim->file_bytes);
    atomic_fetch_sub(&held_by(claim->client)->disk, claim->file_bytes);
    atomic_fetch_sub(&disk_allocated, claim->allocated_bytes);
    metric_gauge_add(M_HTTP_BODY_DISK, -(int64_t)claim->file_bytes);
    claim->file_bytes = claim->allocated_bytes = 0;
}

void body_claim_end(struct body_claim *claim)
{
    if (!claim->memory_bytes && !claim->files)
        return;
    disk_claim_end(claim);
    struct held *holds[] = { &all_hold, held_by(claim->client) };
    for (size_t i = 0; i < countof(holds); i++) {
        atomic_fetch_sub(&holds[i]->files, claim->files);
        atomic_fetch_sub(&holds[i]->memory, claim->memory_bytes);
    }
    metric_gauge_add(M_HTTP_BODY_MEMORY, -(int64_t)claim->memory_bytes);
    *claim = (struct body_claim){ .client = claim->client, .beyond_share = claim->beyond_share };
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

/* Whole pages for so many bytes of the buffer. */
static size_t pages(size_t bytes)
{
    return (BUFFER_HEAD + bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

/* Of nothing yet but its front: the file is mapped behind that when it has been made. */
static h2o_buffer_t *map_front(size_t bytes, struct body_claim *claim)
{
    char *at = mmap(NULL, claim->mapped_bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (mprotect(at, claim->front_bytes, PROT_READ | PROT_WRITE) != 0) {
        munmap(at, claim->mapped_bytes);
        return NULL;
    }
    h2o_buffer_t *buffer = (h2o_buffer_t *)at;
    *buffer = (h2o_buffer_t){ .capacity = bytes, ._fd = FD_NONE_YET };
    return buffer;
}

static bool map_file(h2o_buffer_t *buffer, int fd, const struct body_claim *claim)
{
    size_t front = claim->front_bytes, bytes = claim->mapped_bytes - front;
    return !bytes || mmap((char *)buffer + front, bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED, fd, (off_t)front) != MAP_FAILED;
}

/* The library, which would free it too, does not know how much is mapped. */
static void free_buffer(h2o_buffer_t **buffer, const struct body_claim *claim)
{
    int fd = (*buffer)->_fd;
    if (fd == -1) {
        h2o_buffer_dispose(buffer);
        return;
    }
    munmap(*buffer, claim->mapped_bytes);
    *buffer = NULL;
    if (fd >= 0)
        close(fd);
}

/* Of what bodies have claimed: the disk has not given it yet. */
static size_t promised(size_t claimed)
{
    size_t allocated = atomic_load(&disk_allocated);
    return claimed > allocated ? claimed - allocated : 0;
}

static bool take_file(const struct http *http, size_t bytes, struct body_claim *claim)
{
    const struct http_options *options = &http->options;
    bool may = take(claim, &all_hold.disk, &held_by(claim->client)->disk, bytes,
                    options->bodies_disk_bytes);
    claim->file_bytes += bytes;
    metric_gauge_add(M_HTTP_BODY_DISK, (int64_t)bytes);
    uint64_t wanted = promised(atomic_load(&all_hold.disk));
    return may && (!options->may_spill || options->may_spill(options->spill_arg, wanted));
}

/* `have` of them are there, and `most` may come. */
static h2o_buffer_t *in_a_file(const struct http *http, size_t bytes, size_t have, size_t most,
                               struct body_claim *claim)
{
    struct held *own = held_by(claim->client);
    bool may = http->spill != NULL;
    may &= take(claim, &all_hold.files, &own->files, 1, http->options.spill_files_max);
    claim->files = 1;
    may &= take_file(http, bytes, claim);
    claim->front_bytes = pages(have);
    claim->mapped_bytes = pages(MAX(bytes, most));
    h2o_buffer_t *buffer = may ? map_front(bytes, claim) : NULL;
    if (!buffer)
        body_claim_end(claim);
    return buffer;
}

/* ---- a connection's ---- */

static h2o_buffer_t *place(const struct conn *conn, size_t bytes, struct body_claim *claim)
{
    const struct http *http = conn->loop->http;
    size_t have = conn->sock->input->size;
    size_t most = conn->request->head.bytes +
                  (conn->request->head.chunked ? conn->request->body_max + BODY_READ_BYTES : 0);
    bool small = bytes <= http->options.body_memory_bytes;
    h2o_buffer_t *buffer = small ? in_memory(http, bytes, claim)
                                 : in_a_file(http, bytes, have, most, claim);
    if (!buffer)
        buffer = small ? in_a_file(http, bytes, have, most, claim) : in_memory(http, bytes, claim);
    return buffer;
}

static bool move(struct conn *conn, size_t bytes, struct body_claim *claim)
{
    h2o_buffer_t *from = conn->sock->input, *to = place(conn, bytes, claim);
    if (!to)
        return false;
    to->bytes = to->_buf;
    to->_prototype = &unpooled;
    to->size = from->size;
    memcpy(to->_buf, from->bytes, from->size);
    struct body_claim *before = &conn->request->claim;
    free_buffer(&from, before);
    conn->sock->input = to;
    if (claim->file_bytes) {    /* its front is as large as that was */
        claim->memory_bytes = before->memory_bytes;
        before->memory_bytes = 0;
    }
    body_claim_end(before);
    *before = *claim;
    return true;
}

/* Where it lies: its address space is there. */
static bool grow_file(struct conn *conn, size_t bytes)
{
    struct body_claim *claim = &conn->request->claim;
    h2o_buffer_t *input = conn->sock->input;
    bytes = MIN(bytes, claim->mapped_bytes - BUFFER_HEAD);
    if (!take_file(conn->loop->http, bytes - input->capacity, claim))
        return false;
    input->capacity = bytes;
    return true;
}

bool body_claimed(const struct http_request *request)
{
    return request->claim.memory_bytes || request->claim.file_bytes;
}

bool body_in_file(const struct conn *conn)
{
    return conn->request->claim.file_bytes > 0;
}

size_t body_room(const struct conn *conn)
{
    const h2o_buffer_t *input = conn->sock->input;
    return input->capacity - (size_t)(input->bytes - input->_buf) - input->size;
}

bool body_make_room(struct conn *conn, size_t bytes)
{
    h2o_buffer_t *input = conn->sock->input;
    struct body_claim *claim = &conn->request->claim;
    check(input->bytes != NULL);
    bool counts = !conn->large_head || body_claimed(conn->request);    /* else it moves, and does */
    if (counts && bytes <= input->size + body_room(conn))
        return true;
    bytes = MAX(bytes, conn->request->head.chunked ? 2 * input->capacity : input->size);
    struct body_claim next = { .client = claim->client };
    if (body_in_file(conn) ? grow_file(conn, bytes) : move(conn, bytes, &next))
        return true;
    bool share = claim->beyond_share || next.beyond_share;
    metric_add(share ? M_HTTP_REFUSED_SHARE : M_HTTP_REFUSED_SPILL, 1);
    gate_refuse(conn, ERR_LIMIT, share
                                     ? "other bodies of this client take all the room one may have"
                                     : "there is no room for the request body just now");
    return false;
}

/* A descriptor of its own lets the piece outlive the request. */
static bool send_off(struct conn *conn, struct piece *piece, size_t at, slice data)
{
    const h2o_buffer_t *input = conn->sock->input;
    const struct body_claim *claim = &conn->request->claim;
    if (input->_fd >= 0 && (piece->fd = fcntl(input->_fd, F_DUPFD_CLOEXEC, 0)) < 0)
        return false;
    piece->conn = conn;
    conn->piece = piece;
    piece->data = data;
    piece->at = at;
    piece->whole = BUFFER_HEAD + input->capacity;
    piece->allocated = MAX(claim->allocated_bytes, claim->front_bytes);
    piece_write(piece);
    return true;
}

bool body_write(struct conn *conn, struct piece *piece, size_t bytes)
{
    h2o_buffer_t *input = conn->sock->input;
    size_t at = (size_t)(input->bytes + input->size - (char *)input);
    size_t front_bytes = conn->request->claim.front_bytes;
    size_t front = at < front_bytes ? MIN(bytes, front_bytes - at) : 0;
    slice data = { piece->bytes + front, bytes - front };
    memcpy((char *)input + at, piece->bytes, front);
    input->size += bytes;
    if (data.len && send_off(conn, piece, at + front, data))
        return true;
    piece_give(piece);
    if (!data.len)
        return true;
    metric_add(M_HTTP_REFUSED_SPILL, 1);
    gate_refuse(conn, ERR_LIMIT, "there is no file descriptor for the request body just now");
    return false;
}

bool body_written(struct conn *conn, struct piece *piece)
{
    struct body_claim *claim = &conn->request->claim;
    h2o_buffer_t *input = conn->sock->input;
    if (!piece->failed && piece->made >= 0 && map_file(input, piece->made, claim)) {
        input->_fd = piece->made;
        piece->made = -1;
    }
    if (piece->failed || input->_fd < 0)
        return false;
    atomic_fetch_add(&disk_allocated, piece->allocated - claim->allocated_bytes);
    claim->allocated_bytes = piece->allocated;
    return true;
}

/* ---- taken out of its connection ---- */

/* The buffer, with its claim: the connection gets an empty one. */
static struct http_body *take_out(struct http_request *request)
{
    h2o_socket_t *sock = request->conn->sock;
    struct http_body *body = must_alloc(sizeof(*body));
    body->magic = BODY_MAGIC;
    body->buffer = sock->input;
    h2o_buffer_set_prototype(&body->buffer, &unpooled);
    body->claim = request->claim;
    request->claim = (struct body_claim){ 0 };
    h2o_buffer_init(&sock->input, &h2o_socket_buffer_prototype);
    return body;
}

/* Bytes that were just written: they are in the page cache, or the disk has failed. */
static bool read_at(const struct http_body *body, size_t at, char *to, size_t bytes)
{
    size_t until = body->claim.file_bytes ? body->claim.front_bytes : at + bytes;
    size_t here = at < until ? MIN(bytes, until - at) : 0;
    memcpy(to, (const char *)body->buffer + at, here);
    while (here < bytes) {
        ssize_t got = pread(body->buffer->_fd, to + here, bytes - here, (off_t)(at + here));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        here += (size_t)got;
    }
    return true;
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
    if (!read_at(body, (size_t)(buffer->bytes + whole - (char *)buffer), to, rest)) {
        gate_refuse(request->conn, ERR_LIMIT, "the disk lost what came behind the request body");
        return false;
    }
    (*input)->size = rest;
    return true;
}

void body_drop(struct http_request *request)
{
    piece_leave(request->conn);
    struct http_body *body = body_claimed(request) ? take_out(request) : NULL;
    http_body_release(&body);
}

struct http_body *http_body_take(struct http_request *request)
{
    check(request->magic == REQUEST_MAGIC);
    struct http_body *body = request->body;
    request->body = NULL;
    return body;
}

static void dispose(struct http_body *body)
{
    free_buffer(&body->buffer, &body->claim);
    body_claim_end(&body->claim);
    free(body);
}

static void *dispose_file(void *arg)
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
    mine->magic = 0;
    disk_claim_end(&mine->claim);
    pthread_t thread;
    if (mine->claim.files && thread_start(&thread, dispose_file, mine, "body-end"))
        pthread_detach(thread);
    else
        dispose(mine);
}
