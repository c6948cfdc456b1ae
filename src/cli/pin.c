/* pin.c - the subcommands pin and unpin: keep a prefix in the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pin keeps the objects of a prefix in the cache: those that are there, and those that are stored
 * later, as long as the budget (the setting "pin_budget") has room. So the command shows how much
 * of the prefix is pinned, and how full the budget is. */
#include <inttypes.h>
#include <jansson.h>

#include "cli/lines.h"

struct pin {
    bool list, unpins;
    const struct server *server;
    uint64_t rows, left_out;      /* left_out: cached bytes of these prefixes, not pinned */
    bool complete;
    struct arena keep;
};

/* ---- the lines of the answer ---- */

static void print_line(slice pinned, slice cached, slice objects, slice prefix)
{
    printf("%10.*s  %10.*s  %10.*s  %.*s\n", SLICE_ARG(pinned), SLICE_ARG(cached),
           SLICE_ARG(objects), SLICE_ARG(prefix));
}

/* Returns the name. Adds a remark if the pin is for an origin to which the settings now give no key of
 * the prefix. */
static slice place_of(struct arena *keep, const json_t *row, slice name)
{
    struct text text = text_in(keep);
    if (!json_is_false(json_object_get(row, "configured")))
        return name;
    text_printf(&text, "%.*s  (pinned for origin ", SLICE_ARG(name));
    show_name(&text, lines_name(row, "origin", keep));
    text_add(&text, S("; in the settings now, no key of this prefix belongs to that origin)"));
    return text_slice(&text);
}

static void print_row(struct pin *pin, const json_t *row)
{
    struct arena *keep = &pin->keep;
    uint64_t pinned = lines_number(row, "pinned_bytes"), cached = lines_number(row, "cached_bytes");
    uint64_t objects = lines_number(row, "objects");
    slice name = show_s3(keep, pin->server->of.bucket, lines_name(row, "prefix", keep));
    if (pin->unpins) {
        printf(json_is_true(json_object_get(row, "was_pinned")) ? "unpinned %.*s\n"
                                                                : "%.*s was not pinned\n",
               SLICE_ARG(name));
        return;
    }
    slice pinned_text = show_bytes(keep, pinned), cached_text = show_bytes(keep, cached);
    if (!pin->list) {
        printf("pinned %.*s: %.*s of the %.*s in the cache (%" PRIu64 " cached %s)\n", SLICE_ARG(name),
               SLICE_ARG(pinned_text), SLICE_ARG(cached_text), objects,
               objects == 1 ? "object" : "objects");
        return;
    }
    if (pin->rows == 0)
        print_line(S("PINNED"), S("CACHED"), S("OBJECTS"), S("PREFIX"));
    print_line(pinned_text, cached_text, arena_printf(keep, "%" PRIu64, objects),
               place_of(keep, row, name));
}

static void print_end(struct pin *pin, const json_t *row)
{
    slice used = show_bytes(&pin->keep, lines_number(row, "budget_used_bytes"));
    slice budget = show_bytes(&pin->keep, lines_number(row, "budget_bytes"));
    if (pin->list && !pin->rows)
        printf("no prefix that begins with %.*s is pinned\n",
               SLICE_ARG(show_s3(&pin->keep, pin->server->of.bucket, pin->server->of.key)));
    printf("pin budget: %.*s of %.*s used\n", SLICE_ARG(used), SLICE_ARG(budget));
}

static void visit(void *arg, slice line, const json_t *row)
{
    struct pin *pin = arg;
    bool is_end = json_object_get(row, "complete") != NULL;
    if (!lines_print(pin->server, line))
        (is_end ? print_end : print_row)(pin, row);
    if (!is_end) {
        uint64_t pinned = lines_number(row, "pinned_bytes");
        uint64_t cached = lines_number(row, "cached_bytes");
        pin->left_out += cached > pinned ? cached - pinned : 0;
        pin->rows++;
        return;
    }
    fflush(stdout);
    pin->complete = json_is_true(json_object_get(row, "complete"));
    lines_warn_folders(pin->server, row, pin->list ? "its objects are not counted"
                      : "it gets the list of pins from the other folders when it comes "
                        "back");
    lines_warn_unread(pin->server, row);
    lines_warn_unnamed(pin->server, row, "these objects are not counted, and can't be pinned until "
                       "they are fetched anew");
}

/* ---- the request ---- */

static int ask(void *arg, const struct server *server, struct arena *keep)
{
    struct pin *pin = arg;
    struct text query = text_in(keep);
    slice body;
    pin->server = server;
    text_add(&query, pin->unpins ? S("penstock-unpin=") : S("penstock-pin="));
    query_add(&query, "prefix", server->of.key);
    struct question question = {
        .method = pin->list ? "GET" : "POST", .of = { server->of.bucket, S("") },
        .query = text_slice(&query), .right = SERVER_CACHE_RIGHT, .slow = SERVER_SLOW_WALK };
    int status = server_ask(server, &question, keep, &body);
    if (!status)
        status = lines_each(server, body, visit, pin);
    if (!status && pin->left_out)
        fprintf(stderr, "penstock pin: warning: %.*s of these objects are cached without a pin, "
                "because the budget had no room for them. If it has room now, pin the prefix "
                "again. If not, raise pin_budget, or unpin another prefix\n",
                SLICE_ARG(show_bytes(keep, pin->left_out)));
    bool all = pin->complete && (pin->list || !pin->left_out);
    return status ? status : all ? EXIT_GOOD : EXIT_INCOMPLETE;
}

static int run(struct cli *cli, const char *command, struct pin *pin)
{
    int status = server_run(cli, command, NULL, ask, pin);
    arena_free(&pin->keep);
    return status;
}

static int run_pin(struct cli *cli)
{
    return run(cli, "pin", &(struct pin){ .list = cli_flag(cli, "--list") });
}

static int run_unpin(struct cli *cli)
{
    return run(cli, "unpin", &(struct pin){ .unpins = true });
}

static const struct command_option pin_options[] = {
    { "--list", NULL, "show the pins that begin with PREFIX, and change nothing" },
    SERVER_OPTIONS,
    { 0 },
};

const struct command command_pin = {
    .name = "pin", .args = "[--list] [--json] s3://BUCKET/PREFIX [SETTINGS]", .run = run_pin,
    .takes_settings = true, .options = pin_options,
    .help = "keep the objects of a prefix in the cache, now and later; unpin ends that",
    .more = SERVER_MORE "All pins together may take pin_budget of each cache folder.",
};

static const struct command_option unpin_options[] = {
    SERVER_OPTIONS,
    { 0 },
};

const struct command command_unpin = {
    .name = "unpin", .args = "[--json] s3://BUCKET/PREFIX [SETTINGS]", .run = run_unpin,
    .takes_settings = true, .options = unpin_options,
    .help = "end a pin; its objects stay until they are evicted like other objects",
    .with = "pin",
    .more = SERVER_MORE "PREFIX must be exactly that of the pin: penstock pin --list shows it.",
};
