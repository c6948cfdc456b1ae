/* carriers.c - memfds that carry long replies. SPDX-License-Identifier: Apache-2.0
 *
 * Penstock writes the pages of a reply, so the kernel charges them to Penstock's memory cgroup as
 * long as any process has the memfd open. A client that kept all its replies open would use up that
 * memory, and no limit would count it. So each session keeps its last few memfds open, and empties
 * the older ones. A client gets a memfd with the message that carries its descriptor. That message
 * is padded to 64 KiB (session.c), so at most three such messages fit into the socket. The session
 * keeps four memfds. So no memfd is emptied before the client has received it. */
#include "local/carriers.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEPT_MS 60000u
#define SOCKET_BYTES (80 * 1024)    /* the kernel doubles it; three messages of 64 KiB fit */

void carriers_socket(int fd)
{
    int bytes = SOCKET_BYTES;
    check(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) == 0);
}

/* Penstock could not empty a memfd that a client has sealed against shrinking. So this function
 * adds the seal F_SEAL_SEAL, which forbids further seals. A new memfd has this seal already, unless
 * the sysctl vm.memfd_noexec (Linux 6.3) is set. */
static bool may_not_be_sealed(int fd)
{
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);    /* fails if the memfd has this seal already */
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && seals & F_SEAL_SEAL;
}

int carrier_new(slice text)
{
    int fd = memfd_create("penstock-reply", MFD_CLOEXEC);
    if (fd < 0 || (may_not_be_sealed(fd) && write(fd, text.ptr, text.len) == (ssize_t)text.len))
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
    check(take_fd >= 0);
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

/* True if the client has not received all messages that were sent to it. */
static bool is_behind(int fd)
{
    int bytes = 0;
    return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

void carriers_expire(struct carriers *carriers, int fd, uint64_t now_ms)
{
    if (carriers_next_ms(carriers) > now_ms)
        return;
    bool behind = is_behind(fd);
    for (size_t i = 0; i < CARRIERS_KEPT; i++) {
        struct carrier *carrier = &carriers->kept[i];
        if (now_ms < carrier->until_ms)
            continue;
        if (behind && carrier->until_ms)
            carrier->until_ms = now_ms + KEPT_MS;
        else
            let_go(carrier, true);
    }
}

void carriers_end(struct carriers *carriers, bool empty)
{
    for (size_t i = 0; i < CARRIERS_KEPT; i++)
        let_go(&carriers->kept[i], empty);
}
