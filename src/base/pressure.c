/* pressure.c - how much programs wait for memory. SPDX-License-Identifier: Apache-2.0 */
#include "base/pressure.h"

#include <limits.h>
#include <stdio.h>

#include "base/cgroup.h"

static unsigned percent_of(const char *folder, const char *file)
{
    char line[128];
    unsigned percent;
    return cgroup_line(folder, file, line, sizeof(line)) &&
           sscanf(line, "some avg10=%u", &percent) == 1 ? percent : 0;
}

static void look(void *arg, const char *folder)
{
    unsigned *most = arg;
    *most = MAX(*most, percent_of(folder, "memory.pressure"));
}

unsigned memory_pressure(const char *root)
{
    char folder[PATH_MAX];
    unsigned most = 0;
    if (snprintf(folder, sizeof(folder), "%s/proc/pressure", root) < (int)sizeof(folder))
        most = percent_of(folder, "memory");
    cgroup_each(root, "memory", look, &most);
    return most;
}
