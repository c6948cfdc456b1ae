/* test_gpu.c - local/cuda*.c on the fake CUDA runtime, which ends the process where a GPU would be
 * silent. SPDX-License-Identifier: Apache-2.0
 *
 * Nothing here shows what NVIDIA's driver does, nor how fast: scripts/gpu-check does, on a GPU.
 * What breaks a device runs in a child process, as a lost device stays lost. */
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/fake_cudart.h"
#include "local/gpu.h"

#define GPU_0 "GPU-00000000-0000-0000-0000-000000000000"
#define GPU_1 "GPU-00000000-0000-0000-0000-000000000001"
#define SLAB (1u << 20)
#define CHUNK ((uint64_t)FAKE_GRANULE)
#define COPIES 600    /* more than one call of the driver takes */

gpu_module_get penstock_gpu_backend;
static const struct gpu_backend *cuda;
static struct gpu_why why;

static void fake(struct fake_setting setting)
{
    if (!setting.driver)
        setting.driver = 12090;
    if (!setting.devices)
        setting.devices = 2;
    fake_set(&setting);
    cuda = penstock_gpu_backend(GPU_INTERFACE);
}

/* A device with a slab to copy from, and a client's memory of two chunks on it. */
struct scene {
    struct gpu *gpu;
    struct gpu_buffer *buffer;
    uint8_t *slab;
    uint8_t *seen[2];    /* the client's own view of its chunks */
    int fds[2];
};

static uint32_t dice(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33);
}

static void client_begins(struct scene *s, int device)
{
    for (int i = 0; i < 2; i++) {
        s->fds[i] = fake_memory(device, CHUNK);
        s->seen[i] = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED, s->fds[i], 0);
        ok(s->seen[i] != MAP_FAILED);
    }
}

static void client_ends(struct scene *s)
{
    for (int i = 0; i < 2; i++) {
        munmap(s->seen[i], CHUNK);
        close(s->fds[i]);
    }
}

static enum err import(struct scene *s)
{
    const uint64_t chunks[] = { CHUNK, CHUNK };
    return cuda->import_vmm(s->gpu, s->fds, chunks, 2, 2 * CHUNK, &s->buffer, &why);
}

static enum err scene_begin(struct scene *s, const char *uuid, unsigned lanes)
{
    uint64_t random = 7;
    *s = (struct scene){ 0 };
    s->slab = mmap(NULL, SLAB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < SLAB; i++)
        s->slab[i] = (uint8_t)(dice(&random) | 1);    /* never 0: what nobody wrote */
    client_begins(s, strcmp(uuid, GPU_1) == 0);
    enum err e = cuda->open(uuid, lanes, true, &s->gpu, &why);
    if (!e)
        e = cuda->pin(s->gpu, s->slab, SLAB, &why);
    return e ? e : import(s);
}

static void scene_end(struct scene *s)
{
    cuda->release(&s->buffer);
    if (s->gpu)
        cuda->close(&s->gpu);    /* what is pinned goes with it: the fake would say so */
    munmap(s->slab, SLAB);
    client_ends(s);
}

static uint8_t seen(const struct scene *s, uint64_t at)
{
    return s->seen[at / CHUNK][at % CHUNK];
}

/* Copies side by side with gaps between, some empty, some in the second chunk; how far they reach. */
static uint64_t plan(struct scene *s, struct gpu_copy *copies, size_t count, uint64_t *random)
{
    uint64_t at = dice(random) % 64;
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = dice(random) % 5 ? dice(random) % 5000 : 0;
        if (i == count / 2)
            at = MAX(at, CHUNK - 1000);    /* this one and the next ones cross */
        copies[i] =
            (struct gpu_copy){ s->buffer, at, s->slab + dice(random) % (SLAB - 5000), bytes };
        at += bytes + dice(random) % 64;
    }
    return at;
}

