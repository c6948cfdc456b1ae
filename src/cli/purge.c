/* purge.c - the subcommand purge: removes a prefix or a key from the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * When the service answers, the purged copies are no longer served. The service then removes their
 * entries from the index in the background. With --wait, the command asks for the purges in
 * progress until neither this purge nor one that replaced it is among them. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/lines.h"

#define POLL_MS 500u
#define PROGRESS_MS 5000u

struct purge {
    bool dry, wait, one, yes, list;    /* one: a key, and not a prefix */
    const struct server *server;
    uint64_t serial;               /* of this purge; 0: none was made */
    bool incomplete;               /* of a dry run */
    bool answered;                 /* the service has said that it was done */
    /* Of the purges that --wait or --list finds. working: a folder has entries to delete, and can
     * delete them now. out: the folders that are out of service, and hold up the purge. waiting:
     * the folders that are in service, and wait for those. unread: the folders that are in service,
     * and can't open some of their files. */
    uint64_t extents, left, rows;
    bool working, waiting[LINES_FOLDERS_MAX], out[LINES_FOLDERS_MAX], unread[LINES_FOLDERS_MAX];
    struct arena keep;
};

static slice shown(struct purge *purge, slice key)
{
    return show_s3(&purge->keep, purge->server->of.bucket, key);
}

/* ---- the command line ---- */

static bool is_whole_bucket(const struct purge *purge, const struct s3_url *of)
{
    return !of->key.len && !purge->yes && !purge->dry && !purge->list;
}

static bool judge(const void *arg, const struct s3_url *of)
{
    const struct purge *purge = arg;
    if (purge->one && !of->key.len)
        fputs("penstock purge: --key is for one key: write s3://BUCKET/KEY\n", stderr);
    else if (purge->list && (purge->dry || purge->wait || purge->one || purge->yes))
        fputs("penstock purge: --list shows purges and changes nothing: leave out --key, --dry-run, "
              "--wait and --yes\n", stderr);
    else if (is_whole_bucket(purge, of) && !isatty(STDIN_FILENO))
        fprintf(stderr, "penstock purge: s3://%.*s names the whole bucket. To purge all of it, add "
                "--yes\n", SLICE_ARG(of->bucket));
    else
        return true;
    return false;
}

/* Asks on the terminal before a whole bucket is purged. Returns true if the purge may go on. */
static bool confirm(const struct purge *purge)
{
    char line[16];
    if (!is_whole_bucket(purge, &purge->server->of))
        return true;
    fprintf(stderr, "Remove everything of the bucket %.*s from the cache? The origin keeps its "
            "objects. Type yes: ", SLICE_ARG(purge->server->of.bucket));
    if (fgets(line, sizeof(line), stdin) && strcmp(line, "yes\n") == 0)
        return true;
    fputs("penstock purge: nothing was purged\n", stderr);
    return false;
}

/* ---- the answers ---- */

static void print_dry(struct purge *purge, const json_t *row)
{
    uint64_t objects = lines_number(row, "objects");
    slice bytes = show_bytes(&purge->keep, lines_number(row, "cached_bytes"));
    printf("would purge %" PRIu64 " %s of %.*s: %.*s in the cache\n", objects,
           objects == 1 ? "object" : "objects", SLICE_ARG(shown(purge, purge->server->of.key)),
           SLICE_ARG(bytes));
}

static void visit_answer(void *arg, slice line, const json_t *row)
{
    struct purge *purge = arg;
    purge->answered = json_is_integer(json_object_get(row, purge->dry ? "objects" : "serial")) &&
                      (purge->dry || json_is_true(json_object_get(row, "purged")));
    if (!purge->answered)
        return;
    purge->serial = lines_number(row, "serial");
    purge->incomplete = json_is_false(json_object_get(row, "complete"));
    if (lines_print(purge->server, line))
        ;    /* it was printed as JSON */
    else if (purge->dry)
        print_dry(purge, row);
    else
        printf("purged %.*s\n", SLICE_ARG(shown(purge, purge->server->of.key)));
    lines_warn_folders(purge->server, row, purge->dry
                      ? "its objects are not counted"
                      : "the purge is made there before the folder serves again");
    lines_warn_unread(purge->server, row);
    lines_warn_unnamed(purge->server, row, "these objects are not counted, but a purge of their "
                       "names removes them, too");
}

static bool is_of_key(const json_t *row)
{
    return json_object_get(row, "key") || json_object_get(row, "key_url");
}

