/* admin.c - the app on the admin address. SPDX-License-Identifier: Apache-2.0
 *
 * A page is a row: path, kind, whom it is for, function. The judge lets in only GET and HEAD without
 * a body. Health is for everybody. The token opens the rest; where there is none, an address that
 * others reach shows health and metrics alone. On loopback the Host must be an address, localhost or
 * the configured name: a web page that points a name of its own at this address (DNS rebinding) gets
 * nothing to read. Where others reach it, they do so by names that nobody told us.
 * Threads: pages are made on any loop; the struct does not change. */
#include "admin/admin.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metric.h"
#include "admin/page.h"
#include "s3/encode.h"

struct admin {
    struct admin_options options;
    uint64_t began_ms;
    int64_t began_s;
};

/* By the names every Prometheus client library gives them. */
static void expose_process(struct text *to, int64_t began_s)
{
    unsigned long pages = 0, resident = 0, shared = 0;
    uintmax_t page = (uintmax_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%lu %lu %lu", &pages, &resident, &shared) != 3)
        resident = shared = 0;
    if (file)
        fclose(file);
    text_printf(to, "# HELP process_start_time_seconds When this process began, in Unix time\n"
                "# TYPE process_start_time_seconds gauge\n"
                "process_start_time_seconds %jd\n"
                "# HELP process_resident_memory_bytes Resident memory\n"
                "# TYPE process_resident_memory_bytes gauge\n"
                "process_resident_memory_bytes %ju\n"
                "# HELP penstock_own_memory_bytes Anonymous resident memory: the process's own, "
                "without mapped files and shared memory (RssAnon)\n"
                "# TYPE penstock_own_memory_bytes gauge\n"
                "penstock_own_memory_bytes %ju\n", (intmax_t)began_s, resident * page,
                (resident - shared) * page);
}

static slice metrics(const struct admin *admin, struct arena *keep, int *status)
{
    struct text text = text_in(keep);
    metrics_expose(&text);
    expose_process(&text, admin->began_s);
    return text_slice(&text);
}

static slice overview(const struct admin *admin, struct arena *keep, int *status)
{
    struct admin_page *page = page_new(keep);
    admin_text(page, "name", S("penstock"));
    admin_text(page, "version", slice_of(admin->options.version));
    if (admin->options.instance)
        admin_text(page, "instance", slice_of(admin->options.instance));
    admin_number(page, "pid", (uint64_t)getpid());
    admin_number(page, "began_unix_s", (uint64_t)admin->began_s);
    admin_number(page, "uptime_s", (mono_ms() - admin->began_ms) / 1000);
    if (admin->options.ready)
        admin_flag(page, "ready", admin->options.ready(admin->options.arg));
    if (admin->options.tell)
        admin->options.tell(admin->options.arg, page);
    return page_print(&page, keep);
}

static slice live(const struct admin *admin, struct arena *keep, int *status)
{
    return S("live\n");
}

static slice ready(const struct admin *admin, struct arena *keep, int *status)
{
    if (!admin->options.ready || admin->options.ready(admin->options.arg))
        return arena_printf(keep, "ready\ninstance=%s pid=%d version=%s\n",
                            admin->options.instance ? admin->options.instance : "-", (int)getpid(),
                            admin->options.version);
    *status = 503;
    return S("not ready\n");
}

enum whose { EVERYBODYS, METRICS, OPERATORS };
static const struct page {
    slice path;
    const char *kind;
    enum whose whose;
    slice (*make)(const struct admin *admin, struct arena *keep, int *status);
} PAGES[] = {
    { { "/metrics", 8 }, "text/plain; version=0.0.4; charset=utf-8", METRICS, metrics },
    { { "/status", 7 }, "application/json", OPERATORS, overview },
    { { "/_/health/live", 14 }, "text/plain; charset=utf-8", EVERYBODYS, live },
    { { "/_/health/ready", 15 }, "text/plain; charset=utf-8", EVERYBODYS, ready },
};

static const struct page *page_at(slice path)
{
    for (size_t i = 0; i < countof(PAGES); i++)
        if (slice_eq(path, PAGES[i].path))
            return &PAGES[i];
    return NULL;
}

static void answer(struct arena *keep, int status, const char *kind, slice body,
                   struct http_answer *ret)
{
    struct http_field *fields = arena_alloc(keep, 3 * sizeof(*fields));
    fields[0] = (struct http_field){ S("Content-Type"), slice_of(kind) };
    fields[1] = (struct http_field){ S("Cache-Control"), S("no-store") };
    fields[2] = (struct http_field){ S("X-Content-Type-Options"), S("nosniff") };
    ret->status = status;
    ret->fields = fields;
    ret->field_count = 3;
    ret->body = body;
}

static void say(struct arena *keep, int status, slice sentence, struct http_answer *ret)
{
    answer(keep, status, "text/plain; charset=utf-8", sentence, ret);
}

/* ---- who may ask ---- */

/* The host without its port; brackets stay. */
static slice without_port(slice host)
{
    if (slice_starts(host, S("["))) {
        slice rest = host;
        slice inside = slice_cut(&rest, ']');
        return rest.ptr ? slice_sub(host, 0, inside.len + 1) : host;
    }
    return slice_cut(&host, ':');
}

static bool is_address(slice host)
{
    char text[INET6_ADDRSTRLEN];
    uint8_t ignored[sizeof(struct in6_addr)];
    bool six = slice_starts(host, S("[")) && slice_ends(host, S("]"));
    if (six)
        host = slice_sub(host, 1, host.len - 2);
    if (host.len >= sizeof(text))
        return false;
    memcpy(text, host.ptr, host.len);
    text[host.len] = '\0';
    return inet_pton(six ? AF_INET6 : AF_INET, text, ignored) == 1;
}

static bool host_is_ours(const struct admin *admin, slice host)
{
    host = without_port(host);
    if (!host.len)
        return false;
    return is_address(host) || slice_eq_nocase(host, S("localhost")) ||
           slice_eq_nocase(host, slice_of(admin->options.host_name));
}

/* The password of "NAME:PASSWORD", which is in base64; empty if it can't be read. */
static slice basic_password(struct arena *keep, slice text)
{
    size_t padding = slice_ends(text, S("==")) ? 2 : slice_ends(text, S("=")) ? 1 : 0;
    size_t bytes = text.len / 4 * 3;
    if (bytes <= padding)
        return S("");
    uint8_t *pair = arena_alloc(keep, bytes);
    if (!base64_read(text, pair, bytes - padding))
        return S("");
    slice rest = { (const char *)pair, bytes - padding };
    (void)slice_cut(&rest, ':');
    return rest.ptr ? rest : S("");
}

static bool brings_token(const struct admin *admin, struct arena *keep,
                         const struct http_head *head)
{
    slice said = http_head_get(head, S("authorization")), scheme = slice_cut(&said, ' ');
    said = slice_trim(said);
    if (!admin->options.token.len)
        return false;
    if (slice_eq_nocase(scheme, S("basic")))
        said = basic_password(keep, said);
    else if (!slice_eq_nocase(scheme, S("bearer")))
        return false;
    return slice_eq_secret(admin->options.token, said);
}

static bool needs_token(const struct admin *admin, slice path)
{
    const struct page *page = page_at(path);
    if (page && page->whose == EVERYBODYS)
        return false;
    if (page && page->whose == METRICS)
        return admin->options.metrics_token;
    return admin->options.token.len || admin->options.exposed;
}

static void ask_for_token(const struct admin *admin, struct http_answer *ret)
{
    static const struct http_field fields[] = {
        { { "Content-Type", 12 }, { "text/plain; charset=utf-8", 25 } },
        { { "Cache-Control", 13 }, { "no-store", 8 } },
        { { "WWW-Authenticate", 16 }, { "Bearer realm=\"penstock\"", 23 } },
        { { "WWW-Authenticate", 16 }, { "Basic realm=\"penstock\", charset=\"UTF-8\"", 39 } },
    };
    ret->status = 401;
    ret->fields = fields;
    ret->field_count = countof(fields);
    ret->body = admin->options.token.len
              ? S("this page needs admin_token: as a bearer token, or as the password of Basic "
                  "with any name; penstock stat reads it from PENSTOCK_ADMIN_TOKEN_FILE\n")
              : S("admin_listen can be reached by others, and admin_token is not set: only "
                  "/metrics, /_/health/live and /_/health/ready answer. Set admin_token_file, or "
                  "admin_listen to a loopback address\n");
}

static bool judge(void *arg, struct http_loop *loop, struct arena *keep, slice peer,
                  const struct http_head *head, struct http_answer *ret)
{
    const struct admin *admin = arg;
    if (!admin->options.exposed && !host_is_ours(admin, head->host))
        say(keep, 421, S("this Host is not served here: use the address, localhost, or the "
                         "configured name\n"), ret);
    else if (!slice_eq(head->method, S("GET")) && !slice_eq(head->method, S("HEAD")))
        say(keep, 405, S("only GET and HEAD\n"), ret);
    else if (head->chunked || head->length)
        say(keep, 413, S("no request bodies here\n"), ret);
    else if (needs_token(admin, head->path) && !brings_token(admin, keep, head))
        ask_for_token(admin, ret);
    else
        return true;
    return false;
}

static void refuse(void *arg, struct arena *keep, const struct http_refused *what,
                   struct http_answer *ret)
{
    int status = what->err == ERR_TIMEOUT ? 408 : what->err == ERR_TOO_LARGE ? 413 : 400;
    say(keep, status, arena_printf(keep, "%s\n", what->why), ret);
}

static void respond(const struct admin *admin, slice path, struct arena *keep,
                    struct http_answer *ret)
{
    const struct page *page = page_at(path);
    int status = 200;
    if (page) {
        slice body = page->make(admin, keep, &status);
        answer(keep, status, page->kind, body, ret);
        return;
    }
    say(keep, 404, S("here are /metrics, /status, /_/health/live and /_/health/ready; S3 is at "
                     "the address of the setting listen\n"), ret);
}

static void handle(void *arg, struct http_request *request)
{
    struct http_answer ret = { 0 };
    respond(arg, http_request_head(request)->path, http_request_arena(request), &ret);
    http_reply(request, &ret);
}

/* ---- the whole ---- */

struct admin *admin_new(const struct admin_options *options)
{
    struct admin *admin = must_alloc(sizeof(*admin));
    admin->options = *options;
    admin->began_ms = mono_ms();
    admin->began_s = wall_s();
    return admin;
}

void admin_free(struct admin **admin)
{
    free(*admin);
    *admin = NULL;
}

struct http_app admin_app(struct admin *admin, const char *listen)
{
    return (struct http_app){
        .setting = "admin_listen",
        .listen = listen,
        .connections_max = ADMIN_CONNECTIONS_MAX,
        .arg = admin,
        .judge = judge,
        .refuse = refuse,
        .handle = handle,
    };
}
