/* scripted_origin.c - HTTP/1.1 for an origin that does what it is told.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     scripted-origin [--port N] [--bind ADDRESS] [CONTROL-LINE ...]
 *
 * Prints "port N" once it listens. Control lines (control.c) may be given at start, or at any time:
 *
 *     POST /_/control           lines of key=value
 *     GET  /_/counts[?totals]   JSON: requests, body bytes written, ranges, aborted ones, by key
 *     POST /_/counts/reset      also empties the log
 *     GET  /_/log               a line a request: time method key range status bytes if-match end
 *
 * One thread a connection, at most CONNECTIONS_MAX, each with one struct conn. A request runs from
 * serve() to its count_end(); whatever was written to the socket by then has been counted. */
#include "conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 2048

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
const char *const method_names[METHOD_COUNT] = { "GET", "HEAD", "PUT", "DELETE", "POST", "LIST" };
static int open_count;

/* ---- the socket ---- */

/* Waits; false once the other side has gone. ms < 0: until it goes. */
static bool linger(struct conn *conn, int64_t ms)
{
    struct pollfd pfd = { conn->fd, POLLRDHUP, 0 };
    double end = now_s() + (double)ms / 1000;
    for (;;) {
        double left = ms < 0 ? 1000 : (end - now_s()) * 1000;
        if (left <= 0)
            return true;
        struct timespec ts = { (time_t)(left / 1000), (long)((int64_t)(left * 1e6) % 1000000000) };
        if (ppoll(&pfd, 1, &ts, NULL) > 0)
            return false;
    }
}

bool send_all(struct conn *conn, const char *bytes, size_t count, uint64_t *counted)
{
    while (count > 0) {
        ssize_t n = send(conn->fd, bytes, count, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            conn->close = conn->aborted = true;
            return false;
        }
        if (counted)
            *counted += (uint64_t)n;
        bytes += n;
        count -= (size_t)n;
    }
    return true;
}

static void cut(struct conn *conn)
{
    struct linger at_once = { 1, 0 };
    if (!conn->told.cut_fin)
        setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    conn->close = conn->aborted = true;
}

/* The next whole head lies at conn->in, NUL-terminated; false when there is none. */
static bool read_head(struct conn *conn)
{
    for (;;) {
        char *end = memmem(conn->in, conn->in_bytes, "\r\n\r\n", 4);
        if (end) {
            conn->head_bytes = (size_t)(end - conn->in) + 4;
            end[2] = 0;
            return memchr(conn->in, 0, (size_t)(end - conn->in)) == NULL;
        }
        if (conn->in_bytes == HEAD_BYTES_MAX)
            return false;
        ssize_t n = recv(conn->fd, conn->in + conn->in_bytes, HEAD_BYTES_MAX - conn->in_bytes, 0);
        if (n <= 0)
            return false;
        conn->in_bytes += (size_t)n;
    }
}

/* Up to `bytes` of the body, from what was read with the head or from the socket. */
ssize_t read_body(struct conn *conn, char *to, size_t bytes)
{
    size_t have = conn->in_bytes - conn->head_bytes;
    if (have == 0)
        return recv(conn->fd, to, bytes, 0);
    size_t take = have < bytes ? have : bytes;
    memcpy(to, conn->in + conn->head_bytes, take);
    memmove(conn->in + conn->head_bytes, conn->in + conn->head_bytes + take, have - take);
    conn->in_bytes -= take;
    return (ssize_t)take;
}

/* ---- the head ---- */

/* The value of a field, copied; empty if absent. */
const char *field(struct conn *conn, const char *name, char *ret, size_t bytes)
{
    size_t len = strlen(name);
    *ret = 0;
    for (char *line = strstr(conn->in, "\r\n"); line && line[2]; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, len) != 0 || line[2 + len] != ':')
            continue;
        const char *value = line + 3 + len;
        value += strspn(value, " \t");
        snprintf(ret, bytes, "%.*s", (int)strcspn(value, "\r\n"), value);
        break;
    }
    return ret;
}

static void decode(const char *from, size_t len, char *to, size_t bytes, bool plus)
{
    size_t at = 0;
    for (size_t i = 0; i < len && at + 1 < bytes; i++) {
        unsigned value;
        if (from[i] == '%' && i + 2 < len && sscanf(from + i + 1, "%2x", &value) == 1) {
            to[at++] = (char)value;
            i += 2;
        } else {
            to[at++] = plus && from[i] == '+' ? ' ' : from[i];
        }
    }
    to[at] = 0;
}

