/* service.c - the running service, for commands that show its /status.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/service.h"

#include <jansson.h>
#include <string.h>

#define OTHER_ADDRESS "Is this address the admin_listen of a Penstock? If not, give the right " \
                      "address by --admin-listen HOST:PORT, --url http://HOST:PORT or " \
                      "PENSTOCK_ADMIN_LISTEN\n"

bool service_find(struct cli *cli, struct running *ret, int *ret_exit)
{
    const char *url = cli_option(cli, "--url");
    struct config *config = cli_load(cli, NULL);
    bool good = cli_mistakes(cli, config, "command line", stderr) == 0;
    *ret = (struct running){
        .command = cli->command->name,
        .token = arena_copy(&cli->arena, slice_of(config->admin_token)),
        .address = arena_copy(&cli->arena, slice_of(config->admin_listen)), .path = S("/status"),
    };
    config_free(&config);
    *ret_exit = EXIT_USAGE;
    if (!good || (url && !ask_url(url, &cli->arena, &ret->address, &ret->path)))
        return false;
    *ret_exit = EXIT_FAILED;
    if (!url && slice_eq(ret->address, S("off"))) {
        fprintf(stderr, "penstock: there is no address to ask, since admin_listen is off in the "
                "settings that this command has read. If the service has another admin_listen, "
                "give it by --admin-listen HOST:PORT\n");
        return false;
    }
    return true;
}

struct answer service_ask(const struct running *service, struct arena *keep)
{
    return ask(keep, service->address, service->path, service->token, ASK_MS);
}

/* Returns the first line of an answer if it is a short plain text, as all errors of Penstock's
 * admin address are. */
static slice first_line(slice body)
{
    slice line = slice_trim(slice_cut(&body, '\n'));
    bool plain = line.len && line.len < 300 && line.ptr[0] != '<' && !slice_has_control(line);
    return plain ? line : S("the answer has no explanation");
}

static void report_failure(const struct running *service, const struct answer *answer)
{
    slice address = service->address;
    if (answer->status == 401 && service->token.len)
        fprintf(stderr, "penstock: %.*s refused the request: %.*s(penstock %s sent an admin_token "
                "that the service does not have: check admin_token_file; if you have just set it, "
                "restart the service)\n", SLICE_ARG(address), SLICE_ARG(answer->body),
                service->command);
    else if (answer->status == 401)
        fprintf(stderr, "penstock: %.*s refused the request: %.*s(penstock %s takes the token from "
                "admin_token_file)\n", SLICE_ARG(address), SLICE_ARG(answer->body),
                service->command);
    else if (answer->status)
        fprintf(stderr, "penstock: http://%.*s%.*s answered %d: %.*s. " OTHER_ADDRESS,
                SLICE_ARG(address), SLICE_ARG(service->path), answer->status,
                SLICE_ARG(first_line(answer->body)));
    else
        fprintf(stderr, "penstock: can't ask %.*s: %.*s. Is the service running? " OTHER_ADDRESS,
                SLICE_ARG(address), SLICE_ARG(answer->why));
}

json_t *service_read(const struct running *service, const struct answer *answer)
{
    if (answer->status != 200) {
        report_failure(service, answer);
        return NULL;
    }
    json_t *root = json_loadb(answer->body.ptr, answer->body.len, 0, NULL);
    const char *name = json_string_value(json_object_get(root, "name"));
    if (name && strcmp(name, "penstock") == 0)
        return root;
    json_decref(root);
    fprintf(stderr, "penstock: the answer of http://%.*s%.*s is not the JSON object of Penstock's "
            "/status. " OTHER_ADDRESS, SLICE_ARG(service->address), SLICE_ARG(service->path));
    return NULL;
}
