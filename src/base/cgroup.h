/* cgroup.h - the control groups that this process is in. SPDX-License-Identifier: Apache-2.0
 *
 * Control groups limit the cores and the memory that this process may use (cores.h). */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include "base/base.h"

/* Calls look() with the folder of this process's group, and then with the folder of each group
 * around it: in the tree of version 2, and in the tree of `controller` in version 1. `root` is the
 * folder that holds /proc and the mounts: "", except in tests. */
void cgroup_each(const char *root, const char *controller,
                 void (*look)(void *arg, const char *folder), void *arg);
/* Reads the first line of a file, without its newline. Returns false if there is no such line. */
bool cgroup_line(const char *folder, const char *file, char *ret, int cap) MUST_USE;

#endif
