/* gpu.h - the table between the fill engine and a GPU, and the module that fills the table.
 * SPDX-License-Identifier: Apache-2.0
 *
 * penstock itself names no GPU library. gpu_load brings in penstock-cuda.so, which exports one
 * function; everything else is called through the table that this function returns. A backend only
 * moves bytes from pinned host memory into memory that a client shares with us. It launches no
 * kernel and makes no thread. Slabs, clients and fairness are the engine's.
 *
 *     probe, open, pin; import_vmm or import_ipc, submit, poll ..., release; unpin, close
 *
 * Threads: submit, poll, wait, pin, unpin and close of one device belong to one thread, its copier.
 * Imports, release and lost may be called from any thread at any time between open and close, also
 * while the copier submits. Two devices share nothing. Only wait, release, unpin, close, and a
 * submit that fails, wait for copies.
 *
 * Errors, all with a sentence in *why (where the function has it):
 *     ERR_BAD_ARGUMENT     the client's memory can't be shared in this way (422)
 *     ERR_BAD_RANGE        a copy lies outside its buffer; nothing of the batch was begun
 *     ERR_NOT_FOUND        no GPU with that UUID is visible here
 *     ERR_NOT_IMPLEMENTED  this driver can't do that
 *     ERR_BUSY             the GPU takes no further process (compute mode), or is open already
 *     ERR_LIMIT            out of memory or address space
 *     ERR_WAIT             the copies have not ended (poll)
 *     ERR_GONE             the GPU is lost: it reported an error that its context does not survive.
 *                          Every later call says so and does not touch the driver again, until this
 *                          process ends. Fences and buffers still have to be given back.
 * After any error but ERR_WAIT nothing is half done: the call has undone or ended all it began. */
#ifndef LOCAL_GPU_H
#define LOCAL_GPU_H

#include "base/base.h"

/* A daemon does not use a module that was built with another value. */
#define GPU_INTERFACE (2u << 16 | ERR_COUNT)

#define GPU_DEVICES_MAX 16
#define GPU_LANES_MAX 8
#define GPU_CHUNKS_MAX 128
#define GPU_IPC_BYTES 64
#define GPU_UUID_BYTES 41    /* "GPU-" and 36 characters, NUL */

struct gpu;           /* an open device */
struct gpu_buffer;    /* memory of a client on it */
struct gpu_fence;     /* one submitted batch; has ended when poll or wait say so */

/* What went wrong, for people: one sentence without its full stop; never a handle or a key. */
struct gpu_why {
    char text[240];
};

struct gpu_facts {
    int ordinal;          /* the driver's number of the device, in this process */
    char uuid[GPU_UUID_BYTES];
    char name[128];
    bool batch;           /* copies go out by the batch call; else each by a call of its own */
    bool vmm;             /* import_vmm may work */
};

struct gpu_probe {
    int driver, runtime;    /* CUDA version, 12080 is 12.8; driver 0: there is none */
    size_t count;           /* of devices; 0: `why` says why */
    struct gpu_facts devices[GPU_DEVICES_MAX];
    struct gpu_why why;
};

struct gpu_copy {
    struct gpu_buffer *to;
    uint64_t offset;      /* in the buffer */
    const void *from;     /* all of it inside the pinned range */
    uint64_t bytes;       /* 0: the copy is skipped */
};

struct gpu_backend {
    /* Finds drivers and devices. Opens no device, costs no device memory; may take seconds the
     * first time. */
    void (*probe)(struct gpu_probe *ret);

    /* Takes a device into use: makes its context, which costs some hundred MiB of its memory, and
     * `lanes` streams (1 to GPU_LANES_MAX) that copy side by side; `batch`: by the batch call, if
     * the driver has it. A device has at most one struct gpu at a time. */
    enum err (*open)(const char *uuid, unsigned lanes, bool batch, struct gpu **ret,
                     struct gpu_why *why) MUST_USE;
    /* Drains, unpins, gives the context back, empties *gpu; NULL is fine. All buffers were released
     * and all fences seen ended before. */
    void (*close)(struct gpu **gpu);
    /* NULL, or the sentence that says why the device is lost; it lives as long as *gpu. */
    const char *(*lost)(struct gpu *gpu);

    /* Lets the device read this host memory, whole pages, by itself. A device has at most one such
     * range (check). ERR_LIMIT: the host does not allow that much; less may do. */
    enum err (*pin)(struct gpu *gpu, void *mem, uint64_t bytes, struct gpu_why *why) MUST_USE;
    /* Drains all lanes first. A range must be pinned (check). */
    void (*unpin)(struct gpu *gpu);

    /* Maps chunks of VMM memory on this GPU, exported as file descriptors, one behind the other.
     * The descriptors stay the caller's. Each size is a number of whole granules (2 MiB, mostly),
     * and the size that its chunk was made with. Copies may reach the first `bytes`, at most their
     * sum. */
    enum err (*import_vmm)(struct gpu *gpu, const int *fds, const uint64_t *chunks, size_t count,
                           uint64_t bytes, struct gpu_buffer **ret, struct gpu_why *why) MUST_USE;
    /* Opens `bytes` at base_offset of an allocation that another process exported as a legacy
     * handle. The same handle may be imported any number of times. */
    enum err (*import_ipc)(struct gpu *gpu, const uint8_t handle[GPU_IPC_BYTES],
                           uint64_t base_offset, uint64_t bytes, struct gpu_buffer **ret,
                           struct gpu_why *why) MUST_USE;
    /* Lets no further copy into the buffer begin, waits for those in flight (milliseconds: not on a
     * loop), unmaps, empties *buffer; NULL is fine. After it nothing of ours writes there. */
    void (*release)(struct gpu_buffer **buffer);

    /* Begins copies on lane 0 to lanes - 1, in no order among each other. Lanes run side by side,
     * the batches of one lane one after the other. `copies` is not needed after the call; the
     * memory that they read must stay as it is until the fence has ended. A released buffer:
     * ERR_CANCELED. */
    enum err (*submit)(struct gpu *gpu, unsigned lane, const struct gpu_copy *copies, size_t count,
                       struct gpu_fence **ret, struct gpu_why *why) MUST_USE;
    /* OK: all bytes of the batch are in the client's memory. ERR_WAIT: not yet. ERR_GONE: the GPU
     * is lost, and it is not known which bytes arrived. But for ERR_WAIT the fence was taken back,
     * and *fence is NULL. */
    enum err (*poll)(struct gpu_fence **fence) MUST_USE;
    enum err (*wait)(struct gpu_fence **fence) MUST_USE;    /* sleeps until it is not ERR_WAIT */
};

/* The module's one exported symbol, and its type. NULL: it was built for another GPU_INTERFACE. */
#define GPU_MODULE_SYMBOL "penstock_gpu_backend"
typedef const struct gpu_backend *gpu_module_get(unsigned interface);

/* Where the module is installed; in the tests' daemon: PENSTOCK_GPU_MODULE. */
const char *gpu_module_path(void);
/* Loads it, once and for good: it is never unloaded. NULL: *why says why GPU memory can't be
 * filled. A module without a driver or a device loads; its probe says what is missing. */
const struct gpu_backend *gpu_load(const char *path, struct gpu_why *why) MUST_USE;

#endif
