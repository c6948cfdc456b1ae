/* notify.c - tells the service manager the daemon's state. SPDX-License-Identifier: Apache-2.0
 * The whole protocol is one datagram to $NOTIFY_SOCKET, so no library is needed. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/cli.h"

void notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(to.sun_path))
        return;
    size_t len = strlen(path);
    memcpy(to.sun_path, path, len);
    if (path[0] == '@')    /* Linux's abstract namespace */
        to.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    /* The daemon also runs if the service manager does not get the message. */
    (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to, size);
    close(fd);
}
