/* index_lock.c - LMDB's lock file lies in memory. SPDX-License-Identifier: Apache-2.0
 *
 * Each look-up writes to a map of LMDB's lock file, and a loop makes look-ups. In a file of the
 * cache folder, that write waits for the disk: while the file system is frozen, or while the disk
 * hangs, all loops would stop, and with them the hits of all other folders. Only one process uses
 * the index, because it holds the folder's lock. So the lock file may be private to the process.
 * LMDB takes the name of the lock file from the folder. So that name leads to a file in memory
 * while LMDB opens it. Threads: the one that opens the index. */
#include "store/index_inside.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

void index_lock_begin(struct index_lock *lock, const char *folder)
{
    char target[sizeof("/proc/self/fd/") + 12];
    lock->file = -1;
    if ((size_t)snprintf(lock->path, sizeof(lock->path), "%s/lock.mdb", folder) >= sizeof(lock->path))
        return;
    unlink(lock->path);
    lock->file = memfd_create("penstock-index-lock", MFD_CLOEXEC);
    if (lock->file < 0)
        return;
    snprintf(target, sizeof(target), "/proc/self/fd/%d", lock->file);
    if (access(target, R_OK | W_OK) == 0)
        (void)!symlink(target, lock->path);
}

void index_lock_end(struct index_lock *lock)
{
    if (lock->file >= 0) {
        close(lock->file);
        unlink(lock->path);
    }
}
