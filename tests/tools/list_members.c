/* list_members.c - prints the list of nodes whenever it changes.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   list_members PEERS [listen=HOST:PORT] [id=HEX] [user=TEXT] [password=TEXT] [ca=FILE]
 *
 * Each change is a line "list ADDRESS ..." on stdout. For each line of stdin, it prints the status:
 * "status count=N left_out=N failed=0|1 why=TEXT". At the end of stdin it closes the list, prints
 * "closed", and ends. What it is for: tests/story/n02 and n03. PENSTOCK_NAME_SERVER=ADDRESS:PORT is
 * the name server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "peers/members.h"

static void on_change(void *arg, const struct member_address *list, size_t count)
{
    char text[MEMBER_TEXT_BYTES];
    (void)arg;
    flockfile(stdout);
    printf("list");
    for (size_t i = 0; i < count; i++)
        printf(" %.*s", SLICE_ARG(member_text(&list[i], text)));
    putchar('\n');
    fflush(stdout);
    funlockfile(stdout);
}

static bool read_option(const char *word, struct members_options *options)
{
    slice value = slice_of(word), name = slice_cut(&value, '=');
    if (slice_eq(name, S("listen")))
        options->listen = value;
    else if (slice_eq(name, S("user")))
        options->etcd_user = value;
    else if (slice_eq(name, S("password")))
        options->etcd_password = value;
    else if (slice_eq(name, S("ca")))
        options->etcd_ca_file = value.ptr;
    else if (slice_eq(name, S("only_looks")))
        options->only_looks = true;
    else if (slice_eq(name, S("id")))
        return slice_unhex(value, options->id, sizeof(options->id));
    else
        return false;
    return true;
}

static void print_status(struct members *members)
{
    struct arena keep = { 0 };
    struct members_status status;
    members_status(members, &keep, &status);
    printf("status count=%zu left_out=%zu failed=%d why=%.*s\n", status.count, status.left_out,
           status.failed_s != 0, SLICE_ARG(status.why));
    fflush(stdout);
    arena_free(&keep);
}

int main(int argc, char **argv)
{
    struct members_options options = {
        .listen = S("0.0.0.0:9002"), .etcd_ca_file = "", .changed = on_change,
    };
    struct members *members;
    char line[256];
    log_setup(LOG_LEVEL_INFO, false);
    if (argc < 2)
        return 2;
    options.peers = slice_of(argv[1]);
    for (int i = 2; i < argc; i++)
        if (!read_option(argv[i], &options))
            return 2;
    enum err e = members_open(&options, &members);
    if (!e)
        e = members_begin(members);
    if (e) {
        printf("failed %s\n", err_name(e));
        return 1;
    }
    while (fgets(line, sizeof(line), stdin))
        print_status(members);
    members_close(&members);
    puts("closed");
    return 0;
}
