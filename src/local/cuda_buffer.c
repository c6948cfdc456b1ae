/* cuda_buffer.c - host memory that the GPU reads, and memory of clients that copies go to.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A buffer is a mapping that lives from its import to its release. A release waits for the copies
 * into the buffer, so no copy writes to memory that the client has got back. A client's statements
 * about its memory count only if the driver confirms them. */
#include "local/cuda_inside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NOT_IPC "register the buffer with \"kind\" cuda-vmm or memfd, not cuda-ipc"
#define NOT_VMM "register the buffer with \"kind\" cuda-ipc or memfd, not cuda-vmm"

/* ---- host memory ---- */

/* Only the copier's thread writes the pinned range. It writes under the lock, because other threads
 * read the range. */
static void set_pinned(struct gpu *gpu, void *mem, uint64_t bytes)
{
    pthread_mutex_lock(&gpu->lock);
    gpu->pinned = (uintptr_t)mem;
    gpu->pinned_bytes = bytes;
    pthread_mutex_unlock(&gpu->lock);
}

enum err cuda_pin(struct gpu *gpu, void *mem, uint64_t bytes, struct gpu_why *why)
{
    enum err e = cuda_enter(gpu, why);
    check(bytes > 0 && (e || gpu->pinned_bytes == 0));
    if (!e)
        e = cuda_judge(gpu, cudaHostRegister(mem, bytes, cudaHostRegisterPortable),
                       "pinning host memory", why);
    if (!e)
        set_pinned(gpu, mem, bytes);
    /* Drivers have several errors for one fact: this host does not allow that much pinned
     * memory. */
    return e == ERR_BAD_ARGUMENT || e == ERR_NOT_IMPLEMENTED ? ERR_LIMIT : e;
}

void cuda_unpin(struct gpu *gpu)
{
    struct gpu_why why;
    check(gpu->pinned_bytes > 0);
    if (cuda_enter(gpu, &why) == OK && cuda_drain(gpu, (1u << gpu->lane_count) - 1) == OK)
        (void)cuda_judge(gpu, cudaHostUnregister((void *)gpu->pinned), "unpinning host memory",
                         &why);
    set_pinned(gpu, NULL, 0);
}

/* ---- memory of clients ---- */

static struct gpu_buffer *buffer_new(struct gpu *gpu, CUdeviceptr at, uint64_t bytes)
{
    struct gpu_buffer *buffer = must_alloc(sizeof(*buffer));
    buffer->magic = BUFFER_MAGIC;
    buffer->gpu = gpu;
    buffer->at = at;
    buffer->bytes = bytes;
    atomic_fetch_add(&gpu->buffers, 1);
    return buffer;
}

/* Sets *ret to the sum of the chunks. Each chunk must be whole granules, and the sum at least
 * `bytes`. */
static enum err measure(const struct gpu *gpu, const uint64_t *chunks, size_t count, uint64_t bytes,
                        uint64_t *ret, struct gpu_why *why)
{
    uint64_t sum = 0;
    if (gpu->granule == 0)
        return cuda_say(why, ERR_NOT_IMPLEMENTED,
                        "this GPU, or its driver, can't import memory by file descriptor: "
                        NOT_VMM);
    if (count == 0 || count > GPU_CHUNKS_MAX)
        return cuda_say(why, ERR_BAD_ARGUMENT, "a buffer must have 1 to %d chunks", GPU_CHUNKS_MAX);
    for (size_t i = 0; i < count; i++)
        if (chunks[i] == 0 || chunks[i] % gpu->granule != 0 || chunks[i] > INT64_MAX ||
            __builtin_add_overflow(sum, chunks[i], &sum) || sum > INT64_MAX)
            return cuda_say(why, ERR_BAD_ARGUMENT, "chunks[%zu] must be above 0, and a multiple of "
                            "%llu bytes, the granularity of this GPU, and the sum of all chunks "
                            "below 2^63", i,
                            (unsigned long long)gpu->granule);
    if (bytes == 0 || bytes > sum)
        return cuda_say(why, ERR_BAD_ARGUMENT, "\"bytes\" must be 1 to %llu, the sum of the chunks",
                        (unsigned long long)sum);
    *ret = sum;
    return OK;
}

