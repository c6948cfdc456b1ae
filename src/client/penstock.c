/* penstock.c - the client of the fill socket. SPDX-License-Identifier: Apache-2.0
 *
 * A message is one JSON object in one packet; one that is too long lies in a memfd that goes with it.
 * Replies carry the id of what they answer and come as they end: who waits for one keeps the others'.
 * JSON is jansson's, SHA-256 is OpenSSL's: both are what the daemon itself needs. Nothing is shared
 * with the daemon but what goes over the socket. Threads: penstock.h. */
#include "penstock.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SOCKET "/run/penstock/fill.sock"
#define MESSAGE_BYTES_MAX (128 << 10)
#define LARGE_BYTES_MAX (16 << 20)      /* of a reply in a memfd */
#define SILENCE_MS 120000
#define SHA256_BYTES 32

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

/* ---- errors ---- */

static int fail(struct penstock_error *error, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int fail(struct penstock_error *error, const char *code, const char *format, ...)
{
    va_list rest;
    if (!error)
        return -1;
    *error = (struct penstock_error){ .item = PENSTOCK_NO_ITEM };
    snprintf(error->code, sizeof(error->code), "%s", code);
    va_start(rest, format);
    vsnprintf(error->message, sizeof(error->message), format, rest);
    va_end(rest);
    return -1;
}

/* The connection is over; what is said of it from now on. */
static int lose(struct penstock *client, struct penstock_error *error, const char *what, const char *why)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    snprintf(client->why, sizeof(client->why), "%s%s%s", what, why ? ": " : "", why ? why : "");
    return fail(error, "disconnected", "%s", client->why);
}

/* A reply that says no. */
static int refused(const json_t *reply, struct penstock_error *error)
{
    const char *code = json_string_value(json_object_get(reply, "error"));
    const char *message = json_string_value(json_object_get(reply, "message"));
    const json_t *first = json_array_get(json_array_get(json_object_get(reply, "errors"), 0), 0);
    fail(error, code ? code : "bad_reply", "%s", message ? message : "");
    if (error) {
        error->status = (int)json_integer_value(json_object_get(reply, "status"));
        error->item = json_is_integer(first) ? (size_t)json_integer_value(first) : PENSTOCK_NO_ITEM;
    }
    return -1;
}

/* ---- the presigned hello ---- */

struct url {
    char text[4096];
    size_t len;
    bool full;
};

static void add(struct url *to, const char *text)
{
    size_t len = strlen(text);
    to->full = to->full || len >= sizeof(to->text) - to->len;
    if (to->full)
        return;
    memcpy(to->text + to->len, text, len + 1);
    to->len += len;
}

static void add_encoded(struct url *to, const char *text)
{
    for (; *text; text++) {
        char code[4] = { *text };
        bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                     (*text >= '0' && *text <= '9') || strchr("-._~", *text);
        if (!plain)
            snprintf(code, sizeof(code), "%%%02X", (unsigned char)*text);
        add(to, code);
    }
}

