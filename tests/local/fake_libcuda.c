/* fake_libcuda.c - the driver's half of a client's GPU memory, without a GPU. SPDX-License-Identifier:
 * Apache-2.0
 *
 * What penstock/cuda.py calls, with the types of NVIDIA's cuda.h, over memory as tests/local/fake_cudart.c
 * takes it for a GPU's: memfds named "fake-gpu-N". A chunk can be touched only where it was mapped and
 * access was given. Ends the process where a driver would answer an error that no test should see. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRANULE ((size_t)2 << 20)
#define DEVICES 2
#define ALLOCATIONS_MAX 64
#define IPC_MAGIC 0x43504946

static struct allocation {
    char *base;
    size_t bytes;
    int fd, device;
} all[ALLOCATIONS_MAX];
static int current = -1;

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fake libcuda: %s\n", what);
    abort();
}

static void *at(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

static int memory_of(int device, size_t bytes)
{
    char name[32];
    snprintf(name, sizeof(name), "fake-gpu-%d", device);
    int fd = memfd_create(name, MFD_CLOEXEC);
    must(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0, "no memfd");
    return fd;
}

static struct allocation *find(CUdeviceptr address)
{
    for (size_t i = 0; i < ALLOCATIONS_MAX; i++)
        if (all[i].base && (char *)at(address) >= all[i].base && (char *)at(address) < all[i].base + all[i].bytes)
            return &all[i];
    return NULL;
}

CUresult cuInit(unsigned flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **ret)
{
    *ret = error == CUDA_ERROR_INVALID_DEVICE ? "CUDA_ERROR_INVALID_DEVICE" : "CUDA_ERROR_OTHER";
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *ret, int ordinal)
{
    *ret = ordinal;
    return ordinal >= 0 && ordinal < DEVICES ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetUuid_v2(CUuuid *ret, CUdevice device)
{
    memset(ret, 0, sizeof(*ret));
    ret->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice device)
{
    *ret = (CUcontext)(uintptr_t)(device + 1);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    current = (int)(uintptr_t)context - 1;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *ret, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    must(prop->type == CU_MEM_ALLOCATION_TYPE_PINNED && option == CU_MEM_ALLOC_GRANULARITY_MINIMUM, "prop");
    *ret = GRANULE;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *ret, size_t bytes, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    must(prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, "can't be exported");
    must(prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && !flags && bytes % GRANULE == 0, "where, and how much");
    *ret = (CUmemGenericAllocationHandle)memory_of(prop->location.id, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *ret, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    must(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && !flags, "another type of handle");
    int fd = dup((int)handle);
    memcpy(ret, &fd, sizeof(fd));
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    must(close((int)handle) == 0, "released twice");
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *ret, size_t bytes, size_t align, CUdeviceptr wish, unsigned long long flags)
{
    must(!align && !wish && !flags, "reserve");
    *ret = (CUdeviceptr)(uintptr_t)mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    must(munmap(at(address), bytes) == 0, "free");
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    must(!flags && mmap(at(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)handle, (off_t)offset) ==
         at(address), "map");
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    mmap(at(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    must(count == 1 && access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
         access->location.type == CU_MEM_LOCATION_TYPE_DEVICE, "access");
    must(mprotect(at(address), bytes, PROT_READ | PROT_WRITE) == 0, "access to what is not mapped");
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *ret, size_t bytes)
{
    size_t i = 0;
    while (i < ALLOCATIONS_MAX && all[i].base)
        i++;
    must(i < ALLOCATIONS_MAX && current >= 0, "no context");
    int fd = memory_of(current, bytes);
    all[i] = (struct allocation){ mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), bytes, fd, current };
    *ret = (CUdeviceptr)(uintptr_t)all[i].base;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    struct allocation *one = find(address);
    must(one && one->base == at(address), "freed twice");
    munmap(one->base, one->bytes);
    close(one->fd);
    memset(one, 0, sizeof(*one));
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *ret_base, size_t *ret_bytes, CUdeviceptr address)
{
    struct allocation *one = find(address);
    must(one != NULL, "no allocation of cuMemAlloc");
    *ret_base = (CUdeviceptr)(uintptr_t)one->base;
    *ret_bytes = one->bytes;
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *ret, CUpointer_attribute attribute, CUdeviceptr address)
{
    unsigned capable = find(address) != NULL;
    must(attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, "another attribute");
    memcpy(ret, &capable, sizeof(capable));
    return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *ret, CUdeviceptr address)
{
    struct allocation *one = find(address);
    must(one && one->base == at(address), "a handle is of a whole allocation");
    int fields[] = { IPC_MAGIC, getpid(), one->fd, one->device };
    memset(ret, 0, sizeof(*ret));
    memcpy(ret, fields, sizeof(fields));
    return CUDA_SUCCESS;
}
