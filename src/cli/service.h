/* service.h - the running service, for commands that show its /status.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A command reads the settings as serve does, and asks the address in admin_listen, or that of the
 * option --url. */
#ifndef CLI_SERVICE_H
#define CLI_SERVICE_H

#include "cli/ask.h"

struct running {
    const char *command;       /* "stat": messages name it */
    slice address, path, token;
};

/* The option, and further sentences of the help, of commands that use this file. */
#define SERVICE_OPTION                                                                            \
    { "--url", "URL", "ask this URL: http://HOST:PORT, where HOST:PORT is admin_listen of the "    \
                      "service" }
#define SERVICE_MORE(command)                                                                     \
    command " reads the settings as serve does, and asks the address in admin_listen. If\n"        \
    "the service has another admin_listen, give it by --admin-listen HOST:PORT,\n"                \
    "PENSTOCK_ADMIN_LISTEN or --url. If the service needs a token, set\n"                         \
    "admin_token_file (PENSTOCK_ADMIN_TOKEN_FILE)."

/* Takes --url and the settings. Returns false if there is no service to ask, or if the settings have
 * a mistake. Then the reason is reported, and *ret_exit is the exit status. */
bool service_find(struct cli *cli, struct running *ret, int *ret_exit) MUST_USE;
struct answer service_ask(const struct running *service, struct arena *keep);
/* Returns the document, or NULL after it has reported why there is none. */
struct json_t *service_read(const struct running *service, const struct answer *answer) MUST_USE;

#endif
