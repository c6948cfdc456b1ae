/* batch.c - many objects in one answer, beside as many GETs on the same connection.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     batch --port N --bucket BUCKET --prefix PREFIX --bytes N --objects N --items K [--rounds N]
 *           [--sign ACCESS:SECRET] [--shuffle SEED] [--only gets|batch]
 *
 * Objects are named PREFIX%06u. A round reads K of them, one GET after another, then the same K by
 * one batch in frames; which goes first changes from round to round. Both bring the bytes into the
 * same memory. Requests are signed beforehand. Prints a line a round: what an object took, in
 * microseconds. */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READ_BYTES (256u << 10)
#define LARGE_BYTES (64u << 10)    /* an item like this is read to where it belongs, not by way of a buffer */

static struct {
    const char *bucket, *prefix;
    uint64_t bytes;
    size_t objects, items;
    struct signer signer;
    uint32_t *order;
} plan;

struct request {
    char head[REQUEST_BYTES_MAX];
    size_t head_len;
};

/* ---- a connection that is read through a buffer ---- */

struct reader {
    struct http http;
    char *buffer;
    size_t at, have, room;
    uint64_t chunk;            /* bytes that are left of it */
};

static size_t receive(struct reader *reader, char *to, size_t room)
{
    for (;;) {
        ssize_t got = recv(reader->http.fd, to, room, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            die("reading: %s", got ? strerror(errno) : "the server closed");
        return (size_t)got;
    }
}

static void take(struct reader *reader, char *to, size_t bytes)
{
    while (bytes) {
        size_t part = reader->have - reader->at;
        if (!part && bytes >= reader->room) {    /* straight to where it belongs */
            part = receive(reader, to, bytes);
            to += part;
            bytes -= part;
            continue;
        }
        if (!part) {
            reader->at = 0;
            reader->have = part = receive(reader, reader->buffer, reader->room);
        }
        part = part < bytes ? part : bytes;
        memcpy(to, reader->buffer + reader->at, part);
        reader->at += part;
        to += part;
        bytes -= part;
    }
}

static size_t take_line(struct reader *reader, char *to, size_t room)
{
    size_t len = 0;
    do {
        if (len == room - 1)
            die("a line is too long");
        take(reader, to + len++, 1);
    } while (to[len - 1] != '\n');
    to[len] = '\0';
    return len;
}

/* Bytes of a body that comes in chunks. */
static void take_chunked(struct reader *reader, char *to, size_t bytes)
{
    char line[64];
    while (bytes) {
        if (!reader->chunk) {
            take_line(reader, line, sizeof(line));
            reader->chunk = strtoull(line, NULL, 16);
            if (!reader->chunk)
                die("the answer ends early");
        }
        size_t part = bytes < reader->chunk ? bytes : (size_t)reader->chunk;
        take(reader, to, part);
        to += part;
        bytes -= part;
        reader->chunk -= part;
        if (!reader->chunk)
            take_line(reader, line, sizeof(line));
    }
}

/* An answer's head; its Content-Length, or 0. */
static uint64_t take_head(struct reader *reader)
{
    char line[4096];
    uint64_t length = 0;
    take_line(reader, line, sizeof(line));
    if (strncmp(line, "HTTP/1.1 200", 12) != 0)
        die("%s", line);
    while (take_line(reader, line, sizeof(line)) > 2)
        if (strncasecmp(line, "content-length:", 15) == 0)
            length = strtoull(line + 15, NULL, 10);
    return length;
}

/* ---- the two ways ---- */

static void one_by_one(struct reader *reader, const struct request *requests, char *to)
{
    for (size_t i = 0; i < plan.items; i++) {
        http_send(&reader->http, requests[i].head, requests[i].head_len);
        uint64_t length = take_head(reader);
        if (length != plan.bytes)
            die("%llu bytes instead of %llu", (unsigned long long)length,
                (unsigned long long)plan.bytes);
        take(reader, to, (size_t)length);
        to += length;
    }
}

static void take_frame(struct reader *reader, uint32_t index, char **to)
{
    struct {
        uint32_t magic, index;
        uint16_t status, etag_len;
        uint32_t code_len;
        uint64_t length, first, size, modified_s, zero[2];
    } frame;
    char etag[65536];
    take_chunked(reader, (char *)&frame, sizeof(frame));
    if (frame.magic != 0x31425350 || frame.index != index ||
        (index != UINT32_MAX && (frame.status != 200 || frame.length != plan.bytes)))
        die("a frame of item %u: status %u, %llu bytes", frame.index, frame.status,
            (unsigned long long)frame.length);
    take_chunked(reader, etag, frame.etag_len);
    if (index == UINT32_MAX)
        return;
    take_chunked(reader, *to, (size_t)frame.length);
    *to += frame.length;
}

static void at_once(struct reader *reader, const char *request, size_t len, char *to)
{
    char line[64];
    http_send(&reader->http, request, len);
    take_head(reader);
    for (uint32_t i = 0; i < plan.items; i++)
        take_frame(reader, i, &to);
    take_frame(reader, UINT32_MAX, &to);
    if (!reader->chunk) {    /* the last chunk, and the end of it */
        take_line(reader, line, sizeof(line));
        take_line(reader, line, sizeof(line));
    }
}

/* ---- a round ---- */

static uint32_t object_of(size_t round, size_t i)
{
    return plan.order[(round * plan.items + i) % plan.objects];
}

static void make_gets(struct request *requests, size_t round)
{
    char path[512];
    for (size_t i = 0; i < plan.items; i++) {
        snprintf(path, sizeof(path), "/%s/%s%06u", plan.bucket, plan.prefix, object_of(round, i));
        requests[i].head_len = request_make(&plan.signer, path, 0, 0, requests[i].head);
    }
}

static size_t make_batch(char *to, size_t round)
{
    char path[512], head[REQUEST_BYTES_MAX], *list = to + REQUEST_BYTES_MAX;
    size_t len = (size_t)sprintf(list, "{\"form\":\"frames\",\"prefix\":\"%s\",\"items\":[",
                                 plan.prefix);
    for (size_t i = 0; i < plan.items; i++)
        len += (size_t)sprintf(list + len, "%s\"%06u\"", i ? "," : "", object_of(round, i));
    len += (size_t)sprintf(list + len, "]}");
    snprintf(path, sizeof(path), "/%s", plan.bucket);
    size_t head_len = request_make_post(&plan.signer, path, "penstock-batch=", list, len, head);
    memcpy(to, head, head_len);
    memmove(to + head_len, list, len);
    return head_len + len;
}

int main(int argc, char **argv)
{
    unsigned port = (unsigned)flag_number(argc, argv, "port", 9000);
    size_t rounds = flag_number(argc, argv, "rounds", 5);
    const char *only = flag(argc, argv, "only", NULL);
    plan.bucket = flag(argc, argv, "bucket", "bench");
    plan.prefix = flag(argc, argv, "prefix", "");
    plan.bytes = flag_number(argc, argv, "bytes", 4096);
    plan.objects = flag_number(argc, argv, "objects", 1000);
    plan.items = flag_number(argc, argv, "items", 256);
    if (!plan.items || plan.objects < plan.items)
        die("see the head of tests/bench/batch.c");
    signer_make(&plan.signer, flag(argc, argv, "sign", NULL), port);
    plan.order = calloc(plan.objects, sizeof(*plan.order));
    for (size_t i = 0; i < plan.objects; i++)
        plan.order[i] = (uint32_t)i;
    shuffle(plan.order, plan.objects, flag_number(argc, argv, "shuffle", 1));
    struct request *gets = calloc(plan.items, sizeof(*gets));
    char *batch = malloc(2 * REQUEST_BYTES_MAX + 1024 + plan.items * 16);
    char *memory = malloc(plan.items * plan.bytes + 1);
    memset(memory, 1, plan.items * plan.bytes);
    struct reader reader = { .buffer = malloc(READ_BYTES),
                             .room = plan.bytes < LARGE_BYTES ? READ_BYTES : 4096 };
    http_open(&reader.http, port);
    for (size_t round = 0; round < rounds; round++) {
        double took[2] = { 0, 0 };
        make_gets(gets, round);
        size_t len = make_batch(batch, round);
        for (size_t turn = 0; turn < 2; turn++) {
            bool by_batch = (round + turn) % 2;
            if (only && strcmp(only, by_batch ? "batch" : "gets") != 0)
                continue;
            double began = now_ms();
            if (by_batch)
                at_once(&reader, batch, len, memory);
            else
                one_by_one(&reader, gets, memory);
            took[by_batch] = (now_ms() - began) * 1000 / (double)plan.items;
        }
        printf("gets_us=%.2f batch_us=%.2f\n", took[0], took[1]);
    }
    return 0;
}
