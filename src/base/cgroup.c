/* cgroup.c - the control groups that this process is in. SPDX-License-Identifier: Apache-2.0
 *
 * The limits of outer groups also apply, so all groups are read, from this process's group outward.
 * Version 1 has a tree for each controller, version 2 has one tree; a hybrid host has both.
 * /proc/self/cgroup names the process's group in each tree, and /proc/self/mountinfo names the
 * folder where a tree is mounted. In a container without a cgroup namespace, the group has the path
 * that the host sees, and only a part of the tree is mounted: the ROOT field of the mount names
 * that part. A file that can't be read sets no limit. */
#include "base/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/slice.h"

struct walk {
    const char *root, *controller;
    void (*look)(void *arg, const char *folder);
    void *arg;
};

bool cgroup_line(const char *folder, const char *file, char *ret, int cap)
{
    char path[PATH_MAX];
    FILE *from = snprintf(path, sizeof(path), "%s/%s", folder, file) < (int)sizeof(path)
                     ? fopen(path, "re") : NULL;
    bool good = from && fgets(ret, cap, from) != NULL;
    if (from)
        fclose(from);
    if (good)
        ret[strcspn(ret, "\n")] = 0;
    return good;
}

/* A line has the form NUMBER:CONTROLLERS:PATH; in version 2 the number is 0 and there are no
 * controllers. */
static bool group_of(const struct walk *walk, bool second, char ret[PATH_MAX])
{
    char path[PATH_MAX], *line = NULL;
    size_t cap = 0;
    bool found = false;
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", walk->root);
    FILE *from = fopen(path, "re");
    while (from && !found && getline(&line, &cap, from) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        found = second ? strncmp(line, "0:", 2) == 0 && !list[1]
                       : slice_list_has(slice_of(list + 1), ',', slice_of(walk->controller));
        if (found)
            snprintf(ret, PATH_MAX, "%s", group);
    }
    if (from)
        fclose(from);
    free(line);
    return found;
}

/* Visits each group from this process's group up to the root of the mount. */
static void climb(const struct walk *walk, const char *mount, const char *mounted, bool second)
{
    char group[PATH_MAX] = "", folder[3 * PATH_MAX];
    size_t skip = strcmp(mounted, "/") == 0 ? 0 : strlen(mounted);
    if (!group_of(walk, second, group))
        return;
    bool inside = strncmp(group, mounted, skip) == 0 && (group[skip] == '/' || !group[skip]) &&
                  strncmp(group, "/..", 3) != 0;
    char *own = inside ? group + skip : group + strlen(group);
    for (char *end = own + strlen(own); end; end = strrchr(own, '/')) {
        *end = 0;
        snprintf(folder, sizeof(folder), "%s%s%s", walk->root, mount, own);
        walk->look(walk->arg, folder);
    }
}

/* A line has the form "31 23 0:28 ROOT MOUNT OPTIONS ... - TYPE SOURCE OPTIONS". */
static void look_at_mount(const struct walk *walk, const char *line)
{
    char mounted[PATH_MAX], mount[PATH_MAX], type[32], options[256];
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*s %*s %*s %4095s %4095s", mounted, mount) != 2 ||
        sscanf(rest, " - %31s %*s %255s", type, options) != 2)
        return;
    slice controller = slice_of(walk->controller);
    bool second = strcmp(type, "cgroup2") == 0;
    bool first = strcmp(type, "cgroup") == 0 && slice_list_has(slice_of(options), ',', controller);
    if (first || second)
        climb(walk, mount, mounted, second);
}

void cgroup_each(const char *root, const char *controller,
                 void (*look)(void *arg, const char *folder), void *arg)
{
    struct walk walk = { root, controller, look, arg };
    char path[PATH_MAX], *line = NULL;
    size_t cap = 0;
    snprintf(path, sizeof(path), "%s/proc/self/mountinfo", root);
    FILE *from = fopen(path, "re");
    while (from && getline(&line, &cap, from) > 0)
        look_at_mount(&walk, line);
    if (from)
        fclose(from);
    free(line);
}