/* A query parameter, decoded; NULL if absent. */
const char *param(struct conn *conn, const char *name, char *ret, size_t bytes)
{
    size_t len = strlen(name);
    for (const char *p = conn->query; p && *p; p += strcspn(p, "&"), p += *p == '&') {
        if (strncmp(p, name, len) != 0 || (p[len] && !strchr("=&", p[len])))
            continue;
        const char *value = p + len + (p[len] == '=');
        decode(value, strcspn(value, "&"), ret, bytes, true);
        return ret;
    }
    return NULL;
}

static bool parse_head(struct conn *conn)
{
    char text[64], ignored[8];
    int minor;
    if (sscanf(conn->in, "%15s %65535s HTTP/1.%d", conn->verb, conn->target, &minor) != 3)
        return false;
    if (strncmp(conn->target, "http://", 7) == 0) {    /* AWS's C client sends whole URLs */
        const char *path = strchr(conn->target + 7, '/');
        if (path)
            memmove(conn->target, path, strlen(path) + 1);
    }
    if (conn->target[0] != '/')
        return false;
    conn->query = strchr(conn->target, '?');
    if (conn->query)
        *conn->query++ = 0;
    decode(conn->target + 1, strlen(conn->target + 1), conn->key, sizeof(conn->key), false);
    const char *connection = field(conn, "connection", text, sizeof(text));
    conn->close = minor == 0 || strcasecmp(connection, "close") == 0;
    int m = 0;
    while (m < METHOD_COUNT && strcmp(conn->verb, method_names[m]) != 0)
        m++;
    if (m >= LIST)
        return false;
    conn->method = (enum method)m;
    char *slash = strchr(conn->key, '/');
    if (m == GET && (slash == NULL || slash[1] == 0) && !param(conn, "location", ignored, 8))
        conn->method = LIST;
    if (slash == NULL && strlen(conn->key) + 1 < sizeof(conn->key))
        strcat(conn->key, "/");
    return true;
}

/* Cuts a range down to a size. 0: no range, 1: *ret, -1: outside. */
static int read_range(const char *text, int64_t size, struct span *ret)
{
    long long first = 0, last = size - 1;
    if (strncmp(text, "bytes=", 6) != 0)
        return 0;
    text += 6;
    if (*text == '-') {
        long long suffix = atoll(text + 1);
        first = suffix > size ? 0 : size - suffix;
        if (suffix <= 0)
            return -1;
    } else if (strchr(text, ',') || sscanf(text, "%lld-%lld", &first, &last) < 1 || last < first) {
        /* nonsense and several ranges are no range, as S3 has it */
        return first < size ? 0 : -1;
    }
    *ret = (struct span){ first, last >= size ? size - 1 : last };
    return first < size && ret->first <= ret->last ? 1 : -1;
}

/* ---- answers ---- */

static const char *reason(int status)
{
    static const struct {
        int status;
        const char *reason, *code;
    } rows[] = { { 200, "OK", "" }, { 204, "No Content", "" }, { 206, "Partial Content", "" },
                 { 301, "Moved Permanently", "PermanentRedirect" },
                 { 304, "Not Modified", "" }, { 307, "Temporary Redirect", "TemporaryRedirect" },
                 { 400, "Bad Request", "InvalidRequest" }, { 403, "Forbidden", "AccessDenied" },
                 { 404, "Not Found", "NoSuchKey" },
                 { 411, "Length Required", "MissingContentLength" },
                 { 412, "Precondition Failed", "PreconditionFailed" },
                 { 416, "Range Not Satisfiable", "InvalidRange" },
                 { 500, "Internal Server Error", "InternalError" },
                 { 501, "Not Implemented", "NotImplemented" },
                 { 503, "Service Unavailable", "SlowDown" } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].status == abs(status))
            return status < 0 ? rows[i].code : rows[i].reason;
    return status < 0 ? "Scripted" : "Status";
}

static void date_text(int64_t when, char *ret, size_t bytes)
{
    struct tm tm;
    time_t t = when;
    strftime(ret, bytes, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&t, &tm));
}