/* Returns true for this purge, and for each later purge that may have replaced it. */
static bool is_awaited(struct purge *purge, const json_t *row)
{
    bool is_key = is_of_key(row);
    slice name = lines_name(row, is_key ? "key" : "prefix", &purge->keep);
    if (is_key == purge->one && slice_eq(name, purge->server->of.key))
        return true;
    return !is_key && slice_starts(purge->server->of.key, name) &&
           lines_number(row, "serial") > purge->serial;
}

static void count(struct purge *purge, const json_t *row)
{
    bool folders[LINES_FOLDERS_MAX] = { false }, held[LINES_FOLDERS_MAX] = { false };
    purge->rows++;
    purge->extents += lines_number(row, "extents");
    purge->left += lines_number(row, "extents_left");
    lines_folders(row, "folders", folders);
    lines_folders(row, "folders_waiting", held);
    lines_folders(row, "folders_out", held);
    lines_folders(row, "folders_unread", held);
    for (size_t i = 0; i < LINES_FOLDERS_MAX; i++)
        purge->working |= folders[i] && !held[i];
    lines_folders(row, "folders_waiting", purge->waiting);
    lines_folders(row, "folders_out", purge->out);
    lines_folders(row, "folders_unread", purge->unread);
}

static void visit_state(void *arg, slice line, const json_t *row)
{
    (void)line;
    if (is_awaited(arg, row))
        count(arg, row);
}

static void visit_list(void *arg, slice line, const json_t *row)
{
    struct purge *purge = arg;
    bool is_key = is_of_key(row);
    slice name = lines_name(row, is_key ? "key" : "prefix", &purge->keep);
    if (!lines_print(purge->server, line))
        printf("%.*s%s: %" PRIu64 " of %" PRIu64 " files of the cache are not yet searched for "
               "purged copies\n",
               SLICE_ARG(shown(purge, name)), is_key ? " (one key)" : "",
               lines_number(row, "extents_left"), lines_number(row, "extents"));
    count(purge, row);
}

/* ---- the requests ---- */

static void warn_held(const struct purge *purge)
{
    for (size_t i = 0; i < LINES_FOLDERS_MAX; i++)
        if (purge->out[i])
            lines_warn_folder(purge->server, i + 1, "the purge stays in progress until the folder "
                              "is back");
    for (size_t i = 0; i < LINES_FOLDERS_MAX; i++)
        if (purge->waiting[i])
            fprintf(stderr, "penstock purge: warning: cache folder %zu may still have parts of "
                    "purged objects. To delete these parts, Penstock needs the names of the "
                    "objects. The names are in another cache folder, which is out of service. The "
                    "purge stays in progress in cache folder %zu until that other folder is "
                    "back\n", i + 1, i + 1);
    for (size_t i = 0; i < LINES_FOLDERS_MAX; i++)
        if (purge->unread[i])
            fprintf(stderr, "penstock purge: warning: cache folder %zu has files in extents/ that "
                    "Penstock can't open; the purge stays in progress there until Penstock can "
                    "open them. Check the mode bits of extents/ and of its files, and the disk; "
                    "then restart Penstock. While Penstock is stopped, penstock fsck names the "
                    "files\n", i + 1);
}

/* Asks for the purges in force. */
static int ask_states(struct purge *purge, line_visit *visit)
{
    struct text query = text_in(&purge->keep);
    slice body;
    purge->rows = purge->extents = purge->left = 0;
    purge->working = false;
    memset(purge->waiting, 0, sizeof(purge->waiting));
    memset(purge->out, 0, sizeof(purge->out));
    memset(purge->unread, 0, sizeof(purge->unread));
    text_add(&query, S("penstock-purge="));
    query_add(&query, "prefix", purge->server->of.key);
    struct question question = {
        .method = "GET", .of = { purge->server->of.bucket, S("") }, .query = text_slice(&query),
        .right = SERVER_CACHE_RIGHT, .slow = "The service may have many other requests, or its "
                                             "disk may be slow",
        .may_be_empty = true };
    int status = server_ask(purge->server, &question, &purge->keep, &body);
    return status ? status : lines_each(purge->server, body, visit, purge);
}

