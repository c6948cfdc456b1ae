/* penstock.h - objects of S3, or pieces of them, in bulk and straight into memory: the client of
 * Penstock's fill socket. SPDX-License-Identifier: Apache-2.0
 *
 *     struct penstock *client;
 *     struct penstock_buffer *buffer;
 *     struct penstock_error error;
 *     if (penstock_connect(&client, NULL, &error) ||
 *         penstock_buffer_new(client, 64 << 20, &buffer, &error))
 *         ...                                     // error.message says what, why, what to do
 *     struct penstock_item items[] = { { .key = "a.bin", .length = PENSTOCK_TO_END },
 *                                      { .key = "b.tar", .offset = 5120, .length = 4096,
 *                                        .to = 1 << 20 } };
 *     struct penstock_result result = { 0 };
 *     if (penstock_fill(client, buffer, "train", items, 2, NULL, &result, &error) == 0)
 *         use(penstock_buffer_data(buffer));
 *     penstock_close(&client);                    // and all that hangs on it
 *
 * Sizes are in bytes, times in milliseconds. Functions return 0, or -1 with *error set, which may
 * be NULL. Text is UTF-8 and ends with NUL. A function that takes the address of your pointer
 * empties it and accepts one that is empty.
 *
 * Threads: a client, with its buffers and fills, is one thread's at a time; each thread may have
 * its own. After a fork the child must not touch it (it may close it: penstock_close there ends the
 * child's part alone). A daemon that restarts ends the connection ("disconnected"): connect
 * anew. */
#ifndef PENSTOCK_H
#define PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PENSTOCK_TO_END INT64_C(-1)
#define PENSTOCK_NO_ITEM SIZE_MAX

struct penstock;           /* a connection: the lease of what hangs on it */
struct penstock_buffer;    /* memory that the daemon fills */
struct penstock_fill;      /* a list under way */

/* code: S3's or the fill socket's ("NoSuchKey", "overlap", "quota"), and of this library alone
 * "disconnected", "timeout", "bad_reply", "memory". status: as of HTTP; 0 for those. item: the
 * first that failed, or PENSTOCK_NO_ITEM. */
struct penstock_error {
    char code[64], message[256];
    int status;
    size_t item;
};

struct penstock_options {
    const char *socket;        /* NULL: PENSTOCK_FILL_SOCKET, else /run/penstock/fill.sock */
    /* NULL: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; none there: nothing is
     * signed */
    const char *access_key, *secret_key, *session_token;
    const char *region;        /* NULL: AWS_REGION, AWS_DEFAULT_REGION, else us-east-1 */
    uint32_t silence_ms;       /* how long a daemon may owe a reply; 0: 120,000 */
};

/* options may be NULL. */
int penstock_connect(struct penstock **ret, const struct penstock_options *options,
                     struct penstock_error *error);
/* Buffers and fills end with it. */
void penstock_close(struct penstock **client);

/* Shared memory of at least 1 byte, all zero: a sealed memfd, mapped here and in the daemon. */
int penstock_buffer_new(struct penstock *client, size_t bytes, struct penstock_buffer **ret,
                        struct penstock_error *error);
void *penstock_buffer_data(const struct penstock_buffer *buffer);
size_t penstock_buffer_bytes(const struct penstock_buffer *buffer);
/* Waits until nothing is on its way into it; then its memory is gone. */
void penstock_buffer_free(struct penstock_buffer **buffer);

/* [offset, offset + length) of the object, to the buffer's byte `to`. An object of which nothing is
 * beyond offset, or less than length, is an error. Items must not lie on one another. */
struct penstock_item {
    const char *key;
    uint64_t offset;
    int64_t length;            /* or PENSTOCK_TO_END: as long as it is, */
    uint64_t max;              /* larger than this is an error; 0: up to the next item's place */
    uint64_t to;
    const char *if_match;      /* an ETag with its quotes, or NULL */
    const char *version_id;    /* or NULL */
};

struct penstock_fill_options {
    const char *prefix;        /* before each key; NULL: none */
    uint32_t deadline_ms;      /* 0: the daemon's own */
    int skip;                  /* not 0: items that fail leave the others alone */
};

/* lengths and statuses are the caller's arrays of one element an item, or NULL: how many bytes it
 * has in the buffer, and 0 or the HTTP status of its failure. */
struct penstock_result {
    uint64_t bytes;
    size_t hits, misses, failed;
    uint64_t *lengths;
    int *statuses;
};

/* All items are there, or it failed and the buffer's bytes are undefined (with skip: of those that
 * failed). options and result may be NULL. The daemon takes 16,384 items in one list. */
int penstock_fill(struct penstock *client, struct penstock_buffer *buffer, const char *bucket,
                  const struct penstock_item *items, size_t count,
                  const struct penstock_fill_options *options, struct penstock_result *result,
                  struct penstock_error *error);
/* The same in two steps; several may be under way, 16 unless the daemon was told otherwise. Nothing
 * of the arguments is looked at after it returns. */
int penstock_fill_begin(struct penstock *client, struct penstock_buffer *buffer, const char *bucket,
                        const struct penstock_item *items, size_t count,
                        const struct penstock_fill_options *options, struct penstock_fill **ret,
                        struct penstock_error *error);
int penstock_fill_wait(struct penstock_fill **fill, struct penstock_result *result,
                       struct penstock_error *error);
/* Into the daemon's cache alone; `to` is not looked at. */
int penstock_prefetch(struct penstock *client, const char *bucket,
                      const struct penstock_item *items, size_t count,
                      const struct penstock_fill_options *options, struct penstock_result *result,
                      struct penstock_error *error);

#ifdef __cplusplus
}
#endif
#endif
