/* device.c - a GPU: its copier, and the slabs of pinned memory that copies start from.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   tasks ──> copier: open, pin ──> imports and releases, one by one
 *                              └─> copies, all waiting ones as one batch ──> fence ──> mail
 *
 * The copier opens a GPU for the first task, and closes it a minute after the GPU's last buffer was
 * released: an open GPU costs GPU memory for its context, and opening it takes time. The copier
 * opens and closes the GPU only between two tasks. If a client registers memory during a close, its
 * task waits in the queue, and then the GPU is opened again. If the GPU gives no context, or the
 * host no pinned memory, the waiting tasks fail with the reason, and the next task tries again. If
 * a GPU reports an error that its context does not survive, the GPU is lost until this process
 * ends. A lost GPU stays open: its buffers are released, and the rest of the service goes on.
 *
 * Holders (sessions) share the slabs fairly. Each holder has a limit. The limit begins at a
 * sixteenth of the slabs, and rises by one with each slab that the holder gives back: so a holder
 * with the limit N has the limit 2N after it has given back N slabs. Also, a holder with a slab
 * takes another one only while it holds fewer slabs than are free. If the items of a holder wait
 * for an origin, the holder gives no slab back. So its limit stays small, and a new holder finds a
 * slab. One holder alone gets half of the slabs at most. Several holders whose limits have all
 * grown may together get all slabs. If all their items then wait for an origin, a new holder waits
 * for a slab.
 * Threads: a lock guards tasks and slabs; only the copier touches the GPU. */
#include "local/device.h"

#include <errno.h>
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
#define FENCES_MAX 16u                /* batches in progress */
#define LOOK_NS 50000u                /* between two polls; copying a slab takes about as long */
#define IDLE_MS 60000u                /* time without a buffer until the GPU is closed */

/* The slabs that are shared out among the holders. Written under the device's lock, by the copier
 * when it opens or closes the GPU, and by the workers that take and give slabs. */
struct slab_pool {
    struct list free;
    unsigned count, free_count;
    bool wanted;                      /* a slab_take got no slab */
};

/* The pinned memory that the slabs lie in. Only the copier writes it, when it opens or closes the
 * GPU. */
struct ring {
    char *mem;                        /* NULL: none is allocated */
    uint64_t bytes;
    struct slab *slabs;
};

struct flying {
    struct gpu_fence *fence;
    struct list tasks;
};

/* The batches of copies in progress: a queue, the oldest first. Only the copier writes it, when it
 * submits a batch, and when a batch has ended. */
struct batches {
    struct flying flying[FENCES_MAX];
    unsigned first, count;
    unsigned lane;                    /* of the next batch */
};

struct device {
    struct devices *all;
    const struct gpu_facts *facts;
    unsigned number;                  /* its index in the list of all devices */
    pthread_t thread;
    bool started, ending;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* under the lock */
    struct list tasks;
    struct slab_pool slabs;
    /* only the copier's thread uses these */
    struct gpu *gpu;                  /* NULL: it is not open */
    struct gpu_why why;               /* the reason why it could not be opened */
    bool warned;                      /* `why` was logged */
    uint64_t idle_ns;                 /* start of the time without a buffer; 0: no such time */
    struct ring ring;
    struct batches batches;
    /* only the copier writes these */
    atomic_uint buffers;
    atomic_bool lost;
};

struct devices {
    const struct gpu_backend *backend;    /* NULL: no module is loaded */
    struct gpu_probe probe;
    uint64_t ring_bytes;
    void (*freed)(void *arg);
    void *arg;
    pthread_mutex_t lock;
    struct device list[GPU_DEVICES_MAX];
};

/* ---- slabs ---- */

#define FIRST_PART 16u                /* a holder begins with 1/16 of all slabs */

/* The caller holds the lock. */
static bool may_hold_more(const struct device *device, const struct slabs_held *holder)
{
    unsigned now = holder->of[device->number].now;
    const struct slab_pool *slabs = &device->slabs;
    unsigned most = MAX(slabs->count / FIRST_PART, 1u) + holder->of[device->number].earned;
    return slabs->free_count && (now == 0 || (now < most && now < slabs->free_count));
}

