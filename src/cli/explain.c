/* explain.c - the subcommand explain: what the cache would do with a key now, and why.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It prints the answer to the request "penstock-explain": first the outcome and its reason, then
 * the facts behind it, then where the bytes are, or why they are not there. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/lines.h"
#include "s3/conditions.h"
#include "s3/encode.h"

/* ---- members ---- */

static slice text_of(const json_t *at, const char *member, struct arena *keep)
{
    struct text text = text_in(keep);
    show_name(&text, lines_name(at, member, keep));
    return text.len ? text_slice(&text) : S("-");
}

static bool is_set(const json_t *at, const char *member)
{
    return json_is_true(json_object_get(at, member));
}

/* Returns a time, and how far from now it is. */
static slice time_of(const json_t *at, const char *member, struct arena *keep)
{
    slice text = text_of(at, member, keep);
    int64_t then_s = iso_date_read(text), now_s = wall_s();
    if (then_s < 0)
        return text;
    slice span = show_seconds(keep, (uint64_t)(then_s > now_s ? then_s - now_s : now_s - then_s));
    return arena_printf(keep, then_s > now_s ? "%.*s (in %.*s)" : "%.*s (%.*s ago)",
                        SLICE_ARG(text), SLICE_ARG(span));
}

/* ---- the facts ---- */

static void print_fact(const char *name, slice value)
{
    printf("%-12s %.*s\n", name, SLICE_ARG(value));
}

static slice rules_of(const json_t *root, struct arena *keep)
{
    slice freshness = text_of(root, "freshness", keep);
    if (!json_object_get(root, "ttl"))
        return freshness;
    return arena_printf(keep, "ttl %" PRIu64 "s, grace %" PRIu64 "s", lines_number(root, "ttl"),
                        lines_number(root, "grace"));
}

/* Other nodes read as the shared identity, so their answers prove nothing for another one. */
static slice permission_of(const json_t *root, struct arena *keep)
{
    const json_t *permission = json_object_get(root, "permission");
    slice identity = text_of(permission, "identity", keep);
    bool others = is_set(json_object_get(root, "peers"), "asked") && slice_eq(identity, S("shared"));
    if (json_is_false(json_object_get(permission, "needed")))
        return S("not needed: the origin knows no identities");
    uint64_t seconds = lines_number(permission, "proved_for");
    if (!seconds)
        return arena_printf(keep, "%.*s identity: its right to read the object is not proved, so "
                            "Penstock asks %s first", SLICE_ARG(identity),
                            others ? "the owner of the first segment, or the origin," : "the origin");
    return arena_printf(keep, "%.*s identity: its right to read the object is proved for %.*s more",
                        SLICE_ARG(identity), SLICE_ARG(show_seconds(keep, seconds)));
}

/* `size` is that of the object, or NULL. */
static slice bytes_of(const json_t *bytes, const json_t *size, struct arena *keep)
{
    uint64_t first = lines_number(bytes, "first"), end = lines_number(bytes, "end");
    uint64_t cached = lines_number(bytes, "cached");
    const json_t *examined = json_object_get(bytes, "examined");
    uint64_t counted = (examined ? lines_number(bytes, "examined") : end) - first;
    if (!size)
        return S("unknown, because the cache has no metadata of this object");
    if (end <= first)
        return json_integer_value(size) ? S("the object has none of these bytes")
                                        : S("the object is empty");
    slice part = show_bytes(keep, cached), whole = show_bytes(keep, counted);
    return arena_printf(keep, "%.*s of %s%.*s (%.*s) of bytes %" PRIu64 "-%" PRIu64, SLICE_ARG(part),
                        examined ? "the first " : "", SLICE_ARG(whole),
                        SLICE_ARG(show_share(keep, cached, counted)), first, end - 1);
}

