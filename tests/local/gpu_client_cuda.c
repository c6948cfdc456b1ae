/* gpu_client_cuda.c - a trainer on a GPU: memory, what lies in it, and how fast copies can be.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The kernel is PTX text, which the driver compiles when it is loaded: version 6.3, for sm_70 and
 * newer, so that no driver that Penstock takes is too old for it. (Assembled with ptxas 12.9 for
 * sm_70 to sm_100; run nowhere yet.) */
#include "local/gpu_client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime_api.h>
#include <cudaTypedefs.h>

#define MIB ((uint64_t)1 << 20)

static const char sum_ptx[] =
    ".version 6.3\n.target sm_70\n.address_size 64\n"
    ".visible .entry sum(.param .u64 words, .param .u64 count, .param .u64 out)\n{\n"
    "    .reg .pred %stop;\n"
    "    .reg .b32 %block, %blocks, %threads, %thread;\n"
    "    .reg .b64 %words, %count, %out, %i, %step, %t, %at, %word, %factor, %sum, %old;\n"
    "    ld.param.u64 %words, [words];\n"
    "    ld.param.u64 %count, [count];\n"
    "    ld.param.u64 %out, [out];\n"
    "    cvta.to.global.u64 %words, %words;\n"
    "    cvta.to.global.u64 %out, %out;\n"
    "    mov.u32 %block, %ctaid.x;\n"
    "    mov.u32 %blocks, %nctaid.x;\n"
    "    mov.u32 %threads, %ntid.x;\n"
    "    mov.u32 %thread, %tid.x;\n"
    "    mul.wide.u32 %i, %block, %threads;\n"
    "    cvt.u64.u32 %t, %thread;\n"
    "    add.u64 %i, %i, %t;\n"
    "    mul.wide.u32 %step, %blocks, %threads;\n"
    "    mov.u64 %sum, 0;\n"
    "NEXT:\n"
    "    setp.ge.u64 %stop, %i, %count;\n"
    "    @%stop bra LAST;\n"
    "    shl.b64 %at, %i, 3;\n"
    "    add.u64 %at, %at, %words;\n"
    "    ld.global.u64 %word, [%at];\n"
    "    mul.lo.u64 %factor, %i, 0x9E3779B97F4A7C15;\n"
    "    or.b64 %factor, %factor, 1;\n"
    "    mul.lo.u64 %word, %word, %factor;\n"
    "    add.u64 %sum, %sum, %word;\n"
    "    add.u64 %i, %i, %step;\n"
    "    bra NEXT;\n"
    "LAST:\n"
    "    atom.global.add.u64 %old, [%out], %sum;\n"
    "    ret;\n"
    "}\n";

static struct {
    int device;
    cudaStream_t stream;
    cudaKernel_t sum;
    uint64_t *result;                  /* on the device */
    enum client_memory kind;
    CUdeviceptr memory, at;            /* all that was made; where the client's begins */
    uint64_t bytes, mapped;
    CUmemGenericAllocationHandle chunks[CLIENT_CHUNKS];
} own;
static char why[256];

const char *client_why(void)
{
    return why;
}

static bool fine(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        snprintf(why, sizeof(why), "%s: %s", what, cudaGetErrorString(error));
    return error == cudaSuccess;
}

static bool fine_driver(CUresult result, const char *what)
{
    return fine((cudaError_t)result, what);
}

/* Not there: NULL, and a call of it is our end; all are older than the drivers we take. */
static void *driver(const char *name, unsigned version)
{
    enum cudaDriverEntryPointQueryResult found;
    void *function = NULL;
    (void)cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found);
    return function;
}

