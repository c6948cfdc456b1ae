/* device.c - a GPU: its copier, and the slabs of pinned memory that copies start from.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   jobs ──> copier: open, pin ──> imports and releases, one by one
 *                              └─> copies, those that wait as one batch ──> fence ──> mail
 *
 * A GPU is opened by the first job, and closed a minute after its last buffer has gone: its context
 * costs memory there, and time to make again. Only the copier opens and closes it, between two
 * jobs, so a client that registers meanwhile waits in the queue and has it opened again. If the
 * context or the pinned memory can't be had, the waiting jobs fail with the reason, and the next
 * job tries again. A GPU that reports an error its context does not survive is lost until this
 * process ends, and stays open: its buffers are let go, and the rest of the service goes on.
 *
 * Slabs are shared fairly. A holder begins with a sixteenth of them. For each slab that it gives
 * back it may hold one more, so its part doubles while bytes flow; but it never holds more than it
 * leaves free. A holder that only waits for an origin gives none back and stays small, so a new
 * holder finds a slab. Only several holders together can have all of them: each grew while its
 * bytes flowed, and then all got stuck.
 * Threads: jobs and slabs are locked; the GPU is the copier's. */
#include "local/device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/testing.h"
#include "base/thread.h"

#define LANES 4u
#define BATCH_COPIES 512u
#define FENCES_MAX 16u                /* batches in flight */
#define LOOK_NS 50000u                /* between two polls: a slab takes about so long to copy */
#define IDLE_MS 60000u                /* without a buffer, before the GPU is closed */

struct flying {
    struct gpu_fence *fence;
    struct list jobs;
};

struct device {
    struct devices *all;
    const struct gpu_facts *facts;
    unsigned number;                  /* in the list of all */
    pthread_t thread;
    bool started, ending;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* under the lock */
    struct list jobs, slabs;
    bool wanted;                      /* a slab_take got none */
    unsigned slab_count, slabs_free;
    /* the copier's */
    struct gpu *gpu;                  /* NULL: it is not open */
    struct gpu_why why;               /* why it could not be opened */
    bool warned;                      /* of `why` */
    unsigned buffers;
    uint64_t idle_ns;                 /* without a buffer since then; 0: it has one, or is closed */
    char *ring;
    uint64_t ring_bytes;
    struct slab *slab_list;
    struct flying flying[FENCES_MAX];
    unsigned first, count, lane;
    _Atomic(const char *) lost;
};

struct devices {
    const struct gpu_backend *backend;    /* NULL: there is no module */
    struct gpu_probe probe;
    uint64_t ring_bytes;
    void (*freed)(void *arg);
    void *arg;
    pthread_mutex_t lock;
    struct device list[GPU_DEVICES_MAX];
};

/* ---- slabs ---- */

#define FIRST_PART 16u                /* a holder begins with this fraction of all slabs */

/* Under the lock. */
static bool may_hold_more(const struct device *device, const struct slabs_held *holder)
{
    unsigned now = holder->of[device->number].now;
    unsigned most = MAX(device->slab_count / FIRST_PART, 1u) + holder->of[device->number].earned;
    return device->slabs_free && (now == 0 || (now < most && now < device->slabs_free));
}

/* Under the lock. */
static struct slab *take_slab(struct device *device, struct slabs_held *holder)
{
    struct slab *slab = list_of(device->slabs.next, struct slab, link);
    list_del(&slab->link);
    device->slabs_free--;
    slab->holder = holder;
    holder->of[device->number].now++;
    return slab;
}

struct slab *slab_take(struct device *device, struct slabs_held *holder)
{
    struct slab *slab = NULL;
    pthread_mutex_lock(&device->lock);
    if (may_hold_more(device, holder))
        slab = take_slab(device, holder);
    else
        device->wanted = true;
    pthread_mutex_unlock(&device->lock);
    return slab;
}

struct slab *slab_take_spare(struct device *device, struct slabs_held *holder)
{
    struct slab *slab = NULL;
    pthread_mutex_lock(&device->lock);
    if (!device->wanted && may_hold_more(device, holder))
        slab = take_slab(device, holder);
    pthread_mutex_unlock(&device->lock);
    return slab;
}

