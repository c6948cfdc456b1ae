/* inherited.h - listening sockets that the service manager opened. SPDX-License-Identifier: Apache-2.0
 *
 * systemd, or another parent process, opens the sockets of the settings and passes them to each
 * Penstock that it starts. */
#ifndef CLI_INHERITED_H
#define CLI_INHERITED_H

#include "base/config.h"

enum listener { LISTENER_S3, LISTENER_TLS, LISTENER_ADMIN, LISTENER_FILL, LISTENER_PEER,
                LISTENERS };

struct inherited {
    int fds[LISTENERS];      /* 0: Penstock opens this socket itself */
    size_t count;
    slice ignored;           /* a sentence: why the sockets are not for this process; or empty */
};

/* Finds the sockets that the parent process passed, and judges them by the settings. On failure,
 * *ret_why, in keep, says which of them is wrong, why, and what to do. */
enum err inherited_find(const struct config *config, struct arena *keep, struct inherited *ret,
                        slice *ret_why) MUST_USE;

/* ---- steps of the daemon ---- */
struct serve;
enum err inherited_up(struct serve *serve) MUST_USE;
/* Waits until the process before has released the cache folders, if connections can wait, too. */
enum err inherited_wait(struct serve *serve) MUST_USE;

#endif
