/* gpu_check.c - what only a GPU can show of penstock-cuda.so. SPDX-License-Identifier: Apache-2.0
 *
 *     gpu_check [--quick] MODULE      run by scripts/gpu-check, which keeps what it says
 *
 * This process is Penstock's part: it loads the module, and knows nothing else of CUDA. Trainers
 * are processes of their own (gpu_peer.c), which share memory and look, by a kernel launched after
 * the reply, at what lies there. One line a check: PASS, FAIL, or NOTE where there is nothing to
 * pass; exit status 0, 1 if anything failed, 77 without a GPU. Linked with fake_cudart.c and
 * gpu_client_fake.c it tests itself, in `make check`: that shows nothing of any GPU, and says so.
 * */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "local/gpu.h"
#include "local/gpu_peer.h"

#define GRANULE (2 * MIB)
#define SMALL (2 * GRANULE)    /* a buffer that is looked at whole, each round */
#define LANES 4
#define DEPTH 4                /* batches under way on a lane */
#define BATCH_BYTES (4 * MIB)

static const struct gpu_backend *cuda;
static struct gpu_probe probe;
static struct gpu_why why;
static struct gpu *gpu;
static struct peer trainer;           /* begun, its context there */
static uint8_t *slab, *expected;
static uint64_t slab_bytes = 256 * MIB, large = 256 * MIB;
static double patience = 25;          /* seconds a long check may take */
static double speed_alone;            /* H */
static long least_rounds = 1000;      /* of a long check, before its time is over */
static bool quick, is_fake;
static unsigned failed;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void say(const char *verdict, const char *format, ...) PRINTF_LIKE(2, 3);
static void say(const char *verdict, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%-4s ", verdict);
    vprintf(format, args);
    putchar('\n');
    fflush(stdout);
    va_end(args);
    failed += strcmp(verdict, "FAIL") == 0;
}

static uint64_t dice(uint64_t sides)
{
    static uint64_t random = 88172645463325252u;
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return random % sides;
}

/* ---- Penstock's part, and a trainer's ---- */

static bool call(struct peer *peer, enum peer_op op, enum client_memory kind, uint64_t value,
                 struct peer_answer *ret)
{
    struct peer_ask ask = { .op = op, .kind = kind, .value = value };
    memcpy(ask.uuid, probe.devices[0].uuid, sizeof(ask.uuid));
    return peer_call(peer, ask, ret);
}

static bool begin_peer(struct peer *peer, bool own_namespace)
{
    struct peer_answer answer = { 0 };
    bool begun = peer_start(peer, own_namespace) && call(peer, PEER_BEGIN, 0, 0, &answer);
    snprintf(why.text, sizeof(why.text), "%s%.200s", begun ? "" : "the trainer: ", answer.why);
    return begun;
}

static enum err import(const struct client_shared *shared, enum client_memory kind, uint64_t bytes,
                       struct gpu_buffer **ret)
{
    if (kind != CLIENT_VMM)
        return cuda->import_ipc(gpu, shared->handle, shared->base_offset, bytes, ret, &why);
    enum err e =
        cuda->import_vmm(gpu, shared->fds, shared->chunks, CLIENT_CHUNKS, bytes, ret, &why);
    for (size_t i = 0; i < CLIENT_CHUNKS; i++)
        close(shared->fds[i]);
    return e;
}

/* Memory of a trainer's, registered. */
static bool share(struct peer *peer, enum client_memory kind, uint64_t bytes,
                  struct gpu_buffer **ret)
{
    struct peer_answer answer;
    if (call(peer, PEER_MAKE, kind, bytes, &answer))
        return import(&answer.shared, kind, bytes, ret) == OK;
    snprintf(why.text, sizeof(why.text), "the trainer: %.200s", answer.why);
    return false;
}

static void unshare_memory(struct peer *peer, struct gpu_buffer **buffer)
{
    struct peer_answer answer;
    cuda->release(buffer);
    (void)call(peer, PEER_DROP, 0, 0, &answer);
}

static uint64_t free_bytes(void)
{
    struct peer_answer answer;
    return call(&trainer, PEER_FREE, 0, 0, &answer) ? answer.value : 0;
}