static void print_facts(const json_t *root, struct arena *keep)
{
    const json_t *metadata = json_object_get(root, "metadata");
    print_fact("now", arena_printf(keep, "%.*s: %.*s", SLICE_ARG(text_of(root, "now", keep)),
                                   SLICE_ARG(text_of(root, "why", keep))));
    if (is_set(root, "being_fetched"))
        print_fact("", S("a fetch of the object is in progress"));
    print_fact("cached", bytes_of(json_object_get(root, "bytes"),
                                  json_object_get(metadata, "bytes"), keep));
    if (json_object_get(metadata, "confirmed"))
        print_fact("confirmed", time_of(metadata, "confirmed", keep));
    if (json_object_get(metadata, "fresh_until"))
        print_fact("fresh until", time_of(metadata, "fresh_until", keep));
    if (json_is_false(json_object_get(metadata, "proved")))
        print_fact("", S("the origin must confirm the metadata once: the cache folder missed a "
                         "write, was changed or copied, or was not closed cleanly; or the machine "
                         "was restarted"));
    if (is_set(metadata, "refused"))
        print_fact("", S("the origin refused the object to the shared identity"));
    else if (is_set(metadata, "unshared"))
        print_fact("", S("nothing proves that the shared identity may read the object: the origin "
                         "must confirm this right once"));
    print_fact("freshness", rules_of(root, keep));
    print_fact("permission", permission_of(root, keep));
    print_fact("origin", text_of(root, "origin", keep));
    const json_t *peers = json_object_get(root, "peers");
    if (peers)
        print_fact("peers", arena_printf(keep, "%s: %.*s", is_set(peers, "asked") ? "asked first"
                                         : "not asked", SLICE_ARG(text_of(peers, "why", keep))));
    if (!json_object_get(metadata, "etag") && !json_object_get(metadata, "etag_url"))
        return;
    print_fact("etag", text_of(metadata, "etag", keep));
    print_fact("modified", time_of(metadata, "last_modified", keep));
}

/* ---- where the parts are ---- */

/* Returns the latest event that explains why a record is not stored. The record is the object's
 * metadata, or a part of the object. */
static slice event_of(const json_t *root, const json_t *row, struct arena *keep)
{
    const json_t *kept_out = json_object_get(row, "not_stored");
    const json_t *left = json_object_get(row, "left");
    slice out_at = text_of(kept_out, "at", keep), left_at = text_of(left, "at", keep);
    bool is_left = left && (!kept_out || slice_cmp(left_at, out_at) >= 0);
    if (is_set(root, "listed_only"))
        return S("Penstock does not tell the reason to a client with an origin identity of its own");
    if (!kept_out && !left && is_set(row, "folder_out"))
        return S("nothing is read from this folder, or stored in it, until it is back in service");
    if (!kept_out && !left)
        return S("no reason is known. Perhaps no client has read this part since the start of the "
                 "service. If a client read this part in the last seconds, the part may still wait "
                 "to be written");
    return arena_printf(keep, "%s %.*s: %.*s", is_left ? "it left the cache" : "it was not stored",
                        SLICE_ARG(time_of(is_left ? left : kept_out, "at", keep)),
                        SLICE_ARG(text_of(is_left ? left : kept_out, "why", keep)));
}

static slice place_of(const json_t *root, const json_t *row, struct arena *keep)
{
    const json_t *age = json_object_get(row, "age");
    slice folder = arena_printf(keep, "cache folder %" PRIu64 "%s", lines_number(row, "folder"),
                                is_set(row, "folder_out") ? ", which is out of service" : "");
    if (!is_set(row, "stored"))
        return arena_printf(keep, "not cached (its place is %.*s); %.*s", SLICE_ARG(folder),
                            SLICE_ARG(event_of(root, row, keep)));
    slice place = arena_printf(keep, "%.*s, extent %" PRIu64, SLICE_ARG(folder),
                               lines_number(row, "extent"));
    return age ? arena_printf(keep, "%.*s, age %.2f", SLICE_ARG(place), json_number_value(age))
               : place;
}

/* ---- other nodes ---- */