/* Head and, unless it was a HEAD, a small body. `fields` are whole lines. */
void answer(struct conn *conn, int status, const char *type, const char *fields,
                   const char *body, size_t bytes)
{
    char *head, date[40];
    linger(conn, conn->told.late_ms);
    date_text(time(NULL), date, sizeof(date));
    conn->status = status;
    int len = asprintf(&head, "HTTP/1.1 %d %s\r\nDate: %s\r\nServer: scripted-origin\r\n"
                       "x-amz-request-id: SCRIPTED\r\nContent-Type: %s\r\n"
                       "%s%sContent-Length: %zu\r\n\r\n",
                       status, reason(status), date, type, fields,
                       conn->close ? "Connection: close\r\n" : "", bytes);
    if (len < 0)
        abort();
    if (status == 204 || status == 304)    /* these never have a body or its length */
        memcpy(strstr(head, "Content-Length:"), "\r\n", 3), len = (int)strlen(head);
    if (send_all(conn, head, (size_t)len, NULL) && conn->method != HEAD && status != 304)
        send_all(conn, body, bytes, conn->method == LIST || status >= 300 ? NULL : &conn->sent);
    free(head);
}

void answer_error(struct conn *conn, int status, const char *fields)
{
    char body[512];
    const char *code = status == conn->told.status && conn->told.code[0] ? conn->told.code
                       : status == 404 && strlen(conn->key) < 2 ? "NoSuchBucket" : reason(-status);
    int len = snprintf(body, sizeof(body),
                       "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code>"
                       "<Message>told to</Message><RequestId>SCRIPTED</RequestId></Error>", code);
    answer(conn, status, "application/xml", fields, body, (size_t)len);
}

/* As AWS does: the size is in the document alone. */
static void answer_bad_range(struct conn *conn, const char *range, int64_t size)
{
    char body[512];
    int len = snprintf(body, sizeof(body),
                       "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>"
                       "<Code>InvalidRange</Code><Message>told to</Message><RangeRequested>%.80s</RangeRequested>"
                       "<ActualObjectSize>%ld</ActualObjectSize><RequestId>SCRIPTED</RequestId>"
                       "</Error>", range, (long)size);
    answer(conn, 416, "application/xml", "", body, (size_t)len);
}

static void answer_told_status(struct conn *conn)
{
    char fields[128] = "";
    const struct behaviour *told = &conn->told;
    size_t at = 0;
    if (told->retry_after >= 0)
        at += (size_t)snprintf(fields, sizeof(fields), "Retry-After: %ld\r\n",
                               (long)told->retry_after);
    if (told->region[0])
        snprintf(fields + at, sizeof(fields) - at, "x-amz-bucket-region: %s\r\n", told->region);
    answer_error(conn, (int)told->status, fields);
}

/* ---- GET and HEAD of an object ---- */

/* Takes the time of so many bytes from a bandwidth that all connections share; returns its end. */
static double share_ends_s(int64_t bandwidth, uint64_t bytes)
{
    static double taken_s;
    double now = now_s();
    pthread_mutex_lock(&lock);
    taken_s = (taken_s > now ? taken_s : now) + (double)bytes / (double)bandwidth;
    double end_s = taken_s;
    pthread_mutex_unlock(&lock);
    return end_s;
}

/* Waits as long as the bandwidths want after `bytes` more; false once the other side has gone. */
static bool pace(struct conn *conn, double start_s, uint64_t bytes)
{
    const struct behaviour *told = &conn->told;
    double until_s = 0;
    if (told->bandwidth > 0)
        until_s = start_s + (double)conn->sent / (double)told->bandwidth;
    if (told->bandwidth_all > 0) {
        double share_s = share_ends_s(told->bandwidth_all, bytes);
        until_s = share_s > until_s ? share_s : until_s;
    }
    double ahead_s = until_s > 0 ? until_s - now_s() : 0;
    return ahead_s <= 0 || linger(conn, (int64_t)(ahead_s * 1000));
}

