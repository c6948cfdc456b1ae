/* lines.c - the lines of an answer about the cache, over all pages.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An answer has a JSON object on each line, and the last one is a summary. If there may be more
 * rows, the summary has the name after which the next page begins. */
#include "cli/lines.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/json.h"
#include "s3/encode.h"

/* The service accepts many requests of one client at the same time if each asks for FIRST_ROWS rows,
 * but at most two that ask for PAGE_ROWS. Each page costs a look through the whole cache, so all pages after
 * the first are large. */
#define FIRST_ROWS "1000"
#define PAGE_ROWS "100000"

uint64_t lines_number(const json_t *row, const char *member)
{
    json_int_t value = json_integer_value(json_object_get(row, member));
    return value > 0 ? (uint64_t)value : 0;
}

slice lines_name(const json_t *row, const char *member, struct arena *keep)
{
    const json_t *plain = json_object_get(row, member);
    slice name = S("");
    if (json_is_string(plain))
        return arena_copy(keep, json_text(plain));
    slice encoded = json_text(json_object_get(row, arena_printf(keep, "%s_url", member).ptr));
    return uri_decode(keep, encoded, &name) ? S("") : name;
}

void lines_folders(const json_t *row, const char *member, bool folders[LINES_FOLDERS_MAX])
{
    json_t *folder;
    size_t i;
    json_array_foreach(json_object_get(row, member), i, folder)
        if (json_integer_value(folder) > 0 && json_integer_value(folder) <= LINES_FOLDERS_MAX)
            folders[json_integer_value(folder) - 1] = true;
}

/* ---- one page ---- */

struct page {
    line_visit *visit;
    void *arg;
    struct lines_end *end;
    slice next;               /* empty: this is the last page */
    bool ended;               /* the summary has come */
    struct arena *keep;
};

static void read_summary(struct page *page, const json_t *row)
{
    page->ended = true;
    page->end->rows += lines_number(row, "rows");
    page->end->complete = page->end->complete && json_is_true(json_object_get(row, "complete"));
    page->end->listed_only |= json_is_true(json_object_get(row, "listed_only"));
    page->end->list_cut |= json_is_true(json_object_get(row, "list_cut"));
    page->end->extents_unread = MAX(page->end->extents_unread, lines_number(row, "extents_unread"));
    page->end->extents_unnamed = MAX(page->end->extents_unnamed,
                                     lines_number(row, "extents_unnamed"));
    lines_folders(row, "folders_out", page->end->folders);
    page->next = lines_name(row, "next", page->keep);
}

static void visit_of_page(void *arg, slice line, const json_t *row)
{
    struct page *page = arg;
    if (json_object_get(row, "complete"))
        read_summary(page, row);
    else
        page->visit(page->arg, line, row);
}

/* Returns false if a line is not a JSON object. */
static bool read_lines(slice body, line_visit *visit, void *arg)
{
    bool good = true;
    while (body.len && good) {
        json_error_t error;
        slice line = slice_sub(body, 0, slice_find(body, S("\n")) + 1);
        json_t *row = json_loadb(line.ptr, line.len, 0, &error);
        good = json_is_object(row);
        if (good)
            visit(arg, line, row);
        json_decref(row);
        body = slice_from(body, line.len);
    }
    return good;
}

int lines_malformed(const struct server *server)
{
    fprintf(stderr, "penstock %s: the answer of %.*s is cut or malformed. Check that this "
            "server is a Penstock of the same version as this command\n", server->command, SLICE_ARG(server->url));
    return EXIT_FAILED;
}

int lines_each(const struct server *server, slice body, line_visit *visit, void *arg)
{
    return read_lines(body, visit, arg) ? EXIT_GOOD : lines_malformed(server);
}

bool lines_print(const struct server *server, slice line)
{
    if (server->json)
        fwrite(line.ptr, 1, line.len, stdout);
    return server->json;
}

/* ---- all pages ---- */

static int ask_page(const struct server *server, const struct question *question, slice marker,
                    struct page *page)
{
    struct question ask = *question;
    struct text query = text_in(page->keep);
    slice body;
    text_add(&query, question->query);
    query_add(&query, "max-keys", marker.len ? S(PAGE_ROWS) : S(FIRST_ROWS));
    if (marker.len)
        query_add(&query, "marker", marker);
    ask.query = text_slice(&query);
    int status = server_ask(server, &ask, page->keep, &body);
    if (!status && !(read_lines(body, visit_of_page, page) && page->ended))
        return lines_malformed(server);
    return status;
}

