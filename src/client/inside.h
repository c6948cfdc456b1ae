/* inside.h - what the files of the C client tell each other, and nobody else.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Names begin as those of penstock.h do: they meet those of a program that links the archive. The
 * shared library gives none of them away. */
#ifndef PENSTOCK_INSIDE_H
#define PENSTOCK_INSIDE_H

#include <jansson.h>
#include <stdbool.h>

#include "penstock.h"

#define MESSAGE_BYTES_MAX (128 << 10)

struct penstock {
    int fd;
    uint32_t silence_ms;
    json_int_t last;                    /* id given to a message */
    char why[256];                      /* it is over, once fd is -1 */
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
    uint64_t *lengths;                  /* as asked; UINT64_MAX: as long as it is */
    json_t *reply;                      /* when it came */
};

#pragma GCC visibility push(hidden)

/* ---- wire.c ---- */
/* Both set *error, and return -1. */
int penstock_fail(struct penstock_error *error, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int penstock_refused(const json_t *reply, struct penstock_error *error);    /* one that says no */
/* Sends with a new id. fd: what goes with it, or -1. */
int penstock_ask(struct penstock *client, json_t *take_message, int fd, json_int_t *ret_id,
                 struct penstock_error *error);
json_t *penstock_reply_to(struct penstock *client, json_int_t id, struct penstock_error *error);
/* A message and its reply, which says yes; NULL with *error. */
json_t *penstock_say(struct penstock *client, json_t *take_message, int fd,
                     struct penstock_error *error);

/* ---- fill.c ---- */
void penstock_fill_free(struct penstock_fill *fill);

/* ---- presign.c ---- */
struct url {
    char text[4096];
    size_t len;
    bool full;
};
/* A presigned POST of /_/fill; false: the keys are too long. */
bool penstock_presign(const struct penstock_options *who, struct url *ret);

#pragma GCC visibility pop

#endif