static void hex(const unsigned char bytes[SHA256_BYTES], char ret[2 * SHA256_BYTES + 1])
{
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

static bool mac(unsigned char key[SHA256_BYTES], const char *text)
{
    unsigned len;
    return HMAC(EVP_sha256(), key, SHA256_BYTES, (const unsigned char *)text, strlen(text), key, &len);
}

static bool sign(const char *secret, const char *day, const char *region, const char *text,
                 char ret[2 * SHA256_BYTES + 1])
{
    struct url first = { .len = 0 };
    unsigned char key[SHA256_BYTES];
    unsigned len;
    add(&first, "AWS4");
    add(&first, secret);
    bool good = !first.full &&
                HMAC(EVP_sha256(), first.text, (int)first.len, (const unsigned char *)day, strlen(day), key,
                     &len) &&
                mac(key, region) && mac(key, "s3") && mac(key, "aws4_request") && mac(key, text);
    hex(key, ret);
    return good;
}

/* The query of it, all but the signature; names in order. */
static void add_query(struct url *query, const struct penstock_options *who, const char *stamp)
{
    char credential[512];
    snprintf(credential, sizeof(credential), "%s/%.8s/%s/s3/aws4_request", who->access_key, stamp,
             who->region);
    add(query, "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=");
    add_encoded(query, credential);
    add(query, "&X-Amz-Date=");
    add(query, stamp);
    add(query, "&X-Amz-Expires=300");
    if (who->session_token) {
        add(query, "&X-Amz-Security-Token=");
        add_encoded(query, who->session_token);
    }
    add(query, "&X-Amz-SignedHeaders=host");
}

/* A presigned POST of /_/fill; false: the keys are too long. */
static bool presign(const struct penstock_options *who, struct url *ret)
{
    struct url query = { .len = 0 }, canonical = { .len = 0 };
    unsigned char sum[SHA256_BYTES];
    char stamp[24], day[9], sum_hex[2 * SHA256_BYTES + 1], signature[2 * SHA256_BYTES + 1], text[512];
    time_t now = time(NULL);
    struct tm utc;
    strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &utc));
    snprintf(day, sizeof(day), "%.8s", stamp);
    add_query(&query, who, stamp);
    add(&canonical, "POST\n/_/fill\n");
    add(&canonical, query.text);
    add(&canonical, "\nhost:localhost\n\nhost\nUNSIGNED-PAYLOAD");
    if (query.full || canonical.full ||
        !EVP_Digest(canonical.text, canonical.len, sum, NULL, EVP_sha256(), NULL))
        return false;
    hex(sum, sum_hex);
    snprintf(text, sizeof(text), "AWS4-HMAC-SHA256\n%s\n%s/%s/s3/aws4_request\n%s", stamp, day,
             who->region, sum_hex);
    if (!sign(who->secret_key, day, who->region, text, signature))
        return false;
    add(ret, "http://localhost/_/fill?");
    add(ret, query.text);
    add(ret, "&X-Amz-Signature=");
    add(ret, signature);
    return !ret->full;
}

/* ---- messages ---- */

static int memfd_of(const char *text, size_t len)
{
    int fd = memfd_create("penstock-message", MFD_CLOEXEC);
    for (size_t at = 0; fd >= 0 && at < len;) {
        ssize_t put = write(fd, text + at, len - at);
        if (put < 0) {
            close(fd);
            return -1;
        }
        at += (size_t)put;
    }
    return fd;
}

static bool send_packet(int to, const char *text, size_t len, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec bytes = { (void *)(uintptr_t)text, len };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1 };
    if (fd >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        *rights = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
                                    .cmsg_len = CMSG_LEN(sizeof(fd)) };
        memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
    }
    ssize_t sent;
    do
        sent = sendmsg(to, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)len;
}

/* Sends with a new id, and takes the message. fd: what goes with it, or -1. */
static int ask(struct penstock *client, json_t *take_message, int fd, json_int_t *ret_id,
               struct penstock_error *error)
{
    *ret_id = ++client->last;
    char *text = take_message && json_object_set_new(take_message, "id", json_integer(*ret_id)) == 0
               ? json_dumps(take_message, JSON_COMPACT) : NULL;
    json_decref(take_message);
    if (!text)
        return fail(error, "bad_message", "a name is not UTF-8, or there is no memory");
    size_t len = strlen(text);
    char head[64];
    int carrier = -1, lost = 0;
    bool sent;
    if (client->fd < 0) {
        free(text);
        return fail(error, "disconnected", "%s", client->why);
    }
    if (len <= MESSAGE_BYTES_MAX) {
        sent = send_packet(client->fd, text, len, fd);
    } else {
        carrier = memfd_of(text, len);
        snprintf(head, sizeof(head), "{\"message_bytes\":%zu}", len);
        sent = carrier >= 0 && send_packet(client->fd, head, strlen(head), carrier);
    }
    if (!sent && errno != EPIPE)    /* it hung up: who waits for the reply reads why, or the end */
        lost = lose(client, error, "Penstock can't be told anything", strerror(errno));
    if (carrier >= 0)
        close(carrier);
    free(text);
    return lost;
}

