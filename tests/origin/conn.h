/* conn.h - a connection of the scripted origin and the request it carries.
 * SPDX-License-Identifier: Apache-2.0
 *
 * scripted_origin.c owns it and answers reads; s3.c answers lists and writes. One thread each. */
#ifndef CONN_H
#define CONN_H

#include "scripted.h"

#include <sys/types.h>

#define HEAD_BYTES_MAX 65536
#define SLICE_BYTES 65536

struct conn {
    int fd;
    bool close;
    char in[HEAD_BYTES_MAX + 1];
    size_t in_bytes, head_bytes;
    char slice[SLICE_BYTES];
    /* the request */
    char verb[16], target[HEAD_BYTES_MAX], key[KEY_BYTES_MAX], *query;
    enum method method;
    struct behaviour told;
    /* what became of it */
    int status;
    uint64_t sent;
    bool aborted;
};

bool send_all(struct conn *conn, const char *bytes, size_t count, uint64_t *counted);
/* Up to `bytes` of the body, from what was read with the head or from the socket. */
ssize_t read_body(struct conn *conn, char *to, size_t bytes);
/* The value of a field, copied; empty if absent. */
const char *field(struct conn *conn, const char *name, char *ret, size_t bytes);
/* A query parameter, decoded; NULL if absent. */
const char *param(struct conn *conn, const char *name, char *ret, size_t bytes);
/* Head and, unless it was a HEAD, a small body. `fields` are whole lines. */
void answer(struct conn *conn, int status, const char *type, const char *fields,
            const char *body, size_t bytes);
void answer_error(struct conn *conn, int status, const char *fields);

/* s3.c */
void serve_list(struct conn *conn);
/* The whole body; its bytes are kept in *ret if they are few enough. False: the peer went away. */
bool take_body(struct conn *conn, int64_t bytes, struct blob **ret, uint8_t ret_sha256[32]);
void serve_write(struct conn *conn, struct blob *take_blob, int64_t bytes,
                 const uint8_t sha256[32]);

#endif
