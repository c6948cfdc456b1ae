/* holes.c - no page of registered memory is made in our name. SPDX-License-Identifier: Apache-2.0
 *
 * A page of a memfd that is not there is made by whoever touches it first, and charged to the
 * memory cgroup of that process. A client could register a memfd with holes, or punch holes later,
 * and have its memory made by fills, out of the limit of Penstock's container. No look at the file
 * before a write helps: the hole may come in between. userfaultfd tells at the fault itself: with
 * UFFD_FEATURE_SIGBUS the fault fails, and no page is made. Pages that fallocate made count as
 * there. Swapped-out pages do, too. Any thread. */
#include "local/holes.h"

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
    /* This flag needs no privilege. Faults in system calls fail, too: SIGBUS is looked at first. */
    int holes = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (holes >= 0 && ioctl(holes, UFFDIO_API, &api) == 0)
        return holes;
    if (holes >= 0)
        close(holes);
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
