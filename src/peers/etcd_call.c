/* etcd_call.c - one call of etcd's JSON gateway. SPDX-License-Identifier: Apache-2.0
 *
 * If the settings have a user, the first call gets a token for it. Tokens expire, and become
 * invalid when etcd restarts, or when somebody changes its users. Then etcd answers 400 or 401, so
 * after such an answer, the call is sent once more, with a new token. */
#include "peers/etcd_call.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "origin/web.h"

#define CALL_MS 5000u
#define ANSWER_BYTES_MAX (8 * MIB)

/* Returns what etcd says about a failure: {"error": TEXT}, or {"error": {"message": TEXT}} in an
 * answer that is a stream. */
static slice error_text(const json_t *answer)
{
    const json_t *error = json_object_get(answer, "error");
    slice text = json_text(json_is_object(error) ? json_object_get(error, "message") : error);
    if (!text.len)
        text = json_text(json_object_get(answer, "message"));
    return slice_sub(text, 0, 200);
}

static enum err refused(const struct etcd_door *door, struct look *look, const char *path,
                        int status, const json_t *answer)
{
    slice text = error_text(answer);
    if (!answer)
        return look_fail(look, ERR_ORIGIN_REPLY, "%.*s/v3/%s answers %d, and not in JSON: is this "
                         "etcd 3.4 or newer", SLICE_ARG(door->url), path, status);
    return look_fail(look, status == 400 || status == 401 ? ERR_DENIED : ERR_ORIGIN_STATUS,
                     "etcd at %.*s answers %d to %s: %.*s", SLICE_ARG(door->url), status, path,
                     SLICE_ARG(text.len ? text : S("it gives no reason")));
}

static enum err send_once(struct etcd_door *door, struct look *look, const char *path, slice body,
                          json_t **ret)
{
    const struct http_field fields[] = { { S("Content-Type"), S("application/json") },
                                         { S("Authorization"), door->token } };
    uint64_t now_ns = mono_ns();
    enum err e = look_may_go_on(look);
    if (e)
        return e;
    struct web_ask ask = {
        .method = "POST", .fields = fields, .field_count = door->token.len ? 2 : 1, .body = body,
        .url = arena_printf(look->keep, "%.*s/v3/%s", SLICE_ARG(door->url), path),
        .ca_file = door->ca_file[0] ? door->ca_file : NULL, .body_bytes_max = ANSWER_BYTES_MAX,
        .time_ms = (unsigned)MIN(CALL_MS, (look->end_ns - now_ns) / 1000000u + 1),
        .stop = look->stop,
    };
    struct web_reply reply;
    slice why;
    e = web_get(&ask, look->keep, &reply, &why);
    if (e)
        return look_fail(look, e, "etcd at %.*s can't be asked: %.*s", SLICE_ARG(door->url),
                         SLICE_ARG(why));
    json_t *answer = json_loadb(reply.body.ptr, reply.body.len, JSON_DISABLE_EOF_CHECK, NULL);
    if (reply.status == 200 && json_is_object(answer) && !json_object_get(answer, "error")) {
        *ret = answer;
        return OK;
    }
    e = refused(door, look, path, reply.status, json_is_object(answer) ? answer : NULL);
    json_decref(answer);
    return e;
}

static enum err authenticate(struct etcd_door *door, struct look *look)
{
    json_t *answer, *body = json_pack("{s:s%, s:s%}", "name", door->user.ptr, door->user.len,
                                      "password", door->password.ptr, door->password.len);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text)
        return look_fail(look, ERR_BAD_ARGUMENT, "etcd_user or etcd_password is not UTF-8");
    arena_free(&door->token_keep);
    door->token = S("");
    enum err e = send_once(door, look, "auth/authenticate", slice_of(text), &answer);
    free(text);
    if (e)
        return e;
    door->token = arena_copy(&door->token_keep, json_text(json_object_get(answer, "token")));
    json_decref(answer);
    if (door->token.len)
        return OK;
    return look_fail(look, ERR_ORIGIN_REPLY, "etcd at %.*s gave no token for etcd_user",
                     SLICE_ARG(door->url));
}

enum err etcd_call(struct etcd_door *door, struct look *look, const char *path, json_t *take_body,
                   json_t **ret)
{
    char *text = take_body ? json_dumps(take_body, JSON_COMPACT) : NULL;
    bool fresh = !door->token.len;
    enum err e = OK;
    json_decref(take_body);
    if (!text)
        return look_fail(look, ERR_BAD_ARGUMENT, "a text for etcd is not UTF-8");
    if (door->user.len && fresh)
        e = authenticate(door, look);
    if (!e)
        e = send_once(door, look, path, slice_of(text), ret);
    if (e == ERR_DENIED && door->user.len && !fresh) {
        look->why = S("");
        e = authenticate(door, look);
        if (!e)
            e = send_once(door, look, path, slice_of(text), ret);
    }
    free(text);
    return e;
}