/* Judges a call that imports memory of a client. The advice follows CUDA's reason. */
static enum err judge_import(struct gpu *gpu, cudaError_t error, const char *what,
                             const char *advice, struct gpu_why *why)
{
    struct gpu_why reason;
    enum err e = cuda_judge(gpu, error, what, &reason);
    if (e == ERR_GONE)
        *why = reason;
    else if (e)
        (void)cuda_say(why, e, "%s; %s", reason.text, advice);
    return e;
}

/* Refuses memory of another GPU: it could be mapped on this GPU, but each copy would cross the bus
 * twice. */
static enum err judge_chunk(struct gpu *gpu, CUmemGenericAllocationHandle chunk,
                            struct gpu_why *why)
{
    CUmemAllocationProp kind = { 0 };
    enum err e = judge_import(gpu, (cudaError_t)gpu->driver.properties(&kind, chunk),
                              "CUDA's query of the client's GPU memory", NOT_VMM, why);
    if (e)
        return e;
    if (kind.location.type != CU_MEM_LOCATION_TYPE_DEVICE || kind.location.id != gpu->ordinal)
        e = cuda_say(why, ERR_BAD_ARGUMENT, "the client's memory does not lie on the GPU that "
                     "\"gpu\" names: give the UUID of the GPU that has this memory");
    return e;
}

/* The mapping keeps the memory alive, so the handle is released at once. */
static enum err map_chunk(struct gpu *gpu, int fd, CUdeviceptr at, uint64_t bytes,
                          struct gpu_why *why)
{
    CUmemGenericAllocationHandle chunk;
    CUresult result = gpu->driver.import(&chunk, (void *)(uintptr_t)fd,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS)
        return judge_import(gpu, (cudaError_t)result, "importing GPU memory by its file descriptor",
                            "send the descriptor that cuMemExportToShareableHandle returned, or "
                            NOT_VMM, why);
    enum err e = judge_chunk(gpu, chunk, why);
    if (!e)
        e = cuda_judge_driver(gpu, gpu->driver.map(at, bytes, 0, chunk, 0),
                              "mapping a chunk with the size given in \"chunks\"", why);
    if (!cuda_is_lost(gpu))
        (void)gpu->driver.release(chunk);
    return e;
}

/* Sets *ret_done to the number of bytes that are mapped, also after an error. */
static enum err map_all(struct gpu *gpu, const int *fds, const uint64_t *chunks, size_t count,
                        CUdeviceptr at, uint64_t *ret_done, struct gpu_why *why)
{
    enum err e = OK;
    for (size_t i = 0; !e && i < count; i++) {
        e = map_chunk(gpu, fds[i], at + *ret_done, chunks[i], why);
        if (!e)
            *ret_done += chunks[i];
    }
    if (e)
        return e;
    CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, gpu->ordinal },
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    return judge_import(gpu, (cudaError_t)gpu->driver.set_access(at, *ret_done, &access, 1),
                        "making the client's GPU memory accessible to Penstock", NOT_VMM, why);
}

/* Unmaps the first `mapped` bytes, then frees the `reserved` bytes of address space. */
static void unmap(struct gpu *gpu, CUdeviceptr at, uint64_t mapped, uint64_t reserved)
{
    struct gpu_why why;
    CUresult result = mapped ? gpu->driver.unmap(at, mapped) : CUDA_SUCCESS;
    if (cuda_judge_driver(gpu, result, "unmapping shared memory", &why) == ERR_GONE)
        return;
    result = gpu->driver.address_free(at, reserved);
    (void)cuda_judge_driver(gpu, result, "freeing an address range", &why);
}

enum err cuda_import_vmm(struct gpu *gpu, const int *fds, const uint64_t *chunks, size_t count,
                         uint64_t bytes, struct gpu_buffer **ret, struct gpu_why *why)
{
    CUdeviceptr at;
    uint64_t sum = 0, done = 0;
    enum err e = cuda_enter(gpu, why);
    if (!e)
        e = measure(gpu, chunks, count, bytes, &sum, why);
    if (e)
        return e;
    e = cuda_judge_driver(gpu, gpu->driver.reserve(&at, sum, 0, 0, 0), "reserving an address range",
                          why);
    if (e)
        return e;
    e = map_all(gpu, fds, chunks, count, at, &done, why);
    if (e) {
        if (!cuda_is_lost(gpu))
            unmap(gpu, at, done, sum);
        return e;
    }
    *ret = buffer_new(gpu, at, bytes);
    (*ret)->mapped = at;
    (*ret)->mapped_bytes = sum;
    return OK;
}

