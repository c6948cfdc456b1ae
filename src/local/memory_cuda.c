/* memory_cuda.c - memory of NVIDIA's GPUs as registered memory. SPDX-License-Identifier: Apache-2.0
 *
 *   cuda-vmm   chunks of the driver's virtual memory, a file descriptor each
 *   cuda-ipc   bytes inside an allocation of cudaMalloc, which a handle of 64 bytes stands for
 *
 * Calls of a GPU take milliseconds, so its copier makes them: a job goes out, and its mail comes
 * back to the keeper. Threads: the keeper's; import_vmm and import_ipc the copier's. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "local/inside.h"

struct import {
    struct job job;
    struct buffer *buffer;
    size_t fd_count;                  /* 0: they have been closed */
    int fds[MESSAGE_FDS_MAX];
    uint64_t chunks[MESSAGE_FDS_MAX];
    uint8_t handle[IPC_HANDLE_BYTES];
    uint64_t base_offset, bytes;
};

struct release {
    struct job job;
    struct buffer *buffer;
};

/* ---- is it on? ---- */

static const char *ipc_off(const struct local *local)
{
    const struct gpu_probe *probe = devices_probe(local->devices);
    return probe->count ? NULL : probe->why.text;
}

static const char *vmm_off(const struct local *local)
{
    const struct gpu_probe *probe = devices_probe(local->devices);
    bool vmm = false;
    for (size_t i = 0; i < probe->count; i++)
        vmm |= probe->devices[i].vmm;
    return !probe->count ? probe->why.text : vmm ? NULL : "none of these GPUs can do that";
}

/* ---- it is taken ---- */

static void close_all(struct import *import)
{
    for (size_t i = 0; i < import->fd_count; i++)
        close(import->fds[i]);
    import->fd_count = 0;
}

static enum err import_vmm(const struct gpu_backend *backend, struct gpu *gpu, struct job *job)
{
    struct import *import = container_of(job, struct import, job);
    enum err err = backend->import_vmm(gpu, import->fds, import->chunks, import->fd_count,
                                       import->bytes, &job->buffer, &job->why);
    close_all(import);
    return err;
}

static enum err import_ipc(const struct gpu_backend *backend, struct gpu *gpu, struct job *job)
{
    struct import *import = container_of(job, struct import, job);
    return backend->import_ipc(gpu, import->handle, import->base_offset, import->bytes,
                               &job->buffer, &job->why);
}

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
    struct trouble why = trouble_of_gpu(&import->job);
    close_all(import);    /* a GPU that could not be opened never imported */
    import->buffer->gpu = import->job.buffer;
    buffer_taken(import->buffer, import->job.err ? &why : NULL);
    free(import);
}

static enum err take(struct buffer *buffer, const struct message *message, int *fds,
                     size_t fd_count, struct trouble *ret_why, gpu_import *how)
{
    struct worker *worker = buffer->lease->worker;
    buffer->device = device_find(worker->local->devices, message->gpu, ret_why);
    if (!buffer->device)
        return ERR_NOT_FOUND;
    struct import *import = must_alloc(sizeof(*import));
    *import = (struct import){
        .job = { .mail = { .deliver = imported }, .box = worker->box, .kind = JOB_IMPORT,
                 .import = how },
        .buffer = buffer, .fd_count = fd_count, .base_offset = message->base_offset,
        .bytes = message->bytes,
    };
    for (size_t i = 0; i < fd_count; i++) {
        import->chunks[i] = message->chunks[i];
        import->fds[i] = fds[i];
        fds[i] = -1;
    }
    if (message->handle.len)
        memcpy(import->handle, message->handle.ptr, IPC_HANDLE_BYTES);
    device_do(buffer->device, &import->job);
    return ERR_WAIT;
}

static bool names_gpu(const struct message *message, struct trouble *ret_why)
{
    return message->gpu.len || refused(ret_why, 400, "bad_message",
                                       S("a GPU buffer needs \"gpu\": the UUID of its GPU"));
}

static enum err take_vmm(struct buffer *buffer, const struct message *message, int *fds,
                         size_t fd_count, struct trouble *ret_why)
{
    if (!names_gpu(message, ret_why))
        return ERR_BAD_ARGUMENT;
    *ret_why = (struct trouble){ 422, "bad_descriptor",
                                 S("cuda-vmm needs \"chunks\", and a descriptor for each") };
    if (!message->chunk_count || message->chunk_count != fd_count)
        return ERR_BAD_ARGUMENT;
    return take(buffer, message, fds, fd_count, ret_why, import_vmm);
}

static enum err take_ipc(struct buffer *buffer, const struct message *message, int *fds,
                         size_t fd_count, struct trouble *ret_why)
{
    if (!names_gpu(message, ret_why))
        return ERR_BAD_ARGUMENT;
    *ret_why = (struct trouble){ 400, "bad_message",
                                 S("cuda-ipc needs \"handle\", and no descriptor") };
    if (!message->handle.len || fd_count)
        return ERR_BAD_ARGUMENT;
    return take(buffer, message, fds, fd_count, ret_why, import_ipc);
}

/* ---- it is let go ---- */

static void released(struct mail *mail)
{
    struct release *done = container_of(mail, struct release, job.mail);
    struct buffer *buffer = done->buffer;
    free(done);
    buffer_released(buffer);
}

static enum err release(struct buffer *buffer)
{
    struct release *begun = must_alloc(sizeof(*begun));
    *begun = (struct release){
        .job = { .mail = { .deliver = released }, .kind = JOB_RELEASE,
                 .box = buffer->lease->worker->box, .buffer = buffer->gpu },
        .buffer = buffer,
    };
    device_do(buffer->device, &begun->job);
    return ERR_WAIT;
}

const struct memory_kind memory_cuda_vmm = { vmm_off, take_vmm, release };
const struct memory_kind memory_cuda_ipc = { ipc_off, take_ipc, release };