static bool open_gpu(unsigned lanes, bool batch)
{
    return cuda->open(probe.devices[0].uuid, lanes, batch, &gpu, &why) == OK &&
           cuda->pin(gpu, slab, slab_bytes, &why) == OK;
}

/* ---- 2: the right bytes ---- */

/* A scatter list with odd offsets and gaps, in 3 batches; `expected` learns what must lie there. */
static bool scatter(struct gpu_buffer *buffer)
{
    struct gpu_copy copies[96];
    struct gpu_fence *fences[3];
    size_t count = 1 + dice(countof(copies));
    uint64_t at = dice(100), largest = SMALL / count - 100;
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = dice(largest), from = dice(slab_bytes - bytes);
        copies[i] = (struct gpu_copy){ buffer, at, slab + from, bytes };
        memcpy(expected + at, slab + from, bytes);
        at += bytes + dice(100);
    }
    for (size_t i = 0; i < 3; i++)
        if (cuda->submit(gpu, (unsigned)i % 2, copies + count * i / 3,
                         count * (i + 1) / 3 - count * i / 3, &fences[i], &why) != OK)
            return false;
    for (size_t i = 0; i < 3; i++)
        if (cuda->wait(&fences[i]) != OK)
            return false;
    return true;
}

static bool round_of(struct peer *peer, struct gpu_buffer *buffer)
{
    struct peer_answer answer;
    uint8_t paint = (uint8_t)dice(256);
    if (!call(peer, PEER_PAINT, 0, paint, &answer))
        return false;
    memset(expected, paint, SMALL);
    if (!scatter(buffer) || !call(peer, PEER_SUM, 0, 0, &answer))
        return false;
    snprintf(why.text, sizeof(why.text), "other bytes lie there");
    return answer.value == gpu_sum(expected, SMALL);
}

static void check_bytes(enum client_memory kind, const char *name, long rounds)
{
    struct gpu_buffer *buffer = NULL;
    double began = seconds();
    long done = 0;
    bool right = share(&trainer, kind, SMALL, &buffer);
    for (; right && done < rounds && seconds() - began < patience; done++)
        right = round_of(&trainer, buffer);
    unshare_memory(&trainer, &buffer);
    say(right && done >= MIN(rounds, least_rounds) ? "PASS" : "FAIL",
        "2 bytes into %s, summed there after the reply: %ld rounds of %ld in %.0f s%s%s", name,
        done, rounds, seconds() - began, right ? "" : ", then: ", right ? "" : why.text);
}

/* ---- 3 and 4: how fast ---- */

struct flow {
    unsigned lanes;
    uint64_t item;
    struct gpu_buffer *buffer;
    struct gpu_copy copies[BATCH_BYTES / (4 * KIB)];
    struct gpu_fence *fences[LANES * DEPTH];
    uint64_t at, bytes;
};

static void fill_batch(struct flow *flow, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        flow->copies[i] =
            (struct gpu_copy){ flow->buffer, flow->at, slab + flow->at % slab_bytes, flow->item };
        flow->at += flow->item;
        if (flow->at + flow->item > MIN(large, slab_bytes))
            flow->at = 0;
        flow->bytes += flow->item;
    }
}

/* Bytes a second, of items of one size, with DEPTH batches a lane under way; 0: it failed. */
static double flow_run(struct flow *flow, double time)
{
    size_t count = MAX(BATCH_BYTES / flow->item, 1), turn = 0;
    bool well = true;
    flow->at = flow->bytes = 0;
    double began = seconds();
    for (; well && seconds() - began < time; turn++) {
        unsigned lane = (unsigned)(turn % flow->lanes);
        struct gpu_fence **fence = &flow->fences[lane * DEPTH + turn / flow->lanes % DEPTH];
        well = !*fence || cuda->wait(fence) == OK;
        fill_batch(flow, count);
        well = well && cuda->submit(gpu, lane, flow->copies, count, fence, &why) == OK;
    }
    for (size_t i = 0; i < LANES * DEPTH; i++)
        if (flow->fences[i])
            well = cuda->wait(&flow->fences[i]) == OK && well;
    return well ? (double)flow->bytes / (seconds() - began) : 0;
}

