/* stat.c - what the running service is doing, for people. SPDX-License-Identifier: Apache-2.0
 *
 * /status has every figure (cli/status.c). Above them stand a few lines that answer what people ask
 * first: which service is that, does it work, is it worth it? */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/ask.h"

#define WATCH_S 2u

/* ---- figures ---- */

static slice human_bytes(struct arena *keep, json_int_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < countof(units); unit++)
        value /= 1024;
    return arena_printf(keep, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static slice shown(struct arena *keep, slice name, json_t *value)
{
    if (json_is_string(value) && json_string_length(value))
        return slice_of(json_string_value(value));
    if (json_is_integer(value) && slice_ends(name, S("bytes")))
        return human_bytes(keep, json_integer_value(value));
    if (json_is_integer(value))
        return arena_printf(keep, "%jd", (intmax_t)json_integer_value(value));
    if (json_is_real(value))
        return arena_printf(keep, "%.3g", json_real_value(value));
    return json_is_true(value) ? S("yes") : json_is_false(value) ? S("no") : S("-");
}

/* Objects within objects become NAME.MEMBER; an array's elements NAME.0, NAME.1. */
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
        printf("%-32.*s %.*s\n", SLICE_ARG(name), SLICE_ARG(shown(keep, name, value)));
    }
}

/* ---- the lines above them ---- */

/* By its names with dots between them; NULL if it is not there. */
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

static void print_service(json_t *root)
{
    json_int_t up_s = number_of(root, "uptime_s");
    printf("service    penstock %s, instance %s, pid %jd, http://%s, up %jd:%02jd:%02jd\n",
           text_of(root, "version"), text_of(root, "instance"), (intmax_t)number_of(root, "pid"),
           text_of(root, "listen"), (intmax_t)(up_s / 3600), (intmax_t)(up_s / 60 % 60),
           (intmax_t)(up_s % 60));
}

static void print_works(struct arena *keep, json_t *root)
{
    struct text text = text_in(keep);
    json_t *origin;
    size_t index;
    if (!json_is_true(find(root, "ready")))
        text_printf(&text, "; it is ending, and takes no new connections");
    if (!json_is_true(find(root, "cache.serving")))
        text_printf(&text, "; the cache folder is out of service, all comes from the origin: %s",
                    text_of(root, "cache.why"));
    json_array_foreach(find(root, "origins"), index, origin)
        if (strcmp(text_of(origin, "state"), "fails") == 0)
            text_printf(&text, "; origin %s fails: %s", text_of(origin, "name"),
                        text_of(origin, "last_failure_why"));
    slice trouble = text_slice(&text);
    printf("works      %s%.*s\n", trouble.len ? "not all of it" : "yes", SLICE_ARG(trouble));
}

static void print_hits(struct arena *keep, const char *title, json_t *gains, slice when)
{
    slice given = human_bytes(keep, number_of(gains, "cache_bytes") +
                                    number_of(gains, "origin_bytes"));
    printf("%-10s %.*s of %jd reads, %.*s of %.*s%.*s\n", title,
           SLICE_ARG(percent(keep, find(gains, "hit_ratio"))), (intmax_t)number_of(gains, "reads"),
           SLICE_ARG(percent(keep, find(gains, "byte_hit_ratio"))), SLICE_ARG(given),
           SLICE_ARG(when));
}

static void print_saved(struct arena *keep, json_t *root)
{
    json_t *all = find(root, "worth.all"), *dollars = find(all, "saved_dollars");
    slice money = json_is_real(dollars)
                ? arena_printf(keep, json_real_value(dollars) < 1 ? ": $%.4f" : ": $%.2f",
                               json_real_value(dollars))
                : S(" (egress_price says what that is worth)");
    printf("saved      %.*s not fetched: clients were given %.*s, origins sent %.*s%.*s\n",
           SLICE_ARG(human_bytes(keep, number_of(all, "saved_bytes"))),
           SLICE_ARG(human_bytes(keep, number_of(all, "given_bytes"))),
           SLICE_ARG(human_bytes(keep, number_of(all, "fetched_bytes"))), SLICE_ARG(money));
}

static void print_cache(struct arena *keep, json_t *root)
{
    printf("cache      %s: %.*s of %.*s, %jd extents evicted\n", text_of(root, "cache.folder"),
           SLICE_ARG(human_bytes(keep, number_of(root, "cache.used_bytes"))),
           SLICE_ARG(human_bytes(keep, number_of(root, "cache.capacity_bytes"))),
           (intmax_t)number_of(root, "cache.evicted_extents"));
    const char *warning = text_of(root, "cache.warning");
    if (warning[0])
        printf("warning    %s\n", warning);
}

static void print_memory(struct arena *keep, json_t *root)
{
    printf("memory     %.*s (%s)\n", SLICE_ARG(human_bytes(keep, number_of(root, "memory.bytes"))),
           text_of(root, "memory.from"));
}

static void print_fills(struct arena *keep, json_t *root)
{
    if (number_of(root, "fill.sessions") || number_of(root, "fill.lists"))
        printf("fills      %jd sessions, %jd lists, %jd items from the cache, %jd not, %.*s\n",
               (intmax_t)number_of(root, "fill.sessions"),
               (intmax_t)number_of(root, "fill.lists"),
               (intmax_t)number_of(root, "fill.items.hit"),
               (intmax_t)number_of(root, "fill.items.miss"),
               SLICE_ARG(human_bytes(keep, number_of(root, "fill.filled_bytes"))));
}