/* Sends the body as told: paced, cut, stalled, changed on the way. */
static void send_body(struct conn *conn, const struct view *view, uint64_t first, uint64_t bytes)
{
    struct behaviour *told = &conn->told;
    double start = now_s();
    size_t step = SLICE_BYTES;
    if (told->bandwidth > 0 && told->bandwidth / 100 < SLICE_BYTES)
        step = told->bandwidth >= 100 ? (size_t)(told->bandwidth / 100) : 1;
    while (conn->sent < bytes) {
        uint64_t at = first + conn->sent;
        uint64_t take = SLICE_BYTES - at % SLICE_BYTES;    /* one block costs one digest */
        take = take < step ? take : step;
        take = take < bytes - conn->sent ? take : bytes - conn->sent;
        int64_t stops[] = { told->cut_after, told->stall_after, told->flip_after };
        for (int i = 0; i < 3; i++)
            if (stops[i] > (int64_t)conn->sent && take > (uint64_t)stops[i] - conn->sent)
                take = (uint64_t)stops[i] - conn->sent;
        if (told->flip_after >= 0 && conn->sent >= (uint64_t)told->flip_after) {
            objects_flip(conn->key);
            told->flip_after = -1;
        }
        if (told->stall_after >= 0 && conn->sent >= (uint64_t)told->stall_after) {
            linger(conn, -1);
            conn->close = conn->aborted = true;
            return;
        }
        if (told->cut_after >= 0 && conn->sent >= (uint64_t)told->cut_after) {
            cut(conn);
            return;
        }
        view_bytes(view, at, conn->slice, take);
        if (!send_all(conn, conn->slice, take, &conn->sent))
            return;
        if (!pace(conn, start, take)) {
            conn->close = conn->aborted = true;
            return;
        }
    }
    if (told->flip_after >= 0 && bytes >= (uint64_t)told->flip_after)
        objects_flip(conn->key);
    if (told->length_error > 0 || told->cut_after == (int64_t)bytes)
        cut(conn);
}

static bool etag_in(const char *list, const char *etag)
{
    char bare[36];
    snprintf(bare, sizeof(bare), "%.*s", (int)strlen(etag) - 2, etag + 1);
    return strcmp(list, "*") == 0 || strstr(list, bare) != NULL;
}

static void send_object(struct conn *conn, struct view *view, const char *range_text)
{
    struct behaviour *told = &conn->told;
    struct span span = { 0, view->size - 1 };
    char fields[3072], text[256], date[40];
    int ranged = told->ignore_range ? 0 : read_range(range_text, view->size, &span);
    size_t at = 0;
    date_text(view->modified_s, date, sizeof(date));
    if (etag_in(field(conn, "if-none-match", text, sizeof(text)), view->etag) && *text) {
        snprintf(fields, sizeof(fields), "ETag: %s\r\nLast-Modified: %s\r\n", view->etag, date);
        answer(conn, 304, "binary/octet-stream", fields, "", 0);
        return;
    }
    if (ranged < 0) {
        answer_bad_range(conn, range_text, view->size);
        return;
    }
    int64_t bytes = span.last - span.first + 1;
    conn->status = ranged ? 206 : 200;
    if (told->length_error)
        conn->close = true;
    at += (size_t)snprintf(fields, sizeof(fields), "HTTP/1.1 %d %s\r\nServer: scripted-origin\r\n"
                           "x-amz-request-id: SCRIPTED\r\nAccept-Ranges: bytes\r\nETag: %s\r\n"
                           "Last-Modified: %s\r\nContent-Length: %ld\r\n", conn->status,
                           reason(conn->status), view->etag, date,
                           (long)(bytes + told->length_error));
    if (ranged)
        at += (size_t)snprintf(fields + at, sizeof(fields) - at,
                               "Content-Range: bytes %ld-%ld/%ld\r\n",
                               (long)(span.first + told->range_error),
                               (long)(span.last + told->range_error),
                               (long)(view->size + told->total_error));
    at += (size_t)snprintf(fields + at, sizeof(fields) - at, "%s%s\r\n",
                           view->fields[0] ? view->fields : "Content-Type: binary/octet-stream\r\n",
                           conn->close ? "Connection: close\r\n" : "");
    if (send_all(conn, fields, at, NULL) && conn->method == GET)
        send_body(conn, view, (uint64_t)span.first, (uint64_t)bytes);
}

static void serve_object(struct conn *conn, const char *range, const char *if_match)
{
    struct view view;
    if (!view_open(conn->key, &view)) {
        answer_error(conn, 404, "");
        return;
    }
    if (*if_match && !conn->told.ignore_if_match && !etag_in(if_match, view.etag))
        answer_error(conn, 412, "");
    else
        send_object(conn, &view, range);
    view_close(&view);
}

/* ---- one request ---- */

static void serve_control(struct conn *conn, struct blob *body)
{
    char *text = NULL, why[512] = "ok\n", ignored[8];
    size_t bytes = 0;
    int status = 200;
    const char *path = conn->target + 3, *type = "text/plain";
    FILE *to = open_memstream(&text, &bytes);
    if (strcmp(path, "control") == 0 && body) {
        status = control_apply(body->ptr, why, sizeof(why)) ? 200 : 400;
        fputs(why, to);
    } else if (strcmp(path, "counts/reset") == 0) {
        counts_reset();
        fputs("ok\n", to);
    } else if (strcmp(path, "counts") == 0) {
        type = "application/json";
        counts_write(to, param(conn, "totals", ignored, sizeof(ignored)) == NULL);
    } else if (strcmp(path, "log") == 0) {
        log_write(to);
    } else {
        status = 404;
    }
    fclose(to);
    answer(conn, status, type, "", text, bytes);
    free(text);
}

