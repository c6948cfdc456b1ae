/* cuda.c - the GPU backend on CUDA, penstock-cuda.so. SPDX-License-Identifier: Apache-2.0
 *
 * The module contains the CUDA runtime (libcudart_static), and calls the runtime for most work. It
 * calls the driver itself only for functions that the runtime lacks. cuda_probe.c asks the driver
 * for the address of each such function, in the version that this code was written against. If the
 * driver lacks a function, the feature that needs it is off. Copies use the driver's batch call
 * (12.8 and newer); older drivers get one call for each copy. Copies run on Penstock's own streams.
 * No kernel copies bytes: it would queue behind the kernels of the client's own program.
 *
 *     struct gpu --- lanes[] (streams)      struct gpu_fence: an event, from a free list
 *         \--- pinned (host memory)         struct gpu_buffer: a mapping, and which lanes it used
 *
 * A sticky error destroys the context of its device. The device is then lost until the process
 * ends. Every call first reads the flag is_lost, so for a lost device the driver is not called any
 * more. No table says which errors are sticky. So after a failed call, a harmless call is made; if
 * that call fails, too, the error is sticky. An error that shows only when a copy ends is always
 * sticky.
 *
 * Threads: as gpu.h says; each call makes the device current for its thread. gpu->lock guards the
 * free list, the pinned range, and the members `closing` and `lanes` of buffers. A submit keeps the
 * lock while it checks that no buffer is closing, and while it begins the copies. A release sets
 * `closing` under the lock. So it then knows all lanes on which copies into its buffer were begun.
 * No thread waits for copies under the lock. */
#include "local/cuda_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* State of the whole process: which devices are open, and which are lost. */
static struct {
    pthread_mutex_t lock;
    struct {
        bool open, lost;
    } devices[GPU_DEVICES_MAX];
} claims = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- errors ---- */

enum err cuda_say(struct gpu_why *why, enum err e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    return e;
}

/* Marks the device as lost. The first thread that finds the error writes lost_why, the reason as a
 * sentence, and then sets is_lost. A thread that sees is_lost also sees the whole sentence. Returns
 * ERR_GONE. */
static enum err cuda_lose(struct gpu *gpu, cudaError_t error, const char *what)
{
    pthread_mutex_lock(&claims.lock);
    if (!gpu->is_lost) {
        claims.devices[gpu->ordinal].lost = true;
        cuda_say(&gpu->lost_why, OK,
                 "GPU %d has failed, and is out of use until Penstock is restarted: %s failed "
                 "with %s (%s). Check nvidia-smi before the restart",
                 gpu->ordinal, what, cudaGetErrorName(error), cudaGetErrorString(error));
        atomic_store_explicit(&gpu->is_lost, true, memory_order_release);
    }
    pthread_mutex_unlock(&claims.lock);
    return ERR_GONE;
}

bool cuda_is_lost(struct gpu *gpu)
{
    return atomic_load_explicit(&gpu->is_lost, memory_order_acquire);
}

static enum err meaning(cudaError_t error)
{
    switch (error) {
    case cudaErrorMemoryAllocation: return ERR_LIMIT;
    case cudaErrorNotSupported: return ERR_NOT_IMPLEMENTED;
    case cudaErrorDevicesUnavailable: return ERR_BUSY;
    default: return ERR_BAD_ARGUMENT;
    }
}

/* Turns a failed call into an err. A query of a stream shows whether the error is sticky: if it is,
 * the query fails, too. */
enum err cuda_judge(struct gpu *gpu, cudaError_t error, const char *what, struct gpu_why *why)
{
    if (error == cudaSuccess)
        return OK;
    (void)cudaGetLastError();
    cudaError_t now = gpu->lanes[0] ? cudaStreamQuery(gpu->lanes[0]) : cudaSuccess;
    if (now != cudaSuccess && now != cudaErrorNotReady) {
        cuda_lose(gpu, now, what);
        return cuda_say(why, ERR_GONE, "%s", gpu->lost_why.text);
    }
    return cuda_say(why, meaning(error), "%s failed: %s", what, cudaGetErrorString(error));
}