static int wait_for_sweep(struct purge *purge)
{
    uint64_t notice_ms = mono_ms() + PROGRESS_MS;
    int status;
    for (;; usleep(POLL_MS * 1000)) {
        status = ask_states(purge, visit_state);
        if (status || !purge->rows)
            return status;
        if (!purge->working) {
            warn_held(purge);
            return EXIT_INCOMPLETE;
        }
        if (mono_ms() >= purge->server->until_ms) {
            fprintf(stderr, "penstock purge: the copies are no longer served, but not all of them "
                    "were deleted from the index in time: %" PRIu64 " of %" PRIu64 " files of the "
                    "cache are not yet searched. Give the command more time by --timeout SECONDS\n",
                    purge->left, purge->extents);
            return EXIT_FAILED;
        }
        if (mono_ms() >= notice_ms) {
            fprintf(stderr, "penstock purge: the copies are no longer served. Deleting them from "
                    "the index: %" PRIu64 " of %" PRIu64 " files of the cache are not yet "
                    "searched\n",
                    purge->left, purge->extents);
            notice_ms += PROGRESS_MS;
        }
        arena_free(&purge->keep);
    }
}

static int ask_purge(struct purge *purge)
{
    struct text query = text_in(&purge->keep);
    slice body;
    text_add(&query, S("penstock-purge="));
    query_add(&query, purge->one ? "key" : "prefix", purge->server->of.key);
    if (purge->dry)
        text_add(&query, S("&dry-run="));
    struct question question = {
        .method = "POST", .of = { purge->server->of.bucket, S("") }, .query = text_slice(&query),
        .right = SERVER_CACHE_RIGHT, .slow = purge->dry ? SERVER_SLOW_WALK
            : "The service writes the purge to each cache folder, and a disk may be slow" };
    int status = server_ask(purge->server, &question, &purge->keep, &body);
    if (!status)
        status = lines_each(purge->server, body, visit_answer, purge);
    if (!status && !purge->answered)
        status = lines_malformed(purge->server);
    fflush(stdout);
    if (!status && purge->wait && purge->serial)
        status = wait_for_sweep(purge);
    return status ? status : purge->incomplete ? EXIT_INCOMPLETE : EXIT_GOOD;
}

static int list(struct purge *purge)
{
    int status = ask_states(purge, visit_list);
    if (!status && !purge->rows && !purge->server->json)
        printf("no purge of %.*s is in progress\n", SLICE_ARG(shown(purge, purge->server->of.key)));
    fflush(stdout);
    warn_held(purge);
    return status;
}

/* ---- the command ---- */

static int ask(void *arg, const struct server *server, struct arena *keep)
{
    struct purge *purge = arg;
    (void)keep;    /* --wait frees its own memory after each request */
    purge->server = server;
    return purge->list ? list(purge) : confirm(purge) ? ask_purge(purge) : EXIT_FAILED;
}

static int run(struct cli *cli)
{
    struct purge purge = {
        .dry = cli_flag(cli, "--dry-run"), .wait = cli_flag(cli, "--wait"),
        .one = cli_flag(cli, "--key"), .yes = cli_flag(cli, "--yes"),
        .list = cli_flag(cli, "--list"),
    };
    int status = server_run(cli, "purge", judge, ask, &purge);
    arena_free(&purge.keep);
    return status;
}

static const struct command_option options[] = {
    { "--key", NULL, "the URL names exactly one key, not a prefix" },
    { "--dry-run", NULL, "change nothing; show how much a purge would remove" },
    { "--wait", NULL, "also wait until the purge has ended in each cache folder. Three kinds of "
                      "folders are not waited for: folders that are out of service; folders with "
                      "files that Penstock can't open; and folders where the purge can't end, because "
                      "another folder has the names of some objects, and is out of service" },
    { "--list", NULL, "show the purges that are still in progress" },
    { "--yes", NULL, "do not ask before a whole bucket is purged" },
    SERVER_OPTIONS,
    { 0 },
};

const struct command command_purge = {
    .name = "purge", .args = "[--list] [--key] [--dry-run] [--wait] [--yes] [--json] s3://BUCKET/PREFIX "
                             "[SETTINGS]",
    .run = run, .takes_settings = true, .options = options,
    .help = "remove a prefix or a key from the cache; the origin keeps its objects",
    .more = SERVER_MORE
            "When the command returns, Penstock no longer serves the copies that it had.\n"
            "It then deletes these copies from its index in the background. Until this is\n"
            "done, the purge is in progress.\n"
            "PREFIX is compared byte by byte: train matches training/1, and train/ does not.",
};
