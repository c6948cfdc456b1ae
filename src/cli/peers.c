/* peers.c - the subcommand peers: the nodes of the fleet, as the running service knows them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It prints a part of the document of /status (fleet.c). `penstock peers keygen` is in keygen.c. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/keygen.h"
#include "cli/service.h"
#include "cli/show.h"
#include "s3/encode.h"

#define ID_SHOWN 8u                   /* digits of an id that the table shows */
#define DAY_CHARS 10u                 /* of a time: 2027-11-30 */

static slice text_of(struct arena *keep, const json_t *at, const char *member)
{
    slice text = show_text(keep, json_text(json_object_get(at, member)));
    return text.len ? text : S("-");
}

static uint64_t number_of(const json_t *at, const char *member)
{
    return (uint64_t)MAX(json_integer_value(json_object_get(at, member)), 0);
}

static bool is_in_state(const json_t *peer, const char *state)
{
    const char *text = json_string_value(json_object_get(peer, "state"));
    return text && strcmp(text, state) == 0;
}

/* How long ago it was; "-" for never. */
static slice since(struct arena *keep, const json_t *at, const char *member)
{
    int64_t then_s = iso_date_read(json_text(json_object_get(at, member))), now_s = wall_s();
    return then_s < 0 ? S("-") : show_seconds(keep, (uint64_t)MAX(now_s - then_s, (int64_t)0));
}

static slice share_of(struct arena *keep, const json_t *at)
{
    double share = json_number_value(json_object_get(at, "share"));
    return share > 0 ? arena_printf(keep, share < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * share)
                     : S("-");
}

static slice round_trip_of(struct arena *keep, const json_t *peer)
{
    uint64_t us = number_of(peer, "round_trip_us");
    return us ? arena_printf(keep, us < 9995 ? "%.2f ms" : "%.0f ms", (double)us / 1000) : S("-");
}

/* ---- the lines above the table ---- */

static void print_fleet(struct arena *keep, const json_t *fleet, const json_t *peers)
{
    size_t index, others = 0, answer = 0;
    json_t *peer;
    json_array_foreach(peers, index, peer) {
        others += !is_in_state(peer, "this node");
        answer += is_in_state(peer, "answers");
    }
    slice expires = slice_sub(text_of(keep, fleet, "expires"), 0, DAY_CHARS);
    printf("fleet      %.*s: %zu of %zu other nodes answer\n"
           "this node  %.*s, listens at %.*s, owns %.*s of the segments (weight %" PRIu64 "), "
           "certificate until %.*s\n", SLICE_ARG(text_of(keep, fleet, "name")), answer, others,
           SLICE_ARG(slice_sub(text_of(keep, fleet, "node"), 0, ID_SHOWN)),
           SLICE_ARG(text_of(keep, fleet, "listen")), SLICE_ARG(share_of(keep, fleet)),
           number_of(fleet, "weight"), SLICE_ARG(expires));
    slice why = json_text(json_object_get(fleet, "last_failure_why"));
    if (why.len)
        printf("list       the list of nodes can't be had, and the last one is in use: %.*s\n",
               SLICE_ARG(show_text(keep, why)));
    const json_t *strangers = json_object_get(fleet, "strangers");
    if (number_of(strangers, "answered"))
        printf("strangers  nodes that are not on this list asked %" PRIu64 " times, and were sent "
               "%.*s: compare the setting peers of all nodes\n", number_of(strangers, "answered"),
               SLICE_ARG(show_bytes(keep, number_of(strangers, "to_bytes"))));
}

/* ---- the table ---- */

