/* cores.c - the number of cores, and the memory, that this process may use.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A container with a quota of 2 cores on a node with 128 cores must not start 128 threads. So the
 * quotas of cgroups count, too. A file that can't be read sets no limit. */
#include "base/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cgroup.h"

static unsigned cores_scheduled(void)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return (unsigned)MAX(cores, 1);
}

static unsigned cores_of(long quota_us, long period_us)
{
    if (quota_us <= 0 || period_us <= 0)
        return UINT_MAX;
    return (unsigned)MAX((quota_us + period_us - 1) / period_us, 1);
}

/* cpu.max holds "max 100000" or "150000 100000": quota and period. Cgroups of version 1 have a file
 * for each of the two numbers. */
static void look_for_cores(void *arg, const char *folder)
{
    unsigned *least = arg;
    char line[64], period_line[64];
    long quota = 0, period = 0;
    if (cgroup_line(folder, "cpu.max", line, sizeof(line)) &&
        sscanf(line, "%ld %ld", &quota, &period) == 2)
        *least = MIN(*least, cores_of(quota, period));
    if (cgroup_line(folder, "cpu.cfs_quota_us", line, sizeof(line)) &&
        cgroup_line(folder, "cpu.cfs_period_us", period_line, sizeof(period_line)) &&
        sscanf(line, "%ld", &quota) == 1 && sscanf(period_line, "%ld", &period) == 1)
        *least = MIN(*least, cores_of(quota, period));
}

unsigned cores_available(void)
{
    unsigned least = cores_scheduled();
    cgroup_each("", "cpu", look_for_cores, &least);
    return least;
}

/* Each file holds "max" or "4294967296". The kernel slows a group above memory.high until it hardly
 * runs, so memory.high counts as a limit, like memory.max. */
static void look_for_memory(void *arg, const char *folder)
{
    static const char *const files[] = { "memory.max", "memory.high", "memory.limit_in_bytes" };
    struct memory_allowed *least = arg;
    char line[64];
    unsigned long long bytes;
    for (size_t i = 0; i < countof(files); i++) {
        if (!cgroup_line(folder, files[i], line, sizeof(line)) ||
            sscanf(line, "%llu", &bytes) != 1 || !bytes || bytes >= least->bytes)
            continue;
        least->bytes = bytes;
        snprintf(least->by, sizeof(least->by), "%s/%s", folder, files[i]);
    }
}

struct memory_allowed memory_allowed(const char *root)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    struct memory_allowed allowed = { .bytes = UINT64_MAX, .by = "this machine's RAM" };
    if (pages > 0 && page > 0)
        allowed.bytes = (uint64_t)pages * (uint64_t)page;
    cgroup_each(root, "memory", look_for_memory, &allowed);
    return allowed;
}
