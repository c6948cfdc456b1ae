/* buffer.c - registered memory. SPDX-License-Identifier: Apache-2.0
 *
 * A buffer is a capability: whoever holds its descriptor, or its handle, may register it, and it
 * never comes by a name. A memfd must be sealed against shrinking, or its owner could make us fault;
 * and its pages must be there, so that they are the client's memory and not ours (of a container's
 * limit, too). It is released when nothing is on its way into it any more: the reply to that says
 * that its memory is its owner's again. Threads: the keeper's; fills write into it from any. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/metric.h"
#include "local/inside.h"

#define POPULATE_BYTES GIB    /* mapped before the first fill needs them: 0.1 s; the rest comes then */

#define REFUSE(number, word, sentence) \
    ((struct trouble){ number, word, S(sentence) })

static struct trouble judge_file(int fd, uint64_t bytes)
{
    struct stat file;
    struct statfs fs;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || fstat(fd, &file) != 0 || fstatfs(fd, &fs) != 0 || !S_ISREG(file.st_mode))
        return REFUSE(422, "bad_descriptor", "the descriptor is not a memfd");
    if (fs.f_type == HUGETLBFS_MAGIC)    /* a page that can't be had is a fault there */
        return REFUSE(422, "bad_descriptor", "memfds of huge pages are not taken");
    if (!(seals & F_SEAL_SHRINK))
        return REFUSE(422, "unsealed_memfd", "the memfd can be shrunk under us: add F_SEAL_SHRINK");
    if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
        return REFUSE(422, "bad_descriptor", "the memfd is sealed against writing");
    if ((uint64_t)file.st_size < bytes)
        return REFUSE(422, "bad_descriptor", "the memfd is smaller than \"bytes\"");
    if ((uint64_t)file.st_blocks * 512 < bytes)
        return REFUSE(422, "bad_descriptor", "the memfd has holes: call fallocate on all of it");
    return (struct trouble){ .status = 0 };
}

static void *map(int fd, uint64_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return NULL;
    madvise(base, MIN(bytes, POPULATE_BYTES), MADV_POPULATE_WRITE);
    madvise(base, bytes, MADV_DONTFORK);
    return base;
}

static struct buffer *buffer_new(struct lease *lease, const struct message *message, char *base)
{
    struct buffer *buffer = must_alloc(sizeof(*buffer));
    buffer->lease = lease;
    buffer->kind = message->kind;
    buffer->base = base;
    buffer->bytes = message->bytes;
    check(getrandom(buffer->id, sizeof(buffer->id), 0) == sizeof(buffer->id));
    buffer->id[0] = (uint8_t)lease->worker->number;    /* whom to ask for it */
    list_init(&buffer->busy);
    list_add(&lease->buffers, &buffer->link);
    lease->buffer_count++;
    metric_gauge_add(M_FILL_BUFFERS, 1);
    return buffer;
}

enum err buffer_register(struct lease *lease, const struct message *message, int *fds,
                         size_t fd_count, struct arena *keep, struct buffer **ret,
                         struct trouble *ret_why)
{
    const struct local_options *options = &lease->worker->local->options;
    struct users *users = lease->worker->local->users;
    (void)keep;
    *ret_why = REFUSE(503, "no_gpu", "this build has no CUDA module");
    if (message->kind != BUFFER_MEMFD)
        return ERR_NOT_IMPLEMENTED;
    *ret_why = REFUSE(422, "bad_descriptor", "a memfd buffer comes with exactly one descriptor");
    if (fd_count != 1)
        return ERR_BAD_ARGUMENT;
    *ret_why = REFUSE(400, "bad_message", "\"bytes\" must be at least 1");
    if (!message->bytes)
        return ERR_BAD_ARGUMENT;
    *ret_why = judge_file(fds[0], message->bytes);
    if (ret_why->status)
        return ERR_BAD_ARGUMENT;
    *ret_why = REFUSE(429, "quota", "this session has as many buffers as fill_buffers allows");
    if (lease->buffer_count >= options->buffers_max)
        return ERR_LIMIT;
    *ret_why = REFUSE(429, "quota", "this user has as many bytes registered as fill_memory allows");
    if (!users_take_bytes(users, lease->user, message->bytes, options->user_bytes_max))
        return ERR_LIMIT;
    *ret_why = REFUSE(503, "SlowDown", "the memory could not be mapped");
    char *base = map(fds[0], message->bytes);
    if (!base) {
        users_give_bytes(users, lease->user, message->bytes);
        return ERR_LIMIT;
    }
    *ret = buffer_new(lease, message, base);
    return OK;
}

struct buffer *buffer_find(struct lease *lease, const uint8_t id[ID_BYTES])
{
    list_each(struct buffer, buffer, &lease->buffers, link)
        if (!buffer->leaving && memcmp(buffer->id, id, ID_BYTES) == 0)
            return buffer;
    return NULL;
}

static void tell(struct lease *lease, const struct message *to)
{
    struct arena keep = { 0 };
    slice text = to->has_number ? arena_printf(&keep, "{\"id\":%jd,\"ok\":true}",
                                               (intmax_t)to->number)
                                : S("{\"ok\":true}");
    lease_send(lease, text);
    arena_free(&keep);
}

void buffer_settle(struct buffer *buffer)
{
    struct lease *lease = buffer->lease;
    if (!buffer->leaving || buffer->fills)
        return;
    munmap(buffer->base, buffer->bytes);
    users_give_bytes(lease->worker->local->users, lease->user, buffer->bytes);
    list_del(&buffer->link);
    lease->buffer_count--;
    metric_gauge_add(M_FILL_BUFFERS, -1);
    if (buffer->tell)
        tell(lease, &buffer->leave);
    free(buffer);
}

void buffer_release(struct buffer *buffer)
{
    buffer->leaving = true;
    buffer_settle(buffer);
}