static void print_peer(struct arena *keep, const json_t *peer)
{
    uint64_t failed = number_of(peer, "failed") + number_of(peer, "bad");
    printf("%-22.*s %-8.*s  %-13.*s %6.*s %6.*s %10.*s %10.*s %8" PRIu64 " %6" PRIu64 " %8.*s  "
           "%.*s\n", SLICE_ARG(text_of(keep, peer, "address")),
           SLICE_ARG(slice_sub(text_of(keep, peer, "node"), 0, ID_SHOWN)),
           SLICE_ARG(text_of(keep, peer, "state")), SLICE_ARG(since(keep, peer, "since")),
           SLICE_ARG(share_of(keep, peer)),
           SLICE_ARG(show_bytes(keep, number_of(peer, "from_bytes"))),
           SLICE_ARG(show_bytes(keep, number_of(peer, "to_bytes"))), number_of(peer, "asked"),
           failed, SLICE_ARG(round_trip_of(keep, peer)),
           SLICE_ARG(text_of(keep, peer, "version")));
    slice why = text_of(keep, peer, "why");
    uint64_t retry_ms = number_of(peer, "retry_ms");
    if (is_in_state(peer, "away") && retry_ms)
        printf("    left alone, and tried again in %.*s: %.*s\n",
               SLICE_ARG(show_seconds(keep, (retry_ms + 999) / 1000)), SLICE_ARG(why));
    else if (is_in_state(peer, "away"))
        printf("    left alone: %.*s\n", SLICE_ARG(why));
    else if (why.len)
        printf("    %.*s\n", SLICE_ARG(why));
    if (number_of(peer, "bad"))
        printf("    %" PRIu64 " answers were wrong: look for damaged memory or network hardware of "
               "this node\n", number_of(peer, "bad"));
}

static void print_table(struct arena *keep, const json_t *peers)
{
    size_t index;
    json_t *peer;
    printf("\n%-22s %-8s  %-13s %6s %6s %10s %10s %8s %6s %8s  %s\n", "ADDRESS", "NODE", "STATE",
           "SINCE", "OWNS", "FROM IT", "TO IT", "ASKED", "FAILED", "ROUND", "VERSION");
    json_array_foreach(peers, index, peer)
        print_peer(keep, peer);
}

/* ---- the command ---- */

static int no_peers(const struct running *service, const json_t *fleet)
{
    bool answers = json_object_get(fleet, "listen") != NULL;
    fprintf(stderr, "penstock: the service at %.*s asks no other nodes, because its setting peers is "
            "empty%s. To make a fleet, see penstock peers keygen --help, and penstock-operating(7)\n",
            SLICE_ARG(service->address), answers ? "; it answers other nodes at peer_listen" : "");
    return EXIT_FAILED;
}

static int print(const struct running *service, json_t *root, bool as_json, struct arena *keep)
{
    json_t *fleet = json_object_get(root, "fleet"), *peers = json_object_get(root, "peers");
    if (!json_object_get(fleet, "node"))
        return no_peers(service, fleet);
    if (as_json) {
        json_t *both = json_pack("{sOsO*}", "fleet", fleet, "peers", peers);
        json_dumpf(both, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        putchar('\n');
        json_decref(both);
    } else {
        print_fleet(keep, fleet, peers);
        print_table(keep, peers);
    }
    return ferror(stdout) ? EXIT_FAILED : EXIT_GOOD;
}

static int show(struct cli *cli)
{
    bool as_json = cli_flag(cli, "--json");
    struct running service;
    int status;
    if (!service_find(cli, &service, &status))
        return status;
    struct answer answer = service_ask(&service, &cli->arena);
    json_t *root = service_read(&service, &answer);
    status = root ? print(&service, root, as_json, &cli->arena) : EXIT_FAILED;
    json_decref(root);
    return status;
}

static int run(struct cli *cli)
{
    const char *word = cli_word(cli);
    if (!word)
        return show(cli);
    if (strcmp(word, "keygen") == 0)
        return keygen_run(cli);
    fprintf(stderr, "penstock peers: \"%s\" is not known: write penstock peers, or penstock peers "
            "keygen FOLDER\n", word);
    return EXIT_USAGE;
}

static const struct command_option options[] = {
    { "--json", NULL, "print the members \"fleet\" and \"peers\" of the service's status" },
    SERVICE_OPTION,
    KEYGEN_OPTIONS,
    { 0 },
};

const struct command command_peers = {
    .name = "peers", .args = "[--json] [--url URL] [SETTINGS] | keygen FOLDER [--node NAME] "
                             "[--days N] [SETTINGS]",
    .run = run, .takes_settings = true, .options = options, .words = "keygen",
    .help = "show the nodes that share with this one, or make their certificates",
    .more = SERVICE_MORE("peers") "\n" KEYGEN_MORE,
};