struct slab *slab_take(struct device *device, struct slabs_held *holder, bool spare)
{
    struct slab *slab = NULL;
    pthread_mutex_lock(&device->lock);
    if (may_hold_more(device, holder) && !(spare && device->slabs.wanted)) {
        slab = list_of(list_take(&device->slabs.free), struct slab, link);
        device->slabs.free_count--;
        slab->holder = holder;
        holder->of[device->number].now++;
    } else if (!spare) {
        device->slabs.wanted = true;
    }
    pthread_mutex_unlock(&device->lock);
    return slab;
}

void slab_give(struct slab **slab)
{
    struct slab *mine = *slab;
    *slab = NULL;
    if (!mine)
        return;
    struct device *device = mine->device;
    unsigned *now = &mine->holder->of[device->number].now;
    unsigned *earned = &mine->holder->of[device->number].earned;
    struct slab_pool *slabs = &device->slabs;
    pthread_mutex_lock(&device->lock);
    bool wanted = slabs->wanted;
    slabs->wanted = false;
    check(*now > 0 && slabs->free_count < slabs->count);
    *now -= 1;
    *earned = MIN(*earned + 1, slabs->count);
    list_add(&slabs->free, &mine->link);
    slabs->free_count++;
    pthread_mutex_unlock(&device->lock);
    if (wanted)
        device->all->freed(device->all->arg);
}

static void cut_slabs(struct device *device, unsigned count)
{
    struct ring *ring = &device->ring;
    ring->slabs = must_alloc(count * sizeof(*ring->slabs));
    pthread_mutex_lock(&device->lock);
    device->slabs.count = device->slabs.free_count = count;
    for (unsigned i = 0; i < count; i++) {
        struct slab *slab = &ring->slabs[i];
        *slab = (struct slab){ .device = device, .mem = ring->mem + i * SLAB_BYTES };
        list_add(&device->slabs.free, &slab->link);
    }
    pthread_mutex_unlock(&device->lock);
}

/* Pins as much memory as the setting "fill_ring" says. If the host does not allow that much, pins a
 * half, a quarter and so on, down to one or two slabs. A smaller ring makes copies slower. */
static enum err make_ring(struct device *device)
{
    const struct gpu_backend *backend = device->all->backend;
    uint64_t bytes = device->all->ring_bytes / SLAB_BYTES * SLAB_BYTES;
    struct ring *ring = &device->ring;
    ring->mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ring->mem == MAP_FAILED) {
        ring->mem = NULL;
        snprintf(device->why.text, sizeof(device->why.text), "can't allocate %ju bytes, the size of "
                 "fill_ring (%s): free memory, or lower fill_ring and restart Penstock",
                 (uintmax_t)bytes, strerror(errno));
        return ERR_LIMIT;
    }
    ring->bytes = bytes;
    madvise(ring->mem, bytes, MADV_HUGEPAGE);
    enum err err = backend->pin(device->gpu, ring->mem, bytes, &device->why);
    while (err == ERR_LIMIT && bytes > 2 * SLAB_BYTES) {
        bytes = bytes / 2 / SLAB_BYTES * SLAB_BYTES;
        err = backend->pin(device->gpu, ring->mem, bytes, &device->why);
    }
    if (err)
        return err;
    cut_slabs(device, (unsigned)(bytes / SLAB_BYTES));
    log_info("gpu_opened", "gpu=%s copy=%s ring=%ju", device->facts->uuid,
             device->facts->batch ? "batch" : "async", (uintmax_t)bytes);
    return OK;
}

/* ---- the copier ---- */

static void hand_back(struct device_task *task, enum err err)
{
    task->err = err;
    check(mailbox_post(task->box, &task->mail));
}

/* Hands back all tasks with the error. `why`, its reason, may be NULL. */
static void hand_back_all(struct list *tasks, enum err err, const struct gpu_why *why)
{
    list_each_safe(struct device_task, task, tasks, link) {
        list_del(&task->link);
        if (why)
            task->why = *why;
        hand_back(task, err);
    }
}

static void close_gpu(struct device *device)
{
    const struct gpu_backend *backend = device->all->backend;
    pthread_mutex_lock(&device->lock);
    check(device->slabs.free_count == device->slabs.count);
    device->slabs.free_count = device->slabs.count = 0;
    list_init(&device->slabs.free);
    pthread_mutex_unlock(&device->lock);
    struct ring *ring = &device->ring;
    if (ring->slabs)
        backend->unpin(device->gpu);
    free(ring->slabs);
    ring->slabs = NULL;
    backend->close(&device->gpu);
    if (ring->mem)
        munmap(ring->mem, ring->bytes);
    ring->mem = NULL;
    device->idle_ns = 0;
}

