/* inside.h - declarations that the files of the C client share. SPDX-License-Identifier: Apache-2.0
 *
 * A program may link the static library, so these functions have the prefix of penstock.h, too. The
 * shared library exports none of these names. */
#ifndef PENSTOCK_INSIDE_H
#define PENSTOCK_INSIDE_H

#include <jansson.h>
#include <stdbool.h>

#include "penstock.h"

#define MESSAGE_BYTES_MAX (128 << 10)

/* For a misuse of the library: ends the program with a line that says what is wrong, and where. */
#define check(cond) ((cond) ? (void)0 : penstock_check_failed(#cond, __FILE__, __LINE__))

struct penstock {
    int fd;
    uint32_t silence_ms;
    json_int_t last;                    /* id of the newest message */
    char why[256];                      /* if fd is -1: why the connection ended */
    struct penstock_buffer *buffers;
    struct penstock_fill *fills;
    char inbox[MESSAGE_BYTES_MAX];
};

struct penstock_buffer {
    struct penstock_buffer *next;
    struct penstock *client;
    int fd;
    void *data;
    size_t bytes;
    char id[33];
};

struct penstock_fill {
    struct penstock_fill *next;
    struct penstock *client;
    json_int_t id;
    size_t count;
    uint64_t *lengths;  /* lengths of the items in the request; UINT64_MAX: to the end */
    json_t *reply;                      /* NULL until it has come */
};

#pragma GCC visibility push(hidden)

/* ---- wire.c ---- */
void penstock_check_failed(const char *cond, const char *file, int line)
    __attribute__((noreturn));
/* penstock_fail and penstock_refused return -1 and set *error, unless error is NULL. */
int penstock_fail(struct penstock_error *error, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int penstock_refused(const json_t *reply, struct penstock_error *error);    /* for "ok": false */
/* Sends a message with a new id. `fd` is a descriptor that goes with the message, or -1. */
int penstock_ask(struct penstock *client, json_t *take_message, int fd, json_int_t *ret_id,
                 struct penstock_error *error);
json_t *penstock_reply_to(struct penstock *client, json_int_t id, struct penstock_error *error);
/* Sends a message and returns its reply, if the reply has "ok": true. Otherwise returns NULL and
 * sets *error. */
json_t *penstock_say(struct penstock *client, json_t *take_message, int fd,
                     struct penstock_error *error);

/* ---- fill.c ---- */
void penstock_fill_free(struct penstock_fill *fill);

/* ---- presign.c ---- */
#define URL_BYTES_MAX 4095
#define SECRET_BYTES_MAX (URL_BYTES_MAX - 4)    /* presign.c puts "AWS4" before the secret */
struct url {
    char text[URL_BYTES_MAX + 1];
    size_t len;
    bool full;
};
/* Makes the URL of a presigned POST of /_/fill. Returns false if the keys are too long. */
bool penstock_presign(const struct penstock_options *who, struct url *ret);

#pragma GCC visibility pop

#endif