static double measure(struct gpu_buffer *buffer, unsigned lanes, uint64_t item, double time)
{
    static struct flow flow;
    flow = (struct flow){ .lanes = lanes, .item = item, .buffer = buffer };
    return flow_run(&flow, time);
}

/* The best of five, as H is. */
static double best(struct gpu_buffer *buffer, uint64_t item)
{
    double most = 0;
    for (int i = 0; i < 5; i++) {
        double speed = measure(buffer, 2, item, quick ? 0.01 : 0.4);
        most = MAX(most, speed);
    }
    return most;
}

/* Every figure says what moved the bytes. */
static const char *path_of(bool batch)
{
    return is_fake ? "a fake" : batch && probe.devices[0].batch ? "cuda-batch" : "cuda-async";
}

/* The module's copies alone, against the bare loop in the trainer's process (H). */
static void check_speed(struct gpu_buffer *buffer)
{
    static const struct {
        uint64_t item;
        double least;
    } rows[] = { { 4 * MIB, 0.95 }, { 128 * KIB, 0.80 }, { 16 * KIB, 0.50 } };
    struct peer_answer answer = { 0 };
    (void)call(&trainer, PEER_SPEED, 0, 0, &answer);
    speed_alone = answer.speed;
    say("NOTE", "3 H, a bare loop of pinned 64 MiB copies on 2 streams: %.2f GB/s %s",
        speed_alone / 1e9, answer.why);
    for (size_t i = 0; i < countof(rows); i++) {
        double speed = best(buffer, rows[i].item);
        bool enough =
            speed > 0 && (is_fake || (speed_alone > 0 && speed >= rows[i].least * speed_alone));
        say(enough ? "PASS" : "FAIL",
            "3 DMA stage by %s, items of %llu KiB, 2 lanes: %.2f GB/s, %.2f of H (at least %.2f)",
            path_of(true), (unsigned long long)(rows[i].item / KIB), speed / 1e9,
            speed_alone ? speed / speed_alone : 0, rows[i].least);
    }
}

static void curve(struct gpu_buffer *buffer, const char *path)
{
    for (unsigned lanes = 1; lanes <= LANES; lanes *= 2) {
        printf("NOTE 4 %s, %u lane%s, GB/s of items of", path, lanes, lanes == 1 ? "" : "s");
        for (uint64_t item = 4 * KIB; item <= 64 * MIB && item <= slab_bytes; item *= 4)
            printf(" %lluK:%.2f", (unsigned long long)(item / KIB),
                   measure(buffer, lanes, item, quick ? 0.01 : 0.5) / 1e9);
        printf("\n");
        fflush(stdout);
    }
}

/* Figures are worth having also where VMM memory can't be shared, which line 2 has said. */
static bool share_any(struct gpu_buffer **ret)
{
    if (share(&trainer, CLIENT_VMM, large, ret))
        return true;
    unshare_memory(&trainer, ret);
    return share(&trainer, CLIENT_IPC, large, ret);
}

static void check_curves(void)
{
    for (int batch = 1; batch >= 0; batch--) {
        struct gpu_buffer *buffer = NULL;
        if (batch && !probe.devices[0].batch) {
            say("NOTE", "4 this driver has no batch call");
            continue;
        }
        if (!open_gpu(LANES, batch) || !share_any(&buffer)) {
            say("FAIL", "4 curves: %s", why.text);
        } else {
            if (batch)
                check_speed(buffer);
            curve(buffer, path_of(batch));
        }
        unshare_memory(&trainer, &buffer);
        cuda->close(&gpu);
    }
}

/* ---- 7: ends of lives ---- */

/* Copies under way into `buffer`, many; false if they can't begin. */
static bool begin_copies(struct gpu_buffer *buffer, uint64_t bytes, struct gpu_fence *fences[2])
{
    struct gpu_copy copies[64];
    for (size_t i = 0; i < countof(copies); i++)
        copies[i] =
            (struct gpu_copy){ buffer, i * (bytes / 64), slab, MIN(bytes / 64, slab_bytes) };
    return cuda->submit(gpu, 0, copies, countof(copies), &fences[0], &why) == OK &&
           cuda->submit(gpu, 1, copies, countof(copies), &fences[1], &why) == OK;
}