static int ordinal_of(const char *uuid)
{
    int count = 0;
    struct cudaDeviceProp properties;
    (void)cudaGetDeviceCount(&count);
    for (int i = 0; i < count; i++) {
        char text[48], *at = text;
        if (cudaGetDeviceProperties(&properties, i) != cudaSuccess)
            continue;
        for (int j = 0; j < 16; j++)
            at += sprintf(at, j == 4 || j == 6 || j == 8 || j == 10 ? "-%02x" : "%02x",
                          (unsigned char)properties.uuid.bytes[j]);
        if (strcmp(text, uuid + strlen("GPU-")) == 0)
            return i;
    }
    return -1;
}

bool client_begin(const char *uuid)
{
    cudaLibrary_t library;
    own.device = ordinal_of(uuid);
    snprintf(why, sizeof(why), "the GPU is not visible");
    bool begun = own.device >= 0 && fine(cudaSetDevice(own.device), "cudaSetDevice") &&
                 fine(cudaStreamCreateWithFlags(&own.stream, cudaStreamNonBlocking), "a stream") &&
                 fine(cudaMalloc((void **)&own.result, sizeof(*own.result)), "cudaMalloc");
    if (begun)
        why[0] = 0;
    if (begun && (!fine(cudaLibraryLoadData(&library, sum_ptx, NULL, NULL, 0, NULL, NULL, 0),
                        "the kernel's PTX") ||
                  !fine(cudaLibraryGetKernel(&own.sum, library, "sum"), "the kernel")))
        own.sum = NULL;
    (void)cudaGetLastError();
    return begun;
}

