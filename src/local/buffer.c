/* buffer.c - registered memory. SPDX-License-Identifier: Apache-2.0
 *
 * A buffer is a capability: whoever holds its descriptor, or its handle, may register it, and it
 * never comes by a name. A memfd must be sealed against shrinking, or its owner could make us
 * fault; and its pages must be there, so that they are the client's memory and not ours (of a
 * container's limit, too): holes.c. It is released when nothing is on its way into it any more: the reply to
 * that says that its memory is its owner's again. Threads: the keeper's; fills write into it from
 * any. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/metric.h"
#include "local/holes.h"
#include "local/inside.h"

#define POPULATE_BYTES GIB    /* mapped before a fill needs them: 0.1 s; the rest comes then */

#define REFUSE(number, word, sentence) \
    ((struct trouble){ number, word, S(sentence) })
#define HOLES REFUSE(422, "bad_descriptor", "the memfd has holes: call fallocate on all of it")

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
    if (file.st_blocks * 512 < file.st_size)    /* of all of it: it does not tell where they lie */
        return HOLES;
    return (struct trouble){ .status = 0 };
}

/* Mapped and, where the kernel lets us, watched before the first page is touched. */
static struct trouble map(int holes, int fd, uint64_t bytes, char **ret)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return REFUSE(503, "SlowDown", "the memory could not be mapped");
    if (holes >= 0 && !holes_watch(holes, base, bytes)) {
        munmap(base, bytes);
        return REFUSE(503, "SlowDown", "the memory could not be watched for holes");
    }
    if (madvise(base, MIN(bytes, POPULATE_BYTES), MADV_POPULATE_WRITE) != 0 && errno == EFAULT) {
        munmap(base, bytes);
        return HOLES;
    }
    madvise(base, bytes, MADV_DONTFORK);
    *ret = base;
    return (struct trouble){ .status = 0 };
}

static struct buffer *buffer_new(struct lease *lease, const struct message *message)
{
    struct buffer *buffer = must_alloc(sizeof(*buffer));
    buffer->lease = lease;
    buffer->kind = message->kind;
    buffer->bytes = message->bytes;
    check(getrandom(buffer->id, sizeof(buffer->id), 0) == sizeof(buffer->id));
    list_init(&buffer->busy);
    list_add(&lease->buffers, &buffer->link);
    lease->buffer_count++;
    metric_gauge_add(M_FILL_BUFFERS, 1);
    return buffer;
}

static void tell(struct lease *lease, const struct message *to, const struct buffer *buffer)
{
    struct arena keep = { 0 };
    struct text reply = text_in(&keep);
    char id[IDS_TEXT];
    text_char(&reply, '{');
    if (to->has_number)
        text_printf(&reply, "\"id\":%" PRId64 ",", to->number);
    text_printf(&reply, "\"ok\":true");
    if (buffer) {
        hex_write(buffer->id, ID_BYTES, id);
        text_printf(&reply, ",\"buffer\":\"%.*s\",\"bytes\":%" PRIu64 ",\"path\":\"%s\"", IDS_TEXT,
                    id, buffer->bytes, buffer->device ? "ring" : "direct");
    }
    text_char(&reply, '}');
    lease_send(lease, text_slice(&reply));
    arena_free(&keep);
}

/* ---- registered here ---- */

static void give_bytes(struct lease *lease, uint64_t bytes)
{
    users_give_bytes(lease->worker->local->users, lease->user, bytes);
}

static bool register_memfd(struct lease *lease, const struct message *message, int *fds,
                           size_t fd_count, struct trouble *ret_why)
{
    *ret_why = REFUSE(422, "bad_descriptor", "a memfd buffer comes with exactly one descriptor");
    if (fd_count != 1)
        return false;
    char *base = NULL;
    *ret_why = judge_file(fds[0], message->bytes);
    if (!ret_why->status)
        *ret_why = map(lease->worker->local->holes_fd, fds[0], message->bytes, &base);
    if (ret_why->status)
        return false;
    struct buffer *buffer = buffer_new(lease, message);
    buffer->base = base;
    tell(lease, message, buffer);
    return true;
}

/* ---- or on a GPU, by its copier ---- */

struct import {
    struct job job;
    struct lease *lease;
    struct device *device;
    struct message message;           /* its op, id, kind and bytes */
    int fds[MESSAGE_FDS_MAX];
    uint64_t chunks[MESSAGE_FDS_MAX];
    uint8_t handle[IPC_HANDLE_BYTES];
};

static struct trouble trouble_of_gpu(const struct job *job)
{
    slice why = slice_of(job->why.text);
    switch (job->err) {
    case ERR_BAD_ARGUMENT: case ERR_NOT_IMPLEMENTED: case ERR_BAD_RANGE:
        return (struct trouble){ 422, "not_ipc_capable", why };
    case ERR_NOT_FOUND: return (struct trouble){ 422, "gpu_not_visible", why };
    case ERR_LIMIT: return (struct trouble){ 503, "SlowDown", why };
    case ERR_GONE: return trouble_of(ERR_GONE);
    default: return (struct trouble){ 503, "no_gpu", why };
    }
}

