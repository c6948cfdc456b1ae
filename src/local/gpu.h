/* gpu.h - the table between the fill engine and a GPU, and the module that fills the table.
 * SPDX-License-Identifier: Apache-2.0
 *
 * penstock itself links no GPU library. gpu_load loads penstock-cuda.so, which exports one
 * function. That function returns the table, and everything else is called through the table. A
 * backend only copies bytes from pinned host memory into memory that a client shares with Penstock.
 * It launches no kernel and starts no thread. The fill engine manages slabs, clients and fairness.
 *
 *     probe, open, pin; import_vmm or import_ipc, submit, poll ..., release; unpin, close
 *
 * Threads: one thread, the copier of the device, calls submit, poll, wait, pin, unpin and close.
 * Any thread may call the imports, release and lost at any time between open and close, also while
 * the copier submits. Two devices share no state. Only these calls wait for copies: wait, release,
 * unpin, close, and a submit that fails.
 *
 * Errors, all with a sentence in *why if the function has that argument:
 *     ERR_BAD_ARGUMENT     the client's memory can't be shared in this way (422)
 *     ERR_BAD_RANGE        a copy lies outside its buffer; nothing of the batch was begun
 *     ERR_NOT_FOUND        no GPU with that UUID is visible here
 *     ERR_NOT_IMPLEMENTED  this driver can't do that
 *     ERR_BUSY             the GPU accepts no further process (compute mode), or is open already
 *     ERR_LIMIT            out of memory, pinned memory or address space
 *     ERR_CANCELED         a buffer of the batch is being released (submit)
 *     ERR_INTERNAL         the driver refused a copy (submit)
 *     ERR_WAIT             the copies have not ended (poll)
 *     ERR_GONE             the GPU is lost: it reported an error that its context does not survive.
 *                          Every later call returns ERR_GONE without a call of the driver, until
 *                          this process ends. The caller must still give back fences and buffers.
 * After any error but ERR_WAIT the call has undone or ended all that it began. */
#ifndef LOCAL_GPU_H
#define LOCAL_GPU_H

#include "base/base.h"

/* A daemon refuses a module that was built with another value. */
#define GPU_INTERFACE (2u << 16 | ERR_COUNT)

#define GPU_DEVICES_MAX 16
#define GPU_LANES_MAX 8
#define GPU_CHUNKS_MAX 128
#define GPU_IPC_BYTES 64
#define GPU_UUID_BYTES 41    /* "GPU-" and 36 characters, NUL */

struct gpu;           /* an open device */
struct gpu_buffer;    /* memory of a client on a device */
struct gpu_fence;     /* one submitted batch; poll and wait tell when it has ended */

/* The reason for an error, as people read it: one sentence without its full stop. It never contains
 * a handle or a key. */
struct gpu_why {
    char text[300];
};

struct gpu_facts {
    int ordinal;          /* the driver's number of the device, in this process */
    char uuid[GPU_UUID_BYTES];
    char name[128];
    bool batch;           /* the batch call is used; else each copy has a call of its own */
    bool vmm;             /* import_vmm can work here */
};

struct gpu_probe {
    int driver, runtime;    /* CUDA versions (12080 is 12.8); driver 0: no driver */
    size_t count;           /* of devices; if it is 0, `why` says why */
    struct gpu_facts devices[GPU_DEVICES_MAX];
    struct gpu_why why;
};

struct gpu_copy {
    struct gpu_buffer *to;
    uint64_t offset;      /* in the buffer */
    const void *from;     /* all bytes lie inside the pinned range */
    uint64_t bytes;       /* 0: the copy is skipped */
};

struct gpu_backend {
    /* Finds drivers and devices. Opens no device and uses no device memory. The first call may take
     * seconds. */
    void (*probe)(struct gpu_probe *ret);