static json_t *read_carrier(int fd, json_int_t bytes)
{
    char *text = bytes > 0 && bytes <= LARGE_BYTES_MAX ? malloc((size_t)bytes) : NULL;
    json_t *reply = NULL;
    if (text && pread(fd, text, (size_t)bytes, 0) == (ssize_t)bytes)
        reply = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    return reply;
}

static int rights_of(struct msghdr *message)
{
    int fd = -1;
    struct cmsghdr *part = CMSG_FIRSTHDR(message);
    if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS &&
        part->cmsg_len == CMSG_LEN(sizeof(fd)))
        memcpy(&fd, CMSG_DATA(part), sizeof(fd));
    return fd;
}

/* The next reply, whosever it is; NULL with *error. */
static json_t *receive(struct penstock *client, struct penstock_error *error)
{
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec bytes = { client->inbox, sizeof(client->inbox) };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control,
                              .msg_controllen = sizeof(control) };
    struct pollfd wait = { .fd = client->fd, .events = POLLIN };
    int ready;
    do
        ready = poll(&wait, 1, (int)client->silence_ms);
    while (ready < 0 && errno == EINTR);
    if (ready == 0) {
        fail(error, "timeout", "Penstock owes a reply for %u ms", client->silence_ms);
        return NULL;
    }
    ssize_t got = recvmsg(client->fd, &message, MSG_CMSG_CLOEXEC);
    if (got <= 0) {
        lose(client, error, "Penstock closed the connection", got < 0 ? strerror(errno) : NULL);
        return NULL;
    }
    int fd = rights_of(&message);
    json_t *reply = message.msg_flags & MSG_TRUNC ? NULL
                  : json_loadb(client->inbox, (size_t)got, JSON_REJECT_DUPLICATES, NULL);
    const json_t *carried = json_object_get(reply, "message_bytes");
    if (carried) {
        json_t *head = reply;
        reply = read_carrier(fd, json_integer_value(carried));
        json_decref(head);
    }
    if (fd >= 0)
        close(fd);
    if (!reply || !json_is_boolean(json_object_get(reply, "ok"))) {
        json_decref(reply);
        lose(client, error, "Penstock answers what is no reply", NULL);
        return NULL;
    }
    return reply;
}

/* Keeps a fill's reply for who will wait for it; what nobody waits for is let go. */
static void put_by(struct penstock *client, json_t *take_reply)
{
    json_int_t id = json_integer_value(json_object_get(take_reply, "id"));
    struct penstock_fill *fill = client->fills;
    while (fill && fill->id != id)
        fill = fill->next;
    if (fill && !fill->reply)
        fill->reply = take_reply;
    else
        json_decref(take_reply);
}

/* The reply to a message. One to none says why the daemon hangs up. */
static json_t *reply_to(struct penstock *client, json_int_t id, struct penstock_error *error)
{
    while (client->fd >= 0) {
        json_t *reply = receive(client, error);
        if (!reply)
            return NULL;
        const json_t *said = json_object_get(reply, "id");
        if (!said || json_integer_value(said) == id)
            return reply;
        put_by(client, reply);
    }
    fail(error, "disconnected", "%s", client->why);
    return NULL;
}

/* A message and its reply, which says yes; NULL with *error. */
static json_t *say(struct penstock *client, json_t *take_message, int fd, struct penstock_error *error)
{
    json_int_t id;
    if (ask(client, take_message, fd, &id, error))
        return NULL;
    json_t *reply = reply_to(client, id, error);
    if (reply && !json_is_true(json_object_get(reply, "ok"))) {
        refused(reply, error);
        json_decref(reply);
        return NULL;
    }
    return reply;
}

/* ---- the connection ---- */

static const char *or_variable(const char *value, const char *name)
{
    if (value)
        return value;
    const char *found = getenv(name);
    return found && *found ? found : NULL;
}

