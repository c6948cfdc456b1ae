/* client.c - a small HTTP/1.1 client for the benches. SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REGION "us-east-1"
/* The SHA-256 of a request that has none. */
#define NO_BODY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

void die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

double now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

const char *flag(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 1; i < argc - 1; i += 2)
        if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0)
            return argv[i + 1];
    return otherwise;
}

uint64_t flag_number(int argc, char **argv, const char *name, uint64_t otherwise)
{
    const char *text = flag(argc, argv, name, NULL);
    if (!text)
        return otherwise;
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end)
        die("--%s: %s is not a number", name, text);
    return value;
}

uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

void shuffle(uint32_t *numbers, size_t count, uint64_t seed)
{
    for (size_t i = count; i > 1; i--) {
        size_t other = random_next(&seed) % i;
        uint32_t kept = numbers[i - 1];
        numbers[i - 1] = numbers[other];
        numbers[other] = kept;
    }
}

/* ---- requests ---- */

static void hmac(const void *key, size_t key_len, const char *text, uint8_t ret[32])
{
    unsigned len = 32;
    if (!HMAC(EVP_sha256(), key, (int)key_len, (const uint8_t *)text, strlen(text), ret, &len))
        die("HMAC failed");
}

static void hex(const uint8_t bytes[32], char ret[65])
{
    for (int i = 0; i < 32; i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

void signer_make(struct signer *ret, const char *credentials, unsigned port)
{
    memset(ret, 0, sizeof(*ret));
    snprintf(ret->host, sizeof(ret->host), "127.0.0.1:%u", port);
    if (!credentials)
        return;
    const char *colon = strchr(credentials, ':');
    if (!colon)
        die("--sign wants ACCESS:SECRET");
    ret->access_key = strndup(credentials, (size_t)(colon - credentials));
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(ret->date, sizeof(ret->date), "%Y%m%dT%H%M%SZ", &tm);
    snprintf(ret->scope, sizeof(ret->scope), "%.8s/" REGION "/s3/aws4_request", ret->date);
    char text[256], day[9];
    uint8_t a[32], b[32];
    snprintf(text, sizeof(text), "AWS4%s", colon + 1);
    snprintf(day, sizeof(day), "%.8s", ret->date);
    hmac(text, strlen(text), day, a);
    hmac(a, 32, REGION, b);
    hmac(b, 32, "s3", a);
    hmac(a, 32, "aws4_request", ret->key);
}

/* `named`: the signed headers between host and x-amz-, each as "name:value\n". */
static void signature(const struct signer *signer, const char *method, const char *path,
                      const char *query, const char *named, const char *names, const char *payload,
                      char ret[65])
{
    char canonical[REQUEST_BYTES_MAX], text[256], digest[65];
    uint8_t bytes[32];
    snprintf(canonical, sizeof(canonical),
             "%s\n%s\n%s\nhost:%s\n%sx-amz-content-sha256:%s\nx-amz-date:%s\n\n"
             "host;%sx-amz-content-sha256;x-amz-date\n%s",
             method, path, query, signer->host, named, payload, signer->date, names, payload);
    if (!EVP_Digest(canonical, strlen(canonical), bytes, NULL, EVP_sha256(), NULL))
        die("SHA-256 failed");
    hex(bytes, digest);
    snprintf(text, sizeof(text), "AWS4-HMAC-SHA256\n%s\n%s\n%s", signer->date, signer->scope,
             digest);
    hmac(signer->key, 32, text, bytes);
    hex(bytes, ret);
}

static int authorize(const struct signer *signer, const char *names, const char *payload,
                     const char *signed_by, char *to, size_t room)
{
    return snprintf(to, room,
                    "X-Amz-Date: %s\r\nX-Amz-Content-SHA256: %s\r\n"
                    "Authorization: AWS4-HMAC-SHA256 Credential=%s/%s, "
                    "SignedHeaders=host;%sx-amz-content-sha256;x-amz-date, Signature=%s\r\n",
                    signer->date, payload, signer->access_key, signer->scope, names, signed_by);
}

size_t request_make(const struct signer *signer, const char *path, uint64_t first, uint64_t last,
                    char to[REQUEST_BYTES_MAX])
{
    char range[64] = "", named[80] = "", signed_by[65] = "";
    if (last)
        snprintf(range, sizeof(range), "bytes=%llu-%llu", (unsigned long long)first,
                 (unsigned long long)last);
    int len = snprintf(to, REQUEST_BYTES_MAX, "GET %s HTTP/1.1\r\nHost: %s\r\n%s%s%s", path,
                       signer->host, *range ? "Range: " : "", range, *range ? "\r\n" : "");
    if (signer->access_key) {
        const char *names = *range ? "range;" : "";
        if (*range)
            snprintf(named, sizeof(named), "range:%s\n", range);
        signature(signer, "GET", path, "", named, names, NO_BODY, signed_by);
        len += authorize(signer, names, NO_BODY, signed_by, to + len,
                         (size_t)(REQUEST_BYTES_MAX - len));
    }
    len += snprintf(to + len, (size_t)(REQUEST_BYTES_MAX - len), "\r\n");
    if (len >= REQUEST_BYTES_MAX)
        die("the request of %s is too long", path);
    return (size_t)len;
}

size_t request_make_post(const struct signer *signer, const char *path, const char *query,
                         const char *body, size_t body_len, char to[REQUEST_BYTES_MAX])
{
    char payload[65], signed_by[65];
    uint8_t digest[32];
    if (!EVP_Digest(body, body_len, digest, NULL, EVP_sha256(), NULL))
        die("SHA-256 failed");
    hex(digest, payload);
    int len = snprintf(to, REQUEST_BYTES_MAX, "POST %s?%s HTTP/1.1\r\nHost: %s\r\n"
                       "Content-Length: %zu\r\n", path, query, signer->host, body_len);
    if (signer->access_key) {
        signature(signer, "POST", path, query, "", "", payload, signed_by);
        len += authorize(signer, "", payload, signed_by, to + len,
                         (size_t)(REQUEST_BYTES_MAX - len));
    }
    len += snprintf(to + len, (size_t)(REQUEST_BYTES_MAX - len), "\r\n");
    if (len >= REQUEST_BYTES_MAX)
        die("the request of %s is too long", path);
    return (size_t)len;
}

/* ---- answers ---- */

void http_open(struct http *http, unsigned port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int one = 1;
    http->have = 0;
    http->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (http->fd < 0 || connect(http->fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        die("port %u: %s", port, strerror(errno));
    setsockopt(http->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

void http_close(struct http *http)
{
    close(http->fd);
    http->fd = -1;
}

void http_send(struct http *http, const char *request, size_t len)
{
    http->have = 0;
    while (len) {
        ssize_t sent = send(http->fd, request, len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            die("sending: %s", strerror(errno));
        request += sent;
        len -= (size_t)sent;
    }
}

bool answer_parse(const struct http *http, struct answer *ret)
{
    const char *end = memmem(http->head, http->have, "\r\n\r\n", 4);
    if (!end) {
        if (http->have == sizeof(http->head))
            die("the head of an answer is too long");
        return false;
    }
    *ret = (struct answer){ .body_at = (size_t)(end - http->head) + 4 };
    ret->body_have = http->have - ret->body_at;
    if (sscanf(http->head, "HTTP/1.%*d %d", &ret->status) != 1)
        die("not an answer: %.40s", http->head);
    bool found = false;
    for (const char *line = http->head; line < end;) {
        const char *next = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);
        if (strncasecmp(line, "content-length:", 15) == 0) {
            ret->length = strtoull(line + 15, NULL, 10);
            found = true;
        }
        line = next + 2;
    }
    if (!found)
        die("an answer without Content-Length, status %d", ret->status);
    return true;
}

struct answer http_answer(struct http *http)
{
    struct answer answer;
    do {
        ssize_t got = recv(http->fd, http->head + http->have, sizeof(http->head) - http->have, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            die("reading a head: %s", got ? strerror(errno) : "the server closed");
        http->have += (size_t)got;
    } while (!answer_parse(http, &answer));
    if (answer.status != 200 && answer.status != 206)
        die("status %d: %.*s", answer.status, (int)answer.body_have, http->head + answer.body_at);
    return answer;
}

void http_drain(struct http *http, uint64_t bytes)
{
    while (bytes) {
        size_t part = bytes < (1u << 20) ? (size_t)bytes : 1u << 20;
        ssize_t got = recv(http->fd, NULL, part, MSG_TRUNC);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            die("reading a body: %s, %llu bytes were left",
                got ? strerror(errno) : "the server closed", (unsigned long long)bytes);
        bytes -= (uint64_t)got;
    }
}

uint64_t http_get(struct http *http, const char *request, size_t len)
{
    http_send(http, request, len);
    struct answer answer = http_answer(http);
    http_drain(http, answer.length - answer.body_have);
    return answer.length;
}
