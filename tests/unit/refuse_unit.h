/* refuse_unit.h - a kernel that refuses a system call. SPDX-License-Identifier: Apache-2.0
 *
 * Seccomp profiles of containers and units of systemd refuse calls in this way. */
#ifndef REFUSE_UNIT_H
#define REFUSE_UNIT_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "base/base.h"

/* From now on, the system call fails with `error` in this thread, and in threads and processes that
 * it starts. Returns false if this machine allows no filter. */
static bool refuse_call(long number, int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { countof(filter), filter };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#endif