    /* Opens a device: makes its context, which uses some hundred MiB of its memory, and `lanes`
     * streams (1 to GPU_LANES_MAX) that copy in parallel. With `batch`, submit gives the driver
     * many copies in one call (cuMemcpyBatchAsync), if the driver has that call. A device has at
     * most one struct gpu at a time. */
    enum err (*open)(const char *uuid, unsigned lanes, bool batch, struct gpu **ret,
                     struct gpu_why *why) MUST_USE;
    /* Waits for the copies, unpins, destroys the context, and sets *gpu to NULL; *gpu may be NULL.
     * The caller must have released all buffers before, and seen the end of all fences. */
    void (*close)(struct gpu **gpu);
    /* Returns NULL, or the sentence that says why the device is lost; the sentence lives as long as
     * *gpu. */
    const char *(*lost)(struct gpu *gpu);

    /* Lets the device read this host memory (whole pages) by DMA. A device has at most one such
     * range; a check enforces this. Returns ERR_LIMIT if the host does not allow that much; a
     * smaller range may work. */
    enum err (*pin)(struct gpu *gpu, void *mem, uint64_t bytes, struct gpu_why *why) MUST_USE;
    /* First waits for all copies on all lanes. A range must be pinned; a check enforces this. */
    void (*unpin)(struct gpu *gpu);

    /* Maps chunks of VMM memory on this GPU, one after the other in address space; each chunk was
     * exported as a file descriptor. The caller still owns the descriptors. `chunks` has the size
     * with which each chunk was made, a multiple of the granule (2 MiB, mostly). Copies may write
     * to the first `bytes` bytes; `bytes` is at most the sum of the sizes. */
    enum err (*import_vmm)(struct gpu *gpu, const int *fds, const uint64_t *chunks, size_t count,
                           uint64_t bytes, struct gpu_buffer **ret, struct gpu_why *why) MUST_USE;
    /* Opens `bytes` bytes at base_offset of an allocation that another process exported as a legacy
     * handle. The same handle may be imported any number of times. */
    enum err (*import_ipc)(struct gpu *gpu, const uint8_t handle[GPU_IPC_BYTES],
                           uint64_t base_offset, uint64_t bytes, struct gpu_buffer **ret,
                           struct gpu_why *why) MUST_USE;
    /* Stops further copies into the buffer, waits for those in progress, unmaps the memory, and
     * sets *buffer to NULL; *buffer may be NULL. After the call no copy writes there. The wait
     * takes milliseconds, so no loop may call this function. */
    void (*release)(struct gpu_buffer **buffer);

    /* Begins copies on one of the lanes 0 to lanes - 1. The copies of a batch run in any order.
     * Batches of different lanes run in parallel, batches of one lane one after the other. `copies`
     * is not needed after the call; the memory that the copies read must not change until the fence
     * has ended. Returns ERR_CANCELED if another thread is in `release` with a buffer of the batch;
     * no copy may name a buffer whose release has returned. */
    enum err (*submit)(struct gpu *gpu, unsigned lane, const struct gpu_copy *copies, size_t count,
                       struct gpu_fence **ret, struct gpu_why *why) MUST_USE;
    /* Returns OK if all bytes of the batch are in the client's memory; ERR_WAIT if not yet;
     * ERR_GONE if the GPU is lost, and it is not known which bytes arrived. Except with ERR_WAIT,
     * the fence is freed and *fence is NULL. */
    enum err (*poll)(struct gpu_fence **fence) MUST_USE;
    /* As poll, but sleeps until the batch has ended. */
    enum err (*wait)(struct gpu_fence **fence) MUST_USE;
};

/* The only symbol that the module exports, and its type. The function returns NULL if the module
 * was built for another GPU_INTERFACE. */
#define GPU_MODULE_SYMBOL "penstock_gpu_backend"
typedef const struct gpu_backend *gpu_module_get(unsigned interface);

/* Path of the installed module. The tests' daemon takes it from PENSTOCK_GPU_MODULE. */
const char *gpu_module_path(void);
/* Loads the module, which is never unloaded. Returns NULL, and the reason in *why, if there is no
 * module, or it can't be loaded, or is of another build. A module loads even without a driver or a
 * device; its probe says what is missing. */
const struct gpu_backend *gpu_load(const char *path, struct gpu_why *why) MUST_USE;

#endif