/* The trainer goes while copies run: they end, its memory goes with our release. */
static bool outlive(struct peer *peer, enum client_memory kind, uint64_t bytes, bool by_signal)
{
    struct gpu_buffer *buffer = NULL;
    struct gpu_fence *fences[2] = { NULL };
    struct peer_answer answer;
    if (!share(peer, kind, bytes, &buffer))
        return false;
    bool well = begin_copies(buffer, bytes, fences);
    if (by_signal)
        peer_end(peer, SIGKILL);
    else
        (void)call(peer, PEER_DROP, 0, 0, &answer);
    for (int i = 0; i < 2; i++)
        if (fences[i])
            well = cuda->wait(&fences[i]) == OK && well;
    cuda->release(&buffer);
    return well && !cuda->lost(gpu);
}

/* What a dead process had comes back a moment after it is gone. */
static uint64_t settled_bytes(void)
{
    usleep(quick ? 0 : 1000000);
    return free_bytes();
}

static void check_kills(void)
{
    struct peer victim = { 0 };
    long done = 0, rounds = quick ? 3 : 200;
    uint64_t bytes = quick ? 8 * MIB : 64 * MIB;
    double began = seconds();
    /* The first leaves tables for its addresses in our context. */
    bool well = begin_peer(&victim, false) && outlive(&victim, CLIENT_VMM, bytes, true);
    uint64_t before = settled_bytes();
    for (; well && done < rounds && seconds() - began < 6 * patience; done++)
        well = begin_peer(&victim, false) && outlive(&victim, CLIENT_VMM, bytes, true);
    peer_end(&victim, SIGKILL);
    double until = seconds() + 1;
    while (free_bytes() + MIB < before && seconds() < until)
        usleep(10000);
    int64_t lost_bytes = (int64_t)(before - free_bytes());
    bool enough = done >= MIN(rounds, 20);
    say(well && enough && lost_bytes < (int64_t)bytes ? "PASS" : "FAIL",
        "7 trainers of %llu MiB killed while copies ran: %ld of %ld; device memory missing 1 s"
        " later: %lld KiB%s%s",
        (unsigned long long)(bytes / MIB), done, rounds, (long long)lost_bytes / (long long)KIB,
        well ? "" : "; ", well ? "" : why.text);
    well = outlive(&trainer, CLIENT_VMM, bytes, false);
    say(well ? "PASS" : "FAIL", "7 VMM memory freed by the trainer while copies ran");
}

static void check_legacy_end(void)
{
    struct gpu_buffer *buffer = NULL;
    bool well = share(&trainer, CLIENT_IPC, SMALL, &buffer) && round_of(&trainer, buffer);
    unshare_memory(&trainer, &buffer);
    well = well && share(&trainer, CLIENT_IPC, SMALL, &buffer) && round_of(&trainer, buffer);
    unshare_memory(&trainer, &buffer);
    say(well ? "PASS" : "FAIL", "7 legacy memory: released, freed, made anew%s%s", well ? "" : ": ",
        well ? "" : why.text);
}

/* ---- 8: what it costs ---- */

static void check_cost(void)
{
    struct gpu_buffer *buffer = NULL;
    uint64_t before = free_bytes();
    double began = seconds();
    if (!open_gpu(2, true))
        return say("FAIL", "8 the GPU can't be opened: %s", why.text);
    double took = seconds() - began;
    uint64_t opened = free_bytes();
    bool well = share(&trainer, CLIENT_VMM, SMALL, &buffer);
    unshare_memory(&trainer, &buffer);
    uint64_t used = free_bytes();
    cuda->close(&gpu);
    uint64_t closed = free_bytes();
    say(well && closed + 16 * MIB >= before ? "PASS" : "FAIL",
        "8 device memory of Penstock: %lld MiB when open, %lld after a buffer came and went, %lld after"
        " close (at most 16; open and pin took %.0f ms)",
        (long long)(before - opened) / (long long)MIB, (long long)(before - used) / (long long)MIB,
        (long long)(before - closed) / (long long)MIB, took * 1e3);
    began = seconds();
    well = open_gpu(2, true);    /* as the daemon does for who comes after a minute without any */
    took = seconds() - began;
    cuda->close(&gpu);
    say(well ? "PASS" : "FAIL", "8 opened again in %.0f ms%s%s", took * 1e3, well ? "" : ": ",
        well ? "" : why.text);
}

