/* carriers.c - memfds that long replies went in. SPDX-License-Identifier: Apache-2.0
 *
 * The pages of a reply are ours: we wrote them, so they are charged to our memory cgroup for as
 * long as anybody has the memfd open. A client that kept them all would use up that memory, and
 * nothing would count it. So we keep the last few of each session open, too, and empty the others:
 * whoever has received a later reply has read those before it. */
#include "local/carriers.h"

#include <sys/mman.h>
#include <unistd.h>

#define KEPT_MS 60000u

int carrier_new(slice text)
{
    int fd = memfd_create("penstock-reply", MFD_CLOEXEC);    /* not to be sealed: no seals at all */
    if (fd < 0 || write(fd, text.ptr, text.len) == (ssize_t)text.len)
        return fd;
    close(fd);
    return -1;
}

static void let_go(struct carrier *carrier, bool empty)
{
    if (!carrier->until_ms)
        return;
    if (empty)
        check(ftruncate(carrier->fd, 0) == 0);
    close(carrier->fd);
    *carrier = (struct carrier){ .until_ms = 0 };
}

void carriers_keep(struct carriers *carriers, int take_fd, uint64_t now_ms)
{
    struct carrier *carrier = &carriers->kept[carriers->next++ % CARRIERS_KEPT];
    let_go(carrier, true);
    *carrier = (struct carrier){ take_fd, now_ms + KEPT_MS };
}

uint64_t carriers_next_ms(const struct carriers *carriers)
{
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < CARRIERS_KEPT; i++)
        if (carriers->kept[i].until_ms)
            next_ms = MIN(next_ms, carriers->kept[i].until_ms);
    return next_ms;
}

void carriers_empty(struct carriers *carriers, uint64_t now_ms)
{
    for (size_t i = 0; i < CARRIERS_KEPT; i++)
        if (now_ms >= carriers->kept[i].until_ms)
            let_go(&carriers->kept[i], true);
}

void carriers_leave(struct carriers *carriers)
{
    for (size_t i = 0; i < CARRIERS_KEPT; i++)
        let_go(&carriers->kept[i], false);
}
