/* disk.h - reads that never block the one who asks. SPDX-License-Identifier: Apache-2.0
 *
 * One struct disk belongs to one thread (a loop). Two engines behind one face: io_uring, and a pool
 * of threads for hosts that forbid it (containers' default seccomp profile does). Completions make
 * the owner's mailbox readable; the owner then calls mailbox_deliver() and disk_reap(). Writes are
 * the committer's, which may block: plain pwritev, in open_extent.c. */
#ifndef STORE_DISK_H
#define STORE_DISK_H

#include <sys/uio.h>

#include "base/list.h"
#include "base/mailbox.h"
#include "base/slice.h"

enum disk_engine { DISK_URING, DISK_THREADS };

/* Tries what `wanted` ("auto", "uring", "threads") asks for. ERR_IO if uring was demanded and is
 * refused. *ret_why says, for the log line at start, which engine it is and why; it lives as long
 * as the thread that asked. */
enum err disk_choose(slice wanted, enum disk_engine *ret, const char **ret_why) MUST_USE;

struct disk;
struct disk *disk_new(enum disk_engine engine, struct mailbox *box) MUST_USE;
void disk_free(struct disk **disk);    /* waits until all has ended; each done() comes in here */

#define DISK_PARTS 3u
#define DISK_ALIGN 4096u              /* direct: offsets, lengths and memory are multiples */

/* One read of a row of bytes, embedded in whoever wants it; stays until done(). Short reads, EINTR
 * and EAGAIN are dealt with inside: got < len only at the end of the file. err is OK, ERR_IO,
 * ERR_FAULT: the memory can't be written; or, of a direct one, ERR_BAD_ARGUMENT: the file takes no
 * such read. */
struct disk_read {
    int fd;
    bool direct;                      /* fd is one that reads past the page cache */
    unsigned part_count;
    /* where the bytes go, one part after the other; the engine's from disk_read on */
    struct iovec parts[DISK_PARTS];
    uint64_t offset;
    /* on the owner's thread, from disk_reap */
    void (*done)(struct disk_read *read, enum err err, size_t got);
    /* the engine's own */
    struct list link;
    struct disk *disk;
    size_t len, got;
    enum err err;
};
void disk_read(struct disk *disk, struct disk_read *read);
size_t disk_reap(struct disk *disk);    /* how many ended */
/* What is asked for between the two goes down together. */
void disk_hold(struct disk *disk);
void disk_go(struct disk *disk);

/* What the page cache has, without waiting (RWF_NOWAIT). OK only if all bytes came at once;
 * ERR_WAIT: use disk_read; ERR_IO: the file failed or is too short; ERR_FAULT. Uses up the parts. */
enum err disk_read_cached(int fd, struct iovec *parts, unsigned count, uint64_t offset) MUST_USE;
/* Is all of it in the page cache? To ask by disk_read_cached makes the kernel read what is not, each
 * piece by itself; this does not. True also where the kernel can't tell (before Linux 6.5). */
bool disk_is_cached(int fd, uint64_t offset, size_t len) MUST_USE;

#endif
