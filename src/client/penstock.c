/* penstock.c - connections and buffers of the C client. SPDX-License-Identifier: Apache-2.0
 *
 * The library needs two other libraries, which the daemon needs, too: jansson for JSON, OpenSSL for
 * SHA-256. The client shares no code with the daemon, only the protocol of the socket (wire.c).
 * penstock.h says how threads may use a client. */
#include "inside.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET "/run/penstock/fill.sock"
#define SILENCE_MS 120000

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
    all.session_token = own ? all.session_token
                            : or_variable(all.session_token, "AWS_SESSION_TOKEN");
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
    static_assert(sizeof(SOCKET) <= sizeof(address.sun_path), "the default path fits");
    if (strlen(path) >= sizeof(address.sun_path))
        return penstock_fail(error, "disconnected", "the path of the fill socket may have at "
                             "most %zu bytes: use a shorter path than %s",
                             sizeof(address.sun_path) - 1, path);
    strcpy(address.sun_path, path);
    client->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (client->fd >= 0 && connect(client->fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return 0;
    return penstock_fail(error, "disconnected", "can't connect to %s: %s. Is Penstock running, is "
                         "its setting fill_socket this path, and may this user enter the folder?",
                         path, strerror(errno));
}

static int cannot_sign(const struct penstock_options *who, bool own, struct penstock_error *error)
{
    if (!who->secret_key)
        return penstock_fail(error, "bad_argument", own
            ? "the option access_key is set, and the option secret_key is not: set both"
            : "AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not: set both");
    if (strlen(who->secret_key) > SECRET_BYTES_MAX)
        return penstock_fail(error, "bad_argument", "the secret key has %zu bytes, but may have at "
                             "most %d: correct it", strlen(who->secret_key), SECRET_BYTES_MAX);
    if (!who->session_token)
        return penstock_fail(error, "bad_argument", "OpenSSL can't sign with HMAC-SHA256: check "
                             "the OpenSSL configuration of this process");
    return penstock_fail(error, "bad_argument", "with this session token of %zu bytes, the "
                         "presigned URL would have more than %d bytes: use credentials with a "
                         "shorter session token, or without one", strlen(who->session_token), URL_BYTES_MAX);
}

/* If `own` is true, the access key is from the options, else from the environment. */
static int greet(struct penstock *client, const struct penstock_options *who, bool own,
                 struct penstock_error *error)
{
    json_t *message = json_pack("{s:s, s:i, s:s}", "op", "hello", "v", 1, "client", "c/0.2");
    if (who->access_key) {
        struct url url = { .len = 0 };
        if (!who->secret_key || !penstock_presign(who, &url)) {
            json_decref(message);
            return cannot_sign(who, own, error);
        }
        json_object_set_new(message, "auth", json_pack("{s:s}", "presigned", url.text));
    }
    json_t *reply = penstock_say(client, message, -1, error);
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
        return penstock_fail(error, "memory", "this process is out of memory");
    client->fd = -1;
    client->silence_ms = all.silence_ms;
    if (dial(client, all.socket, error) ||
        greet(client, &all, options && options->access_key, error)) {
        penstock_close(&client);
        return -1;
    }
    *ret = client;
    return 0;
}

static void unmap(struct penstock_buffer *buffer)
{
    struct penstock_buffer **at = &buffer->client->buffers;
    while (*at && *at != buffer)
        at = &(*at)->next;
    check(*at);    /* true unless the buffer was freed twice, or its client was closed */
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
        penstock_fill_free(ended->fills);
    while (ended->buffers)
        unmap(ended->buffers);
    free(ended);
}

/* ---- buffers ---- */

/* Allocates all pages now. Otherwise the daemon's writes would allocate them, and the kernel would
 * charge them to the daemon's memory cgroup. */
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
    return penstock_fail(error, "memory", "can't make a buffer of %zu bytes of shared memory: %s. "
                         "Use a smaller buffer, or raise the limits of this process",
                         buffer->bytes, strerror(why));
}

static int enroll(struct penstock_buffer *buffer, struct penstock_error *error)
{
    json_t *message = json_pack("{s:s, s:s, s:I}", "op", "register", "kind", "memfd", "bytes",
                                (json_int_t)buffer->bytes);
    json_t *reply = penstock_say(buffer->client, message, buffer->fd, error);
    const char *id = json_string_value(json_object_get(reply, "buffer"));
    bool good = id && strlen(id) == sizeof(buffer->id) - 1;
    if (good)
        strcpy(buffer->id, id);
    else if (reply)
        penstock_fail(error, "bad_reply", "Penstock's reply to the message \"register\" has no "
                      "buffer id: install the libpenstock that has the same version as the "
                      "Penstock service");
    json_decref(reply);
    return good ? 0 : -1;
}

int penstock_buffer_new(struct penstock *client, size_t bytes, struct penstock_buffer **ret,
                        struct penstock_error *error)
{
    struct penstock_buffer *buffer = calloc(1, sizeof(*buffer));
    *ret = NULL;
    check(client && bytes > 0);
    if (!buffer)
        return penstock_fail(error, "memory", "this process is out of memory");
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
    json_t *message = json_pack("{s:s, s:s}", "op", "unregister", "buffer", (*buffer)->id);
    json_decref(penstock_say((*buffer)->client, message, -1, NULL));
    unmap(*buffer);
    *buffer = NULL;
}
