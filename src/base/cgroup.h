/* cgroup.h - the control groups that this process is in. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include "base/base.h"

/* Calls look with the folder of our group and then of each group around it: those of version 2, and
 * those of `controller` in version 1. root: where /proc and the mounts are found; "" but in tests. */
void cgroup_each(const char *root, const char *controller,
                 void (*look)(void *arg, const char *folder), void *arg);
/* The first line of a file, without its end. False: there is none. */
bool cgroup_line(const char *folder, const char *file, char *ret, int cap) MUST_USE;

#endif
