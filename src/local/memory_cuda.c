/* memory_cuda.c - memory of NVIDIA's GPUs as registered memory. SPDX-License-Identifier: Apache-2.0
 *
 *   cuda-vmm   chunks of the driver's virtual memory, a file descriptor each
 *   cuda-ipc   bytes inside an allocation of cudaMalloc; a handle of 64 bytes names the allocation
 *
 * CUDA calls take milliseconds, so the GPU's copier thread makes them. The session's keeper (its
 * worker, inside.h) gives the copier a device task, and the copier posts the task's mail to the
 * keeper when the task has ended.
 * Threads: the copier runs import_vmm, import_ipc and release_gpu. Any thread may run vmm_off and
 * ipc_off. The copier and the keeper run close_all. The keeper runs the rest. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "local/inside.h"

static_assert(MESSAGE_FDS_MAX <= GPU_CHUNKS_MAX && IPC_HANDLE_BYTES == GPU_IPC_BYTES,
              "an import takes all chunks and the handle that a message can have");

/* A task of the copier for one buffer. Only an import uses the members after `buffer`. */
struct call {
    struct device_task task;
    struct buffer *buffer;
    size_t fd_count;                  /* 0: all descriptors are closed */
    int fds[MESSAGE_FDS_MAX];
    uint64_t chunks[MESSAGE_FDS_MAX];
    uint8_t handle[IPC_HANDLE_BYTES];
    uint64_t base_offset, bytes;
};

static struct call *call_new(struct buffer *buffer, void (*done)(struct mail *mail),
                             device_call *how)
{
    struct call *call = must_alloc(sizeof(*call));
    call->buffer = buffer;
    call->task = (struct device_task){ .mail = { .deliver = done }, .call = how,
                                       .box = buffer->session->worker->box, .buffer = buffer->gpu };
    return call;
}

/* ---- is the kind on? ---- */

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
    return !probe->count ? probe->why.text : vmm ? NULL : "no GPU here can share memory by "
                                                            "file descriptor: use cuda-ipc or "
                                                            "memfd";
}

/* ---- register ---- */

static void close_all(struct call *call)
{
    for (size_t i = 0; i < call->fd_count; i++)
        close(call->fds[i]);
    call->fd_count = 0;
}

static enum err import_vmm(const struct gpu_backend *backend, struct gpu *gpu,
                           struct device_task *task)
{
    struct call *call = container_of(task, struct call, task);
    enum err err = backend->import_vmm(gpu, call->fds, call->chunks, call->fd_count, call->bytes,
                                       &task->buffer, &task->why);
    close_all(call);
    return err;
}

static enum err import_ipc(const struct gpu_backend *backend, struct gpu *gpu,
                           struct device_task *task)
{
    struct call *call = container_of(task, struct call, task);
    return backend->import_ipc(gpu, call->handle, call->base_offset, call->bytes, &task->buffer,
                               &task->why);
}

static struct trouble trouble_of_gpu(const struct device_task *task)
{
    slice why = slice_of(task->why.text);
    switch (task->err) {
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
    struct call *call = container_of(mail, struct call, task.mail);
    struct trouble why = trouble_of_gpu(&call->task);
    close_all(call);    /* if the GPU could not be opened, import_vmm never ran */
    call->buffer->gpu = call->task.buffer;
    buffer_taken(call->buffer, call->task.err ? &why : NULL);
    free(call);
}

static enum err take(struct buffer *buffer, const struct memory_offer *memory, int *fds,
                     size_t fd_count, struct trouble *ret_why, device_call *how)
{
    check(fd_count <= MESSAGE_FDS_MAX);
    buffer->device = device_find(buffer->session->worker->local->devices, memory->gpu, ret_why);
    if (!buffer->device)
        return ERR_NOT_FOUND;
    struct call *call = call_new(buffer, imported, how);
    call->fd_count = fd_count;
    call->base_offset = memory->base_offset;
    call->bytes = memory->bytes;
    for (size_t i = 0; i < fd_count; i++) {
        call->chunks[i] = memory->chunks[i];
        call->fds[i] = fds[i];
        fds[i] = -1;
    }
    if (memory->handle.len)
        memcpy(call->handle, memory->handle.ptr, IPC_HANDLE_BYTES);
    device_do(buffer->device, &call->task);
    return ERR_WAIT;
}

static bool names_gpu(const struct memory_offer *memory, struct trouble *ret_why)
{
    return memory->gpu.len || refused(ret_why, 400, "bad_message",
                                      S("a buffer in GPU memory needs \"gpu\", the UUID of the "
                                        "GPU"));
}

static enum err take_vmm(struct buffer *buffer, const struct memory_offer *memory, int *fds,
                         size_t fd_count, struct trouble *ret_why)
{
    if (!names_gpu(memory, ret_why))
        return ERR_BAD_ARGUMENT;
    *ret_why = (struct trouble){ 422, "bad_descriptor",
                                 S("cuda-vmm needs \"chunks\", and one file descriptor for each "
                                   "chunk") };
    if (!memory->chunk_count || memory->chunk_count != fd_count)
        return ERR_BAD_ARGUMENT;
    return take(buffer, memory, fds, fd_count, ret_why, import_vmm);
}

static enum err take_ipc(struct buffer *buffer, const struct memory_offer *memory, int *fds,
                         size_t fd_count, struct trouble *ret_why)
{
    if (!names_gpu(memory, ret_why))
        return ERR_BAD_ARGUMENT;
    *ret_why = (struct trouble){ 400, "bad_message",
                                 S("a register message of the kind cuda-ipc needs "
                                   "\"handle\", and no file descriptors") };
    if (!memory->handle.len || fd_count)
        return ERR_BAD_ARGUMENT;
    return take(buffer, memory, fds, fd_count, ret_why, import_ipc);
}

/* ---- release ---- */

static enum err release_gpu(const struct gpu_backend *backend, struct gpu *gpu,
                            struct device_task *task)
{
    (void)gpu;
    backend->release(&task->buffer);
    return OK;
}

static void released(struct mail *mail)
{
    struct call *call = container_of(mail, struct call, task.mail);
    struct buffer *buffer = call->buffer;
    free(call);
    buffer_released(buffer);
}

static enum err release(struct buffer *buffer)
{
    struct call *call = call_new(buffer, released, release_gpu);
    device_do(buffer->device, &call->task);
    return ERR_WAIT;
}

const struct memory_kind memory_cuda_vmm = { vmm_off, take_vmm, release };
const struct memory_kind memory_cuda_ipc = { ipc_off, take_ipc, release };