static enum err open_gpu(struct device *device)
{
    const struct gpu_backend *backend = device->all->backend;
    enum err err = backend->open(device->facts->uuid, LANES, device->facts->batch, &device->gpu,
                                 &device->why);
    bool opened = !err;
    if (opened)
        err = make_ring(device);
    bool advised = err == ERR_GONE || (opened && !device->ring.mem);
    if (err)
        close_gpu(device);
    if (err && !device->warned)
        log_warn("gpu_failed", "gpu=%s err=%s why=\"%s%s\"", device->facts->uuid, err_name(err),
                 device->why.text, advised ? "" : "; check nvidia-smi and the limit of locked "
                 "memory (LimitMEMLOCK). Penstock tries the GPU again at the next request");
    device->warned = err != OK;
    return err;
}

static void note_lost(struct device *device)
{
    const char *why = device->all->backend->lost(device->gpu);
    if (why && !device->lost)
        log_error("gpu_lost", "gpu=%s why=\"%s\"", device->facts->uuid, why);
    if (why)
        device->lost = true;
}

/* Hands back the tasks of the oldest batch if its copies have ended. With `wait`, it first waits
 * for their end. Returns false if the copies have not ended. */
static bool land(struct device *device, bool wait)
{
    const struct gpu_backend *backend = device->all->backend;
    struct batches *batches = &device->batches;
    struct flying *oldest = &batches->flying[batches->first];
    enum err err = wait ? backend->wait(&oldest->fence) : backend->poll(&oldest->fence);
    if (err == ERR_WAIT)
        return false;
    batches->first = (batches->first + 1) % FENCES_MAX;
    batches->count--;
    if (err)
        note_lost(device);
    hand_back_all(&oldest->tasks, err, NULL);
    return true;
}

static void do_one(struct device *device, struct device_task *task)
{
    bool had = task->buffer != NULL;
    enum err err = task->call(device->all->backend, device->gpu, task);
    check(!had || device->buffers > 0);
    device->buffers += (task->buffer != NULL) - (unsigned)had;
    if (err == ERR_GONE)
        note_lost(device);
    hand_back(task, err);
}

/* Submits the copies at the head of `tasks` as one batch on the next lane (a stream of the GPU). */
static void submit(struct device *device, struct list *tasks)
{
    static const struct gpu_why none;
    struct gpu_copy copies[BATCH_COPIES];
    size_t count = 0;
    struct batches *batches = &device->batches;
    struct flying *next = &batches->flying[(batches->first + batches->count) % FENCES_MAX];
    struct gpu_why why = none;
    list_init(&next->tasks);
    while (!list_empty(tasks)) {
        struct device_task *task = list_of(tasks->next, struct device_task, link);
        if (task->call || count + task->copy_count > BATCH_COPIES)
            break;
        memcpy(copies + count, task->copies, task->copy_count * sizeof(*copies));
        count += task->copy_count;
        list_del(&task->link);
        list_add(&next->tasks, &task->link);
    }
    enum err err = device->all->backend->submit(device->gpu, batches->lane, copies, count,
                                                &next->fence, &why);
    batches->lane = (batches->lane + 1) % LANES;
    if (!err) {
        batches->count++;
        return;
    }
    if (err == ERR_GONE)
        note_lost(device);
    hand_back_all(&next->tasks, err, &why);
}

static void work(struct device *device, struct list *tasks)
{
    enum err err = device->gpu || list_empty(tasks) ? OK : open_gpu(device);
    if (err)
        hand_back_all(tasks, err, &device->why);
    while (!list_empty(tasks)) {
        struct device_task *task = list_of(tasks->next, struct device_task, link);
        if (task->call) {
            list_del(&task->link);
            do_one(device, task);
        } else {
            if (device->batches.count == FENCES_MAX)
                (void)land(device, true);
            submit(device, tasks);
        }
    }
}

