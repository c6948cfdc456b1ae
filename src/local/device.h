/* device.h - a GPU: its copier, and the slabs of pinned memory that copies start from.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every request to a GPU is a task in a queue. One thread, the GPU's copier, does the tasks. When a
 * task has ended, the copier posts the task's mail to the mailbox `box` that the task names. Bytes
 * are read into slabs, and the GPU copies them from there by DMA. Any thread may call these
 * functions. */
#ifndef LOCAL_DEVICE_H
#define LOCAL_DEVICE_H

#include "base/list.h"
#include "base/mailbox.h"
#include "local/gpu.h"
#include "local/trouble.h"

#define SLAB_BYTES (4 * MIB)
#define SLAB_ALIGN 4096u              /* so that the disk may write there by DMA */

/* All GPUs of this machine. */
struct devices;
/* Probes the GPUs, which may take seconds on a machine with GPUs. `ring_bytes` is the pinned memory
 * for each GPU in use. If a slab_take got no slab, the thread that gives back the next slab calls
 * freed(). */
struct devices *devices_new(uint64_t ring_bytes, void (*freed)(void *arg), void *arg) MUST_USE;
void devices_free(struct devices **devices);    /* every buffer must have been released before */
const struct gpu_probe *devices_probe(const struct devices *devices);

/* The state of a GPU now, for operators. */
struct device_figures {
    const struct gpu_facts *facts;
    bool open, lost;
    unsigned buffers, slabs, slabs_used;
};
/* Returns the number of GPUs. */
size_t devices_figures(struct devices *devices, struct device_figures ret[GPU_DEVICES_MAX]);

/* Finds the GPU with that UUID. The first task for a GPU makes a context on it. Returns NULL and
 * *ret_why if there is no such GPU, or if its copier can't be started. */
struct device *device_find(struct devices *devices, slice uuid, struct trouble *ret_why);

/* For each GPU, the number of slabs that a holder (a session) has now, and the number of slabs that
 * it has given back. Each slab that was given back lets the holder hold one slab more (device.c).
 * The struct must live until all slabs were given back. */
struct slabs_held {
    struct {
        unsigned now, earned;         /* under the device's lock */
    } of[GPU_DEVICES_MAX];
};

struct slab {
    struct list link;
    struct device *device;
    struct slabs_held *holder;
    char *mem;                        /* SLAB_BYTES */
};
/* Returns NULL if no slab is free, or if the holder has all that it may hold. After that, freed()
 * is called when a slab is given back. Set `spare` if the holder can go on without this slab. With
 * `spare`, slab_take also returns NULL while a caller without `spare` waits for freed(). A call with
 * `spare` that returns NULL causes no call of freed(). */
struct slab *slab_take(struct device *device, struct slabs_held *holder, bool spare) MUST_USE;
void slab_give(struct slab **slab);               /* accepts NULL */

struct device_task;
/* A function that the copier's thread calls for a task. An import sets task->buffer, or sets
 * task->why and returns the err; a release sets task->buffer to NULL. */
typedef enum err device_call(const struct gpu_backend *backend, struct gpu *gpu,
                             struct device_task *task);

struct device_task {
    struct mail mail;                 /* goes to `box` when the task is done */
    struct mailbox *box;              /* lives longer than the task */
    enum err err;
    struct gpu_why why;
    struct list link;                 /* for device.c alone; the caller sets the members below */
    device_call *call;                /* NULL: this task copies out of slabs of this device */
    struct gpu_copy *copies;
    size_t copy_count;
    struct gpu_buffer *buffer;        /* the buffer to release, or the one that an import made */
};
void device_do(struct device *device, struct device_task *task);

#endif
