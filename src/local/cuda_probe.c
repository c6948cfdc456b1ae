/* cuda_probe.c - finds the driver and the GPUs. SPDX-License-Identifier: Apache-2.0
 *
 * The probe creates no CUDA context. Operators see the sentences in gpu_why, which say what is
 * missing. */
#include "local/cuda_inside.h"

#include <stdio.h>
#include <string.h>

#define DRIVER_LEAST 12000

static const struct {
    const char *name;
    unsigned version;
    size_t at;
} entry_points[] = {
    { "cuDeviceGetAttribute", 2000, offsetof(struct driver, attribute) },
    { "cuMemGetAddressRange", 3020, offsetof(struct driver, address_range) },
    { "cuMemGetAllocationGranularity", 10020, offsetof(struct driver, granularity) },
    { "cuMemImportFromShareableHandle", 10020, offsetof(struct driver, import) },
    { "cuMemGetAllocationPropertiesFromHandle", 10020, offsetof(struct driver, properties) },
    { "cuMemAddressReserve", 10020, offsetof(struct driver, reserve) },
    { "cuMemMap", 10020, offsetof(struct driver, map) },
    { "cuMemSetAccess", 10020, offsetof(struct driver, set_access) },
    { "cuMemUnmap", 10020, offsetof(struct driver, unmap) },
    { "cuMemAddressFree", 10020, offsetof(struct driver, address_free) },
    { "cuMemRelease", 10020, offsetof(struct driver, release) },
    { "cuMemcpyBatchAsync", 12080, offsetof(struct driver, batch) },    /* CUDA 13.0 changed it */
};

void cuda_find_entry_points(struct driver *ret)
{
    for (size_t i = 0; i < countof(entry_points); i++) {
        enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
        void *function = NULL;
        cudaError_t e = cudaGetDriverEntryPointByVersion(entry_points[i].name, &function,
                                                         entry_points[i].version,
                                                         cudaEnableDefault, &found);
        if (e != cudaSuccess || found != cudaDriverEntryPointSuccess)
            function = NULL;
        memcpy((char *)ret + entry_points[i].at, &function, sizeof(function));
    }
    (void)cudaGetLastError();
}

static void write_uuid(const cudaUUID_t *uuid, char ret[GPU_UUID_BYTES])
{
    char *at = ret + sprintf(ret, "GPU-");
    for (int i = 0; i < 16; i++)
        at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                      (unsigned char)uuid->bytes[i]);
}

bool cuda_has_vmm(const struct driver *driver, int ordinal)
{
    int yes = 0;
    return driver->attribute && driver->granularity && driver->import && driver->properties &&
           driver->reserve && driver->map && driver->set_access && driver->unmap &&
           driver->address_free && driver->release &&
           driver->attribute(&yes, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                             ordinal) == CUDA_SUCCESS && yes;
}

/* Returns the number of devices; if it is 0, ret->why says why. */
static int count_devices(struct gpu_probe *ret)
{
    int count = 0;
    if (cudaRuntimeGetVersion(&ret->runtime) != cudaSuccess ||
        cudaDriverGetVersion(&ret->driver) != cudaSuccess || ret->driver == 0) {
        ret->driver = 0;
        cuda_say(&ret->why, OK, "there is no NVIDIA driver (libcuda.so.1 can't be loaded): to fill "
                 "GPU memory, install the driver, or give the container access to the GPU");
        return 0;
    }
    if (ret->driver < DRIVER_LEAST) {
        cuda_say(&ret->why, OK, "the NVIDIA driver supports only CUDA %d.%d: install driver 525 "
                 "(CUDA 12.0) or newer", ret->driver / 1000, ret->driver % 1000 / 10);
        return 0;
    }
    cudaError_t e = cudaGetDeviceCount(&count);
    if (e == cudaErrorNoDevice || (e == cudaSuccess && count == 0))
        cuda_say(&ret->why, OK, "there is an NVIDIA driver, but Penstock sees no GPU: check "
                 "nvidia-smi, CUDA_VISIBLE_DEVICES and the container's devices");
    else if (e != cudaSuccess)
        cuda_say(&ret->why, OK, "the NVIDIA driver does not work: %s. Check nvidia-smi",
                 cudaGetErrorString(e));
    return e == cudaSuccess ? MIN(count, GPU_DEVICES_MAX) : 0;
}

/* Describes one device. Returns false if the device does not answer. */
static bool describe(const struct driver *driver, int ordinal, struct gpu_facts *ret)
{
    struct cudaDeviceProp from;
    if (cudaGetDeviceProperties(&from, ordinal) != cudaSuccess)
        return false;
    ret->ordinal = ordinal;
    write_uuid(&from.uuid, ret->uuid);
    snprintf(ret->name, sizeof(ret->name), "%.*s", (int)sizeof(ret->name) - 1, from.name);
    ret->batch = driver->batch != NULL;
    ret->vmm = cuda_has_vmm(driver, ordinal);
    return true;
}

void cuda_probe(struct gpu_probe *ret)
{
    struct driver driver;
    *ret = (struct gpu_probe){ 0 };
    int count = count_devices(ret);
    if (count > 0)
        cuda_find_entry_points(&driver);
    for (int i = 0; i < count; i++)
        if (describe(&driver, i, &ret->devices[ret->count]))
            ret->count++;
    if (count > 0 && ret->count == 0)
        cuda_say(&ret->why, OK, "no GPU answers a query of its properties: check nvidia-smi");
    (void)cudaGetLastError();
}

int cuda_find_device(const char *uuid, struct gpu_why *why)
{
    struct gpu_probe there;
    cuda_probe(&there);
    for (size_t i = 0; i < there.count; i++)
        if (strcmp(there.devices[i].uuid, uuid) == 0)
            return there.devices[i].ordinal;
    if (there.count > 0)
        cuda_say(why, OK, "Penstock sees no GPU with that UUID (it sees %zu GPUs): check "
                 "nvidia-smi and CUDA_VISIBLE_DEVICES", there.count);
    else
        *why = there.why;
    return -1;
}