static void let_go(struct slab *slab)    /* under the lock */
{
    struct device *device = slab->device;
    unsigned *now = &slab->holder->of[device->number].now;
    unsigned *earned = &slab->holder->of[device->number].earned;
    check(*now > 0);
    *now -= 1;
    *earned = MIN(*earned + 1, device->slab_count);
    list_add(&device->slabs, &slab->link);
    device->slabs_free++;
}

void slab_give(struct slab **slab)
{
    struct slab *mine = *slab;
    *slab = NULL;
    if (!mine)
        return;
    struct device *device = mine->device;
    pthread_mutex_lock(&device->lock);
    bool wanted = device->wanted;
    device->wanted = false;
    let_go(mine);
    pthread_mutex_unlock(&device->lock);
    if (wanted)
        device->all->freed(device->all->arg);
}

static void cut_slabs(struct device *device, unsigned count)
{
    device->slab_list = must_alloc(count * sizeof(*device->slab_list));
    pthread_mutex_lock(&device->lock);
    device->slab_count = device->slabs_free = count;
    for (unsigned i = 0; i < count; i++) {
        struct slab *slab = &device->slab_list[i];
        *slab = (struct slab){ .device = device, .mem = device->ring + i * SLAB_BYTES };
        list_add(&device->slabs, &slab->link);
    }
    pthread_mutex_unlock(&device->lock);
}

/* Pins as much as the host allows: less than fill_ring is slower, none is an error. */
static enum err make_ring(struct device *device)
{
    const struct gpu_backend *backend = device->all->backend;
    uint64_t bytes = device->all->ring_bytes / SLAB_BYTES * SLAB_BYTES;
    device->ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (device->ring == MAP_FAILED) {
        device->ring = NULL;
        snprintf(device->why.text, sizeof(device->why.text), "there is no memory for fill_ring");
        return ERR_LIMIT;
    }
    device->ring_bytes = bytes;
    madvise(device->ring, bytes, MADV_HUGEPAGE);
    enum err err = backend->pin(device->gpu, device->ring, bytes, &device->why);
    while (err == ERR_LIMIT && bytes > 2 * SLAB_BYTES) {
        bytes = bytes / 2 / SLAB_BYTES * SLAB_BYTES;
        err = backend->pin(device->gpu, device->ring, bytes, &device->why);
    }
    if (err)
        return err;
    cut_slabs(device, (unsigned)(bytes / SLAB_BYTES));
    log_info("gpu_opened", "gpu=%s copy=%s ring=%ju", device->facts->uuid,
             device->facts->batch ? "batch" : "async", (uintmax_t)bytes);
    return OK;
}

/* ---- the copier ---- */

static void hand_back(struct job *job, enum err err, const struct gpu_why *why)
{
    job->err = err;
    if (why)
        job->why = *why;
    bool posted = mailbox_post(job->box, &job->mail);
    check(posted);
}

static void close_gpu(struct device *device)
{
    const struct gpu_backend *backend = device->all->backend;
    pthread_mutex_lock(&device->lock);
    check(device->slabs_free == device->slab_count);
    device->slabs_free = device->slab_count = 0;
    list_init(&device->slabs);
    pthread_mutex_unlock(&device->lock);
    if (device->slab_list)
        backend->unpin(device->gpu, device->ring);
    free(device->slab_list);
    device->slab_list = NULL;
    backend->close(&device->gpu);
    if (device->ring)
        munmap(device->ring, device->ring_bytes);
    device->ring = NULL;
    device->idle_ns = 0;
}

static enum err open_gpu(struct device *device)
{
    const struct gpu_backend *backend = device->all->backend;
    enum err err = backend->open(device->facts->uuid, LANES, device->facts->batch, &device->gpu,
                                 &device->why);
    if (!err)
        err = make_ring(device);
    if (err)
        close_gpu(device);
    if (err && !device->warned)
        log_warn("gpu_failed", "gpu=%s err=%s why=\"%s\"", device->facts->uuid, err_name(err),
                 device->why.text);
    device->warned = err != OK;
    return err;
}

static void note_lost(struct device *device)
{
    const char *why = device->all->backend->lost(device->gpu);
    if (!why || atomic_load(&device->lost))
        return;
    log_error("gpu_lost", "gpu=%s why=\"%s\"", device->facts->uuid, why);
    atomic_store(&device->lost, why);
}