static void print_peers(const json_t *root, struct arena *keep)
{
    const json_t *peers = json_object_get(root, "peers");
    json_t *row;
    size_t i;
    if (!peers)    /* the setting is empty, or the service is older */
        return;
    printf("\n%-25s  %-22s  %s\n", "BYTES", "OWNER", "SECOND");
    json_array_foreach(json_object_get(peers, "segments"), i, row)
        printf("%-25.*s  %-22.*s  %.*s%s\n",
               SLICE_ARG(arena_printf(keep, "%" PRIu64 "-%" PRIu64, lines_number(row, "first"),
                                      lines_number(row, "end") - 1)),
               SLICE_ARG(text_of(row, "owner", keep)), SLICE_ARG(text_of(row, "second", keep)),
               is_set(row, "cached") ? " (cached here)" : "");
    if (is_set(peers, "more_segments"))
        puts("... (there are further segments: to see them, give a --range)");
}

static void print_records(const json_t *root, struct arena *keep)
{
    const json_t *bytes = json_object_get(root, "bytes");
    json_t *records = json_object_get(bytes, "records"), *row;
    size_t i;
    slice metadata = place_of(root, json_object_get(root, "metadata"), keep);
    printf("\n%-25s  %s\n%-25s  %.*s\n", "BYTES", "WHERE", "metadata", SLICE_ARG(metadata));
    json_array_foreach(records, i, row)
        printf("%-25.*s  %.*s\n",
               SLICE_ARG(arena_printf(keep, "%" PRIu64 "-%" PRIu64, lines_number(row, "first"),
                                      lines_number(row, "end") - 1)),
               SLICE_ARG(place_of(root, row, keep)));
    if (is_set(bytes, "more_records"))
        puts("... (there are further parts: to see them, give a smaller --range)");
}

/* ---- the command ---- */

static int print(const struct server *server, slice body, struct arena *keep)
{
    json_error_t error;
    json_t *root = json_loadb(body.ptr, body.len, 0, &error);
    bool good = json_is_object(json_object_get(root, "bytes"));
    if (good) {
        printf("%.*s\n", SLICE_ARG(show_s3(keep, server->of.bucket, server->of.key)));
        print_facts(root, keep);
        print_records(root, keep);
        print_peers(root, keep);
    }
    json_decref(root);
    return good ? EXIT_GOOD : lines_malformed(server);
}

static bool judge(const void *arg, const struct s3_url *of)
{
    const char *range = arg;
    char header[64];
    int len = snprintf(header, sizeof(header), "bytes=%s", range ? range : "0-");
    bool is_range = len < (int)sizeof(header) && s3_range_read(slice_of(header)).kind != RANGE_NONE;
    if (!of->key.len)
        fputs("penstock explain: the key is missing: write s3://BUCKET/KEY\n", stderr);
    else if (!is_range)
        fprintf(stderr, "penstock explain: --range must be FIRST-LAST, FIRST- or -LENGTH, in bytes, "
                "not \"%s\"\n", range);
    return of->key.len && is_range;
}

static int ask(void *arg, const struct server *server, struct arena *keep)
{
    const char *range = arg;
    struct text query = text_in(keep);
    slice body;
    text_add(&query, S("penstock-explain="));
    if (range)
        query_add(&query, "range", slice_of(range));
    struct question question = { .method = "GET", .of = server->of, .query = text_slice(&query),
                                 .right = "\"list\" on this object, and the origin must allow the "
                                          "access key to list the object",
                                 .slow = "The service asks the origin whether you may list "
                                         "the key" };
    int status = server_ask(server, &question, keep, &body);
    if (status)
        return status;
    return lines_print(server, body) ? EXIT_GOOD : print(server, body, keep);
}

static int run(struct cli *cli)
{
    return server_run(cli, "explain", judge, ask, (void *)(uintptr_t)cli_option(cli, "--range"));
}

static const struct command_option options[] = {
    { "--range", "FIRST-LAST", "explain these bytes, not the whole object. FIRST- means up "
                               "to the end, -LENGTH means the last bytes" },
    SERVER_OPTIONS,
    { 0 },
};

const struct command command_explain = {
    .name = "explain", .args = "[--range FIRST-LAST] [--json] s3://BUCKET/KEY [SETTINGS]",
    .run = run, .takes_settings = true, .options = options,
    .help = "show what the cache would do with a key now, and why",
    .more = SERVER_MORE "The service asks the origin one thing only: whether you may list the key.",
};
