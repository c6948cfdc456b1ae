/* disk.h - reads of the disk that never block the caller. SPDX-License-Identifier: Apache-2.0
 *
 * A struct disk belongs to one thread, such as a loop. There are two engines with one interface:
 * io_uring, and a pool of threads for hosts that forbid io_uring, as the default seccomp profile of
 * containers does. When reads have ended, the owner's mailbox becomes readable; the owner then
 * calls mailbox_deliver() and disk_reap(). Only the committer and the recycler write, by pwritev in
 * open_extent.c, and their writes may block.
 *
 * A struct disk reads the files of several cache folders. Each folder has a lane, that is a share of
 * the reads in progress. So if the disk of one folder hangs, the reads of other folders go on. */
#ifndef STORE_DISK_H
#define STORE_DISK_H

#include <sys/uio.h>

#include "base/list.h"
#include "base/mailbox.h"
#include "base/slice.h"

enum disk_engine { DISK_URING, DISK_THREADS };

/* Chooses the engine. `wanted` is "auto", "uring" or "threads". Returns OK, or ERR_IO if `wanted`
 * is "uring" and the kernel refuses it. *ret_why names the engine and the reason, for the log line
 * at the start; it lives as long as the calling thread. */
enum err disk_choose(slice wanted, enum disk_engine *ret, const char **ret_why) MUST_USE;

#define DISK_LANES_MAX 64u

struct disk;
struct disk *disk_new(enum disk_engine engine, struct mailbox *box, unsigned lanes) MUST_USE;
void disk_free(struct disk **disk);    /* waits until all reads have ended, and calls each done() */

#define DISK_PARTS 3u
#define DISK_ALIGN 4096u              /* offset, length and memory of a direct read are multiples */

/* One read of consecutive bytes. The caller owns the struct, and must keep it until done(). The
 * engine itself repeats short reads, EINTR and EAGAIN, so got < len only at the end of the file.
 * err is OK; ERR_IO; ERR_FAULT if the memory can't be written; ERR_LIMIT if the kernel had no thread
 * or memory for the read; ERR_CANCELED after disk_cancel; for a direct read ERR_BAD_ARGUMENT, if the
 * file system does not support such a read. */
struct disk_read {
    int fd;
    unsigned lane;                    /* from 0 on */
    bool direct;                      /* reads of fd bypass the page cache (O_DIRECT) */
    unsigned part_count;
    /* The memory for the bytes, one part after another. From disk_read on the engine owns it. */
    struct iovec parts[DISK_PARTS];
    uint64_t offset;
    /* Called by disk_reap, on the owner's thread. */
    void (*done)(struct disk_read *read, enum err err, size_t got);
    /* for the engine alone */
    struct list link;
    struct disk *disk;
    size_t len, got;
    enum err err;
};
/* True if the end of a read shows that the disk answers: the kernel did not refuse the read. */
static inline bool disk_has_answered(enum err err)
{
    return err != ERR_CANCELED && err != ERR_LIMIT && err != ERR_BAD_ARGUMENT;
}
void disk_read(struct disk *disk, struct disk_read *read);
void disk_reap(struct disk *disk);    /* ends the reads that the disk has answered */
/* Ends the reads of the lane that have not begun, with ERR_CANCELED. Their memory is the caller's
 * again. Calls their done() before it returns. A read that waits for a thread of a pool counts as
 * begun. */
void disk_cancel(struct disk *disk, unsigned lane);
/* Reads that are asked for between disk_hold and disk_go are submitted together. */
void disk_hold(struct disk *disk);
void disk_go(struct disk *disk);

/* Reads from the page cache (RWF_NOWAIT). Does not wait for bytes that are missing there, but makes
 * the kernel begin to read them. That waits if the queue of the device is full, so the caller asks
 * disk_is_cached first. Returns OK only if all bytes were there; ERR_WAIT if the caller must use
 * disk_read; ERR_IO if the read failed or the file is too short; ERR_FAULT if the memory can't be
 * written. Changes the parts. */
enum err disk_read_cached(int fd, struct iovec *parts, unsigned count, uint64_t offset) MUST_USE;
/* Returns true if all of these bytes are in the page cache, or if the kernel can't tell: before
 * Linux 6.5, for a file of another user that this process may only read, and where the host forbids
 * the question. Unlike disk_read_cached, this does not make the kernel read the missing bytes. */
bool disk_is_cached(int fd, uint64_t offset, size_t len) MUST_USE;

#endif
