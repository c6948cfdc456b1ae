/* stat.c - the subcommand stat: the figures of the running service, for people.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It prints the document of /status (status_document.c), one figure on a line. A few lines above the figures
 * answer the first questions of people: which service is this, does it work, what does it save? */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/service.h"
#include "cli/show.h"

#define WATCH_S 2u

/* ---- figures ---- */

static slice value_text(struct arena *keep, slice name, json_t *value)
{
    if (json_is_string(value) && json_string_length(value))
        return show_text(keep, slice_of(json_string_value(value)));
    if (json_is_integer(value) && slice_ends(name, S("bytes")))
        return show_bytes(keep, (uint64_t)MAX(json_integer_value(value), 0));
    if (json_is_integer(value))
        return arena_printf(keep, "%jd", (intmax_t)json_integer_value(value));
    if (json_is_real(value))
        return arena_printf(keep, "%.3g", json_real_value(value));
    return json_is_true(value) ? S("yes") : json_is_false(value) ? S("no") : S("-");
}

/* Prints a member of an object as NAME.MEMBER, and the elements of an array as NAME.0, NAME.1. */
static void print_value(struct arena *keep, slice name, json_t *value, int depth)
{
    const char *member, *dot = name.len ? "." : "";
    json_t *inner;
    size_t index;
    if (json_is_object(value) && depth < 8) {
        json_object_foreach(value, member, inner)
            print_value(keep, arena_printf(keep, "%.*s%s%s", SLICE_ARG(name), dot, member), inner,
                        depth + 1);
    } else if (json_is_array(value) && depth < 8) {
        json_array_foreach(value, index, inner)
            print_value(keep, arena_printf(keep, "%.*s%s%zu", SLICE_ARG(name), dot, index), inner,
                        depth + 1);
    } else {
        printf("%-32.*s %.*s\n", SLICE_ARG(show_text(keep, name)),
               SLICE_ARG(value_text(keep, name, value)));
    }
}

/* ---- the lines above the figures ---- */

/* Returns the value at a path of names with dots between them, or NULL. */
static json_t *find(json_t *at, const char *path)
{
    slice rest = slice_of(path);
    while (at && rest.len) {
        slice name = slice_cut(&rest, '.');
        at = json_object_getn(at, name.ptr, name.len);
    }
    return at;
}

static const char *text_of(json_t *at, const char *path)
{
    const char *text = json_string_value(find(at, path));
    return text ? text : "";
}

static json_int_t number_of(json_t *at, const char *path)
{
    return json_integer_value(find(at, path));
}

static slice percent(struct arena *keep, json_t *ratio)
{
    return json_is_real(ratio) ? arena_printf(keep, "%.1f %%", 100 * json_real_value(ratio))
                               : S("-");
}

/* Prints a text in which {PATH} stands for the value at PATH. */
static void print_line(struct arena *keep, json_t *at, const char *line)
{
    for (slice rest = slice_of(line); rest.len;) {
        slice plain = slice_cut(&rest, '{');
        printf("%.*s", SLICE_ARG(plain));
        if (!rest.ptr)
            return;
        slice path = arena_copy(keep, slice_cut(&rest, '}'));
        json_t *value = find(at, path.ptr);
        slice text = slice_ends(path, S("ratio")) ? percent(keep, value)
                                                  : value_text(keep, path, value);
        printf("%.*s", SLICE_ARG(text));
    }
}

static void print_service(struct arena *keep, json_t *root)
{
    json_int_t up_s = number_of(root, "uptime_s");
    print_line(keep, root, "service    penstock {version}, instance {instance}, pid {pid}, "
                           "http://{listen}");
    printf(", up %jd:%02jd:%02jd\n", (intmax_t)(up_s / 3600), (intmax_t)(up_s / 60 % 60),
           (intmax_t)(up_s % 60));
}

static void add_folders_out(struct text *to, json_t *folders)
{
    json_t *folder;
    size_t index;
    json_array_foreach(folders, index, folder)
        if (!json_is_true(find(folder, "serving")))
            text_printf(to, "; reads of the objects in %s go to the origin, because this cache "
                        "folder is out of service: %s", text_of(folder, "path"),
                        text_of(folder, "why"));
}