static bool arrived(const struct scene *s, const struct gpu_copy *copies, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (uint64_t j = 0; j < copies[i].bytes; j++)
            if (seen(s, copies[i].offset + j) != ((const uint8_t *)copies[i].from)[j])
                return false;
    return true;
}

/* And nothing else. */
static bool landed(const struct scene *s, const struct gpu_copy *copies, size_t count)
{
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        for (; at < copies[i].offset; at++)
            if (seen(s, at) != 0)
                return false;    /* a byte between */
        for (uint64_t j = 0; j < copies[i].bytes; j++, at++)
            if (seen(s, at) != ((const uint8_t *)copies[i].from)[j])
                return false;
    }
    for (; at < 2 * CHUNK; at++)
        if (seen(s, at) != 0)
            return false;
    return true;
}

static enum err await(struct gpu_fence **fence)
{
    enum err e;
    while ((e = cuda->poll(fence)) == ERR_WAIT)
        usleep(50);
    return e;
}

/* Runs it in a process of its own: true if it lived. */
static bool in_child(void (*run)(unsigned), unsigned argument)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run(argument);
        _exit(0);
    }
    ok(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- what is there ---- */

TEST(a_probe_tells_what_is_there)
{
    struct gpu_probe probe;
    fake((struct fake_setting){ 0 });
    cuda->probe(&probe);
    ok(probe.count == 2 && probe.driver == 12090 && probe.runtime >= 12080);
    same(slice_of(probe.devices[1].uuid), S(GPU_1));
    same(slice_of(probe.devices[1].name), S("Fake GPU 1"));
    ok(probe.devices[0].batch && probe.devices[0].vmm);
}

TEST(a_probe_says_what_is_missing)
{
    static const struct {
        int driver, devices;
        const char *part;
    } rows[] = { { -1, 1, "no NVIDIA driver" },
                 { 11080, 1, "CUDA 11.8" },
                 { 12000, -1, "Penstock sees no GPU" } };
    for (size_t i = 0; i < countof(rows); i++) {
        struct gpu_probe probe;
        struct gpu *gpu = NULL;
        fake_set(&(struct fake_setting){ .driver = MAX(rows[i].driver, 0),
                                         .devices = MAX(rows[i].devices, 0) });
        cuda->probe(&probe);
        ok(probe.count == 0 && strstr(probe.why.text, rows[i].part));
        ok(cuda->open(GPU_0, 1, true, &gpu, &why) == ERR_NOT_FOUND &&
           strstr(why.text, rows[i].part));
    }
}

TEST(a_device_is_opened_by_uuid_and_once)
{
    struct gpu *gpu = NULL, *again = NULL;
    fake((struct fake_setting){ 0 });
    ok(cuda->open("GPU-0", 1, true, &gpu, &why) == ERR_NOT_FOUND && strstr(why.text, "it sees 2"));
    ok(cuda->open(GPU_1, 1, true, &gpu, &why) == OK);
    ok(cuda->open(GPU_1, 1, true, &again, &why) == ERR_BUSY);
    cuda->close(&gpu);
    ok(gpu == NULL);
    ok(cuda->open(GPU_1, 8, true, &gpu, &why) == OK);
    cuda->close(&gpu);
}

/* ---- copies ---- */

static void fill_and_compare(int driver, uint64_t seed)
{
    struct scene s;
    struct gpu_copy copies[COPIES];
    struct gpu_fence *fences[4];
    uint64_t random = seed;
    fake((struct fake_setting){ .driver = driver, .seed = seed, .delay_us = 5 });
    ok(scene_begin(&s, GPU_0, 3) == OK);
    plan(&s, copies, COPIES, &random);
    for (unsigned i = 0; i < 4; i++)
        ok(cuda->submit(s.gpu, i % 3, copies + i * COPIES / 4, COPIES / 4, &fences[i], &why) == OK);
    for (unsigned i = 0; i < 4; i++)
        ok((i % 2 ? cuda->wait(&fences[i]) : await(&fences[i])) == OK && fences[i] == NULL);
    ok(landed(&s, copies, COPIES));
    scene_end(&s);
    ok(fake_mappings() == 0);
}

TEST(copies_land_where_they_were_sent_and_nowhere_else)
{
    for (uint64_t seed = 1; seed <= rounds_of(10u, 3u); seed++)
        fill_and_compare(12090, seed);
}

TEST(a_driver_without_the_batch_call_copies_one_by_one)
{
    long before = fake_calls_batch();
    for (uint64_t seed = 1; seed <= rounds_of(5u, 2u); seed++)
        fill_and_compare(12000, seed);
    ok(fake_calls_batch() == before);
    fill_and_compare(13000, 1);
    ok(fake_calls_batch() > before);
}

TEST(the_batch_call_can_be_left_out)
{
    struct gpu *gpu = NULL;
    long before = fake_calls_batch();
    fake((struct fake_setting){ .seed = 2 });
    ok(cuda->open(GPU_0, 1, false, &gpu, &why) == OK);
    struct scene s = { .gpu = gpu };
    struct gpu_fence *fence;
    s.slab = mmap(NULL, SLAB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    client_begins(&s, 0);
    ok(cuda->pin(gpu, s.slab, SLAB, &why) == OK && import(&s) == OK);
    struct gpu_copy copy = { s.buffer, 0, s.slab, 9 };
    ok(cuda->submit(gpu, 0, &copy, 1, &fence, &why) == OK && cuda->wait(&fence) == OK);
    ok(fake_calls_batch() == before);
    scene_end(&s);
}

TEST(a_batch_larger_than_one_call_of_the_driver_goes_out_in_several)
{
    struct scene s;
    struct gpu_copy copies[COPIES];
    struct gpu_fence *fence;
    fake((struct fake_setting){ .seed = 3 });
    ok(scene_begin(&s, GPU_0, 1) == OK);
    for (size_t i = 0; i < COPIES; i++)
        copies[i] = (struct gpu_copy){ s.buffer, i * 100, s.slab + i, 50 };
    long before = fake_calls_batch();
    ok(cuda->submit(s.gpu, 0, copies, COPIES, &fence, &why) == OK);
    ok(cuda->wait(&fence) == OK && landed(&s, copies, COPIES));
    ok(fake_calls_batch() == before + 2);
    scene_end(&s);
}

TEST(empty_copies_and_empty_batches_end)
{
    struct scene s;
    struct gpu_fence *fence;
    fake((struct fake_setting){ .seed = 4 });
    ok(scene_begin(&s, GPU_0, 1) == OK);
    struct gpu_copy empty[] = { { s.buffer, 2 * CHUNK, s.slab, 0 },
                                { s.buffer, 0, s.slab + SLAB, 0 } };
    ok(cuda->submit(s.gpu, 0, empty, 2, &fence, &why) == OK && cuda->wait(&fence) == OK);
    ok(cuda->submit(s.gpu, 0, NULL, 0, &fence, &why) == OK && cuda->wait(&fence) == OK);
    scene_end(&s);
}

TEST(a_copy_beyond_its_buffer_or_the_pinned_range_is_refused_with_its_whole_batch)
{
    struct scene s;
    struct gpu_fence *fence = NULL;
    fake((struct fake_setting){ .seed = 5 });
    ok(scene_begin(&s, GPU_0, 1) == OK);
    const struct gpu_copy wrong[] = {
        { s.buffer, 2 * CHUNK - 9, s.slab, 10 },     { s.buffer, 2 * CHUNK + 1, s.slab, 0 },
        { s.buffer, UINT64_MAX, s.slab, 2 },         { s.buffer, 2, s.slab, UINT64_MAX },
        { s.buffer, 0, s.slab + SLAB - 9, 10 },      { s.buffer, 0, s.slab - 1, 1 },
        { s.buffer, 0, (void *)UINTPTR_MAX, 2 },     { s.buffer, 0, &s, 1 },
        { s.buffer, INT64_MAX, s.slab, INT64_MAX },
    };
    long before = fake_calls_batch();
    for (size_t i = 0; i < countof(wrong); i++) {
        struct gpu_copy batch[] = { { s.buffer, 0, s.slab, 100 }, wrong[i] };
        ok(cuda->submit(s.gpu, 0, batch, 2, &fence, &why) == ERR_BAD_RANGE && fence == NULL);
    }
    ok(fake_calls_batch() == before && fake_pending() == 0 && seen(&s, 0) == 0);
    struct gpu_copy all[] = { { s.buffer, 2 * CHUNK - SLAB, s.slab,
                                SLAB } }; /* exactly to both ends */
    ok(cuda->submit(s.gpu, 0, all, 1, &fence, &why) == OK && cuda->wait(&fence) == OK);
    scene_end(&s);
}

TEST(a_batch_that_the_driver_refuses_half_way_has_ended_when_submit_returns)
{
    for (int driver = 12000; driver <= 13000; driver += 1000) {
        struct scene s;
        struct gpu_copy copies[30];
        struct gpu_fence *fence = NULL;
        fake((struct fake_setting){
            .driver = driver, .seed = 6, .delay_us = 300, .refuse_copy = 20 });
        ok(scene_begin(&s, GPU_0, 1) == OK);
        for (size_t i = 0; i < countof(copies); i++)
            copies[i] = (struct gpu_copy){ s.buffer, i * 10, s.slab, 10 };
        ok(cuda->submit(s.gpu, 0, copies, countof(copies), &fence, &why) == ERR_INTERNAL);
        ok(fence == NULL && fake_pending() == 0 && !cuda->lost(s.gpu));
        ok(cuda->submit(s.gpu, 0, copies, countof(copies), &fence, &why) == OK);
        ok(cuda->wait(&fence) == OK && landed(&s, copies, countof(copies)));
        scene_end(&s);
    }
}

/* ---- release ---- */

/* The fake aborts if a mapping goes under a copy. What the client writes after release stays. */
static void release_under_copies(uint64_t seed)
{
    struct scene s;
    struct gpu_copy copies[40];
    struct gpu_fence *fences[2];
    uint64_t random = seed;
    fake((struct fake_setting){ .seed = seed, .delay_us = 100 });
    ok(scene_begin(&s, GPU_0, 2) == OK);
    plan(&s, copies, countof(copies), &random);
    for (unsigned i = 0; i < 2; i++)
        ok(cuda->submit(s.gpu, i, copies + 20 * i, 20, &fences[i], &why) == OK);
    cuda->release(&s.buffer);
    ok(s.buffer == NULL && fake_mappings() == 0);
    memset(s.seen[0], 0xAA, CHUNK);
    for (unsigned i = 0; i < 2; i++)
        ok(cuda->poll(&fences[i]) == OK);    /* ended with the release */
    for (size_t i = 0; i < CHUNK; i++)
        ok(s.seen[0][i] == 0xAA);
    scene_end(&s);
}

TEST(release_waits_for_the_copies_in_flight)
{
    for (uint64_t seed = 1; seed <= rounds_of(20u, 5u); seed++)
        release_under_copies(seed);
}

static void *release_it(void *scene)
{
    cuda->release(&((struct scene *)scene)->buffer);
    return NULL;
}

TEST(no_copy_begins_into_a_buffer_that_is_being_released)
{
    struct scene s;
    struct gpu_copy copies[64];
    struct gpu_fence *fence, *last = NULL;
    pthread_t other;
    enum err e;
    fake((struct fake_setting){ .seed = 8, .delay_us = 20000 });
    ok(scene_begin(&s, GPU_0, 1) == OK);
    for (size_t i = 0; i < countof(copies); i++)
        copies[i] = (struct gpu_copy){ s.buffer, i * 8, s.slab, 8 };
    ok(cuda->submit(s.gpu, 0, copies, countof(copies), &fence, &why) == OK);
    ok(pthread_create(&other, NULL, release_it, &s) == 0);
    while ((e = cuda->submit(s.gpu, 0, copies, 1, &last, &why)) == OK) {
        ok(cuda->wait(&fence) == OK);    /* of the one before */
        fence = last;
    }
    ok(e == ERR_CANCELED);
    pthread_join(other, NULL);
    ok(cuda->wait(&fence) == OK);
    scene_end(&s);
}

/* Clients come and go on threads of their own while the copier fills another's memory. */
static void *comings_and_goings(void *scene)
{
    struct scene *filled = scene, own = { .gpu = filled->gpu };
    client_begins(&own, 0);
    for (int i = 0; i < 30; i++) {
        ok(import(&own) == OK);
        cuda->release(&own.buffer);
    }
    client_ends(&own);
    return NULL;
}

TEST(imports_and_releases_on_other_threads_disturb_no_copy)
{
    struct scene s;
    struct gpu_copy copies[30];
    struct gpu_fence *fence;
    pthread_t others[2];
    uint64_t random = 9;
    fake((struct fake_setting){ .seed = 9, .delay_us = 20 });
    ok(scene_begin(&s, GPU_0, 2) == OK);
    for (size_t i = 0; i < countof(others); i++)
        ok(pthread_create(&others[i], NULL, comings_and_goings, &s) == 0);
    plan(&s, copies, countof(copies), &random);
    for (unsigned i = 0; i < 20; i++) {
        ok(cuda->submit(s.gpu, i % 2, copies, countof(copies), &fence, &why) == OK);
        ok(await(&fence) == OK);
    }
    for (size_t i = 0; i < countof(others); i++)
        pthread_join(others[i], NULL);
    ok(landed(&s, copies, countof(copies)));
    scene_end(&s);
}

TEST(host_memory_that_can_not_be_pinned_is_a_limit)
{
    struct gpu *gpu = NULL;
    static uint8_t page[2 * 4096] __attribute__((aligned(4096)));
    fake((struct fake_setting){ 0 });
    ok(cuda->open(GPU_0, 1, true, &gpu, &why) == OK);
    ok(cuda->pin(gpu, page + 1, 4096, &why) == ERR_LIMIT && strstr(why.text, "pinning"));
    ok(cuda->pin(gpu, page, 4096, &why) == OK);
    cuda->close(&gpu);
}

TEST(unpin_waits_for_the_copies_that_read_there)
{
    struct scene s;
    struct gpu_fence *fence;
    fake((struct fake_setting){ .seed = 10, .delay_us = 2000 });
    ok(scene_begin(&s, GPU_0, 1) == OK);
    struct gpu_copy copy = { s.buffer, 0, s.slab, SLAB };
    ok(cuda->submit(s.gpu, 0, &copy, 1, &fence, &why) == OK);
    cuda->unpin(s.gpu);
    ok(cuda->poll(&fence) == OK && landed(&s, &copy, 1));
    ok(cuda->submit(s.gpu, 0, &copy, 1, &fence, &why) == ERR_BAD_RANGE);
    ok(cuda->pin(s.gpu, s.slab, SLAB, &why) == OK);
    scene_end(&s);
}

/* ---- what a client claims ---- */

TEST(memory_that_is_not_what_the_client_says_is_refused_and_leaves_nothing)
{
    struct scene s;
    struct gpu_buffer *none = NULL;
    fake((struct fake_setting){ .seed = 11 });
    ok(scene_begin(&s, GPU_0, 1) == OK);
    int other = fake_memory(1, CHUNK), plain = memfd_create("plain", 0),
        null = open("/dev/null", O_RDWR);
    const struct {
        int fds[2];
        uint64_t chunks[2];
        size_t count;
        uint64_t bytes;
    } rows[] = {
        { { s.fds[0] }, { CHUNK }, 1, CHUNK + 1 },
        { { s.fds[0] }, { 2 * CHUNK }, 1, CHUNK },
        { { s.fds[0] }, { CHUNK / 2 }, 1, 1 },
        { { s.fds[0] }, { 0 }, 1, 0 },
        { { s.fds[0] }, { CHUNK }, 1, 0 },
        { { s.fds[0] }, { CHUNK }, 0, 1 },
        { { s.fds[0] }, { CHUNK }, GPU_CHUNKS_MAX + 1, 1 },
        { { other }, { CHUNK }, 1, CHUNK },
        { { plain }, { CHUNK }, 1, CHUNK },
        { { null }, { CHUNK }, 1, CHUNK },
        { { 9999 }, { CHUNK }, 1, CHUNK },
        { { s.fds[0], null }, { CHUNK, CHUNK }, 2, CHUNK },
        { { s.fds[0], other }, { CHUNK, CHUNK }, 2, CHUNK },
        { { s.fds[0] }, { -CHUNK }, 1, CHUNK },
        { { s.fds[0], s.fds[1] }, { -CHUNK, 2 * CHUNK }, 2, CHUNK },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        ok(cuda->import_vmm(s.gpu, rows[i].fds, rows[i].chunks, rows[i].count, rows[i].bytes, &none,
                            &why) == ERR_BAD_ARGUMENT);
        ok(none == NULL && why.text[0] && !cuda->lost(s.gpu));
    }
    ok(fake_mappings() == 2);    /* the scene's own */
    close(other), close(plain), close(null);
    scene_end(&s);    /* and no address range is left: the fake would say so */
}

static uint8_t handle[GPU_IPC_BYTES];
static uint8_t *exported;

static bool ipc_fills(struct scene *s, uint64_t offset, uint64_t bytes)
{
    struct gpu_buffer *buffer, *twin;
    struct gpu_fence *fence;
    if (cuda->import_ipc(s->gpu, handle, offset, bytes, &buffer, &why) ||
        cuda->import_ipc(s->gpu, handle, 0, bytes, &twin, &why))
        return false;
    struct gpu_copy copies[] = { { buffer, 0, s->slab, bytes }, { buffer, bytes, s->slab, 1 } };
    cuda->release(&twin);    /* the same handle, one use less: the other stays mapped */
    bool refused = cuda->submit(s->gpu, 0, copies, 2, &fence, &why) == ERR_BAD_RANGE;
    bool filled =
        cuda->submit(s->gpu, 0, copies, 1, &fence, &why) == OK && cuda->wait(&fence) == OK;
    cuda->release(&buffer);
    return refused && filled && memcmp(exported + offset, s->slab, bytes) == 0 &&
           exported[offset - 1] == 0;
}

static void use_handle(unsigned argument)
{
    (void)argument;
    struct scene s;
    struct gpu_buffer *none;
    fake((struct fake_setting){ .seed = 12 });
    if (scene_begin(&s, GPU_1, 2) || !ipc_fills(&s, 4097, 70000))
        _exit(1);
    if (cuda->import_ipc(s.gpu, handle, CHUNK, 1, &none, &why) != ERR_BAD_ARGUMENT ||
        cuda->import_ipc(s.gpu, handle, 1, CHUNK, &none, &why) != ERR_BAD_ARGUMENT ||
        cuda->import_ipc(s.gpu, handle, UINT64_MAX, 2, &none, &why) != ERR_BAD_ARGUMENT ||
        cuda->import_ipc(s.gpu, handle, 0, 0, &none, &why) != ERR_BAD_ARGUMENT)
        _exit(2);
    handle[0] ^= 1;
    if (cuda->import_ipc(s.gpu, handle, 0, 1, &none, &why) != ERR_BAD_ARGUMENT || cuda->lost(s.gpu))
        _exit(3);
    scene_end(&s);
    if (scene_begin(&s, GPU_0, 2))
        _exit(4);
    handle[0] ^= 1;
    if (cuda->import_ipc(s.gpu, handle, 0, 1, &none, &why) !=
        ERR_BAD_ARGUMENT) /* of the other device */
        _exit(5);
    scene_end(&s);
    _exit(fake_mappings() == 0 ? 0 : 6);
}

TEST(a_legacy_handle_fills_the_memory_of_another_process)
{
    fake((struct fake_setting){ 0 });
    int memory = fake_memory(1, CHUNK);
    exported = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    fake_ipc_handle(memory, 1, handle);
    ok(in_child(use_handle, 0));
    ok(exported[4097] != 0);
    munmap(exported, CHUNK);
    close(memory);
}

TEST(a_legacy_handle_of_our_own_is_refused)
{
    struct scene s;
    struct gpu_buffer *none;
    fake((struct fake_setting){ .seed = 13 });
    ok(scene_begin(&s, GPU_0, 1) == OK);
    fake_ipc_handle(s.fds[0], 0, handle);
    ok(cuda->import_ipc(s.gpu, handle, 0, 1, &none, &why) == ERR_BAD_ARGUMENT);
    scene_end(&s);
}

/* ---- what breaks ---- */

/* Every call of a device that is lost says so, and asks the driver nothing. */
static bool says_lost(struct scene *s)
{
    struct gpu_fence *fence;
    struct gpu_buffer *none;
    const uint64_t chunks[] = { CHUNK, CHUNK };
    struct gpu_copy copy = { s->buffer, 0, s->slab, 1 };
    long before = fake_calls();
    bool said = cuda->lost(s->gpu) &&
                strstr(cuda->lost(s->gpu), "out of use until Penstock is restarted") &&
                cuda->import_vmm(s->gpu, s->fds, chunks, 2, 1, &none, &why) == ERR_GONE &&
                cuda->import_ipc(s->gpu, handle, 0, 1, &none, &why) == ERR_GONE &&
                cuda->pin(s->gpu, s->seen[0], 4096, &why) == ERR_GONE &&
                (!s->buffer || cuda->submit(s->gpu, 0, &copy, 1, &fence, &why) == ERR_GONE);
    cuda->release(&s->buffer);
    return said && fake_calls() == before;
}

static void break_a_copy(unsigned seed)
{
    struct scene s, other;
    struct gpu_copy copies[40];
    struct gpu_fence *fences[4], *fence;
    uint64_t random = seed;
    unsigned gone = 0;
    fake((struct fake_setting){ .seed = seed, .delay_us = 50, .fail_copy = 1 + seed,
                                .driver = seed % 2 ? 12090 : 12000 });
    ok(scene_begin(&s, GPU_0, 2) == OK);
    plan(&s, copies, countof(copies), &random);
    copies[39].bytes = 7;
    for (unsigned i = 0; i < 4; i++)    /* may be told so by the submit, or by the fence */
        if (cuda->submit(s.gpu, i % 2, copies + 10 * i, 10, &fences[i], &why) != OK)
            fences[i] = NULL, gone++;
    for (unsigned i = 0; i < 4; i++) {
        if (!fences[i])
            continue;
        enum err e = seed % 4 < 2 ? cuda->wait(&fences[i]) : await(&fences[i]);
        ok(e == ERR_GONE || (e == OK && arrived(&s, copies + 10 * i, 10)));
        gone += e == ERR_GONE;
    }
    ok(gone > 0 && says_lost(&s));
    ok(scene_begin(&other, GPU_1, 1) == OK);    /* another device goes on */
    struct gpu_copy copy = { other.buffer, 0, other.slab, 100 };
    ok(cuda->submit(other.gpu, 0, &copy, 1, &fence, &why) == OK && cuda->wait(&fence) == OK);
    scene_end(&other);
    scene_end(&s);
    ok(cuda->open(GPU_0, 1, true, &s.gpu, &why) == ERR_GONE &&
       strstr(why.text, "out of use"));
}

TEST(a_copy_that_fails_loses_its_device_and_no_other)
{
    for (unsigned seed = 1; seed <= 16; seed++)
        ok(in_child(break_a_copy, seed));
}

/* Whichever call is the one that fails: nothing hangs, nothing is used after its end. */
static void break_a_call(unsigned call)
{
    struct scene s;
    struct gpu_copy copies[20];
    struct gpu_fence *fence;
    uint64_t random = call;
    fake((struct fake_setting){ .seed = call, .delay_us = 20, .fail_call = call });
    enum err e = scene_begin(&s, GPU_0, 2);
    for (unsigned i = 0; !e && i < 3; i++) {
        plan(&s, copies, countof(copies), &random);
        e = cuda->submit(s.gpu, i % 2, copies, countof(copies), &fence, &why);
        if (!e)
            e = cuda->wait(&fence);
    }
    if (e && s.gpu) {
        ok(e == ERR_GONE && says_lost(&s));
    } else if (e) {
        ok(why.text[0]);
    }
    scene_end(&s);
}

TEST(any_call_may_be_the_one_that_loses_the_device)
{
    for (unsigned call = 1; call <= 80; call++)
        ok(in_child(break_a_call, call));
}

/* ---- several devices ---- */

static void *fill_device(void *uuid)
{
    struct scene s;
    struct gpu_copy copies[50];
    struct gpu_fence *fence;
    uint64_t random = 99;
    struct gpu_why own;
    ok(scene_begin(&s, uuid, 2) == OK);
    plan(&s, copies, countof(copies), &random);
    for (unsigned i = 0; i < 10; i++) {
        ok(cuda->submit(s.gpu, i % 2, copies, countof(copies), &fence, &own) == OK);
        ok(cuda->wait(&fence) == OK);
    }
    ok(landed(&s, copies, countof(copies)));
    scene_end(&s);
    return NULL;
}

TEST(two_devices_are_filled_side_by_side)
{
    pthread_t other;
    fake((struct fake_setting){ .seed = 14, .delay_us = 20 });
    ok(pthread_create(&other, NULL, fill_device, (void *)GPU_1) == 0);
    fill_device((void *)GPU_0);
    pthread_join(other, NULL);
    ok(fake_mappings() == 0);
}

RUN(cmocka_unit_test(a_probe_tells_what_is_there),
    cmocka_unit_test(a_probe_says_what_is_missing),
    cmocka_unit_test(a_device_is_opened_by_uuid_and_once),
    cmocka_unit_test(copies_land_where_they_were_sent_and_nowhere_else),
    cmocka_unit_test(a_driver_without_the_batch_call_copies_one_by_one),
    cmocka_unit_test(the_batch_call_can_be_left_out),
    cmocka_unit_test(a_batch_larger_than_one_call_of_the_driver_goes_out_in_several),
    cmocka_unit_test(empty_copies_and_empty_batches_end),
    cmocka_unit_test(a_copy_beyond_its_buffer_or_the_pinned_range_is_refused_with_its_whole_batch),
    cmocka_unit_test(a_batch_that_the_driver_refuses_half_way_has_ended_when_submit_returns),
    cmocka_unit_test(release_waits_for_the_copies_in_flight),
    cmocka_unit_test(no_copy_begins_into_a_buffer_that_is_being_released),
    cmocka_unit_test(imports_and_releases_on_other_threads_disturb_no_copy),
    cmocka_unit_test(host_memory_that_can_not_be_pinned_is_a_limit),
    cmocka_unit_test(unpin_waits_for_the_copies_that_read_there),
    cmocka_unit_test(memory_that_is_not_what_the_client_says_is_refused_and_leaves_nothing),
    cmocka_unit_test(a_legacy_handle_fills_the_memory_of_another_process),
    cmocka_unit_test(a_legacy_handle_of_our_own_is_refused),
    cmocka_unit_test(a_copy_that_fails_loses_its_device_and_no_other),
    cmocka_unit_test(any_call_may_be_the_one_that_loses_the_device),
    cmocka_unit_test(two_devices_are_filled_side_by_side))
