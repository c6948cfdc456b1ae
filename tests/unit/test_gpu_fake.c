/* test_gpu_fake.c - the fake CUDA runtime does end whoever misuses it.
 * SPDX-License-Identifier: Apache-2.0
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime_api.h>
#include <cudaTypedefs.h>

#include "local/fake_cudart.h"

static uint8_t *host;
static cudaStream_t stream;

static void *entry(const char *name, unsigned version)
{
    enum cudaDriverEntryPointQueryResult found;
    void *function = NULL;
    ok(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found) ==
       cudaSuccess);
    return function;
}

/* A device, a stream, a pinned page: what each misuse begins with. */
static void set_up(void)
{
    fake_set(&(struct fake_setting){ .driver = 12090, .devices = 1, .seed = 1, .delay_us = 20000 });
    host = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ok(cudaSetDevice(0) == cudaSuccess);
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    ok(cudaHostRegister(host, 4096, cudaHostRegisterPortable) == cudaSuccess);
}

static CUdeviceptr map_memory(bool accessible)
{
    CUmemGenericAllocationHandle chunk;
    CUdeviceptr at;
    int fd = fake_memory(0, FAKE_GRANULE);
    CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    ok(((PFN_cuMemImportFromShareableHandle_v10020)entry("cuMemImportFromShareableHandle", 10020))(
           &chunk, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ==
       CUDA_SUCCESS);
    ok(((PFN_cuMemAddressReserve_v10020)entry("cuMemAddressReserve", 10020))(&at, FAKE_GRANULE, 0,
                                                                             0, 0) == CUDA_SUCCESS);
    ok(((PFN_cuMemMap_v10020)entry("cuMemMap", 10020))(at, FAKE_GRANULE, 0, chunk, 0) ==
       CUDA_SUCCESS);
    if (accessible)
        ok(((PFN_cuMemSetAccess_v10020)entry("cuMemSetAccess", 10020))(at, FAKE_GRANULE, &access,
                                                                       1) == CUDA_SUCCESS);
    return at;
}

static void unmap(CUdeviceptr at)
{
    ((PFN_cuMemUnmap_v10020)entry("cuMemUnmap", 10020))(at, FAKE_GRANULE);
}

static void copy(CUdeviceptr to, const void *from, size_t bytes)
{
    cudaMemcpyAsync((void *)to, from, bytes, cudaMemcpyHostToDevice, stream);
}

static void batch(CUdeviceptr to, size_t bytes, CUmemcpySrcAccessOrder order, cudaStream_t on)
{
    CUdeviceptr from = (CUdeviceptr)host;
    CUmemcpyAttributes how = { .srcAccessOrder = order };
    size_t first = 0, failed;
    ((PFN_cuMemcpyBatchAsync_v12080)entry("cuMemcpyBatchAsync", 12080))(
        &to, &from, &bytes, 1, &how, &first, 1, &failed, (CUstream)on);
}

/* ---- one misuse each ---- */

static void copy_after_unmap(void)
{
    CUdeviceptr at = map_memory(true);
    unmap(at);
    copy(at, host, 1);
}

static void unmap_under_a_copy(void)
{
    CUdeviceptr at = map_memory(true);
    copy(at, host, 4096);
    unmap(at);
}

static void unmap_twice(void)
{
    CUdeviceptr at = map_memory(true);
    unmap(at);
    unmap(at);
}

static void copy_without_access(void)
{
    copy(map_memory(false), host, 1);
}

static void copy_past_the_mapping(void)
{
    copy(map_memory(true) + FAKE_GRANULE - 1, host, 2);
}

static void copy_from_pageable_memory(void)
{
    static char page[64];
    copy(map_memory(true), page, 1);
}

static void unpin_under_a_copy(void)
{
    copy(map_memory(true), host, 4096);
    cudaHostUnregister(host);
}

static void unpin_twice(void)
{
    cudaHostUnregister(host);
    cudaHostUnregister(host);
}

static void close_twice(void)
{
    cudaIpcCloseMemHandle(host);
}

static void empty_entry(void)
{
    batch(map_memory(true), 0, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, stream);
}

static void out_of_order(void)
{
    batch(map_memory(true), 1, CU_MEMCPY_SRC_ACCESS_ORDER_ANY, stream);
}

static void default_stream(void)
{
    batch(map_memory(true), 1, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, NULL);
}

static void other_batch_call(void)
{
    entry("cuMemcpyBatchAsync", 13000);
}

static void unknown_device(void)
{
    cudaSetDevice(1);
}

static void *query(void *unused)
{
    cudaStreamQuery(stream);
    return unused;
}

static void no_device_on_this_thread(void)
{
    pthread_t other;
    ok(pthread_create(&other, NULL, query, NULL) == 0);
    pthread_join(other, NULL);
}

static void reset_with_a_mapping(void)
{
    map_memory(true);
    cudaStreamDestroy(stream);
    cudaHostUnregister(host);
    cudaDeviceReset();
}

static void reset_with_a_pinned_range(void)
{
    cudaStreamDestroy(stream);
    cudaDeviceReset();
}

static void nothing_wrong(void)
{
    CUdeviceptr at = map_memory(true);
    copy(at, host, 4096);
    batch(at, 4096, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, stream);
    ok(cudaStreamSynchronize(stream) == cudaSuccess);
    unmap(at);
}

/* Does it end the process, by the abort() of the fake and with this in its last words? */
static bool ends(void (*misuse)(void), const char *words)
{
    char said[4096] = "";
    int status, pipe_fds[2];
    ok(pipe(pipe_fds) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(pipe_fds[1], STDERR_FILENO);
        set_up();
        misuse();
        _exit(0);
    }
    close(pipe_fds[1]);
    size_t got = 0;
    for (ssize_t more; (more = read(pipe_fds[0], said + got, sizeof(said) - 1 - got)) > 0;)
        got += (size_t)more;
    close(pipe_fds[0]);
    ok(waitpid(child, &status, 0) == child);
    if (!words)
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (strstr(said, "fake CUDA: ") && strstr(said, words))
        return true;
    print_error("%s: said \"%s\", status %d\n", words, said, status);
    return false;
}

TEST(each_misuse_ends_the_process_with_its_own_words)
{
    ok(ends(copy_after_unmap, "begun into memory that is not mapped"));
    ok(ends(unmap_under_a_copy, "cuMemUnmap under a"));
    ok(ends(unmap_twice, "cuMemUnmap of what is not mapped"));
    ok(ends(copy_without_access, "begun into memory that is not mapped"));
    ok(ends(copy_past_the_mapping, "begun into memory that is not mapped"));
    ok(ends(copy_from_pageable_memory, "from memory that is not pinned"));
    ok(ends(unpin_under_a_copy, "cudaHostUnregister under a"));
    ok(ends(unpin_twice, "that is not pinned"));
    ok(ends(close_twice, "that is not open"));
    ok(ends(empty_entry, "an empty entry"));
    ok(ends(out_of_order, "out of order"));
    ok(ends(default_stream, "default stream"));
    ok(ends(other_batch_call, "at version 13000"));
    ok(ends(unknown_device, "there is no device 1"));
    ok(ends(no_device_on_this_thread, "did not choose its device"));
    ok(ends(reset_with_a_mapping, "with a mapping left"));
    ok(ends(reset_with_a_pinned_range, "with a pinned range left"));
}

TEST(what_is_right_goes_through)
{
    ok(ends(nothing_wrong, NULL));
}

RUN(cmocka_unit_test(each_misuse_ends_the_process_with_its_own_words),
    cmocka_unit_test(what_is_right_goes_through))