/* ---- 9: what is refused ---- */

/* Those that the daemon answers 422. */
static bool is_refusal(enum err e)
{
    return e == ERR_BAD_ARGUMENT || e == ERR_NOT_IMPLEMENTED || e == ERR_BAD_RANGE;
}

static bool refuses_fd(const char *name, int fd, uint64_t chunk)
{
    struct gpu_buffer *none = NULL;
    enum err e = cuda->import_vmm(gpu, &fd, &chunk, 1, chunk, &none, &why);
    bool well = is_refusal(e) && !none && !cuda->lost(gpu);
    say(well ? "PASS" : "FAIL", "9 refused: %s: %s, \"%s\"", name, err_name(e), e ? why.text : "");
    cuda->release(&none);
    close(fd);
    return well;
}

static void refuses_handle(const char *name, const uint8_t handle[GPU_IPC_BYTES], uint64_t offset,
                           uint64_t bytes)
{
    struct gpu_buffer *none = NULL;
    enum err e = cuda->import_ipc(gpu, handle, offset, bytes, &none, &why);
    say(is_refusal(e) && !none && !cuda->lost(gpu) ? "PASS" : "FAIL",
        "9 refused: %s: %s, \"%s\"", name, err_name(e), e ? why.text : "");
    cuda->release(&none);
}

static void refuses_at_the_source(enum client_memory kind, const char *name)
{
    struct peer_answer answer;
    if (!call(&trainer, PEER_MAKE, kind, SMALL, &answer))
        say("PASS", "9 %s gets no handle at its source: \"%s\"", name, answer.why);
    else
        refuses_handle(name, answer.shared.handle, 0, SMALL);
    (void)call(&trainer, PEER_DROP, 0, 0, &answer);
}

static void check_refusals(void)
{
    struct gpu *none = NULL;
    struct peer_answer answer;
    uint8_t garbage[GPU_IPC_BYTES];
    int pipe_fds[2] = { -1, -1 };
    enum err e = cuda->open("GPU-12345678-1234-1234-1234-123456789abc", 1, true, &none, &why);
    say(e == ERR_NOT_FOUND ? "PASS" : "FAIL", "9 refused: a UUID of no GPU here: \"%s\"", why.text);
    if (call(&trainer, PEER_MAKE, CLIENT_VMM, SMALL, &answer)) {
        refuses_fd("a chunk that is smaller than claimed", dup(answer.shared.fds[0]), 64 * MIB);
        refuses_fd("a size that is no whole granule", answer.shared.fds[1], 4096);
        close(answer.shared.fds[0]);
        (void)call(&trainer, PEER_DROP, 0, 0, &answer);
    }
    (void)!pipe(pipe_fds);
    close(pipe_fds[1]);
    refuses_fd("a pipe", pipe_fds[0], SMALL);
    refuses_fd("/dev/null", open("/dev/null", O_RDWR), SMALL);
    refuses_fd("a memfd", memfd_create("plain", 0), SMALL);
    (void)!getrandom(garbage, sizeof(garbage), 0);
    refuses_handle("a handle of random bytes", garbage, 0, SMALL);
    if (call(&trainer, PEER_MAKE, CLIENT_IPC, SMALL, &answer)) {
        refuses_handle("more than the allocation holds", answer.shared.handle, 4104, GIB);
        refuses_handle("an offset that overflows", answer.shared.handle, UINT64_MAX, 2);
    }
    (void)call(&trainer, PEER_DROP, 0, 0, &answer);
    refuses_at_the_source(CLIENT_MANAGED, "managed memory");
    refuses_at_the_source(CLIENT_POOL, "memory of cudaMallocAsync");
    check_legacy_end();    /* and all still works */
}