int lines_read(const struct server *server, const struct question *question, line_visit *visit,
              void *arg, struct lines_end *ret)
{
    struct arena keep = { 0 }, before = { 0 };
    slice marker = S("");
    int status;
    *ret = (struct lines_end){ .complete = true };
    do {
        struct page page = { visit, arg, ret, S(""), false, &keep };
        status = ask_page(server, question, marker, &page);
        arena_free(&before);
        marker = page.next;
        before = keep;    /* holds the marker */
        keep = (struct arena){ 0 };
        fflush(stdout);
    } while (!status && marker.len);
    arena_free(&before);
    return status ? status : ret->complete ? EXIT_GOOD : EXIT_INCOMPLETE;
}

/* ---- the summary ---- */

/* Writes the numbers of the folders out of service, and returns how many there are. */
static size_t add_folders(struct text *to, const struct lines_end *end, const char *between)
{
    size_t count = 0;
    for (size_t i = 0; i < LINES_FOLDERS_MAX; i++)
        if (end->folders[i])
            text_printf(to, "%s%zu", count++ ? between : "", i + 1);
    return count;
}

void lines_print_end(const struct lines_end *end)
{
    struct arena keep = { 0 };
    struct text folders = text_in(&keep);
    add_folders(&folders, end, ",");
    printf("{\"rows\":%" PRIu64 ",\"complete\":%s%s%s,\"folders_out\":[%.*s],"
           "\"extents_unread\":%" PRIu64, end->rows, end->complete ? "true" : "false",
           end->listed_only ? ",\"listed_only\":true" : "", end->list_cut ? ",\"list_cut\":true" : "",
           (int)folders.len, folders.len ? folders.ptr : "", end->extents_unread);
    if (end->extents_unnamed)
        printf(",\"extents_unnamed\":%" PRIu64, end->extents_unnamed);
    puts("}");
    arena_free(&keep);
}

void lines_warn(const struct server *server, const struct lines_end *end, struct arena *keep)
{
    struct text text = text_in(keep), folders = text_in(keep);
    size_t count = add_folders(&folders, end, ", ");
    if (end->listed_only)
        fprintf(stderr, "penstock %s: note: the answer has only objects that the origin lists to this "
                "access key, because the key has an origin identity of its own\n", server->command);
    if (end->complete)
        return;
    if (count)
        text_printf(&text, "; %s %.*s %s out of service (counted in the order of cache_dirs; "
                    "penstock stat says why)", count > 1 ? "cache folders" : "cache folder",
                    (int)folders.len, folders.ptr, count > 1 ? "are" : "is");
    if (end->extents_unread)
        text_printf(&text, "; %" PRIu64 " extents could not be read (see the service's log; "
                    "penstock fsck names damaged ones while the service is stopped)",
                    end->extents_unread);
    if (end->extents_unnamed)
        text_printf(&text, "; %" PRIu64 " extents were written by an older version of Penstock, "
                    "without the names of the objects (these objects are still served)",
                    end->extents_unnamed);
    if (end->list_cut)
        text_add(&text, S("; the origin's list is too long for one answer (ask for longer "
                          "prefixes)"));
    fprintf(stderr, "penstock %s: warning: this is not all that is cached%.*s\n", server->command,
            (int)text.len, text.len ? text.ptr : "");
}

void lines_warn_folder(const struct server *server, uint64_t folder, const char *so)
{
    fprintf(stderr, "penstock %s: warning: cache folder %" PRIu64 " (counted in the order of "
            "cache_dirs) is out of service; %s\n", server->command, folder, so);
}

void lines_warn_folders(const struct server *server, const json_t *row, const char *so)
{
    json_t *folders = json_object_get(row, "folders_out"), *folder;
    size_t i;
    json_array_foreach(folders, i, folder)
        lines_warn_folder(server, (uint64_t)json_integer_value(folder), so);
}

void lines_warn_unread(const struct server *server, const json_t *row)
{
    uint64_t extents = lines_number(row, "extents_unread");
    if (extents)
        fprintf(stderr, "penstock %s: warning: %" PRIu64 " extents could not be read (see the "
                "service's log; penstock fsck names damaged ones while the service is stopped); "
                "their objects are not counted\n", server->command, extents);
}

void lines_warn_unnamed(const struct server *server, const json_t *row, const char *so)
{
    uint64_t extents = lines_number(row, "extents_unnamed");
    if (extents)
        fprintf(stderr, "penstock %s: warning: %" PRIu64 " extents were written by an older "
                "version of Penstock, without the names of the objects; %s\n",
                server->command, extents, so);
}
