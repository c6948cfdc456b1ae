/* holes.c - writes into holes of registered memory fail. SPDX-License-Identifier: Apache-2.0
 *
 * If a page of a memfd is missing, the kernel makes it for the first process that touches it, and
 * charges it to the memory cgroup of that process. A client could register a memfd with holes, or
 * punch holes later. Then fills would make the pages, and they would count against the limit of
 * Penstock's container. A check of the file before a write does not help: the client may punch the
 * hole between the check and the write. userfaultfd reports the fault itself: with
 * UFFD_FEATURE_SIGBUS the access fails, and the kernel makes no page. Pages that fallocate made are
 * not missing, and neither are pages in swap. Any thread. */
#include "local/holes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

int holes_open(void)
{
    struct uffdio_api api = { .api = UFFD_API,
                              .features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM };
    /* UFFD_USER_MODE_ONLY needs no privilege. Accesses inside system calls fail nevertheless: the
     * kernel tests the SIGBUS feature first. */
    int holes = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (holes >= 0 && ioctl(holes, UFFDIO_API, &api) == 0)
        return holes;
    int error = errno;
    if (holes >= 0)
        close(holes);
    errno = error;
    return -1;
}

bool holes_watch(int holes, void *base, uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct uffdio_register range = {
        .range = { .start = (uintptr_t)base, .len = (bytes + page - 1) / page * page },
        .mode = UFFDIO_REGISTER_MODE_MISSING };
    check(holes >= 0);
    return ioctl(holes, UFFDIO_REGISTER, &range) == 0;
}
