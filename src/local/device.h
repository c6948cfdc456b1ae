/* device.h - a GPU: its copier, and the slabs of pinned memory that copies start from.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every request to a GPU is a task in a queue. One thread, the GPU's copier, does the tasks and
 * hands each back by its mail. Bytes are read into slabs, and leave them by DMA. Any thread. */
#ifndef LOCAL_DEVICE_H
#define LOCAL_DEVICE_H

#include "base/list.h"
#include "base/mailbox.h"
#include "local/gpu.h"
#include "local/trouble.h"

#define SLAB_BYTES (4 * MIB)
#define SLAB_ALIGN 4096u              /* so that the disk may write there by itself */

/* All GPUs of this machine. */
struct devices;
/* Probes the GPUs, which may take seconds on a machine that has some. ring_bytes: pinned memory for
 * each GPU in use. The thread that gives a slab back calls freed() if an earlier slab_take got
 * none. */
struct devices *devices_new(uint64_t ring_bytes, void (*freed)(void *arg), void *arg) MUST_USE;
void devices_free(struct devices **devices);    /* every buffer was released */
const struct gpu_probe *devices_probe(const struct devices *devices);

/* The GPU of that UUID. Its first task makes a context on it. NULL: *ret_why. */
struct device *device_find(struct devices *devices, slice uuid, struct trouble *ret_why);

/* How many slabs of each GPU a holder has. It lives until all of them were given back. */
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
/* NULL: none is free, or the holder has its part of them; freed() will be called. `spare`: the
 * holder can go on without it. So NULL also if another waits for a slab, and freed() will not be
 * called for it. */
struct slab *slab_take(struct device *device, struct slabs_held *holder, bool spare) MUST_USE;
void slab_give(struct slab **slab);               /* accepts NULL */

struct device_task;
/* A task of another file, called on the copier. An import sets task->buffer, or task->why with the
 * err; a release sets task->buffer to NULL. */
typedef enum err device_call(const struct gpu_backend *backend, struct gpu *gpu,
                             struct device_task *task);

struct device_task {
    struct mail mail;                 /* to `box`, when it is done */
    struct mailbox *box;              /* which outlives it */
    enum err err;
    struct gpu_why why;
    /* the device's */
    struct list link;
    device_call *call;                /* NULL: the task is copies out of slabs of this device */
    struct gpu_copy *copies;
    size_t copy_count;
    struct gpu_buffer *buffer;        /* to release, or that an import made */
};
void device_do(struct device *device, struct device_task *task);

#endif