static struct penstock_options complete(const struct penstock_options *options)
{
    struct penstock_options all = options ? *options : (struct penstock_options){ 0 };
    bool own = all.access_key != NULL;
    all.socket = or_variable(all.socket, "PENSTOCK_FILL_SOCKET");
    all.access_key = or_variable(all.access_key, "AWS_ACCESS_KEY_ID");
    all.secret_key = own ? all.secret_key : or_variable(all.secret_key, "AWS_SECRET_ACCESS_KEY");
    all.session_token = own ? all.session_token : or_variable(all.session_token, "AWS_SESSION_TOKEN");
    all.region = or_variable(or_variable(all.region, "AWS_REGION"), "AWS_DEFAULT_REGION");
    if (!all.socket)
        all.socket = SOCKET;
    if (!all.region)
        all.region = "us-east-1";
    if (!all.silence_ms)
        all.silence_ms = SILENCE_MS;
    return all;
}

static int dial(struct penstock *client, const char *path, struct penstock_error *error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof(address.sun_path))
        return fail(error, "disconnected", "%s is too long for the path of a socket", path);
    strcpy(address.sun_path, path);
    client->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (client->fd >= 0 && connect(client->fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return 0;
    return fail(error, "disconnected", "%s: %s. Does Penstock run, with the setting fill_socket, and may "
                "this user connect (fill_users)?", path, strerror(errno));
}

static int greet(struct penstock *client, const struct penstock_options *who, struct penstock_error *error)
{
    json_t *message = json_pack("{s:s, s:i, s:s}", "op", "hello", "v", 1, "client", "c/0.1");
    if (who->access_key) {
        struct url url = { .len = 0 };
        if (!who->secret_key || !presign(who, &url)) {
            json_decref(message);
            return fail(error, "bad_argument", "the access key has no secret key, or they are too long");
        }
        json_object_set_new(message, "auth", json_pack("{s:s}", "presigned", url.text));
    }
    json_t *reply = say(client, message, -1, error);
    json_decref(reply);
    return reply ? 0 : -1;
}

int penstock_connect(struct penstock **ret, const struct penstock_options *options,
                     struct penstock_error *error)
{
    const struct penstock_options all = complete(options);
    struct penstock *client = calloc(1, sizeof(*client));
    *ret = NULL;
    if (!client)
        return fail(error, "memory", "there is no memory");
    client->fd = -1;
    client->silence_ms = all.silence_ms;
    if (dial(client, all.socket, error) || greet(client, &all, error)) {
        penstock_close(&client);
        return -1;
    }
    *ret = client;
    return 0;
}

static void unlink_fill(struct penstock_fill *fill)
{
    struct penstock_fill **at = &fill->client->fills;
    while (*at != fill)
        at = &(*at)->next;
    *at = fill->next;
    json_decref(fill->reply);
    free(fill->lengths);
    free(fill);
}

static void unmap(struct penstock_buffer *buffer)
{
    struct penstock_buffer **at = &buffer->client->buffers;
    while (*at != buffer)
        at = &(*at)->next;
    *at = buffer->next;
    munmap(buffer->data, buffer->bytes);
    close(buffer->fd);
    free(buffer);
}

void penstock_close(struct penstock **client)
{
    struct penstock *ended = *client;
    *client = NULL;
    if (!ended)
        return;
    if (ended->fd >= 0)
        close(ended->fd);
    while (ended->fills)
        unlink_fill(ended->fills);
    while (ended->buffers)
        unmap(ended->buffers);
    free(ended);
}

/* ---- buffers ---- */

/* All of it is there before the daemon writes: holes would be filled in its name. */
static int make_memory(struct penstock_buffer *buffer, struct penstock_error *error)
{
    buffer->fd = memfd_create("penstock-buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int why = buffer->fd < 0 ? errno : posix_fallocate(buffer->fd, 0, (off_t)buffer->bytes);
    if (!why && fcntl(buffer->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        why = errno;
    if (!why) {
        buffer->data = mmap(NULL, buffer->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, buffer->fd, 0);
        why = buffer->data == MAP_FAILED ? errno : 0;
    }
    if (!why)
        return 0;
    if (buffer->fd >= 0)
        close(buffer->fd);
    return fail(error, "memory", "%zu bytes of shared memory: %s", buffer->bytes, strerror(why));
}

static int enroll(struct penstock_buffer *buffer, struct penstock_error *error)
{
    json_t *reply = say(buffer->client, json_pack("{s:s, s:s, s:I}", "op", "register", "kind", "memfd",
                        "bytes", (json_int_t)buffer->bytes), buffer->fd, error);
    const char *id = json_string_value(json_object_get(reply, "buffer"));
    bool good = id && strlen(id) == sizeof(buffer->id) - 1;
    if (good)
        strcpy(buffer->id, id);
    else if (reply)
        fail(error, "bad_reply", "Penstock gives the buffer no name");
    json_decref(reply);
    return good ? 0 : -1;
}

int penstock_buffer_new(struct penstock *client, size_t bytes, struct penstock_buffer **ret,
                        struct penstock_error *error)
{
    struct penstock_buffer *buffer = calloc(1, sizeof(*buffer));
    *ret = NULL;
    if (!buffer)
        return fail(error, "memory", "there is no memory");
    buffer->client = client;
    buffer->bytes = bytes;
    if (make_memory(buffer, error)) {
        free(buffer);
        return -1;
    }
    buffer->next = client->buffers;
    client->buffers = buffer;
    if (enroll(buffer, error)) {
        unmap(buffer);
        return -1;
    }
    *ret = buffer;
    return 0;
}

void *penstock_buffer_data(const struct penstock_buffer *buffer)
{
    return buffer->data;
}

size_t penstock_buffer_bytes(const struct penstock_buffer *buffer)
{
    return buffer->bytes;
}

void penstock_buffer_free(struct penstock_buffer **buffer)
{
    if (!*buffer)
        return;
    json_decref(say((*buffer)->client, json_pack("{s:s, s:s}", "op", "unregister", "buffer",
                                                 (*buffer)->id), -1, NULL));
    unmap(*buffer);
    *buffer = NULL;
}

/* ---- lists ---- */

static void set_text(json_t *object, const char *name, const char *value)
{
    if (value)
        json_object_set_new(object, name, json_string(value));
}

static json_t *word_of(const struct penstock_item *item, bool placed)
{
    json_t *word = json_pack("{s:s}", "key", item->key);
    if (!word)
        return NULL;
    if (item->offset || item->length >= 0) {
        json_object_set_new(word, "offset", json_integer((json_int_t)item->offset));
        json_object_set_new(word, "length", json_integer(item->length));
    }
    if (placed)
        json_object_set_new(word, "to", json_integer((json_int_t)item->to));
    if (placed && item->max)
        json_object_set_new(word, "max", json_integer((json_int_t)item->max));
    set_text(word, "if_match", item->if_match);
    set_text(word, "version_id", item->version_id);
    return word;
}

static json_t *list_of(const char *op, const char *bucket, const struct penstock_item *items, size_t count,
                       const struct penstock_fill_options *options, bool placed)
{
    json_t *message = json_pack("{s:s, s:s, s:[], s:s}", "op", op, "bucket", bucket, "items", "on_error",
                                options && options->skip ? "skip" : "fail");
    json_t *list = json_object_get(message, "items");
    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, word_of(&items[i], placed)) != 0) {
            json_decref(message);
            return NULL;
        }
    if (message && options && options->prefix)
        set_text(message, "prefix", options->prefix);
    if (message && options && options->deadline_ms)
        json_object_set_new(message, "deadline_ms", json_integer(options->deadline_ms));
    return message;
}

static int begin(struct penstock *client, json_t *take_message, const struct penstock_item *items,
                 size_t count, struct penstock_fill **ret, struct penstock_error *error)
{
    struct penstock_fill *fill = calloc(1, sizeof(*fill));
    uint64_t *lengths = calloc(count + 1, sizeof(*lengths));
    *ret = NULL;
    if (!fill || !lengths || ask(client, take_message, -1, &fill->id, error)) {
        if (!fill || !lengths) {
            json_decref(take_message);
            fail(error, "memory", "there is no memory");
        }
        free(fill);
        free(lengths);
        return -1;
    }
    for (size_t i = 0; i < count; i++)
        lengths[i] = items[i].length < 0 ? UINT64_MAX : (uint64_t)items[i].length;
    fill->client = client;
    fill->count = count;
    fill->lengths = lengths;
    fill->next = client->fills;
    client->fills = fill;
    *ret = fill;
    return 0;
}

int penstock_fill_begin(struct penstock *client, struct penstock_buffer *buffer, const char *bucket,
                        const struct penstock_item *items, size_t count,
                        const struct penstock_fill_options *options, struct penstock_fill **ret,
                        struct penstock_error *error)
{
    json_t *message = list_of("fill", bucket, items, count, options, true);
    if (message)
        json_object_set_new(message, "buffer", json_string(buffer->id));
    return begin(client, message, items, count, ret, error);
}

/* Whatever the daemon says is looked at before it is believed. */
static bool take_lengths(const struct penstock_fill *fill, const json_t *reply, uint64_t *to)
{
    const json_t *lengths = json_object_get(reply, "lengths");
    for (size_t i = 0; i < fill->count; i++) {
        const json_t *told = json_array_get(lengths, i);
        if (lengths && !json_is_integer(told))
            return false;
        to[i] = lengths ? (uint64_t)json_integer_value(told) : fill->lengths[i];
    }
    return true;
}

static bool take_errors(const struct penstock_fill *fill, const json_t *reply, struct penstock_result *to)
{
    const json_t *errors = json_object_get(reply, "errors");
    to->failed = json_array_size(errors);
    for (size_t i = 0; i < to->failed; i++) {
        const json_t *error = json_array_get(errors, i), *index = json_array_get(error, 0);
        if (!json_is_integer(index) || json_integer_value(index) < 0 ||
            (size_t)json_integer_value(index) >= fill->count)
            return false;
        if (to->statuses)
            to->statuses[json_integer_value(index)] = (int)json_integer_value(json_array_get(error, 2));
        if (to->lengths)
            to->lengths[json_integer_value(index)] = 0;
    }
    return true;
}

static int take_reply(const struct penstock_fill *fill, struct penstock_result *to,
                      struct penstock_error *error)
{
    struct penstock_result none = { 0 };
    const json_t *reply = fill->reply;
    bool good = json_is_true(json_object_get(reply, "ok"));
    to = to ? to : &none;
    to->bytes = (uint64_t)json_integer_value(json_object_get(reply, "bytes"));
    to->hits = (size_t)json_integer_value(json_object_get(reply, "hits"));
    to->misses = (size_t)json_integer_value(json_object_get(reply, "misses"));
    if (to->statuses)
        memset(to->statuses, 0, fill->count * sizeof(*to->statuses));
    if ((to->lengths && !take_lengths(fill, reply, to->lengths)) || !take_errors(fill, reply, to))
        return fail(error, "bad_reply", "Penstock's reply to a list is not one");
    return good ? 0 : refused(reply, error);
}

int penstock_fill_wait(struct penstock_fill **fill, struct penstock_result *result,
                       struct penstock_error *error)
{
    struct penstock_fill *ended = *fill;
    if (!ended->reply)
        ended->reply = reply_to(ended->client, ended->id, error);
    if (!ended->reply && ended->client->fd >= 0)
        return -1;    /* no reply in time: it is still under way, and may be waited for again */
    int status = ended->reply ? take_reply(ended, result, error) : -1;
    *fill = NULL;
    unlink_fill(ended);
    return status;
}

int penstock_fill(struct penstock *client, struct penstock_buffer *buffer, const char *bucket,
                  const struct penstock_item *items, size_t count,
                  const struct penstock_fill_options *options, struct penstock_result *result,
                  struct penstock_error *error)
{
    struct penstock_fill *fill;
    if (penstock_fill_begin(client, buffer, bucket, items, count, options, &fill, error))
        return -1;
    return penstock_fill_wait(&fill, result, error);
}

int penstock_prefetch(struct penstock *client, const char *bucket, const struct penstock_item *items,
                      size_t count, const struct penstock_fill_options *options,
                      struct penstock_result *result, struct penstock_error *error)
{
    struct penstock_fill *fill;
    if (begin(client, list_of("prefetch", bucket, items, count, options, false), items, count, &fill,
              error))
        return -1;
    return penstock_fill_wait(&fill, result, error);
}