/* Sets *ret to the place of the client's first byte in the opened allocation. All of the client's
 * bytes must lie in that allocation. */
static enum err locate(struct gpu *gpu, void *opened, uint64_t base_offset, uint64_t bytes,
                       CUdeviceptr *ret, struct gpu_why *why)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    struct cudaPointerAttributes kind;
    enum err e = judge_import(gpu, cudaPointerGetAttributes(&kind, opened),
                              "CUDA's query of the client's GPU memory", NOT_IPC, why);
    if (!e && kind.device != gpu->ordinal)
        e = cuda_say(why, ERR_BAD_ARGUMENT, "the client's memory does not lie on the GPU that "
                     "\"gpu\" names: give the UUID of the GPU that has this memory");
    if (!e)
        e = judge_import(gpu, (cudaError_t)gpu->driver.address_range(&base, &size,
                                                                     (CUdeviceptr)opened),
                         "CUDA's query of the size of the client's GPU memory", NOT_IPC, why);
    if (!e && (bytes == 0 || base_offset > size || bytes > size - base_offset))
        e = cuda_say(why, ERR_BAD_ARGUMENT, "\"base_offset\" and \"bytes\" reach beyond the "
                     "allocation, which has %zu bytes: lower one of them", size);
    *ret = base + base_offset;
    return e;
}

enum err cuda_import_ipc(struct gpu *gpu, const uint8_t handle[GPU_IPC_BYTES],
                         uint64_t base_offset, uint64_t bytes, struct gpu_buffer **ret,
                         struct gpu_why *why)
{
    static_assert(sizeof(cudaIpcMemHandle_t) == GPU_IPC_BYTES, "a handle has the protocol's size");
    cudaIpcMemHandle_t theirs;
    CUdeviceptr at;
    void *opened;
    memcpy(&theirs, handle, sizeof(theirs));
    enum err e = cuda_enter(gpu, why);
    if (!e && !gpu->driver.address_range)
        e = cuda_say(why, ERR_NOT_IMPLEMENTED, "the driver can't tell the size of an allocation: "
                     NOT_IPC);
    if (!e)
        e = judge_import(gpu, cudaIpcOpenMemHandle(&opened, theirs, cudaIpcMemLazyEnablePeerAccess),
                         "opening the IPC handle of GPU memory", "send a handle of memory from "
                         "cudaMalloc that the client has not freed, or " NOT_IPC, why);
    if (e)
        return e;
    e = locate(gpu, opened, base_offset, bytes, &at, why);
    if (e) {
        if (!cuda_is_lost(gpu))
            (void)cudaIpcCloseMemHandle(opened);
        return e;
    }
    *ret = buffer_new(gpu, at, bytes);
    (*ret)->ipc = opened;
    return OK;
}

void cuda_release(struct gpu_buffer **buffer)
{
    struct gpu_buffer *gone = *buffer;
    struct gpu_why why;
    if (!gone)
        return;
    check(gone->magic == BUFFER_MAGIC);
    struct gpu *gpu = gone->gpu;
    pthread_mutex_lock(&gpu->lock);
    gone->closing = true;
    unsigned lanes = gone->lanes;
    pthread_mutex_unlock(&gpu->lock);
    if (cuda_enter(gpu, &why) == OK && cuda_drain(gpu, lanes) == OK) {
        if (gone->ipc)
            (void)cuda_judge(gpu, cudaIpcCloseMemHandle(gone->ipc), "closing shared memory", &why);
        else
            unmap(gpu, gone->mapped, gone->mapped_bytes, gone->mapped_bytes);
    }
    check(atomic_fetch_sub(&gpu->buffers, 1) > 0);
    free(gone);
    *buffer = NULL;
}
