/* fake_cudart.c - a CUDA runtime that needs no GPU and forgives nothing.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Linked in the place of libcudart_static.a, below the same objects of local/cuda*.c that go into
 * penstock-cuda.so. Device memory is memfds; a stream is a thread that copies piece by piece, after
 * random delays; an error that is sticky makes every later call of the device fail. What a GPU
 * would answer with silence or with somebody else's bytes ends the process here, with a line that
 * says why: a copy out of or into memory that is not (or no longer) there, an unmapping under a
 * copy, a mapping or a pinned range left behind, the default stream, an empty entry in a batch, a
 * thread that did not choose its device, another form of the batch call than it was written for.
 *
 * It shows order, lifetime and errors. It does not show that NVIDIA's driver does the same, nor
 * speed. Environment (for a daemon that loads penstock-cuda-fake.so): FAKE_CUDA_DRIVER, _DEVICES,
 * _SEED, _DELAY_US, _FAIL_CALL, _FAIL_COPY, _REFUSE_PINS, as in fake_cudart.h. One lock guards all; copies run
 * outside it. */
#include "local/fake_cudart.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cuda_runtime_api.h>
#include <cudaTypedefs.h>

#define EXPORT __attribute__((visibility("default")))
#define DEVICES 16
#define IPC_MAGIC 0x43504946

/* Addresses that mean something. */
struct area {
    enum { RESERVED, MAPPED, OPENED, PINNED } kind;
    uintptr_t at;
    size_t bytes;
    int device;
    bool access;                     /* MAPPED: was made accessible */
    unsigned refs;                   /* OPENED: as often as its handle */
    int pid, fd;
    struct area *next;
};

struct op {
    uintptr_t to, from;
    size_t bytes;
    struct op *next;
};

struct CUstream_st {
    int device;
    bool ending;
    uint64_t begun, done;            /* copies; `done` counts those that were dropped, too */
    uint64_t random;
    struct op *first, **last, *running;
    pthread_t thread;
    struct CUstream_st *next;
};

struct CUevent_st {
    int device;
    struct CUstream_st *stream;
    uint64_t after;                  /* done when the stream has done so many */
    bool dead;
    struct CUevent_st *next;
};

struct chunk {
    int fd, device;                  /* fd -1: released */
    size_t bytes;
    struct chunk *next;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct fake_setting set;
    struct area *areas;
    struct CUstream_st *streams;     /* these three keep what has ended, too: it may be named */
    struct CUevent_st *events;
    struct chunk *chunks;
    struct {
        bool live;
        cudaError_t sick;
    } devices[DEVICES];
    long calls, batches;
    unsigned streams_made;
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER,
           .set = { .driver = 12090, .devices = 1, .seed = 1, .delay_us = 200 } };

static _Thread_local int current = -1;

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "fake CUDA: %s\n", text);
    abort();
}

/* ---- what a test sets and asks ---- */

