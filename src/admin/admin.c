/* admin.c - the app on the admin address. SPDX-License-Identifier: Apache-2.0
 *
 * Each endpoint is a row: path, content type, access, function. judge() admits only GET and HEAD
 * without a body. Access:
 * - anybody may read the two health paths, and the page for people at "/", which has no figures of
 *   its own: its script reads /status and /metrics;
 * - /metrics needs the token (the setting admin_token) only if the setting metrics_token is on;
 * - every other path needs the token if one is set. If none is set, other paths are refused if
 *   other machines can reach the address.
 * A page of another site can't read an answer here, because no answer allows it, and it can't show
 * one, because each answer forbids to be part of other sites' pages.
 * On loopback the Host must be an IP address or localhost. So a web page whose host name points at
 * this address (DNS rebinding) can read nothing here. If other machines can reach the address, any
 * Host is accepted, because Penstock does not know the names that these machines use. Threads: any
 * loop (a thread of http/) calls these functions; struct admin does not change. */
#include "admin/admin.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metric.h"
#include "base/url_kind.h"
#include "admin/page.h"
#include "admin/status_document.h"
#include "s3/encode.h"

struct admin {
    struct admin_options options;
    uint64_t began_ms;
    int64_t began_s;
    struct arena keep;        /* has the policy */
    slice policy;             /* the Content-Security-Policy of the page for people */
};

/* The names process_* are those that every Prometheus client library uses. */
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
    if (admin->options.expose)
        admin->options.expose(admin->options.arg, &text);
    expose_process(&text, admin->began_s);
    return text_slice(&text);
}

static slice overview(const struct admin *admin, struct arena *keep, int *status)
{
    struct status_document *to = document_new(keep);
    document_text(to, "name", S("penstock"));
    document_text(to, "version", slice_of(admin->options.version));
    document_text(to, "instance", slice_of(admin->options.instance));
    document_number(to, "pid", (uint64_t)getpid());
    document_number(to, "began_unix_s", (uint64_t)admin->began_s);
    document_number(to, "uptime_s", (mono_ms() - admin->began_ms) / 1000);
    document_flag(to, "ready", admin->options.ready(admin->options.arg));
    admin->options.tell(admin->options.arg, to);
    return document_print(&to, keep);
}

static slice live(const struct admin *admin, struct arena *keep, int *status)
{
    return S("live\n");
}

static slice ready(const struct admin *admin, struct arena *keep, int *status)
{
    if (admin->options.ready(admin->options.arg))
        return arena_printf(keep, "ready\ninstance=%s pid=%d version=%s\n",
                            admin->options.instance, (int)getpid(), admin->options.version);
    *status = 503;
    return S("not ready: Penstock is stopping\n");
}

static slice page(const struct admin *admin, struct arena *keep, int *status)
{
    return page_html();
}

/* FOR_METRICS: the token is needed only if metrics_token is set. */
enum access { FOR_ANYBODY, FOR_METRICS, FOR_OPERATORS };
static const struct endpoint {
    slice path;
    const char *type;
    enum access access;
    slice (*make)(const struct admin *admin, struct arena *keep, int *status);
} endpoints[] = {
    { { "/metrics", 8 }, "text/plain; version=0.0.4; charset=utf-8", FOR_METRICS, metrics },
    { { "/status", 7 }, "application/json", FOR_OPERATORS, overview },
    { { "/_/health/live", 14 }, "text/plain; charset=utf-8", FOR_ANYBODY, live },
    { { "/_/health/ready", 15 }, "text/plain; charset=utf-8", FOR_ANYBODY, ready },
    { { "/", 1 }, "text/html; charset=utf-8", FOR_ANYBODY, page },
};

static const struct endpoint *endpoint_at(slice path)
{
    for (size_t i = 0; i < countof(endpoints); i++)
        if (slice_eq(path, endpoints[i].path))
            return &endpoints[i];
    return NULL;
}

/* Sets the headers of an answer: those of all answers, and behind them the fields that *ret has
 * already, whose memory must live as long as the answer. */
static void set_fields(struct arena *keep, const char *type, struct http_answer *ret)
{
    const struct http_field common[] = {
        { S("Content-Type"), slice_of(type) },
        { S("Cache-Control"), S("no-store") },
        { S("X-Content-Type-Options"), S("nosniff") },
        { S("X-Frame-Options"), S("DENY") },
        { S("Cross-Origin-Resource-Policy"), S("same-origin") },
        { S("Referrer-Policy"), S("no-referrer") },
    };
    size_t count = countof(common) + ret->field_count;
    struct http_field *fields = arena_alloc(keep, count * sizeof(*fields));
    for (size_t i = 0; i < count; i++)
        fields[i] = i < countof(common) ? common[i] : ret->fields[i - countof(common)];
    ret->fields = fields;
    ret->field_count = count;
}

static void say(struct arena *keep, int status, slice sentence, struct http_answer *ret)
{
    ret->status = status;
    ret->body = sentence;
    set_fields(keep, "text/plain; charset=utf-8", ret);
}