static void print_origins(json_t *root)
{
    json_t *origin;
    size_t index;
    json_array_foreach(find(root, "origins"), index, origin)
        printf("origin     %s, %s: %s, last answer %s, last failure %s\n",
               text_of(origin, "name"), text_of(origin, "url"), text_of(origin, "state"),
               text_of(origin, "last_answer"), text_of(origin, "last_failure"));
}

static void print_answers_first(struct arena *keep, json_t *root)
{
    json_int_t seconds = number_of(root, "worth.last_minute.seconds");
    print_service(root);
    print_works(keep, root);
    print_hits(keep, "hits", find(root, "worth.all"), S(" since its start"));
    print_hits(keep, "", find(root, "worth.last_minute"),
               arena_printf(keep, " in the last %jd s", (intmax_t)seconds));
    print_saved(keep, root);
    print_cache(keep, root);
    print_memory(keep, root);
    print_fills(keep, root);
    print_origins(root);
}

static int print_page(struct arena *keep, slice body, bool brief)
{
    json_error_t error;
    json_t *root = json_loadb(body.ptr, body.len, 0, &error);
    if (!json_is_object(root)) {
        fprintf(stderr, "penstock: what answered is no Penstock: its /status is not a JSON object. "
                "Check --admin-listen or --url\n");
        json_decref(root);
        return EXIT_FAILED;
    }
    bool ours = strcmp(text_of(root, "name"), "penstock") == 0;
    if (ours)
        print_answers_first(keep, root);
    if (ours && !brief)
        putchar('\n');
    if (!ours || !brief)
        print_value(keep, S(""), root, 0);
    json_decref(root);
    return EXIT_GOOD;
}

/* ---- the command ---- */

struct question {
    slice address, path, token;
    bool raw, watch;
};

/* False: that there is nobody to ask, or a mistake, was said; the status is in *ret. */
static bool find_service(struct cli *cli, struct question *question, int *ret)
{
    const char *url = cli_option(cli, "--url");
    struct config *config = cli_load(cli);
    bool good = ask_flags_are_good(cli, config);
    question->token = arena_copy(&cli->arena, slice_of(config->admin_token));
    question->address = arena_copy(&cli->arena, slice_of(config->admin_listen));
    question->path = S("/status");
    config_free(&config);
    *ret = EXIT_USAGE;
    if (!good || (url && !ask_url(url, &cli->arena, &question->address, &question->path)))
        return false;
    *ret = EXIT_FAILED;
    if (!url && slice_eq(question->address, S("off"))) {
        fprintf(stderr, "penstock: there is nobody to ask: admin_listen is off. If the service "
                "runs with other settings, name its address: --admin-listen HOST:PORT\n");
        return false;
    }
    return true;
}

static void tell_failure(const struct question *question, const struct answer *answer)
{
    slice address = question->address;
    if (answer->status == 401)
        fprintf(stderr, "penstock: %.*s refuses to tell: %.*s%s", SLICE_ARG(address),
                SLICE_ARG(answer->body),
                question->token.len ? "(the admin_token that was sent is another)\n" : "");
    else if (answer->status)
        fprintf(stderr, "penstock: %.*s answered %d: is that the admin_listen of a Penstock?\n",
                SLICE_ARG(address), answer->status);
    else
        fprintf(stderr, "penstock: can't ask %.*s: %s. Is the service running, and is this its "
                "admin_listen? Else name it: --admin-listen HOST:PORT, --url http://HOST:PORT or "
                "PENSTOCK_ADMIN_LISTEN\n", SLICE_ARG(address), answer->why);
}

static int ask_once(const struct question *question)
{
    struct arena keep = { 0 };
    int status = EXIT_FAILED;
    struct answer answer = ask(&keep, question->address, question->path, question->token, ASK_MS);
    if (question->watch && isatty(STDOUT_FILENO))
        fputs("\033[H\033[2J", stdout);    /* the screen anew */
    if (answer.status != 200)
        tell_failure(question, &answer);
    else if (question->raw)
        status = fwrite(answer.body.ptr, 1, answer.body.len, stdout) == answer.body.len
               ? EXIT_GOOD : EXIT_FAILED;
    else
        status = print_page(&keep, answer.body, question->watch);
    if (question->watch && !question->raw)
        putchar('\n');
    arena_free(&keep);
    return status;
}

static int run_stat(struct cli *cli)
{
    struct question question = { .raw = cli_flag(cli, "--json"), .watch = cli_flag(cli, "--watch") };
    int status;
    if (!find_service(cli, &question, &status))
        return status;
    status = ask_once(&question);
    while (question.watch && fflush(stdout) == 0) {    /* until it is interrupted */
        sleep(WATCH_S);
        status = ask_once(&question);
    }
    return status;
}

static const struct command_option options[] = {
    { "--json", NULL, "as JSON, as the service said it" },
    { "--watch", NULL, "again every 2 s, only what answers: does it work, is it worth it" },
    { "--url", "URL", "ask this one (http://HOST:PORT of its admin_listen)" },
    { 0 },
};

const struct command command_stat = {
    .name = "stat", .args = "[--json] [--watch] [--url URL] [SETTINGS]", .run = run_stat,
    .takes_settings = true,
    .help = "show whether the running service works, and whether it is worth it",
    .options = options,
    .more = "Where these settings are not the service's, name its admin_listen by\n"
            "--admin-listen HOST:PORT, PENSTOCK_ADMIN_LISTEN or --url. If it wants a token,\n"
            "admin_token_file (PENSTOCK_ADMIN_TOKEN_FILE) names the file.",
};