/* The driver has the same numbers for its results as the runtime. */
enum err cuda_judge_driver(struct gpu *gpu, CUresult result, const char *what, struct gpu_why *why)
{
    return cuda_judge(gpu, (cudaError_t)result, what, why);
}

enum err cuda_enter(struct gpu *gpu, struct gpu_why *why)
{
    check(gpu->magic == GPU_MAGIC);
    if (cuda_is_lost(gpu))
        return cuda_say(why, ERR_GONE, "%s", gpu->lost_why.text);
    return cuda_judge(gpu, cudaSetDevice(gpu->ordinal), "selecting the GPU", why);
}

/* ---- fences ---- */

void cuda_fence_give(struct gpu_fence *fence)
{
    struct gpu *gpu = fence->gpu;
    pthread_mutex_lock(&gpu->lock);
    fence->next = gpu->free_fences;
    gpu->free_fences = fence;
    pthread_mutex_unlock(&gpu->lock);
    check(atomic_fetch_sub(&gpu->fences_out, 1) > 0);
}

struct gpu_fence *cuda_fence_take(struct gpu *gpu)
{
    pthread_mutex_lock(&gpu->lock);
    struct gpu_fence *fence = gpu->free_fences;
    if (fence)
        gpu->free_fences = fence->next;
    pthread_mutex_unlock(&gpu->lock);
    if (!fence) {
        fence = must_alloc(sizeof(*fence));
        fence->gpu = gpu;
        if (cudaEventCreateWithFlags(&fence->event, cudaEventDisableTiming |
                                                        cudaEventBlockingSync) != cudaSuccess) {
            free(fence);
            return NULL;
        }
    }
    atomic_fetch_add(&gpu->fences_out, 1);
    return fence;
}

/* Turns the event's result into the result of its batch. No context survives a failed copy, so the
 * device is lost then. */
static enum err verdict(struct gpu_fence **fence, cudaError_t error)
{
    struct gpu *gpu = (*fence)->gpu;
    if (error == cudaErrorNotReady)
        return ERR_WAIT;
    enum err e = error == cudaSuccess ? OK : cuda_lose(gpu, error, "a copy");
    cuda_fence_give(*fence);
    *fence = NULL;
    return e;
}

static enum err look(struct gpu_fence **fence, cudaError_t (*ask)(cudaEvent_t event))
{
    struct gpu_why why;
    struct gpu *gpu = (*fence)->gpu;
    if (cuda_enter(gpu, &why) == OK)
        return verdict(fence, ask((*fence)->event));
    cuda_fence_give(*fence);
    *fence = NULL;
    return ERR_GONE;
}

static enum err cuda_poll(struct gpu_fence **fence)
{
    return look(fence, cudaEventQuery);
}

static enum err cuda_wait(struct gpu_fence **fence)
{
    return look(fence, cudaEventSynchronize);
}

enum err cuda_drain(struct gpu *gpu, unsigned lanes)
{
    enum err e = OK;
    for (unsigned i = 0; !e && i < gpu->lane_count; i++) {
        if (!(lanes & 1u << i) || !gpu->lanes[i])
            continue;
        struct gpu_fence *fence = cuda_fence_take(gpu);
        cudaError_t error = fence ? cudaEventRecord(fence->event, gpu->lanes[i])
                                  : cudaStreamSynchronize(gpu->lanes[i]);
        if (fence && error == cudaSuccess)
            e = cuda_wait(&fence);
        else if (fence)
            e = verdict(&fence, error);
        else if (error != cudaSuccess)
            e = cuda_lose(gpu, error, "a copy");
    }
    return e;
}

/* ---- a device ---- */

static enum err claim(int ordinal, struct gpu_why *why)
{
    enum err e = OK;
    pthread_mutex_lock(&claims.lock);
    if (claims.devices[ordinal].lost)
        e = cuda_say(why, ERR_GONE, "GPU %d has failed, and is out of use until Penstock is "
                     "restarted", ordinal);
    else if (claims.devices[ordinal].open)
        e = cuda_say(why, ERR_BUSY, "GPU %d is already open in this process, which is a bug of "
                     "Penstock: please report it", ordinal);
    else
        claims.devices[ordinal].open = true;
    pthread_mutex_unlock(&claims.lock);
    return e;
}