/* ---- 10: a trainer in a PID namespace of its own ---- */

static void in_namespace(struct peer *peer, enum client_memory kind, const char *name)
{
    struct gpu_buffer *buffer = NULL;
    bool well = share(peer, kind, SMALL, &buffer) && round_of(peer, buffer);
    say(well || kind == CLIENT_IPC ? (kind == CLIENT_IPC ? "NOTE" : "PASS") : "FAIL",
        "10 %s from another PID namespace: %s%s", name,
        well ? "works" : "does not work: ", well ? "" : why.text);
    unshare_memory(peer, &buffer);
}

static void check_namespace(void)
{
    struct peer other = { 0 };
    if (begin_peer(&other, true)) {
        in_namespace(&other, CLIENT_VMM, "cuda-vmm");
        in_namespace(&other, CLIENT_IPC, "cuda-ipc");
    } else {
        say("NOTE", "10 not done: no process in a PID namespace of its own (%s)", why.text);
    }
    peer_end(&other, 0);
}

/* ---- the run ---- */

static bool look_around(const char *module)
{
    cuda = gpu_load(module, &why);
    if (!cuda) {
        printf("skip %s\n", why.text);
        return false;
    }
    cuda->probe(&probe);
    if (probe.count == 0) {
        printf("skip %s\n", probe.why.text);
        return false;
    }
    const struct gpu_facts *first = &probe.devices[0];
    is_fake = strncmp(first->name, "Fake", 4) == 0;
    quick = quick || is_fake;
    if (is_fake)
        say("NOTE", "no GPU: a fake runtime plays it. No figure below is one of a GPU");
    bool whole = first->vmm && (first->batch || probe.driver < 12080);
    say(whole ? "PASS" : "FAIL",
        "1 driver %d, runtime %d, %zu device(s); %s; copies go by %s, VMM memory %s",
        probe.driver, probe.runtime, probe.count, first->name,
        first->batch ? "cuMemcpyBatchAsync (12080)" : "cudaMemcpyAsync",
        first->vmm ? "can be shared" : "can't be shared");
    return true;
}

static void *map(uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED);
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

static void check_all(void)
{
    long rounds = quick ? 5 : 10000;
    check_cost();
    if (!open_gpu(2, true))
        return say("FAIL", "the GPU can't be opened: %s", why.text);
    check_bytes(CLIENT_VMM, "cuda-vmm", rounds);
    check_bytes(CLIENT_IPC, "cuda-ipc at an offset", rounds);
    cuda->close(&gpu);
    check_curves();
    if (!open_gpu(2, true))
        return say("FAIL", "the GPU can't be opened: %s", why.text);
    check_kills();
    check_namespace();
    check_refusals();    /* last: what a driver makes of garbage is not known */
    cuda->close(&gpu);
    say("NOTE",
        "not done by this program: the daemon's whole path, torch's tensors (expandable segments,"
        " pools),"
        " compute-sanitizer, interference with a trainer's kernels, cuFile, several GPUs, MIG");
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--peer") == 0) {
        peer_serve(atoi(argv[2]));
        return 0;
    }
    setenv("FAKE_CUDA_DELAY_US", "0", 0);    /* of the fake: there is much to copy */
    quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    if (!look_around(argc > 1 + quick ? argv[1 + quick] : GPU_CHECK_MODULE))
        return 77;
    if (quick) {
        patience = 2;
        slab_bytes = large = 16 * MIB;
    }
    slab = map(slab_bytes);
    expected = map(SMALL);
    for (uint64_t i = 0; i < slab_bytes / 8; i++)
        ((uint64_t *)slab)[i] = dice(UINT64_MAX);
    bool begun = begin_peer(&trainer, false);
    if (begun && why.text[0])
        say("FAIL", "2 the trainer has no kernel and copies back what it sums: %s", why.text);
    if (begun)
        check_all();
    else
        say("FAIL", "no trainer: %s", why.text);
    peer_end(&trainer, 0);
    printf("%s\n", failed ? "failed" : "all passed");
    return failed ? 1 : 0;
}