/* ---- access ---- */

static bool is_address(slice host)
{
    char text[INET6_ADDRSTRLEN];
    uint8_t ignored[sizeof(struct in6_addr)];
    bool six = slice_starts(host, S("[")) && slice_ends(host, S("]"));
    if (six)
        host = slice_sub(host, 1, host.len - 2);
    if (host.len >= sizeof(text))
        return false;
    text[slice_put(text, host)] = '\0';
    return inet_pton(six ? AF_INET6 : AF_INET, text, ignored) == 1;
}

static bool host_is_local(slice host)
{
    url_cut_port(&host);
    return is_address(host) || slice_eq_nocase(host, S("localhost"));
}

/* Decodes "NAME:PASSWORD" from base64, and returns the password. Returns an empty slice if the text
 * can't be decoded, or has no colon. */
static slice basic_password(struct arena *keep, slice text)
{
    slice rest = base64_decode(keep, text);
    (void)slice_cut(&rest, ':');
    return rest.ptr ? rest : S("");
}

static bool brings_token(const struct admin *admin, struct arena *keep,
                         const struct request_head *head)
{
    slice token = request_head_get(head, S("authorization")), scheme = slice_cut(&token, ' ');
    token = slice_trim(token);
    if (!admin->options.token.len)
        return false;
    if (slice_eq_nocase(scheme, S("basic")))
        token = basic_password(keep, token);
    else if (!slice_eq_nocase(scheme, S("bearer")))
        return false;
    return slice_eq_secret(admin->options.token, token);
}

static bool needs_token(const struct admin *admin, slice path)
{
    const struct endpoint *endpoint = endpoint_at(path);
    if (endpoint && endpoint->access == FOR_ANYBODY)
        return false;
    if (endpoint && endpoint->access == FOR_METRICS)
        return admin->options.metrics_token;
    return admin->options.token.len || admin->options.exposed;
}

static slice why_no_token(const struct admin *admin)
{
    return admin->options.token.len
        ? S("this page needs admin_token: send it as a bearer token, or as the password of Basic "
            "authentication with any user name. For penstock stat, set PENSTOCK_ADMIN_TOKEN_FILE "
            "to the file that holds the token\n")
        : S("this page is refused, because other machines can reach admin_listen and admin_token "
            "is not set. Without a token, only /metrics, /_/health/live, /_/health/ready and the "
            "page at / without figures are served here. Set admin_token_file, or set admin_listen "
            "to a loopback address, such as 127.0.0.1:9001\n");
}

/* Names the ways to send the token. A browser asks for a password only if Basic is one of them, so
 * Basic is left out if no password helps. */
static void refuse_without_token(const struct admin *admin, struct arena *keep,
                                 struct http_answer *ret)
{
    static const struct http_field ways[] = {
        { { "WWW-Authenticate", 16 }, { "Bearer realm=\"penstock\"", 23 } },
        { { "WWW-Authenticate", 16 }, { "Basic realm=\"penstock\", charset=\"UTF-8\"", 39 } },
    };
    ret->fields = ways;
    ret->field_count = admin->options.token.len ? 2 : 1;
    say(keep, 401, why_no_token(admin), ret);
}

static bool judge(void *arg, struct http_loop *loop, struct arena *keep, slice peer,
                  const struct request_head *head, struct http_answer *ret)
{
    const struct admin *admin = arg;
    if (!admin->options.exposed && !host_is_local(head->host))
        say(keep, 421, S("the Host header names a host that is not served here: write an IP "
                         "address or localhost as the host in the URL\n"), ret);
    else if (!slice_eq(head->method, S("GET")) && !slice_eq(head->method, S("HEAD")))
        say(keep, 405, S("only GET and HEAD are allowed at admin_listen: send S3 requests to "
                         "the address of the setting \"listen\"\n"), ret);
    else if (head->chunked || head->length)
        say(keep, 413, S("a request to admin_listen must not have a body: send it without "
                         "one\n"), ret);
    else if (needs_token(admin, head->path) && !brings_token(admin, keep, head))
        refuse_without_token(admin, keep, ret);
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
    const struct endpoint *endpoint = endpoint_at(path);
    const struct http_field policy = { S("Content-Security-Policy"), admin->policy };
    if (!endpoint) {
        say(keep, 404, S("there is no such page: this address serves / (for people), /metrics, "
                         "/status, /_/health/live and /_/health/ready. S3 is served at the address "
                         "of the setting \"listen\"\n"), ret);
        return;
    }
    ret->status = 200;
    ret->body = endpoint->make(admin, keep, &ret->status);
    ret->fields = &policy;
    ret->field_count = endpoint->make == page;    /* only the page has a script */
    set_fields(keep, endpoint->type, ret);
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
    check(options->version && options->instance && options->tell && options->ready);
    admin->options = *options;
    admin->began_ms = mono_ms();
    admin->began_s = wall_s();
    admin->policy = page_policy(&admin->keep);
    return admin;
}

void admin_free(struct admin **admin)
{
    if (*admin)
        arena_free(&(*admin)->keep);
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