/* What happens before an answer is thought of. False: there won't be one. */
static bool wait_as_told(struct conn *conn)
{
    struct behaviour *told = &conn->told;
    double wait_ms = (double)told->first_byte_ms;
    if (told->tail_ppm > 0 && chance() * 1e6 < (double)told->tail_ppm)
        wait_ms *= (double)told->tail_factor;
    if (!told->hang && linger(conn, (int64_t)wait_ms)) {
        if (!told->endless_head)
            return true;
        bool going = send_all(conn, "HTTP/1.1 200 OK\r\n", 17, NULL);
        for (int i = 0; going && i < 1 << 22; i++) {
            char line[64];
            int len = snprintf(line, sizeof(line), "X-Endless-%d: %040d\r\n", i, i);
            going = send_all(conn, line, (size_t)len, NULL);
        }
    } else if (told->hang) {
        linger(conn, -1);
    }
    conn->close = conn->aborted = true;
    return false;
}

/* The access key it is signed with; "-" for none. */
static void signed_as(struct conn *conn, char ret[KEY_ID_BYTES])
{
    char authorization[512];
    field(conn, "authorization", authorization, sizeof(authorization));
    const char *key = strstr(authorization, "Credential=");
    key = key ? key + 11 : "-";
    snprintf(ret, KEY_ID_BYTES, "%.*s", (int)strcspn(key, "/"), key);
}

/* Two tenants may have buckets of the same name: the one that is asked for is the tenant's. */
static void find_tenant(struct conn *conn)
{
    char key[KEY_BYTES_MAX];
    if (!conn->told.tenant)
        return;
    snprintf(key, sizeof(key), "%s", conn->key);
    snprintf(conn->key, sizeof(conn->key), "%d:%.*s", (int)conn->told.tenant,
             (int)sizeof(key) - 16, key);
}

static void serve_s3(struct conn *conn, struct blob *take_blob, int64_t bytes,
                     const uint8_t sha256[32])
{
    char range[128], if_match[256], authorization[8], ignored[8], as[KEY_ID_BYTES];
    bool is_read = conn->method == GET || conn->method == HEAD;
    field(conn, "range", range, sizeof(range));
    field(conn, "if-match", if_match, sizeof(if_match));
    field(conn, "authorization", authorization, sizeof(authorization));
    signed_as(conn, as);
    behaviour_for(conn->key, conn->method, as, &conn->told);
    find_tenant(conn);
    const char *slash = strchr(conn->key, '/');
    struct view view;
    struct span span;
    bool spans = false;
    if (conn->method == GET && view_open(conn->key, &view)) {
        span = (struct span){ 0, view.size - 1 };
        spans = read_range(range, view.size, &span) >= 0;
        view_close(&view);
    }
    uint64_t open = count_request(conn->key, conn->method, spans ? &span : NULL);
    if (conn->told.most_open && open > (uint64_t)conn->told.most_open) {
        conn->told.status = 503;
        conn->told.first_byte_ms = 0;
    }
    if (wait_as_told(conn)) {
        if (conn->told.need_auth && !*authorization && !param(conn, "X-Amz-Signature", ignored, 8))
            answer_error(conn, 403, "");
        else if (conn->told.status)
            answer_told_status(conn);
        else if (is_read && slash[1])
            serve_object(conn, range, if_match);
        else if (conn->method == GET)
            answer(conn, 200, "application/xml", "", "<LocationConstraint/>", 21);
        else if (conn->method == HEAD)
            answer(conn, 200, "application/xml", "x-amz-bucket-region: us-east-1\r\n", "", 0);
        else if (conn->method == LIST)
            serve_list(conn);
        else {
            serve_write(conn, take_blob, bytes, sha256);
            take_blob = NULL;
        }
    }
    free(take_blob);
    count_end(conn->key, conn->method, range, conn->status, conn->sent, if_match, conn->aborted,
              conn->status >= 400);
}