/* Chunks side by side, each exported. */
static bool make_vmm(struct client_shared *ret)
{
    CUmemAllocationProp kind = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR };
    kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    kind.location.id = own.device;
    CUmemAccessDesc access = { kind.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    PFN_cuMemCreate_v10020 create = driver("cuMemCreate", 10020);
    PFN_cuMemMap_v10020 map = driver("cuMemMap", 10020);
    PFN_cuMemExportToShareableHandle_v10020 export = driver("cuMemExportToShareableHandle", 10020);
    own.mapped = own.bytes;
    bool made = fine_driver(((PFN_cuMemAddressReserve_v10020)driver("cuMemAddressReserve", 10020))(
                                &own.memory, own.bytes, 0, 0, 0), "cuMemAddressReserve");
    for (size_t i = 0; made && i < CLIENT_CHUNKS; i++) {
        uint64_t size = ret->chunks[i] = own.bytes / CLIENT_CHUNKS;
        made = fine_driver(create(&own.chunks[i], size, &kind, 0), "cuMemCreate") &&
               fine_driver(map(own.memory + i * size, size, 0, own.chunks[i], 0), "cuMemMap") &&
               fine_driver(
                   export(&ret->fds[i], own.chunks[i], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                   "cuMemExportToShareableHandle");
    }
    own.at = own.memory;
    return made && fine_driver(((PFN_cuMemSetAccess_v10020)driver("cuMemSetAccess", 10020))(
                                   own.memory, own.bytes, &access, 1), "cuMemSetAccess");
}

static bool make_legacy(struct client_shared *ret)
{
    void *memory = NULL;
    cudaError_t error = own.kind == CLIENT_MANAGED
                            ? cudaMallocManaged(&memory, own.bytes, cudaMemAttachGlobal)
                        : own.kind == CLIENT_POOL ? cudaMallocAsync(&memory, own.bytes, own.stream)
                                                  : cudaMalloc(&memory, own.bytes + 2 * MIB);
    ret->base_offset = own.kind == CLIENT_IPC ? 4104 : 0;
    own.memory = (CUdeviceptr)memory;
    own.at = own.memory + ret->base_offset;
    return fine(error, "making memory") &&
           fine(cudaIpcGetMemHandle((cudaIpcMemHandle_t *)ret->handle, memory),
                "cudaIpcGetMemHandle");
}

bool client_make(enum client_memory kind, uint64_t bytes, struct client_shared *ret)
{
    memset(ret, 0, sizeof(*ret));
    own.kind = kind;
    own.bytes = bytes;
    bool made = kind == CLIENT_VMM ? make_vmm(ret) : make_legacy(ret);
    (void)cudaGetLastError();
    return made;
}

bool client_paint(uint8_t byte)
{
    return fine(cudaMemsetAsync((void *)own.at, byte, own.bytes, own.stream), "cudaMemset") &&
           fine(cudaStreamSynchronize(own.stream), "cudaMemset");
}

/* Without the kernel: what lies there is copied back. */
static bool sum_here(uint64_t *ret)
{
    void *bytes = malloc(own.bytes);
    bool had = bytes && fine(cudaMemcpyAsync(bytes, (void *)own.at, own.bytes,
                                             cudaMemcpyDeviceToHost, own.stream), "a copy") &&
               fine(cudaStreamSynchronize(own.stream), "a copy");
    if (had)
        *ret = gpu_sum(bytes, own.bytes);
    free(bytes);
    return had;
}

bool client_sum(uint64_t *ret)
{
    if (!own.sum)
        return sum_here(ret);
    uint64_t words = own.at, count = own.bytes / 8, out = (uint64_t)(uintptr_t)own.result;
    void *arguments[] = { &words, &count, &out };
    struct dim3 grid = { 264, 1, 1 }, block = { 256, 1, 1 };
    return fine(cudaMemsetAsync(own.result, 0, sizeof(*own.result), own.stream), "cudaMemset") &&
           fine(cudaLaunchKernel((const void *)own.sum, grid, block, arguments, 0, own.stream),
                "the kernel") &&
           fine(cudaMemcpyAsync(ret, own.result, sizeof(*ret), cudaMemcpyDeviceToHost, own.stream),
                "a copy") &&
           fine(cudaStreamSynchronize(own.stream), "the kernel");
}

void client_drop(void)
{
    (void)cudaDeviceSynchronize();
    if (own.kind == CLIENT_VMM) {
        ((PFN_cuMemUnmap_v10020)driver("cuMemUnmap", 10020))(own.memory, own.mapped);
        for (size_t i = 0; i < CLIENT_CHUNKS; i++)
            ((PFN_cuMemRelease_v10020)driver("cuMemRelease", 10020))(own.chunks[i]);
        ((PFN_cuMemAddressFree_v10020)driver("cuMemAddressFree", 10020))(own.memory, own.mapped);
    } else {
        (void)cudaFree((void *)own.memory);
    }
    own.memory = own.at = 0;
    (void)cudaGetLastError();
}

uint64_t client_free_bytes(void)
{
    size_t free_bytes = 0, total = 0;
    (void)cudaMemGetInfo(&free_bytes, &total);
    return free_bytes;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The bare loop that everything is compared with: nothing of Penstock in it. */
double client_speed(void)
{
    void *host = mmap(NULL, 128 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
         *device;
    cudaStream_t streams[2] = { NULL };
    memset(host, 1, 128 * MIB);
    if (!fine(cudaHostRegister(host, 128 * MIB, cudaHostRegisterPortable), "cudaHostRegister") ||
        !fine(cudaMalloc(&device, 128 * MIB), "cudaMalloc"))
        return 0;
    for (int i = 0; i < 2; i++)
        (void)cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking);
    double best = 0;
    for (int round = 0; round < 5; round++) {
        double began = seconds();
        for (int i = 0; i < 64; i++)
            (void)cudaMemcpyAsync((char *)device + i % 2 * 64 * MIB,
                                  (char *)host + i % 2 * 64 * MIB, 64 * MIB, cudaMemcpyHostToDevice,
                                  streams[i % 2]);
        if (!fine(cudaDeviceSynchronize(), "copies"))
            return 0;
        double speed = 64.0 * 64 * (double)MIB / (seconds() - began);
        best = speed > best ? speed : best;
    }
    for (int i = 0; i < 2; i++)
        (void)cudaStreamDestroy(streams[i]);
    (void)cudaFree(device);
    (void)cudaHostUnregister(host);
    munmap(host, 128 * MIB);
    return best;
}