/* Hands back the jobs of the oldest batch if it has ended; waits for that if `wait`. False: it has
 * not. */
static bool land(struct device *device, bool wait)
{
    const struct gpu_backend *backend = device->all->backend;
    struct flying *oldest = &device->flying[device->first];
    enum err err = wait ? backend->wait(&oldest->fence) : backend->poll(&oldest->fence);
    if (err == ERR_WAIT)
        return false;
    device->first = (device->first + 1) % FENCES_MAX;
    device->count--;
    if (err)
        note_lost(device);
    while (!list_empty(&oldest->jobs)) {
        struct job *job = list_of(oldest->jobs.next, struct job, link);
        list_del(&job->link);
        hand_back(job, err, NULL);
    }
    return true;
}

static void do_one(struct device *device, struct job *job)
{
    const struct gpu_backend *backend = device->all->backend;
    enum err err = OK;
    if (job->kind == JOB_RELEASE)
        backend->release(&job->buffer);
    else
        err = job->import(backend, device->gpu, job);
    if (err == ERR_GONE)
        note_lost(device);
    if (job->kind == JOB_RELEASE)
        device->buffers--;
    else if (!err)
        device->buffers++;
    hand_back(job, err, NULL);
}

static void fail_all(struct list *jobs, enum err err, const struct gpu_why *why)
{
    while (!list_empty(jobs)) {
        struct job *job = list_of(jobs->next, struct job, link);
        list_del(&job->link);
        hand_back(job, err, why);
    }
}

/* Submits the copies in front of `jobs` as one batch on the next lane. */
static void submit(struct device *device, struct list *jobs)
{
    static const struct gpu_why none;
    struct gpu_copy copies[BATCH_COPIES];
    size_t count = 0;
    struct flying *next = &device->flying[(device->first + device->count) % FENCES_MAX];
    struct gpu_why why = none;
    list_init(&next->jobs);
    while (!list_empty(jobs)) {
        struct job *job = list_of(jobs->next, struct job, link);
        if (job->kind != JOB_COPY || count + job->copy_count > BATCH_COPIES)
            break;
        memcpy(copies + count, job->copies, job->copy_count * sizeof(*copies));
        count += job->copy_count;
        list_del(&job->link);
        list_add(&next->jobs, &job->link);
    }
    enum err err = device->all->backend->submit(device->gpu, device->lane, copies, count,
                                                &next->fence, &why);
    device->lane = (device->lane + 1) % LANES;
    if (!err) {
        device->count++;
        return;
    }
    if (err == ERR_GONE)
        note_lost(device);
    fail_all(&next->jobs, err, &why);
}

static void work(struct device *device, struct list *jobs)
{
    enum err err = device->gpu || list_empty(jobs) ? OK : open_gpu(device);
    if (err)
        fail_all(jobs, err, &device->why);
    while (!list_empty(jobs)) {
        struct job *job = list_of(jobs->next, struct job, link);
        if (job->kind != JOB_COPY) {
            list_del(&job->link);
            do_one(device, job);
        } else {
            if (device->count == FENCES_MAX)
                (void)land(device, true);
            submit(device, jobs);
        }
    }
}

static uint64_t idle_ns_most(void)
{
    const char *text = testing_value(TESTING_GPU_IDLE_MS);
    return (text ? (uint64_t)atoi(text) : IDLE_MS) * (uint64_t)1000000;
}

/* Closes a GPU that has had no buffer for long enough. */
static void rest(struct device *device)
{
    if (!device->gpu || device->buffers || device->count || atomic_load(&device->lost)) {
        device->idle_ns = 0;
    } else if (!device->idle_ns) {
        device->idle_ns = mono_ns();
    } else if (mono_ns() - device->idle_ns >= idle_ns_most()) {
        close_gpu(device);
        log_info("gpu_closed", "gpu=%s", device->facts->uuid);
    }
}

static uint64_t wait_until_ns(const struct device *device)
{
    if (device->count)
        return mono_ns() + LOOK_NS;
    return device->idle_ns ? device->idle_ns + idle_ns_most() : UINT64_MAX;
}

/* Takes the jobs that have come. If there are none, it waits. With copies in flight it waits only a
 * moment: the copies are to be polled, and a job that comes meanwhile goes behind them at once.
 * Otherwise it waits for a job, or until the GPU has been idle for long enough. False: the end. */
