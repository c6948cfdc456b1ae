/* penstock.h - the C client of Penstock's fill socket. SPDX-License-Identifier: Apache-2.0
 *
 * This library reads objects of S3, or parts of them, in bulk and straight into memory.
 *
 *     struct penstock *client;
 *     struct penstock_buffer *buffer;
 *     struct penstock_error error;
 *     if (penstock_connect(&client, NULL, &error) ||
 *         penstock_buffer_new(client, 64 << 20, &buffer, &error))
 *         ...                                     // error.message: what happened, why, what to do
 *     struct penstock_item items[] = { { .key = "a.bin", .length = PENSTOCK_TO_END },
 *                                      { .key = "b.tar", .offset = 5120, .length = 4096,
 *                                        .to = 1 << 20 } };
 *     struct penstock_result result = { 0 };
 *     if (penstock_fill(client, buffer, "train", items, 2, NULL, &result, &error) == 0)
 *         use(penstock_buffer_data(buffer));
 *     penstock_close(&client);                    // its buffers and fills end, too
 *
 * Sizes are in bytes, times in milliseconds. Functions return 0, or -1 with *error set; `error` may
 * be NULL. Text is UTF-8 and ends with NUL. A function that ends something takes the address of
 * your pointer and sets the pointer to NULL. Functions that close or free accept a pointer that is
 * NULL.
 *
 * Threads: only one thread at a time may use a client with its buffers and fills. Each thread may
 * have a client of its own. After a fork the child must not use the client, but it may call
 * penstock_close, which does not end the parent's connection. When the daemon restarts, the
 * connection ends ("disconnected"): connect again. A misuse, such as waiting for a fill whose
 * result is known, ends the program. */
#ifndef PENSTOCK_H
#define PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PENSTOCK_TO_END INT64_C(-1)
#define PENSTOCK_NO_ITEM SIZE_MAX

struct penstock;           /* a connection; its end also ends its buffers and fills */
struct penstock_buffer;    /* memory that the daemon fills */
struct penstock_fill;      /* a fill that was begun, and not waited for yet */

/* code: a code of S3 or of the fill socket ("NoSuchKey", "overlap", "quota"), or one of this
 * library: "disconnected", "timeout", "bad_reply", "bad_message", "bad_argument", "memory". status:
 * the HTTP status; 0 for codes of this library. item: the index of the first item that failed, or
 * PENSTOCK_NO_ITEM. */
struct penstock_error {
    char code[64], message[256];
    int status;
    size_t item;
};

struct penstock_options {
    const char *socket;        /* NULL: PENSTOCK_FILL_SOCKET, else /run/penstock/fill.sock */
    /* If access_key is NULL, each of the next three members that is NULL takes the value of its
     * variable: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN. If access_key is not
     * NULL, the library does not read these variables. Without an access key the client is
     * anonymous. */
    const char *access_key, *secret_key, *session_token;
    const char *region;        /* NULL: AWS_REGION, AWS_DEFAULT_REGION, else us-east-1 */
    uint32_t silence_ms;       /* a call fails after this time without a reply; 0: 120,000 */
};

/* `options` may be NULL. */
int penstock_connect(struct penstock **ret, const struct penstock_options *options,
                     struct penstock_error *error);
/* Ends the connection, with its buffers and fills. */
void penstock_close(struct penstock **client);

/* Makes shared memory of at least 1 byte, all zero: a sealed memfd, mapped here and in the
 * daemon. */
int penstock_buffer_new(struct penstock *client, size_t bytes, struct penstock_buffer **ret,
                        struct penstock_error *error);
void *penstock_buffer_data(const struct penstock_buffer *buffer);
size_t penstock_buffer_bytes(const struct penstock_buffer *buffer);
/* Waits until no fill writes to the buffer, then unmaps its memory. */
void penstock_buffer_free(struct penstock_buffer **buffer);

/* The bytes [offset, offset + length) of the object go to the buffer, from its byte `to` on. An
 * object that ends before the end of this range is an error. Items must not overlap in the
 * buffer. */
struct penstock_item {
    const char *key;
    uint64_t offset;
    int64_t length;            /* PENSTOCK_TO_END: from offset to the object's end */
    /* Only with PENSTOCK_TO_END: the largest number of bytes; more are an error. If it is 0, the
     * limit is the space up to the next `to`, or up to the buffer's end. */
    uint64_t max;
    uint64_t to;
    const char *if_match;      /* an ETag with its quotes, or NULL */
    const char *version_id;    /* or NULL */
};

struct penstock_fill_options {
    const char *prefix;        /* put before each key; NULL: none */
    uint32_t deadline_ms;      /* 0: the daemon's limit */
    int skip;                  /* not 0: if an item fails, the other items are still filled */
};

/* `lengths` and `statuses` are NULL, or arrays of the caller with an element for each item. An
 * item's element of `lengths` gets the number of its bytes in the buffer. Its element of `statuses`
 * gets 0, or the HTTP status of its failure. */
struct penstock_result {
    uint64_t bytes;
    size_t hits, misses, failed;
    uint64_t *lengths;
    int *statuses;
};

/* Returns when all items are in the buffer, or after a failure. After a failure the bytes of all
 * items are undefined; with `skip`, only the bytes of items that failed. `options` and `result` may
 * be NULL. The daemon accepts at most 16,384 items in one list. */
int penstock_fill(struct penstock *client, struct penstock_buffer *buffer, const char *bucket,
                  const struct penstock_item *items, size_t count,
                  const struct penstock_fill_options *options, struct penstock_result *result,
                  struct penstock_error *error);
/* The same in two steps. At most 16 fills may be open, unless the daemon has another limit. After
 * penstock_fill_begin the caller may free all arguments except the client and the buffer. After a
 * "timeout" the fill is still open, and may be waited for again. */
int penstock_fill_begin(struct penstock *client, struct penstock_buffer *buffer, const char *bucket,
                        const struct penstock_item *items, size_t count,
                        const struct penstock_fill_options *options, struct penstock_fill **ret,
                        struct penstock_error *error);
int penstock_fill_wait(struct penstock_fill **fill, struct penstock_result *result,
                       struct penstock_error *error);
/* Reads the items into the daemon's cache only; `to` and `max` are ignored. */
int penstock_prefetch(struct penstock *client, const char *bucket,
                      const struct penstock_item *items, size_t count,
                      const struct penstock_fill_options *options, struct penstock_result *result,
                      struct penstock_error *error);

#ifdef __cplusplus
}
#endif
#endif
