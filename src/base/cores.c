/* cores.c - how many cores, and how much memory, this process may use.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A container with 2 cores of a node of 128 must not start 128 threads: the quota counts, not the
 * machine. What can't be read sets no limit. */
#include "base/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned cores_scheduled(void)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return (unsigned)MAX(cores, 1);
}

static bool read_line(const char *path, char *ret, int cap)
{
    FILE *file = fopen(path, "re");
    bool good = file && fgets(ret, cap, file) != NULL;
    if (file)
        fclose(file);
    return good;
}

static unsigned cores_of(long quota_us, long period_us)
{
    if (quota_us <= 0 || period_us <= 0)
        return UINT_MAX;
    return (unsigned)MAX((quota_us + period_us - 1) / period_us, 1);
}

static uint64_t cores_line(const char *line)    /* "max 100000" or "150000 100000" */
{
    long quota, period;
    return sscanf(line, "%ld %ld", &quota, &period) == 2 ? cores_of(quota, period) : UINT64_MAX;
}

static uint64_t memory_line(const char *line)    /* "max" or "4294967296" */
{
    unsigned long long bytes;
    return sscanf(line, "%llu", &bytes) == 1 && bytes ? bytes : UINT64_MAX;
}

/* What this file says of our group and of each one around it. */
static uint64_t least_v2(const char *file, uint64_t (*value_of)(const char *line))
{
    char group[PATH_MAX] = "", path[PATH_MAX + 64], line[64];
    uint64_t least = UINT64_MAX;
    if (!read_line("/proc/self/cgroup", group, sizeof(group)) || strncmp(group, "0::", 3) != 0)
        return least;
    group[strcspn(group, "\n")] = 0;
    for (char *slash = group; slash; slash = strrchr(group + 3, '/')) {
        if (slash != group)
            *slash = 0;
        snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", group + 3, file);
        if (read_line(path, line, sizeof(line)))
            least = MIN(least, value_of(line));
    }
    return least;
}

static unsigned cores_v1(void)
{
    char line[64];
    long quota = 0, period = 0;
    if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line, sizeof(line)))
        sscanf(line, "%ld", &quota);
    if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", line, sizeof(line)))
        sscanf(line, "%ld", &period);
    return cores_of(quota, period);
}

unsigned cores_available(void)
{
    unsigned quota = (unsigned)MIN(least_v2("cpu.max", cores_line), (uint64_t)UINT_MAX);
    return MIN(cores_scheduled(), MIN(quota, cores_v1()));
}

uint64_t memory_available(void)
{
    char line[64] = "";
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t machine = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
    if (read_line("/sys/fs/cgroup/memory/memory.limit_in_bytes", line, sizeof(line)))
        machine = MIN(machine, memory_line(line));
    return MIN(machine, least_v2("memory.max", memory_line));
}
