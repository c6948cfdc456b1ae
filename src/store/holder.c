/* holder.c - finds the process that has locked a file. SPDX-License-Identifier: Apache-2.0
 *
 * The kernel lists all locks in /proc/locks: "1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF". In
 * a container, the process may be another container's, and has no number here. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "store/fsck_inside.h"

static void read_name(int pid, char ret[17])
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    FILE *file = fopen(path, "re");
    ret[0] = '\0';
    if (file && fscanf(file, "%16[^\n]", ret) != 1)
        ret[0] = '\0';
    if (file)
        fclose(file);
}

pid_t lock_holder(int fd, char ret_name[17])
{
    struct stat st;
    char line[256];
    int found = 0;
    FILE *locks = fopen("/proc/locks", "re");
    while (locks && fstat(fd, &st) == 0 && fgets(line, sizeof(line), locks)) {
        int pid;
        unsigned major, minor;
        unsigned long long inode;
        if (sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%llu", &pid, &major, &minor, &inode) != 4 ||
            inode != st.st_ino || pid <= 0)
            continue;
        bool same = major == major(st.st_dev) && minor == minor(st.st_dev);
        if (same || !found)    /* an overlay names another device than stat */
            found = pid;
        if (same)
            break;
    }
    if (locks)
        fclose(locks);
    read_name(found, ret_name);
    return found;
}