static void serve(struct conn *conn)
{
    char text[64];
    uint8_t sha256[32];
    struct blob *body = NULL;
    conn->status = 0;
    conn->sent = 0;
    conn->aborted = false;
    memset(&conn->told, 0, sizeof(conn->told));
    conn->told.cut_fin = 1;
    if (!parse_head(conn)) {
        conn->close = true;
        conn->method = GET;
        answer_error(conn, 400, "");
        return;
    }
    int64_t bytes = atoll(field(conn, "content-length", text, sizeof(text)));
    if (*field(conn, "transfer-encoding", text, sizeof(text)) || bytes < 0) {
        conn->close = true;
        answer_error(conn, 411, "");
        return;
    }
    if (!take_body(conn, bytes, &body, sha256))
        return;
    if (strncmp(conn->target, "/_/", 3) == 0) {
        serve_control(conn, body);
        free(body);
    } else {
        serve_s3(conn, body, bytes, sha256);
    }
}

static void *conn_run(void *arg)
{
    struct conn *conn = arg;
    count_connection(1);
    while (!conn->close && read_head(conn)) {
        serve(conn);
        memmove(conn->in, conn->in + conn->head_bytes, conn->in_bytes - conn->head_bytes);
        conn->in_bytes -= conn->head_bytes;
    }
    count_connection(-1);
    shutdown(conn->fd, conn->aborted ? SHUT_RDWR : SHUT_WR);
    close(conn->fd);
    free(conn);
    __atomic_sub_fetch(&open_count, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* ---- start ---- */

static void conn_start(int fd)
{
    pthread_attr_t attr;
    pthread_t thread;
    int one = 1, buffer = 256 * 1024;
    struct conn *conn;
    if (__atomic_add_fetch(&open_count, 1, __ATOMIC_RELAXED) > CONNECTIONS_MAX
        || (conn = malloc(sizeof(*conn))) == NULL) {
        __atomic_sub_fetch(&open_count, 1, __ATOMIC_RELAXED);
        close(fd);
        return;
    }
    conn->fd = fd;
    conn->close = conn->aborted = false;
    conn->in_bytes = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));    /* what a leaver costs */
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, conn_run, conn) != 0) {
        close(fd);
        free(conn);
        __atomic_sub_fetch(&open_count, 1, __ATOMIC_RELAXED);
    }
    pthread_attr_destroy(&attr);
}

static int listen_on(const char *address, int port)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    socklen_t len = sizeof(in);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (inet_pton(AF_INET, address, &in.sin_addr) != 1 || bind(fd, (struct sockaddr *)&in, len) != 0
        || listen(fd, 1024) != 0 || getsockname(fd, (struct sockaddr *)&in, &len) != 0) {
        fprintf(stderr, "scripted-origin: can't listen on %s:%d: %s\n", address, port,
                strerror(errno));
        exit(1);
    }
    printf("port %d\n", ntohs(in.sin_port));
    fflush(stdout);
    return fd;
}

static int usage(FILE *to)
{
    fprintf(to, "usage: scripted-origin [--port N] [--bind ADDRESS] [CONTROL-LINE ...]\n"
            "An S3 origin for tests: synthetic objects, faults on demand, exact counts.\n"
            "Control lines: reset=rules, seed=N, object=KEY SIZE, objects=FORMAT N SIZE,\n"
            "file=KEY PATH, flip=GLOB, match=GLOB [METHOD], region=NAME, code=NAME, and\n"
            "behaviours:\n");
    control_help(to);
    return to == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
    const char *address = "127.0.0.1";
    int port = 0, at = 1;
    char *lines = strdup(""), why[512];
    signal(SIGPIPE, SIG_IGN);
    objects_init();
    for (; at < argc; at++) {
        char *more;
        if (strcmp(argv[at], "--help") == 0)
            return usage(stdout);
        if (strcmp(argv[at], "--port") == 0 && at + 1 < argc)
            port = atoi(argv[++at]);
        else if (strcmp(argv[at], "--bind") == 0 && at + 1 < argc)
            address = argv[++at];
        else if (argv[at][0] == '-' || asprintf(&more, "%s%s\n", lines, argv[at]) < 0)
            return usage(stderr);
        else
            free(lines), lines = more;
    }
    if (!control_apply(lines, why, sizeof(why))) {
        fprintf(stderr, "scripted-origin: %s", why);
        return 2;
    }
    free(lines);
    for (int fd = listen_on(address, port);;) {
        int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (peer >= 0)
            conn_start(peer);
        else
            usleep(1000);
    }
}