static void print_works(struct arena *keep, json_t *root)
{
    struct text text = text_in(keep);
    json_t *origin;
    size_t index;
    if (!json_is_true(find(root, "ready")))
        text_printf(&text, "; the service is stopping, and accepts no new connections");
    if (!json_is_true(find(root, "cache.serving")))
        text_printf(&text, "; all reads go to the origin, because no cache folder is in service: "
                           "%s", text_of(root, "cache.why"));
    else
        add_folders_out(&text, find(root, "cache.folders"));
    json_array_foreach(find(root, "origins"), index, origin)
        if (strcmp(text_of(origin, "state"), "fails") == 0)
            text_printf(&text, "; origin %s fails: %s", text_of(origin, "name"),
                        text_of(origin, "last_failure_why"));
    slice trouble = show_text(keep, text_slice(&text));
    printf("works      %s%.*s\n", trouble.len ? "in part" : "yes", SLICE_ARG(trouble));
}

static void print_hits(struct arena *keep, const char *title, json_t *gains, slice when)
{
    slice given = show_bytes(keep, (uint64_t)(number_of(gains, "cache_bytes") +
                                              number_of(gains, "peers_bytes") +
                                              number_of(gains, "origin_bytes")));
    printf("%-10s ", title);
    print_line(keep, gains, "{hit_ratio} of {reads} reads, {byte_hit_ratio} of ");
    printf("%.*s%.*s\n", SLICE_ARG(given), SLICE_ARG(when));
}

static void print_saved(struct arena *keep, json_t *all)
{
    json_t *dollars = find(all, "saved_dollars");
    double value = json_number_value(dollars);
    print_line(keep, all, "saved      {saved_bytes} not fetched");
    if (dollars)
        printf(value < 1 ? " ($%.4f)" : " ($%.2f)", value);
    print_line(keep, all, ": clients got or prefetched {given_bytes}, origins sent "
                          "{fetched_bytes}");
    puts(dollars ? "" : " (set egress_price to see the value in dollars)");
}

/* With one folder, prints one line. With several, prints a line of sums, then a line for each. */
static void print_cache(struct arena *keep, json_t *root)
{
    json_t *folders = find(root, "cache.folders"), *folder;
    size_t index, count = json_array_size(folders);
    if (count > 1)
        printf("cache      %zu folders", count);
    else
        print_line(keep, root, "cache      {cache.folder}");
    print_line(keep, root, ": {cache.used_bytes} of {cache.capacity_bytes} ({cache.live_bytes} of "
                           "objects), {cache.evicted_extents} extents evicted\n");
    json_array_foreach(folders, index, folder)
        if (count > 1)
            print_line(keep, folder, json_is_true(find(folder, "serving"))
                       ? "           {path}: {used_bytes} of {capacity_bytes} ({live_bytes} of "
                         "objects)\n"
                       : "           {path}: out of service\n");
}

/* An older service does not tell it. */
static void print_what_if(struct arena *keep, json_t *root)
{
    json_t *found = find(root, "cache.what_if");
    if (!found)
        return;
    if (!number_of(found, "reads"))
        puts("what if    not known yet: too few of the cached objects were read again");
    else
        print_line(keep, found, "what if    the hit ratio of parts of objects is {hit_ratio}; with "
                                "a cache of 0.5, 2 and 4 times the size, it would be about "
                                "{half.hit_ratio}, {double.hit_ratio} and {fourfold.hit_ratio}\n");
}

static void print_peers(struct arena *keep, json_t *root)
{
    json_t *peer;
    size_t index, others = 0, answer = 0;
    uint64_t from = 0, to = 0;
    json_array_foreach(find(root, "peers"), index, peer) {
        others += strcmp(text_of(peer, "state"), "this node") != 0;
        answer += strcmp(text_of(peer, "state"), "answers") == 0;
        from += (uint64_t)number_of(peer, "from_bytes");
        to += (uint64_t)number_of(peer, "to_bytes");
    }
    if (!find(root, "fleet.node"))    /* without the setting "peers", and of an older service */
        return;
    printf("peers      %zu of %zu other nodes answer; %.*s came from them, %.*s went to them: see "
           "penstock peers\n", answer, others, SLICE_ARG(show_bytes(keep, from)),
           SLICE_ARG(show_bytes(keep, to)));
}