static long from_environment(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

__attribute__((constructor)) static void read_environment(void)
{
    fake.set.driver = (int)from_environment("FAKE_CUDA_DRIVER", fake.set.driver);
    fake.set.devices = (int)from_environment("FAKE_CUDA_DEVICES", fake.set.devices);
    fake.set.seed = (uint64_t)from_environment("FAKE_CUDA_SEED", (long)fake.set.seed);
    fake.set.delay_us = (unsigned)from_environment("FAKE_CUDA_DELAY_US", fake.set.delay_us);
    fake.set.fail_call = from_environment("FAKE_CUDA_FAIL_CALL", 0);
    fake.set.fail_copy = from_environment("FAKE_CUDA_FAIL_COPY", 0);
    fake.set.refuse_pins = from_environment("FAKE_CUDA_REFUSE_PINS", 0);
}

/* A device that broke leaves its streams, and what was mapped. */
static void forget_all(void)
{
    for (struct CUstream_st *stream; (stream = fake.streams); free(stream)) {
        fake.streams = stream->next;
        if (stream->ending)
            continue;
        pthread_mutex_lock(&fake.lock);
        stream->ending = true;
        pthread_cond_broadcast(&fake.news);
        pthread_mutex_unlock(&fake.lock);
        pthread_join(stream->thread, NULL);
    }
    for (struct area *area; (area = fake.areas); free(area)) {
        fake.areas = area->next;
        if (area->kind == RESERVED || area->kind == OPENED)
            munmap((void *)area->at, area->bytes);
    }
    for (struct CUevent_st *event; (event = fake.events); free(event))
        fake.events = event->next;
    for (struct chunk *chunk; (chunk = fake.chunks); free(chunk)) {
        fake.chunks = chunk->next;
        if (chunk->fd >= 0)
            close(chunk->fd);
    }
}

EXPORT void fake_set(const struct fake_setting *setting)
{
    forget_all();
    pthread_mutex_lock(&fake.lock);
    fake.set = *setting;
    memset(fake.devices, 0, sizeof(fake.devices));
    pthread_mutex_unlock(&fake.lock);
}

EXPORT int fake_memory(int device, uint64_t bytes)
{
    char name[32];
    snprintf(name, sizeof(name), "fake-gpu-%d", device);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        die("no memfd of %llu bytes", (unsigned long long)bytes);
    return fd;
}

EXPORT void fake_ipc_handle(int memory, int device, uint8_t ret[64])
{
    int fields[] = { IPC_MAGIC, getpid(), memory, device };
    memset(ret, 0, 64);
    memcpy(ret, fields, sizeof(fields));
}

static long locked(const long *counter)
{
    pthread_mutex_lock(&fake.lock);
    long value = *counter;
    pthread_mutex_unlock(&fake.lock);
    return value;
}

EXPORT long fake_calls(void)
{
    return locked(&fake.calls);
}

EXPORT long fake_calls_batch(void)
{
    return locked(&fake.batches);
}

EXPORT int fake_mappings(void)
{
    int count = 0;
    pthread_mutex_lock(&fake.lock);
    for (struct area *area = fake.areas; area; area = area->next)
        count += area->kind == MAPPED || area->kind == OPENED;
    pthread_mutex_unlock(&fake.lock);
    return count;
}

EXPORT int fake_pending(void)
{
    uint64_t count = 0;
    pthread_mutex_lock(&fake.lock);
    for (struct CUstream_st *stream = fake.streams; stream; stream = stream->next)
        count += stream->begun - stream->done;
    pthread_mutex_unlock(&fake.lock);
    return (int)count;
}

/* ---- devices, errors; what follows is under the lock where it says so ---- */

/* Under the lock, in each call that a context answers. Not cudaSuccess: it is dead. */
static cudaError_t touch(int device)
{
    fake.calls++;
    if (fake.set.fail_call > 0 && --fake.set.fail_call == 0)
        fake.devices[device].sick = cudaErrorECCUncorrectable;
    return fake.devices[device].sick;
}

/* Takes the lock. The thread has to have chosen a device (this one, if it is not -1). */
static cudaError_t begin_call(const char *call, int device)
{
    if (current < 0)
        die("%s on a thread that did not choose its device", call);
    if (device >= 0 && device != current)
        die("%s for device %d while device %d is current", call, device, current);
    pthread_mutex_lock(&fake.lock);
    if (!fake.devices[current].live)
        die("%s on device %d, which has no context", call, current);
    return touch(current);
}

static cudaError_t end_call(cudaError_t error)
{
    pthread_mutex_unlock(&fake.lock);
    return error;
}

cudaError_t cudaDriverGetVersion(int *ret)
{
    *ret = fake.set.driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *ret)
{
    *ret = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *ret)
{
    if (fake.set.driver < 12000)
        return cudaErrorInsufficientDriver;
    if (fake.set.devices == 0)
        return cudaErrorNoDevice;
    *ret = fake.set.devices;
    return cudaSuccess;
}

static void must_exist(int device)
{
    if (device < 0 || device >= fake.set.devices)
        die("there is no device %d", device);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *ret, int device)
{
    must_exist(device);
    memset(ret, 0, sizeof(*ret));
    snprintf(ret->name, sizeof(ret->name), "Fake GPU %d", device);
    ret->uuid.bytes[15] = (char)device;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    must_exist(device);
    pthread_mutex_lock(&fake.lock);
    current = device;
    fake.devices[device].live = true;
    return end_call(touch(device));
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaErrorECCUncorrectable ? "cudaErrorECCUncorrectable" :
           error == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaError";
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorECCUncorrectable ? "uncorrectable ECC error encountered" :
           error == cudaErrorIllegalAddress ? "an illegal memory access was encountered" :
           error == cudaErrorInvalidValue ? "invalid argument" : "an error of the fake";
}

/* ---- addresses ---- */

/* Under the lock. */
static struct area *area_add(int kind, uintptr_t at, size_t bytes, int device)
{
    struct area *area = calloc(1, sizeof(*area));
    *area = (struct area){ .kind = kind, .at = at, .bytes = bytes, .device = device, .refs = 1,
                           .next = fake.areas };
    return fake.areas = area;
}

static struct area *area_at(int kind, uintptr_t at)
{
    for (struct area *area = fake.areas; area; area = area->next)
        if (area->kind == (unsigned)kind && area->at == at)
            return area;
    return NULL;
}

static bool overlaps(const struct op *op, uintptr_t at, size_t bytes)
{
    return (op->to < at + bytes && at < op->to + op->bytes) ||
           (op->from < at + bytes && at < op->from + op->bytes);
}

/* Addresses that are to go, while a copy that was begun still needs them? */
static void must_be_idle(uintptr_t at, size_t bytes, const char *call)
{
    for (struct CUstream_st *stream = fake.streams; stream; stream = stream->next) {
        if (stream->running && overlaps(stream->running, at, bytes))
            die("%s under a running copy", call);
        for (struct op *op = stream->first; op; op = op->next)
            if (overlaps(op, at, bytes))
                die("%s under a copy that waits", call);
    }
}

static void area_remove(struct area *gone)
{
    struct area **at = &fake.areas;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    free(gone);
}

/* Do these bytes lie in areas of these kinds, side by side? */
static bool covered(uintptr_t at, size_t bytes, int device, bool host)
{
    while (bytes > 0) {
        size_t step = 0;
        for (struct area *area = fake.areas; area && !step; area = area->next) {
            bool fits = host ? area->kind == PINNED
                             : area->device == device &&
                               (area->kind == OPENED || (area->kind == MAPPED && area->access));
            if (fits && at >= area->at && at - area->at < area->bytes)
                step = area->bytes - (at - area->at);
        }
        if (step == 0)
            return false;
        step = step < bytes ? step : bytes;
        at += step;
        bytes -= step;
    }
    return true;
}

/* ---- streams ---- */

static unsigned dice(struct CUstream_st *stream, unsigned sides)
{
    stream->random ^= stream->random << 13;
    stream->random ^= stream->random >> 7;
    stream->random ^= stream->random << 17;
    return sides ? (unsigned)(stream->random % sides) : 0;
}

/* The next piece of the copy, if it may be made. Takes and leaves the lock. */
static bool may_copy(struct CUstream_st *stream, const struct op *op, size_t done, size_t piece)
{
    pthread_mutex_lock(&fake.lock);
    bool sick = fake.devices[stream->device].sick != cudaSuccess;
    if (!sick && !covered(op->to + done, piece, stream->device, false))
        die("copy into memory that is not mapped");
    if (!sick && !covered(op->from + done, piece, 0, true))
        die("copy from memory that is not pinned");
    pthread_mutex_unlock(&fake.lock);
    return !sick;
}

static void copy(struct CUstream_st *stream, const struct op *op)
{
    size_t pieces = 1 + dice(stream, 3), step = op->bytes / pieces + 1;
    for (size_t done = 0; done < op->bytes; done += step) {
        size_t piece = op->bytes - done < step ? op->bytes - done : step;
        if (fake.set.delay_us)
            usleep(dice(stream, fake.set.delay_us));
        if (!may_copy(stream, op, done, piece))
            return;
        memcpy((char *)op->to + done, (const char *)op->from + done, piece);
    }
}

/* Under the lock: the next one to make; NULL: the stream has ended. */
static struct op *next_op(struct CUstream_st *stream)
{
    while (!stream->first && !stream->ending)
        pthread_cond_wait(&fake.news, &fake.lock);
    struct op *op = stream->first;
    if (!op)
        return NULL;
    stream->first = op->next;
    if (!stream->first)
        stream->last = &stream->first;
    if (fake.set.fail_copy > 0 && --fake.set.fail_copy == 0)
        fake.devices[stream->device].sick = cudaErrorIllegalAddress;
    return stream->running = op;
}

static void *stream_run(void *arg)
{
    struct CUstream_st *stream = arg;
    struct op *op;
    pthread_mutex_lock(&fake.lock);
    while ((op = next_op(stream))) {
        pthread_mutex_unlock(&fake.lock);
        copy(stream, op);
        pthread_mutex_lock(&fake.lock);
        stream->running = NULL;
        stream->done++;
        free(op);
        pthread_cond_broadcast(&fake.news);
    }
    pthread_mutex_unlock(&fake.lock);
    return NULL;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret, unsigned flags)
{
    cudaError_t error = begin_call("cudaStreamCreateWithFlags", -1);
    if (error)
        return end_call(error);
    if (flags != cudaStreamNonBlocking)
        die("a stream that waits for the default stream");
    struct CUstream_st *stream = calloc(1, sizeof(*stream));
    stream->device = current;
    stream->last = &stream->first;
    stream->random = fake.set.seed * 0x9E3779B97F4A7C15 + ++fake.streams_made;
    stream->next = fake.streams;
    fake.streams = *ret = stream;
    pthread_create(&stream->thread, NULL, stream_run, stream);
    return end_call(cudaSuccess);
}

static void must_be_stream(const char *call, cudaStream_t stream)
{
    if (!stream)
        die("%s on the default stream", call);
    if (stream->ending)
        die("%s on a stream that was destroyed", call);
}

/* Under the lock: until so many are done, or the device is dead. */
static cudaError_t await(struct CUstream_st *stream, uint64_t after)
{
    while (stream->done < after && !fake.devices[stream->device].sick)
        pthread_cond_wait(&fake.news, &fake.lock);
    return fake.devices[stream->device].sick;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    must_be_stream("cudaStreamDestroy", stream);
    cudaError_t error = begin_call("cudaStreamDestroy", stream->device);
    error = error ? error : await(stream, stream->begun);
    stream->ending = true;
    pthread_cond_broadcast(&fake.news);
    pthread_mutex_unlock(&fake.lock);
    pthread_join(stream->thread, NULL);
    return error;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    must_be_stream("cudaStreamQuery", stream);
    cudaError_t error = begin_call("cudaStreamQuery", stream->device);
    return end_call(error ? error : stream->done < stream->begun ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    must_be_stream("cudaStreamSynchronize", stream);
    cudaError_t error = begin_call("cudaStreamSynchronize", stream->device);
    return end_call(error ? error : await(stream, stream->begun));
}

/* Under the lock. */
static cudaError_t enqueue(struct CUstream_st *stream, uintptr_t to, uintptr_t from, size_t bytes)
{
    if (fake.set.refuse_copy > 0 && --fake.set.refuse_copy == 0)
        return cudaErrorInvalidValue;
    if (!covered(to, bytes, stream->device, false))
        die("a copy is begun into memory that is not mapped");
    if (!covered(from, bytes, 0, true))
        die("a copy is begun from memory that is not pinned");
    struct op *op = calloc(1, sizeof(*op));
    *op = (struct op){ to, from, bytes, NULL };
    *stream->last = op;
    stream->last = &op->next;
    stream->begun++;
    pthread_cond_broadcast(&fake.news);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    must_be_stream("cudaMemcpyAsync", stream);
    if (kind != cudaMemcpyHostToDevice || bytes == 0)
        die("cudaMemcpyAsync of %zu bytes, kind %d", bytes, (int)kind);
    cudaError_t error = begin_call("cudaMemcpyAsync", stream->device);
    if (!error)
        error = enqueue(stream, (uintptr_t)to, (uintptr_t)from, bytes);
    return end_call(error);
}

static CUresult batch(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                      CUmemcpyAttributes *how, size_t *first, size_t hows, size_t *failed,
                      CUstream stream)
{
    must_be_stream("cuMemcpyBatchAsync", stream);
    if (count == 0 || hows != 1 || first[0] != 0 || !failed)
        die("cuMemcpyBatchAsync of %zu copies with %zu attributes", count, hows);
    if (how->srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)
        die("cuMemcpyBatchAsync that may read its sources out of order");
    for (size_t i = 0; i < count; i++)
        if (bytes[i] == 0)
            die("cuMemcpyBatchAsync with an empty entry");
    cudaError_t error = begin_call("cuMemcpyBatchAsync", stream->device);
    fake.batches++;
    for (size_t i = 0; !error && i < count; i++)
        error = enqueue(stream, to[i], from[i], bytes[i]);
    return (CUresult)end_call(error);
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned flags)
{
    cudaError_t error = begin_call("cudaEventCreateWithFlags", -1);
    if (error)
        return end_call(error);
    if (!(flags & cudaEventDisableTiming))
        die("an event that takes the time");
    *ret = calloc(1, sizeof(**ret));
    (*ret)->device = current;
    (*ret)->next = fake.events;
    fake.events = *ret;
    return end_call(cudaSuccess);
}

static cudaError_t begin_event(const char *call, cudaEvent_t event)
{
    cudaError_t error = begin_call(call, event->device);
    if (event->dead)
        die("%s of an event that was destroyed", call);
    return error;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    cudaError_t error = begin_event("cudaEventDestroy", event);
    event->dead = true;
    return end_call(error);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    must_be_stream("cudaEventRecord", stream);
    cudaError_t error = begin_call("cudaEventRecord", stream->device);
    if (event->dead || event->device != stream->device)
        die("an event of device %d%s on a stream of device %d", event->device,
            event->dead ? ", destroyed," : "", stream->device);
    event->stream = stream;
    event->after = stream->begun;
    return end_call(error);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t error = begin_event("cudaEventQuery", event);
    bool done = !event->stream || event->stream->done >= event->after;
    return end_call(error ? error : done ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t error = begin_event("cudaEventSynchronize", event);
    return end_call(error || !event->stream ? error : await(event->stream, event->after));
}

/* ---- host memory ---- */

cudaError_t cudaHostRegister(void *mem, size_t bytes, unsigned flags)
{
    cudaError_t error = begin_call("cudaHostRegister", -1);
    if (error)
        return end_call(error);
    if (!(flags & cudaHostRegisterPortable))
        die("memory pinned for one context");
    if (fake.set.refuse_pins > 0 && fake.set.refuse_pins--)
        return end_call(cudaErrorMemoryAllocation);
    if ((uintptr_t)mem % 4096 != 0 || bytes % 4096 != 0)
        return end_call(cudaErrorInvalidValue);
    for (struct area *area = fake.areas; area; area = area->next)
        if (area->kind == PINNED && area->at < (uintptr_t)mem + bytes &&
            (uintptr_t)mem < area->at + area->bytes)
            return end_call(cudaErrorHostMemoryAlreadyRegistered);
    area_add(PINNED, (uintptr_t)mem, bytes, current);
    return end_call(cudaSuccess);
}

cudaError_t cudaHostUnregister(void *mem)
{
    cudaError_t error = begin_call("cudaHostUnregister", -1);
    struct area *area = area_at(PINNED, (uintptr_t)mem);
    if (error)
        return end_call(error);
    if (!area)
        die("cudaHostUnregister of memory that is not pinned");
    must_be_idle(area->at, area->bytes, "cudaHostUnregister");
    area_remove(area);
    return end_call(cudaSuccess);
}

/* ---- legacy handles ---- */

/* Which device a descriptor is memory of; -1: none, it is something else. */
static int device_of(int fd)
{
    char path[64], name[64] = { 0 };
    int device;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (readlink(path, name, sizeof(name) - 1) < 0 ||
        sscanf(name, "/memfd:fake-gpu-%d", &device) != 1)
        return -1;
    return device;
}

static struct area *opened_before(int pid, int fd)
{
    for (struct area *area = fake.areas; area; area = area->next)
        if (area->kind == OPENED && area->pid == pid && area->fd == fd && area->device == current)
            return area;
    return NULL;
}

/* Under the lock. */
static cudaError_t open_handle(const int fields[4], void **ret)
{
    char path[64];
    struct stat about;
    struct area *area = opened_before(fields[1], fields[2]);
    if (area) {
        area->refs++;
        *ret = (void *)area->at;
        return cudaSuccess;
    }
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", fields[1], fields[2]);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || device_of(fd) < 0 || fstat(fd, &about) != 0) {
        close(fd);
        return cudaErrorInvalidValue;
    }
    void *map = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    area = area_add(OPENED, (uintptr_t)map, (size_t)about.st_size, device_of(fd));
    area->pid = fields[1];
    area->fd = fields[2];
    close(fd);
    *ret = map;
    return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **ret, cudaIpcMemHandle_t handle, unsigned flags)
{
    int fields[4];
    memcpy(fields, &handle, sizeof(fields));
    cudaError_t error = begin_call("cudaIpcOpenMemHandle", -1);
    if (error)
        return end_call(error);
    if (flags != cudaIpcMemLazyEnablePeerAccess || fields[0] != IPC_MAGIC)
        return end_call(cudaErrorInvalidValue);
    if (fields[1] == getpid())
        return end_call(cudaErrorDeviceUninitialized);    /* an exporter can't open its own */
    return end_call(open_handle(fields, ret));
}

cudaError_t cudaIpcCloseMemHandle(void *mem)
{
    cudaError_t error = begin_call("cudaIpcCloseMemHandle", -1);
    struct area *area = area_at(OPENED, (uintptr_t)mem);
    if (error)
        return end_call(error);
    if (!area)
        die("cudaIpcCloseMemHandle of memory that is not open");
    if (--area->refs == 0) {
        must_be_idle(area->at, area->bytes, "cudaIpcCloseMemHandle");
        munmap(mem, area->bytes);
        area_remove(area);
    }
    return end_call(cudaSuccess);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *ret, const void *mem)
{
    cudaError_t error = begin_call("cudaPointerGetAttributes", -1);
    struct area *area = area_at(OPENED, (uintptr_t)mem);
    memset(ret, 0, sizeof(*ret));
    ret->type = area ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    ret->device = area ? area->device : -2;
    return end_call(error);
}

static CUresult address_range(CUdeviceptr *ret, size_t *ret_bytes, CUdeviceptr at)
{
    cudaError_t error = begin_call("cuMemGetAddressRange", -1);
    struct area *area = area_at(OPENED, at);
    if (!error && !area)
        error = cudaErrorInvalidValue;
    if (!error) {
        *ret = area->at;
        *ret_bytes = area->bytes;
    }
    return (CUresult)end_call(error);
}

/* ---- memory by descriptor ---- */

static CUresult attribute(int *ret, CUdevice_attribute attribute, CUdevice device)
{
    must_exist(device);
    if (attribute != CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = 1;
    return CUDA_SUCCESS;
}

static CUresult granularity(size_t *ret, const CUmemAllocationProp *kind,
                            CUmemAllocationGranularity_flags f)
{
    (void)kind, (void)f;
    *ret = FAKE_GRANULE;
    return CUDA_SUCCESS;
}

static CUresult import(CUmemGenericAllocationHandle *ret, void *handle,
                       CUmemAllocationHandleType kind)
{
    struct stat about;
    int fd = (int)(uintptr_t)handle;
    cudaError_t error = begin_call("cuMemImportFromShareableHandle", -1);
    if (error)
        return (CUresult)end_call(error);
    if (kind != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return (CUresult)end_call(cudaErrorInvalidValue);
    if (device_of(fd) < 0 || fstat(fd, &about) != 0)    /* one of the answers a driver may give */
        return (CUresult)end_call(cudaErrorOperatingSystem);
    struct chunk *chunk = malloc(sizeof(*chunk));
    *chunk = (struct chunk){ dup(fd), device_of(fd), (size_t)about.st_size, fake.chunks };
    fake.chunks = chunk;
    *ret = (CUmemGenericAllocationHandle)(uintptr_t)chunk;
    return (CUresult)end_call(cudaSuccess);
}

static CUresult properties(CUmemAllocationProp *ret, CUmemGenericAllocationHandle handle)
{
    const struct chunk *chunk = (const struct chunk *)(uintptr_t)handle;
    cudaError_t error = begin_call("cuMemGetAllocationPropertiesFromHandle", -1);
    memset(ret, 0, sizeof(*ret));
    ret->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    ret->location.id = chunk->device;
    return (CUresult)end_call(error);
}

static CUresult reserve(CUdeviceptr *ret, size_t bytes, size_t alignment, CUdeviceptr at,
                        unsigned long long f)
{
    (void)alignment, (void)at, (void)f;
    cudaError_t error = begin_call("cuMemAddressReserve", -1);
    if (error || bytes == 0 || bytes % FAKE_GRANULE != 0)
        return (CUresult)end_call(error ? error : cudaErrorInvalidValue);
    void *map = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return (CUresult)end_call(cudaErrorMemoryAllocation);
    area_add(RESERVED, (uintptr_t)map, bytes, current);
    *ret = (CUdeviceptr)(uintptr_t)map;
    return (CUresult)end_call(cudaSuccess);
}

/* The reservation that holds all of these bytes. */
static struct area *reservation_of(uintptr_t at, size_t bytes)
{
    for (struct area *area = fake.areas; area; area = area->next)
        if (area->kind == RESERVED && at >= area->at && at + bytes <= area->at + area->bytes)
            return area;
    return NULL;
}

static CUresult map(CUdeviceptr at, size_t bytes, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    const struct chunk *chunk = (const struct chunk *)(uintptr_t)handle;
    cudaError_t error = begin_call("cuMemMap", -1);
    if (error || bytes != chunk->bytes || offset != 0 || flags != 0)
        return (CUresult)end_call(error ? error : cudaErrorInvalidValue);
    if (!reservation_of(at, bytes) || area_at(MAPPED, at))
        die("cuMemMap where nothing is reserved, or something mapped");
    if (mmap((void *)at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, chunk->fd, 0) == MAP_FAILED)
        return (CUresult)end_call(cudaErrorMemoryAllocation);
    area_add(MAPPED, at, bytes, chunk->device);
    return (CUresult)end_call(cudaSuccess);
}

static CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access,
                           size_t count)
{
    cudaError_t error = begin_call("cuMemSetAccess", -1);
    if (error)
        return (CUresult)end_call(error);
    if (count != 1 || access->location.id != current ||
        access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
        mprotect((void *)at, bytes, PROT_READ | PROT_WRITE))
        return (CUresult)end_call(cudaErrorInvalidValue);
    for (struct area *area = fake.areas; area; area = area->next)
        if (area->kind == MAPPED && area->at >= at && area->at < at + bytes)
            area->access = true;
    return (CUresult)end_call(cudaSuccess);
}

static CUresult unmap(CUdeviceptr at, size_t bytes)
{
    cudaError_t error = begin_call("cuMemUnmap", -1);
    if (error)
        return (CUresult)end_call(error);
    must_be_idle(at, bytes, "cuMemUnmap");
    for (uintptr_t end = at + bytes, next = at; next < end;) {
        struct area *area = area_at(MAPPED, next);
        if (!area || area->at + area->bytes > end)
            die("cuMemUnmap of what is not mapped, or not all of a mapping");
        next += area->bytes;
        area_remove(area);
    }
    mmap((void *)at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
         0);
    return (CUresult)end_call(cudaSuccess);
}

static CUresult address_free(CUdeviceptr at, size_t bytes)
{
    cudaError_t error = begin_call("cuMemAddressFree", -1);
    struct area *area = area_at(RESERVED, at);
    if (error)
        return (CUresult)end_call(error);
    if (!area || area->bytes != bytes)
        die("cuMemAddressFree of what was not reserved");
    for (struct area *left = fake.areas; left; left = left->next)
        if (left->kind == MAPPED && left->at >= at && left->at < at + bytes)
            die("cuMemAddressFree with a mapping left");
    munmap((void *)at, bytes);
    area_remove(area);
    return (CUresult)end_call(cudaSuccess);
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    struct chunk *chunk = (struct chunk *)(uintptr_t)handle;
    cudaError_t error = begin_call("cuMemRelease", -1);
    if (chunk->fd < 0)
        die("cuMemRelease of a handle that was released");
    close(chunk->fd);
    chunk->fd = -1;
    return (CUresult)end_call(error);
}

/* ---- entry points ---- */

static const struct {
    const char *name;
    unsigned version;
    void *function;
} entry_points[] = {
    { "cuDeviceGetAttribute", 2000, attribute },
    { "cuMemGetAddressRange", 3020, address_range },
    { "cuMemGetAllocationGranularity", 10020, granularity },
    { "cuMemImportFromShareableHandle", 10020, import },
    { "cuMemGetAllocationPropertiesFromHandle", 10020, properties },
    { "cuMemAddressReserve", 10020, reserve },
    { "cuMemMap", 10020, map },
    { "cuMemSetAccess", 10020, set_access },
    { "cuMemUnmap", 10020, unmap },
    { "cuMemAddressFree", 10020, address_free },
    { "cuMemRelease", 10020, release },
    { "cuMemcpyBatchAsync", 12080, batch },
};

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **ret, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *ret_found)
{
    (void)flags;
    *ret = NULL;
    *ret_found = cudaDriverEntryPointSymbolNotFound;
    for (size_t i = 0; i < sizeof(entry_points) / sizeof(entry_points[0]); i++) {
        if (strcmp(entry_points[i].name, name) != 0)
            continue;
        if (entry_points[i].version != version)
            die("%s asked for at version %u", name, version);
        *ret_found = cudaDriverEntryPointVersionNotSufficent;
        if ((int)version <= fake.set.driver) {
            *ret_found = cudaDriverEntryPointSuccess;
            *ret = entry_points[i].function;
        }
    }
    return cudaSuccess;
}

/* The context ends: whoever used it has cleaned up. */
cudaError_t cudaDeviceReset(void)
{
    bool known = fake.devices[current < 0 ? 0 : current].sick != cudaSuccess;
    cudaError_t error = begin_call("cudaDeviceReset", -1);
    if (error && known)
        die("cudaDeviceReset of a device that is lost");
    if (error)
        return end_call(error);
    for (struct area *area = fake.areas; area; area = area->next)
        if (area->device == current)
            die("cudaDeviceReset with %s left",
                area->kind == PINNED ? "a pinned range" : "a mapping");
    for (struct CUstream_st *stream = fake.streams; stream; stream = stream->next)
        if (stream->device == current && !stream->ending)
            die("cudaDeviceReset with a stream left");
    fake.devices[current].live = false;
    return end_call(cudaSuccess);
}
