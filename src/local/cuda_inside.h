/* cuda_inside.h - declarations of penstock-cuda.so. SPDX-License-Identifier: Apache-2.0
 *
 * Only this file includes CUDA's headers. The design is at the head of cuda.c. */
#ifndef LOCAL_CUDA_INSIDE_H
#define LOCAL_CUDA_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include <cuda_runtime_api.h>
#include <cudaTypedefs.h>

#include "local/gpu.h"

#define GPU_MAGIC 0x47505531
#define BUFFER_MAGIC 0x47505542
#define BATCH_MAX 512     /* copies in one call of the driver */

/* Functions of the driver that the runtime does not offer. A member is NULL if this driver lacks
 * its function. */
struct driver {
    PFN_cuDeviceGetAttribute_v2000 attribute;
    PFN_cuMemGetAddressRange_v3020 address_range;
    PFN_cuMemGetAllocationGranularity_v10020 granularity;
    PFN_cuMemImportFromShareableHandle_v10020 import;
    PFN_cuMemGetAllocationPropertiesFromHandle_v10020 properties;
    PFN_cuMemAddressReserve_v10020 reserve;
    PFN_cuMemMap_v10020 map;
    PFN_cuMemSetAccess_v10020 set_access;
    PFN_cuMemUnmap_v10020 unmap;
    PFN_cuMemAddressFree_v10020 address_free;
    PFN_cuMemRelease_v10020 release;
    PFN_cuMemcpyBatchAsync_v12080 batch;
};

struct gpu {
    uint32_t magic;
    int ordinal;
    struct driver driver;        /* set by open, constant afterwards */
    uint64_t granule;            /* of VMM memory; 0: VMM memory can't be imported */
    unsigned lane_count;
    cudaStream_t lanes[GPU_LANES_MAX];
    _Atomic bool is_lost;        /* set once, after lost_why was written */
    struct gpu_why lost_why;
    pthread_mutex_t lock;
    struct gpu_fence *free_fences;
    atomic_uint fences_out, buffers;
    uintptr_t pinned;            /* the pinned range of host memory */
    uint64_t pinned_bytes;       /* 0: no range is pinned */
    /* scratch memory of submit */
    CUdeviceptr to[BATCH_MAX], from[BATCH_MAX];
    size_t bytes[BATCH_MAX];
    size_t batched;
};

struct gpu_fence {
    struct gpu *gpu;
    cudaEvent_t event;
    struct gpu_fence *next;
};

struct gpu_buffer {
    uint32_t magic;
    bool closing;           /* `closing` and `lanes` are under gpu->lock */
    unsigned lanes;         /* lanes that copied to this buffer, a bit each */
    struct gpu *gpu;
    CUdeviceptr at;         /* first byte that copies may write */
    uint64_t bytes;         /* number of bytes that copies may write */
    CUdeviceptr mapped;     /* VMM: the range that we mapped; else 0 */
    uint64_t mapped_bytes;
    void *ipc;              /* legacy IPC: the allocation that the runtime opened; else NULL */
};

/* ---- cuda.c: errors; fences ---- */

/* Writes the sentence into *why and returns `e`. */
enum err cuda_say(struct gpu_why *why, enum err e, const char *format, ...) PRINTF_LIKE(3, 4);
bool cuda_is_lost(struct gpu *gpu);
/* Turns the result of a call into an err, and finds out whether the error was sticky. `what` names
 * the call in words. */
enum err cuda_judge(struct gpu *gpu, cudaError_t error, const char *what, struct gpu_why *why);
enum err cuda_judge_driver(struct gpu *gpu, CUresult result, const char *what, struct gpu_why *why);
/* Comes before any call of the driver for a device. Returns ERR_GONE if the device is lost; else
 * makes the device current for this thread. */
enum err cuda_enter(struct gpu *gpu, struct gpu_why *why) MUST_USE;

struct gpu_fence *cuda_fence_take(struct gpu *gpu);    /* NULL: the driver makes no further event */
void cuda_fence_give(struct gpu_fence *fence);
/* Waits for all copies on these lanes (a bit each) that were begun before this call. */
enum err cuda_drain(struct gpu *gpu, unsigned lanes) MUST_USE;

/* ---- cuda_probe.c: drivers and devices ---- */

void cuda_probe(struct gpu_probe *ret);
void cuda_find_entry_points(struct driver *ret);
bool cuda_has_vmm(const struct driver *driver, int ordinal);
/* Returns the device's ordinal, or -1 and *why. */
int cuda_find_device(const char *uuid, struct gpu_why *why);

/* ---- cuda_buffer.c: pinned memory, and memory of clients ---- */

enum err cuda_pin(struct gpu *gpu, void *mem, uint64_t bytes, struct gpu_why *why) MUST_USE;
void cuda_unpin(struct gpu *gpu);
enum err cuda_import_vmm(struct gpu *gpu, const int *fds, const uint64_t *chunks, size_t count,
                         uint64_t bytes, struct gpu_buffer **ret, struct gpu_why *why) MUST_USE;
enum err cuda_import_ipc(struct gpu *gpu, const uint8_t handle[GPU_IPC_BYTES], uint64_t base_offset,
                         uint64_t bytes, struct gpu_buffer **ret, struct gpu_why *why) MUST_USE;
void cuda_release(struct gpu_buffer **buffer);

/* ---- cuda_copy.c ---- */

enum err cuda_submit(struct gpu *gpu, unsigned lane, const struct gpu_copy *copies, size_t count,
                     struct gpu_fence **ret, struct gpu_why *why) MUST_USE;

#endif