static void imported(struct mail *mail)
{
    struct import *import = container_of(mail, struct import, job.mail);
    struct lease *lease = import->lease;
    lease->importing--;
    if (import->job.err) {
        struct trouble why = trouble_of_gpu(&import->job);
        give_bytes(lease, import->message.bytes);
        lease_refuse(lease, &import->message, &why);
    } else {
        struct buffer *buffer = buffer_new(lease, &import->message);
        buffer->device = import->device;
        buffer->gpu = import->job.buffer;
        if (lease->dead)
            buffer_release(buffer);
        else
            tell(lease, &import->message, buffer);
    }
    free(import);
    lease_settle(lease);
}

static bool judge_import(const struct message *message, size_t fd_count, struct trouble *ret_why)
{
    *ret_why = REFUSE(400, "bad_message", "a GPU buffer needs \"gpu\": the UUID of its GPU");
    if (!message->gpu.len)
        return false;
    if (message->kind == BUFFER_CUDA_IPC) {
        *ret_why = REFUSE(400, "bad_message", "cuda-ipc needs \"handle\", and no descriptor");
        return message->handle.len && !fd_count;
    }
    *ret_why = REFUSE(422, "bad_descriptor",
                      "cuda-vmm needs \"chunks\", and a descriptor for each");
    return message->chunk_count && message->chunk_count == fd_count;
}

static bool register_gpu(struct lease *lease, const struct message *message, int *fds,
                         size_t fd_count, struct trouble *ret_why)
{
    if (!judge_import(message, fd_count, ret_why))
        return false;
    struct device *device = device_find(lease->worker->local->devices, message->gpu, ret_why);
    if (!device)
        return false;
    struct import *import = must_alloc(sizeof(*import));
    struct job *job = &import->job;
    import->lease = lease;
    import->device = device;
    import->message = *message;
    *job = (struct job){
        .mail = { .deliver = imported }, .box = lease->worker->box,
        .kind = message->kind == BUFFER_CUDA_IPC ? JOB_IMPORT_IPC : JOB_IMPORT_VMM,
        .fds = import->fds, .chunks = import->chunks, .chunk_count = fd_count,
        .handle = import->handle, .base_offset = message->base_offset, .bytes = message->bytes,
    };
    for (size_t i = 0; i < fd_count; i++) {
        import->chunks[i] = message->chunks[i];
        import->fds[i] = fds[i];
        fds[i] = -1;
    }
    if (message->handle.len)
        memcpy(import->handle, message->handle.ptr, IPC_HANDLE_BYTES);
    lease->importing++;
    device_do(device, job);
    return true;
}

void buffer_register(struct lease *lease, const struct message *message, int *fds,
                     size_t fd_count)
{
    const struct local_options *options = &lease->worker->local->options;
    struct users *users = lease->worker->local->users;
    struct trouble why = REFUSE(400, "bad_message", "\"bytes\" must be at least 1");
    bool good = message->bytes > 0;
    if (good && lease->buffer_count + lease->importing >= options->buffers_max) {
        metric_add(M_FILL_BUFFERS_MAX, 1);
        why = REFUSE(429, "quota", "this session has as many buffers as fill_buffers allows: "
                     "unregister one");
        good = false;
    }
    if (good && !users_take_bytes(users, lease->user, message->bytes, options->user_bytes_max)) {
        metric_add(M_FILL_USER_MEMORY, 1);
        why = REFUSE(429, "quota", "this user has as many bytes registered as fill_user_memory "
                     "allows: unregister a buffer");
        good = false;
    }
    if (good && !(message->kind == BUFFER_MEMFD
                  ? register_memfd(lease, message, fds, fd_count, &why)
                  : register_gpu(lease, message, fds, fd_count, &why))) {
        give_bytes(lease, message->bytes);
        good = false;
    }
    if (!good)
        lease_refuse(lease, message, &why);
}

struct buffer *buffer_find(struct lease *lease, const uint8_t id[ID_BYTES])
{
    list_each(struct buffer, buffer, &lease->buffers, link)
        if (!buffer->leaving && memcmp(buffer->id, id, ID_BYTES) == 0)
            return buffer;
    return NULL;
}

/* ---- let go ---- */

static void buffer_free(struct buffer *buffer)
{
    struct lease *lease = buffer->lease;
    give_bytes(lease, buffer->bytes);
    list_del(&buffer->link);
    lease->buffer_count--;
    metric_gauge_add(M_FILL_BUFFERS, -1);
    if (buffer->tell)
        tell(lease, &buffer->leave, NULL);
    free(buffer);
}

struct release {
    struct job job;
    struct buffer *buffer;
};

static void released(struct mail *mail)
{
    struct release *release = container_of(mail, struct release, job.mail);
    struct lease *lease = release->buffer->lease;
    buffer_free(release->buffer);
    free(release);
    lease_settle(lease);
}

static void release_gpu(struct buffer *buffer)
{
    struct release *release = must_alloc(sizeof(*release));
    *release = (struct release){ .buffer = buffer };
    release->job = (struct job){ .mail = { .deliver = released }, .kind = JOB_RELEASE,
                                 .box = buffer->lease->worker->box, .buffer = buffer->gpu };
    buffer->released = true;
    device_do(buffer->device, &release->job);
}

void buffer_settle(struct buffer *buffer)
{
    if (!buffer->leaving || buffer->released ||
        (buffer->fills && guard_on(GUARD_FILL_DRAIN)))
        return;
    if (buffer->device) {
        release_gpu(buffer);
    } else {
        munmap(buffer->base, buffer->bytes);
        buffer_free(buffer);
    }
}

void buffer_release(struct buffer *buffer)
{
    buffer->leaving = true;
    buffer_settle(buffer);
}
