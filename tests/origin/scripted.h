/* scripted.h - an S3 origin that does what it is told. SPDX-License-Identifier: Apache-2.0
 *
 * Three files: objects.c knows what exists and which bytes it has, control.c what the origin was
 * told to do wrong and what it has counted, scripted_origin.c speaks HTTP. libc and threads only,
 * so that the tests of a server never share a bug with it. One lock guards every table; bytes are
 * made and sent outside of it. A connection has a thread of its own. */
#ifndef SCRIPTED_H
#define SCRIPTED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define KEY_BYTES_MAX 2048
#define STORED_BYTES_MAX ((int64_t)64 << 20)     /* a longer body is counted, not kept */

extern pthread_mutex_t lock;

enum method { GET, HEAD, PUT, DELETE, POST, LIST, METHOD_COUNT };
extern const char *const method_names[METHOD_COUNT];

/* ---- objects.c ---- */

/* Bytes that somebody has sent us. */
struct blob {
    int refs;
    int64_t bytes;
    char ptr[];
};

struct span {
    int64_t first, last;
};

struct counts {
    uint64_t requests[METHOD_COUNT], errors, aborted, bytes;
    uint64_t span_count;
    struct span *spans;          /* the first SPANS_MAX that were asked for */
};
#define SPANS_MAX 4096

/* Everything known about a key: "bucket/key", decoded. Never freed, so counts survive a DELETE. */
struct object {
    struct object *next;
    char *key;
    int64_t size;                /* -1: does not exist */
    uint64_t version;
    int64_t modified_s;
    struct blob *stored;
    const char *mapped;          /* a file; without it and `stored`, the bytes are synthetic */
    char *fields;                /* header lines that came with a PUT, or NULL */
    char etag[36];               /* with its quotes */
    char sha256[65];             /* of a PUT body */
    struct counts counts;
};

/* An object as one request sees it, whatever happens to the object meanwhile. */
struct view {
    char key[KEY_BYTES_MAX];
    int64_t size;
    uint64_t version;
    int64_t modified_s;
    char etag[36];
    char fields[2048];
    struct blob *stored;
    const char *mapped;
};

void objects_init(void);
struct object *object_get(const char *key);                  /* under lock; makes an entry */
void object_set(const char *key, int64_t size);              /* exists from now on; size -1: gone */
bool object_map(const char *key, const char *path);          /* has a file's bytes; maps it for good */
void object_flip(struct object *object);                     /* under lock: another version */
size_t objects_flip(const char *glob);
bool view_open(const char *key, struct view *ret);           /* false: no such key */
void view_close(struct view *view);
void view_bytes(const struct view *view, uint64_t offset, char *to, size_t bytes);
/* A PUT or a completed upload; takes the blob (NULL: too long to keep). Returns its ETag. */
void object_store(const char *key, struct blob *take_blob, int64_t size, const uint8_t sha256[32],
                  const char *fields, char ret_etag[36]);
void objects_each(void (*seen)(const struct object *object, void *arg), void *arg);
/* Existing keys of a bucket in byte order, from the first one > after and >= prefix. Under lock. */
struct object **objects_sorted(const char *bucket, size_t *ret_count);

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
};
void sha256_init(struct sha256 *sha);
void sha256_add(struct sha256 *sha, const void *data, size_t bytes);
void sha256_end(struct sha256 *sha, uint8_t ret[32]);
void hex(const uint8_t *bytes, size_t count, char *ret);

/* ---- control.c ---- */

/* What can be told, one row each: name, default, help. Values are whole numbers. */
#define BEHAVIOURS(X)                                                                            \
    X(first_byte_ms, 0, "wait this long before the head")                                        \
    X(late_ms, 0, "wait this long behind what an answer without an object's bytes was made from")  \
    X(bandwidth, 0, "body bytes a second and connection, 0: as fast as it goes")                 \
    X(bandwidth_all, 0, "body bytes a second of all connections together, 0: any number")        \
    X(tail_ppm, 0, "how many of a million requests are slow ...")                                \
    X(tail_factor, 10, "... and by how much: times first_byte_ms")                               \
    X(cut_after, -1, "end the connection after so many body bytes")                              \
    X(cut_fin, 0, "1: cut with FIN, 0: with RST")                                                \
    X(length_error, 0, "add this to Content-Length, not to the body")                            \
    X(range_error, 0, "add this to both ends of Content-Range, not to the body")                 \
    X(total_error, 0, "add this to the total of Content-Range")                                  \
    X(status, 0, "answer this status and an S3 error instead")                                   \
    X(most_open, 0, "answer 503 at once while more requests than so many are open; 0: no limit") \
    X(retry_after, -1, "a Retry-After of so many seconds with that status")                      \
    X(flip_after, -1, "a new version is there once so many body bytes are sent")                 \
    X(ignore_range, 0, "1: answer 200 with everything")                                          \
    X(endless_head, 0, "1: a head that never ends")                                              \
    X(stall_after, -1, "send nothing more after so many body bytes, but stay")                   \
    X(ignore_if_match, 0, "1: pretend that If-Match was not there")                              \
    X(hang, 0, "1: never answer")                                                                \
    X(need_auth, 0, "1: 403 without an Authorization header")                                    \
    X(empty_page, 0, "1: a list is cut before its first key, and has a token for the rest")         \
    X(ignore_after, 0, "1: a list begins with its first key, whatever the request names")           \
    X(tenant, 0, "not 0: BUCKET is the bucket told of as NUMBER:BUCKET, with as= of one user")    \
    X(times, -1, "the rule is used up after so many requests")

struct behaviour {
#define X(name, value, help) int64_t name;
    BEHAVIOURS(X)
#undef X
    char region[32];             /* x-amz-bucket-region of a status */
    char code[32];               /* its S3 error code; empty: what is usual for it */
};

#define KEY_ID_BYTES 64
void behaviour_for(const char *key, enum method method, const char *as, struct behaviour *ret);
double chance(void);             /* [0,1), the same sequence for the same seed */
/* Lines of key=value. false: *ret_why says which line and what is wrong with it. */
bool control_apply(char *lines, char *ret_why, size_t why_bytes);
void control_help(FILE *to);

uint64_t count_request(const char *key, enum method method, const struct span *span);
void count_end(const char *key, enum method method, const char *range, int status,
               uint64_t bytes, const char *if_match, bool aborted, bool error);
void count_connection(int by);
void counts_write(FILE *to, bool with_keys);
void counts_reset(void);
void log_write(FILE *to);
double now_s(void);

#endif