static void print_answers_first(struct arena *keep, json_t *root)
{
    json_int_t seconds = number_of(root, "worth.last_minute.seconds");
    json_t *origin;
    size_t index;
    print_service(keep, root);
    print_works(keep, root);
    print_hits(keep, "hits", find(root, "worth.all"), S(" since the start"));
    print_hits(keep, "", find(root, "worth.last_minute"),
               arena_printf(keep, " in the last %jd s", (intmax_t)seconds));
    print_saved(keep, find(root, "worth.all"));
    print_cache(keep, root);
    print_what_if(keep, root);
    if (*text_of(root, "cache.warning"))
        print_line(keep, root, "warning    {cache.warning}\n");
    print_line(keep, root, "memory     {memory.bytes} ({memory.from})\n");
    if (*text_of(root, "memory.locked_why"))    /* an older service does not tell it */
        print_line(keep, root, "locked     {memory.locked_bytes} of at most "
                               "{memory.locked_max_bytes} of the cache; not more, as "
                               "{memory.locked_why}\n");
    if (number_of(root, "fill.sessions") || number_of(root, "fill.lists"))
        print_line(keep, root, "fills      {fill.sessions} sessions now; since the start "
                               "{fill.lists} fills and prefetches: {fill.items.hit} items from "
                               "the cache, {fill.items.miss} fetched, {fill.filled_bytes} in "
                               "all\n");
    print_peers(keep, root);
    json_array_foreach(find(root, "origins"), index, origin)
        print_line(keep, origin, "origin     {name}, {url}: {state}, last answer {last_answer}, "
                                 "last failure {last_failure}\n");
}

struct watch {
    struct running service;
    bool raw, watch;
};

static void print_page(struct arena *keep, const struct watch *watch, slice body, json_t *root)
{
    if (watch->raw) {
        fwrite(body.ptr, 1, body.len, stdout);
        return;
    }
    print_answers_first(keep, root);
    if (!watch->watch) {
        putchar('\n');
        print_value(keep, S(""), root, 0);
    }
}

/* ---- the command ---- */

static int ask_once(const struct watch *watch)
{
    struct arena keep = { 0 };
    struct answer answer = service_ask(&watch->service, &keep);
    if (watch->watch && isatty(STDOUT_FILENO))
        fputs("\033[H\033[2J", stdout);    /* clears the screen */
    json_t *root = service_read(&watch->service, &answer);
    if (root)
        print_page(&keep, watch, answer.body, root);
    if (watch->watch && !watch->raw)
        putchar('\n');
    int status = root && !ferror(stdout) ? EXIT_GOOD : EXIT_FAILED;
    json_decref(root);
    arena_free(&keep);
    return status;
}

static int run_stat(struct cli *cli)
{
    struct watch watch = {
        .raw = cli_flag(cli, "--json"), .watch = cli_flag(cli, "--watch"),
    };
    int status;
    if (!service_find(cli, &watch.service, &status))
        return status;
    status = ask_once(&watch);
    while (watch.watch && fflush(stdout) == 0) {    /* until a signal ends it */
        sleep(WATCH_S);
        status = ask_once(&watch);
    }
    return status;
}

static const struct command_option options[] = {
    { "--json", NULL, "print the JSON document as the service sent it" },
    { "--watch", NULL, "print only the summary, every 2 s; with --json, the whole document" },
    SERVICE_OPTION,
    { 0 },
};

const struct command command_stat = {
    .name = "stat", .args = "[--json] [--watch] [--url URL] [SETTINGS]", .run = run_stat,
    .takes_settings = true,
    .help = "show whether the running service works, and what it saves",
    .options = options,
    .more = SERVICE_MORE("stat"),
};
