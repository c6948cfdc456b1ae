/* cuda_copy.c - copies into GPU memory of clients. SPDX-License-Identifier: Apache-2.0
 *
 * A batch of copies runs on one lane (a stream of the GPU). All bounds of a batch are checked
 * before its first copy begins. So one wrong copy fails the whole batch. */
#include "local/cuda_inside.h"

static bool is_pinned(const struct gpu *gpu, uintptr_t at, uint64_t bytes)
{
    return at >= gpu->pinned && bytes <= gpu->pinned_bytes &&
           at - gpu->pinned <= gpu->pinned_bytes - bytes;
}

static enum err judge_copy(struct gpu *gpu, const struct gpu_copy *copy, struct gpu_why *why)
{
    const struct gpu_buffer *to = copy->to;
    check(to->magic == BUFFER_MAGIC && to->gpu == gpu);
    if (to->closing)
        return cuda_say(why, ERR_CANCELED, "the buffer is being released");
    if (copy->offset > to->bytes || copy->bytes > to->bytes - copy->offset)
        return cuda_say(why, ERR_BAD_RANGE, "a copy reaches beyond its buffer of %llu bytes",
                   (unsigned long long)to->bytes);
    if (!is_pinned(gpu, (uintptr_t)copy->from, copy->bytes))
        return cuda_say(why, ERR_BAD_RANGE, "a copy would read memory that is not pinned");
    return OK;
}

static cudaError_t flush(struct gpu *gpu, cudaStream_t lane)
{
    CUmemcpyAttributes how = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
                               .flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE };
    size_t first = 0, failed = 0, count = gpu->batched;
    gpu->batched = 0;
    if (count == 0)
        return cudaSuccess;
    return (cudaError_t)gpu->driver.batch(gpu->to, gpu->from, gpu->bytes, count, &how, &first, 1,
                                          &failed, (CUstream)lane);
}

static cudaError_t begin(struct gpu *gpu, cudaStream_t lane, const struct gpu_copy *copy)
{
    CUdeviceptr to = copy->to->at + copy->offset;
    if (copy->bytes == 0)    /* the batch call refuses an empty copy */
        return cudaSuccess;
    if (!gpu->driver.batch)
        return cudaMemcpyAsync((void *)to, copy->from, copy->bytes, cudaMemcpyHostToDevice, lane);
    gpu->to[gpu->batched] = to;
    gpu->from[gpu->batched] = (CUdeviceptr)copy->from;
    gpu->bytes[gpu->batched] = copy->bytes;
    return ++gpu->batched == BATCH_MAX ? flush(gpu, lane) : cudaSuccess;
}

static cudaError_t begin_all(struct gpu *gpu, unsigned lane, const struct gpu_copy *copies,
                             size_t count, cudaEvent_t after)
{
    cudaStream_t stream = gpu->lanes[lane];
    cudaError_t error = cudaSuccess;
    gpu->batched = 0;
    for (size_t i = 0; error == cudaSuccess && i < count; i++) {
        copies[i].to->lanes |= 1u << lane;
        error = begin(gpu, stream, &copies[i]);
    }
    if (error == cudaSuccess)
        error = flush(gpu, stream);
    return error == cudaSuccess ? cudaEventRecord(after, stream) : error;
}

/* Checks and begins the copies without giving up the lock in between. A release of a buffer reads
 * the buffer's `lanes` under the same lock. So it finds this lane there. */
static enum err judge_and_begin(struct gpu *gpu, unsigned lane, const struct gpu_copy *copies,
                                size_t count, cudaEvent_t after, struct gpu_why *why)
{
    enum err e = OK;
    cudaError_t error = cudaSuccess;
    pthread_mutex_lock(&gpu->lock);
    for (size_t i = 0; !e && i < count; i++)
        e = judge_copy(gpu, &copies[i], why);
    if (!e)
        error = begin_all(gpu, lane, copies, count, after);
    pthread_mutex_unlock(&gpu->lock);
    if (error == cudaSuccess)
        return e;
    e = cuda_judge(gpu, error, "starting copies", why);
    if (e != ERR_GONE && cuda_drain(gpu, 1u << lane) != OK)    /* some copies may have begun */
        e = cuda_say(why, ERR_GONE, "%s", gpu->lost_why.text);
    return e == ERR_BAD_ARGUMENT ? ERR_INTERNAL : e;
}

enum err cuda_submit(struct gpu *gpu, unsigned lane, const struct gpu_copy *copies, size_t count,
                     struct gpu_fence **ret, struct gpu_why *why)
{
    check(lane < gpu->lane_count);
    enum err e = cuda_enter(gpu, why);
    if (e)
        return e;
    struct gpu_fence *fence = cuda_fence_take(gpu);
    if (!fence)
        return cuda_judge(gpu, cudaErrorMemoryAllocation, "creating a CUDA event", why);
    e = judge_and_begin(gpu, lane, copies, count, fence->event, why);
    if (e)
        cuda_fence_give(fence);
    else
        *ret = fence;
    return e;
}
