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
#include <string.h>

#include "base/file.h"

#define FILE_BYTES_MAX (16 * MIB)    /* the most that is read of a file in /proc/self */

struct walk {
    const char *root, *controller;
    void (*look)(void *arg, const char *folder);
    void *arg;
    struct arena keep;
};

static slice read_lines(struct walk *walk, const char *file)
{
    slice lines;
    (void)!file_read(arena_printf(&walk->keep, "%s%s", walk->root, file).ptr, FILE_BYTES_MAX,
                     &walk->keep, &lines);
    return lines;
}

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
 * controllers. Returns the path of this process's group in the tree of version 2 (if `second`), or
 * in the tree of the controller. The ptr of the path is NULL if no line belongs to that tree. */
static slice group_of(struct walk *walk, bool second)
{
    for (slice lines = read_lines(walk, "/proc/self/cgroup"); lines.len;) {
        slice group = slice_cut(&lines, '\n'), number = slice_cut(&group, ':');
        slice list = slice_cut(&group, ':');
        if (group.ptr && (second ? slice_eq(number, S("0")) && !list.len
                                 : slice_list_has(list, ',', slice_of(walk->controller))))
            return group;
    }
    return (slice){ NULL, 0 };
}

/* Visits each group from this process's group up to the root of the mount. */
static void climb(struct walk *walk, const char *mount, slice mounted, bool second)
{
    slice group = group_of(walk, second);
    slice below = slice_eq(mounted, S("/")) ? S("") : mounted, own = slice_from(group, below.len);
    if (!group.ptr)
        return;
    if (!slice_starts(group, below) || !slice_starts(own, S("/")) ||
        slice_starts(group, S("/..")))
        own = S("");
    for (;;) {
        walk->look(walk->arg, arena_printf(&walk->keep, "%s%s%.*s", walk->root, mount,
                                           SLICE_ARG(own)).ptr);
        if (!own.len)
            return;
        while (own.ptr[--own.len] != '/')
            ;
    }
}

/* A line has the form "31 23 0:28 ROOT MOUNT OPTIONS ... - TYPE SOURCE OPTIONS". */
static void look_at_mount(struct walk *walk, const char *line)
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
        climb(walk, mount, slice_of(mounted), second);
}

void cgroup_each(const char *root, const char *controller,
                 void (*look)(void *arg, const char *folder), void *arg)
{
    struct walk walk = { root, controller, look, arg, { 0 } };
    for (slice lines = read_lines(&walk, "/proc/self/mountinfo"); lines.len;)
        look_at_mount(&walk, arena_copy(&walk.keep, slice_cut(&lines, '\n')).ptr);
    arena_free(&walk.keep);
}
