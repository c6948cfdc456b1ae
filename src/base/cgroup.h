/* cgroup.h - the control groups that this process is in. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include "base/base.h"

/* Calls look() with the folder of our group, and then of each group around it: in version 2, and in
 * the tree of `controller` in version 1. root: a folder that holds /proc and the mounts; a test has
 * one of its own, else it is "". */
void cgroup_each(const char *root, const char *controller,
                 void (*look)(void *arg, const char *folder), void *arg);
/* Reads the first line of a file, without its newline. False: there is none. */
bool cgroup_line(const char *folder, const char *file, char *ret, int cap) MUST_USE;

#endif