static bool take(struct device *device, struct list *ret)
{
    uint64_t until_ns = wait_until_ns(device);
    struct timespec until = { (time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u) };
    pthread_mutex_lock(&device->lock);
    bool wait = list_empty(&device->jobs) && (device->count || !device->ending);
    if (wait && until_ns == UINT64_MAX)
        pthread_cond_wait(&device->wake, &device->lock);
    else if (wait)
        pthread_cond_clockwait(&device->wake, &device->lock, CLOCK_MONOTONIC, &until);
    list_move(ret, &device->jobs);
    bool more = !device->ending || !list_empty(ret) || device->count;
    pthread_mutex_unlock(&device->lock);
    return more;
}

static void *run(void *arg)
{
    struct device *device = arg;
    struct list jobs;
    list_init(&jobs);
    while (take(device, &jobs)) {
        work(device, &jobs);
        while (device->count && land(device, false))
            ;
        rest(device);
    }
    close_gpu(device);
    return NULL;
}

void device_do(struct device *device, struct job *job)
{
    list_init(&job->link);
    pthread_mutex_lock(&device->lock);
    list_add(&device->jobs, &job->link);
    pthread_cond_signal(&device->wake);
    pthread_mutex_unlock(&device->lock);
}

const char *device_lost(struct device *device)
{
    return atomic_load(&device->lost);
}

/* ---- all of them ---- */

struct devices *devices_new(uint64_t ring_bytes, void (*freed)(void *arg), void *arg)
{
    struct devices *devices = must_alloc(sizeof(*devices));
    check(pthread_mutex_init(&devices->lock, NULL) == 0);
    devices->ring_bytes = ring_bytes;
    devices->freed = freed;
    devices->arg = arg;
    devices->backend = gpu_load(gpu_module_path(), &devices->probe.why);
    if (devices->backend)
        devices->backend->probe(&devices->probe);
    return devices;
}

static void device_end(struct device *device)
{
    if (!device->started)
        return;
    pthread_mutex_lock(&device->lock);
    device->ending = true;
    pthread_cond_signal(&device->wake);
    pthread_mutex_unlock(&device->lock);
    pthread_join(device->thread, NULL);
    pthread_cond_destroy(&device->wake);
    pthread_mutex_destroy(&device->lock);
}

void devices_free(struct devices **devices)
{
    struct devices *mine = *devices;
    *devices = NULL;
    if (!mine)
        return;
    for (size_t i = 0; i < GPU_DEVICES_MAX; i++)
        device_end(&mine->list[i]);
    pthread_mutex_destroy(&mine->lock);
    free(mine);
}

const struct gpu_probe *devices_probe(const struct devices *devices)
{
    return &devices->probe;
}

static bool start(struct devices *devices, size_t at)    /* under the lock */
{
    struct device *device = &devices->list[at];
    if (device->started)
        return true;
    device->all = devices;
    device->facts = &devices->probe.devices[at];
    device->number = (unsigned)at;
    check(pthread_mutex_init(&device->lock, NULL) == 0);
    check(pthread_cond_init(&device->wake, NULL) == 0);
    list_init(&device->jobs);
    list_init(&device->slabs);
    device->started = thread_start(&device->thread, run, device, "gpu-%zu", at);
    return device->started;
}

struct device *device_find(struct devices *devices, slice uuid, struct trouble *ret_why)
{
    size_t at = 0;
    *ret_why = (struct trouble){ 503, "no_gpu", slice_of(devices->probe.why.text) };
    if (!devices->probe.count)
        return NULL;
    while (at < devices->probe.count && !slice_eq(uuid, slice_of(devices->probe.devices[at].uuid)))
        at++;
    *ret_why = (struct trouble){ 422, "gpu_not_visible", S("no GPU with that UUID is visible to "
                                 "Penstock: \"gpus\" in the reply to hello lists those that "
                                 "are") };
    if (at == devices->probe.count)
        return NULL;
    pthread_mutex_lock(&devices->lock);
    bool started = start(devices, at);
    pthread_mutex_unlock(&devices->lock);
    *ret_why = trouble_of(ERR_LIMIT);
    return started ? &devices->list[at] : NULL;
}
