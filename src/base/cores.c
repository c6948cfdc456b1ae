/* cores.c - how many cores this process may use. SPDX-License-Identifier: Apache-2.0
 *
 * A container with 2 cores of a node of 128 must not start 128 threads: the quota counts, not the
 * machine. What can't be read sets no limit. */
#include "base/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

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

/* cpu.max of the group and of each one around it: "max 100000" or "150000 100000". */
static unsigned cores_v2(void)
{
    char group[PATH_MAX] = "", path[PATH_MAX + 64], line[64];
    unsigned least = UINT_MAX;
    if (!read_line("/proc/self/cgroup", group, sizeof(group)) || strncmp(group, "0::", 3) != 0)
        return least;
    group[strcspn(group, "\n")] = 0;
    for (char *slash = group; slash; slash = strrchr(group + 3, '/')) {
        if (slash != group)
            *slash = 0;
        long quota, period;
        snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", group + 3);
        if (read_line(path, line, sizeof(line)) && sscanf(line, "%ld %ld", &quota, &period) == 2)
            least = MIN(least, cores_of(quota, period));
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
    return MIN(cores_scheduled(), MIN(cores_v2(), cores_v1()));
}