static uint64_t idle_ns_most(void)
{
    const char *text = testing_value(TESTING_GPU_IDLE_MS);
    return (text ? (uint64_t)atoi(text) : IDLE_MS) * (uint64_t)1000000;
}

/* Closes a GPU that has had no buffer for IDLE_MS. */
static void rest(struct device *device)
{
    if (!device->gpu || device->buffers || device->batches.count || device->lost) {
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
    if (device->batches.count)
        return mono_ns() + LOOK_NS;
    return device->idle_ns ? device->idle_ns + idle_ns_most() : UINT64_MAX;
}

/* Takes the tasks of the queue, and waits if there are none. While copies are in progress it waits
 * only for a moment, because the copier must poll them; a new task ends the wait at once. Otherwise
 * it waits for a task, or until the GPU has had no buffer for IDLE_MS. Returns false when the
 * copier must end. */
static bool take(struct device *device, struct list *ret)
{
    uint64_t until_ns = wait_until_ns(device);
    pthread_mutex_lock(&device->lock);
    bool wait = list_empty(&device->tasks) && (device->batches.count || !device->ending);
    if (wait && until_ns == UINT64_MAX)
        pthread_cond_wait(&device->wake, &device->lock);
    else if (wait)
        cond_wait_until(&device->wake, &device->lock, until_ns);
    list_move(ret, &device->tasks);
    bool more = !device->ending || !list_empty(ret) || device->batches.count;
    pthread_mutex_unlock(&device->lock);
    return more;
}

static void *run(void *arg)
{
    struct device *device = arg;
    struct list tasks;
    list_init(&tasks);
    while (take(device, &tasks)) {
        work(device, &tasks);
        while (device->batches.count && land(device, false))
            ;
        rest(device);
    }
    close_gpu(device);
    return NULL;
}

void device_do(struct device *device, struct device_task *task)
{
    check(device->started && task->box && task->mail.deliver);
    check(task->call || (task->copy_count > 0 && task->copy_count <= BATCH_COPIES));
    list_init(&task->link);
    pthread_mutex_lock(&device->lock);
    list_add(&device->tasks, &task->link);
    pthread_cond_signal(&device->wake);
    pthread_mutex_unlock(&device->lock);
}

/* ---- all devices ---- */

struct devices *devices_new(uint64_t ring_bytes, void (*freed)(void *arg), void *arg)
{
    struct devices *devices = must_alloc(sizeof(*devices));
    check(ring_bytes >= SLAB_BYTES);
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
    check(device->buffers == 0 && list_empty(&device->tasks));
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

size_t devices_figures(struct devices *devices, struct device_figures ret[GPU_DEVICES_MAX])
{
    pthread_mutex_lock(&devices->lock);    /* against `start` */
    for (size_t i = 0; i < devices->probe.count; i++) {
        struct device *device = &devices->list[i];
        ret[i] = (struct device_figures){ .facts = &devices->probe.devices[i] };
        if (!device->started)
            continue;
        pthread_mutex_lock(&device->lock);
        ret[i].slabs = device->slabs.count;
        ret[i].slabs_used = device->slabs.count - device->slabs.free_count;
        pthread_mutex_unlock(&device->lock);
        ret[i].open = ret[i].slabs > 0;
        ret[i].lost = device->lost;
        ret[i].buffers = device->buffers;
    }
    pthread_mutex_unlock(&devices->lock);
    return devices->probe.count;
}

static bool start(struct devices *devices, size_t at)    /* the caller holds the lock */
{
    struct device *device = &devices->list[at];
    if (device->started)
        return true;
    device->all = devices;
    device->facts = &devices->probe.devices[at];
    device->number = (unsigned)at;
    check(pthread_mutex_init(&device->lock, NULL) == 0);
    check(pthread_cond_init(&device->wake, NULL) == 0);
    list_init(&device->tasks);
    list_init(&device->slabs.free);
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
    *ret_why = (struct trouble){ 422, "gpu_not_visible", S("Penstock sees no GPU with that UUID: "
                                 "use a UUID of \"gpus\" in the reply to hello") };
    if (at == devices->probe.count)
        return NULL;
    pthread_mutex_lock(&devices->lock);
    bool started = start(devices, at);
    pthread_mutex_unlock(&devices->lock);
    *ret_why = trouble_of(ERR_LIMIT);
    return started ? &devices->list[at] : NULL;
}