static void unclaim(int ordinal)
{
    pthread_mutex_lock(&claims.lock);
    claims.devices[ordinal].open = false;
    pthread_mutex_unlock(&claims.lock);
}

static CUmemAllocationProp shared_memory_of(int ordinal)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal },
    };
}

static enum err set_up(struct gpu *gpu, struct gpu_why *why)
{
    enum err e = cuda_enter(gpu, why);
    for (unsigned i = 0; !e && i < gpu->lane_count; i++)
        e = cuda_judge(gpu, cudaStreamCreateWithFlags(&gpu->lanes[i], cudaStreamNonBlocking),
                  "creating a CUDA stream", why);
    cuda_find_entry_points(&gpu->driver);
    if (e || !cuda_has_vmm(&gpu->driver, gpu->ordinal))
        return e;
    CUmemAllocationProp kind = shared_memory_of(gpu->ordinal);
    size_t granule = 0;
    CUresult result = gpu->driver.granularity(&granule, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    e = cuda_judge_driver(gpu, result, "a query of the memory granularity", why);
    gpu->granule = granule;
    return e;
}

/* Takes down what was set up. If the device is lost, or a call fails here, the driver cleans up the
 * rest when the process ends. */
static void tear_down(struct gpu *gpu)
{
    struct gpu_why why;
    struct gpu_fence *fence;
    bool alive = cuda_enter(gpu, &why) == OK && cuda_drain(gpu, (1u << gpu->lane_count) - 1) == OK;
    if (alive && gpu->pinned_bytes)
        alive = cudaHostUnregister((void *)gpu->pinned) == cudaSuccess;
    while ((fence = gpu->free_fences)) {
        gpu->free_fences = fence->next;
        alive = alive && cudaEventDestroy(fence->event) == cudaSuccess;
        free(fence);
    }
    for (unsigned i = 0; i < gpu->lane_count; i++)
        if (alive && gpu->lanes[i])
            alive = cudaStreamDestroy(gpu->lanes[i]) == cudaSuccess;
    if (alive)
        (void)cudaDeviceReset();    /* destroys the context and frees its memory */
}

static void gpu_free(struct gpu *gpu)
{
    tear_down(gpu);
    unclaim(gpu->ordinal);
    pthread_mutex_destroy(&gpu->lock);
    free(gpu);
}

static enum err cuda_open(const char *uuid, unsigned lanes, bool batch, struct gpu **ret,
                          struct gpu_why *why)
{
    check(lanes >= 1 && lanes <= GPU_LANES_MAX);
    int ordinal = cuda_find_device(uuid, why);
    if (ordinal < 0)
        return ERR_NOT_FOUND;
    enum err e = claim(ordinal, why);
    if (e)
        return e;
    struct gpu *gpu = must_alloc(sizeof(*gpu));
    gpu->magic = GPU_MAGIC;
    gpu->ordinal = ordinal;
    gpu->lane_count = lanes;
    pthread_mutex_init(&gpu->lock, NULL);
    e = set_up(gpu, why);
    if (!batch)
        gpu->driver.batch = NULL;
    if (e)
        gpu_free(gpu);
    else
        *ret = gpu;
    return e;
}

static void cuda_close(struct gpu **gpu)
{
    if (!*gpu)
        return;
    check((*gpu)->magic == GPU_MAGIC);
    check((*gpu)->buffers == 0 && (*gpu)->fences_out == 0);
    gpu_free(*gpu);
    *gpu = NULL;
}

static const char *cuda_lost(struct gpu *gpu)
{
    return cuda_is_lost(gpu) ? gpu->lost_why.text : NULL;
}

static const struct gpu_backend backend = {
    .probe = cuda_probe,
    .open = cuda_open,
    .close = cuda_close,
    .lost = cuda_lost,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .import_vmm = cuda_import_vmm,
    .import_ipc = cuda_import_ipc,
    .release = cuda_release,
    .submit = cuda_submit,
    .poll = cuda_poll,
    .wait = cuda_wait,
};

gpu_module_get penstock_gpu_backend __attribute__((visibility("default")));
const struct gpu_backend *penstock_gpu_backend(unsigned interface)
{
    return interface == GPU_INTERFACE ? &backend : NULL;
}
