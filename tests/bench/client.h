/* client.h - a small HTTP/1.1 client for the benches. SPDX-License-Identifier: Apache-2.0
 *
 * Shares no code with the server it measures. Blocking sockets, keep-alive; bodies are
 * thrown away in the kernel (MSG_TRUNC) unless somebody wants to see them. Requests are signed with
 * SigV4 beforehand or as they go. Whatever fails ends the process with a line on stderr: a bench
 * that goes on after an error measures nothing. */
#ifndef CLIENT_H
#define CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_BYTES_MAX 1536
#define HEAD_BYTES_MAX 16384

void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
double now_ms(void);    /* monotonic */

/* ---- flags: --name value ---- */

/* The value behind --name, or `otherwise`. */
const char *flag(int argc, char **argv, const char *name, const char *otherwise);
uint64_t flag_number(int argc, char **argv, const char *name, uint64_t otherwise);

/* A sequence that is the same for the same seed. */
uint64_t random_next(uint64_t *state);
void shuffle(uint32_t *numbers, size_t count, uint64_t seed);

/* ---- requests ---- */

struct signer {
    const char *access_key;    /* NULL: requests are not signed */
    char host[64];
    char date[20], scope[96];
    uint8_t key[32];           /* of that day */
};
/* credentials: "ACCESS:SECRET", or NULL. */
void signer_make(struct signer *ret, const char *credentials, unsigned port);
/* A GET of `path` (letters, digits, "/-._~" only), of bytes first..last if last > 0. Its length. */
size_t request_make(const struct signer *signer, const char *path, uint64_t first, uint64_t last,
                    char to[REQUEST_BYTES_MAX]);

/* The head of a POST with this body; `query` as it is signed ("name="). */
size_t request_make_post(const struct signer *signer, const char *path, const char *query,
                         const char *body, size_t body_len, char to[REQUEST_BYTES_MAX]);

/* ---- answers ---- */

struct http {
    int fd;
    size_t have;               /* bytes in `head`: an answer's head and the start of its body */
    char head[HEAD_BYTES_MAX];
};
struct answer {
    int status;
    uint64_t length;           /* Content-Length */
    size_t body_at, body_have; /* the part of the body that came with the head */
};
void http_open(struct http *http, unsigned port);
void http_close(struct http *http);
void http_send(struct http *http, const char *request, size_t len);
/* True once the head in http->head is whole; *ret says what it says. */
bool answer_parse(const struct http *http, struct answer *ret);
/* Waits for a head, checks the status (200 or 206), returns it. */
struct answer http_answer(struct http *http);
void http_drain(struct http *http, uint64_t bytes);
/* One whole request: its body's length. */
uint64_t http_get(struct http *http, const char *request, size_t len);

#endif
