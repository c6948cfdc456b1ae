/* reader.c - the rights of readers that do not use HTTP, such as the fill socket.
 * SPDX-License-Identifier: Apache-2.0
 *
 * This file has the functions of cache/reader.h. A reader is a process that asks for objects by
 * another way than HTTP. It proves its key by a presigned request for the page /_/fill. Each object
 * that it reads is judged as a GetObject of the key's client. When the key is removed from the
 * settings, the reader may read nothing more. A job has no key to prove: it has the name of the
 * client that started it. Any thread. */
#include "cache/reader.h"

#include "front/inside.h"

#define PRESIGNED_S_MAX 900    /* a URL that is valid for more seconds proves no key here */
#define FILL_PAGE "/_/fill"

/* Makes the request head that a client of the presigned URL would send. */
static enum err head_of(struct arena *keep, slice url, struct request_head *ret, slice *ret_why)
{
    slice rest = slice_starts(url, S("http://")) ? slice_from(url, 7) : slice_from(url, 8);
    slice host = slice_cut(&rest, '/');
    *ret_why = S("\"presigned\" must be an http or https URL of at most 4096 bytes, presigned for "
                 "a POST to " FILL_PAGE);
    if (url.len > 4096 || !host.len ||
        !(slice_starts(url, S("http://")) || slice_starts(url, S("https://"))))
        return ERR_BAD_AUTH_QUERY;
    slice head = arena_printf(keep, "POST /%.*s HTTP/1.1\r\nHost: %.*s\r\n\r\n", SLICE_ARG(rest),
                              SLICE_ARG(host));
    if (request_head_scan(head, ret, NULL) != OK || ret->bytes != head.len ||
        !slice_eq(ret->path, S(FILL_PAGE)))
        return ERR_BAD_AUTH_QUERY;
    *ret_why = S("");
    return OK;
}

static enum err verify(struct front *front, struct arena *keep, const struct request_head *head,
                       struct reader *ret, slice *ret_why)
{
    struct sigv4_claim claim;
    struct sigv4 *sigv4 = sigv4_new();
    enum err err = sigv4_claim_read(keep, head, &claim);
    if (!err && (!claim.presigned || claim.v2 || claim.expires_s > PRESIGNED_S_MAX)) {
        *ret_why = S("the URL in \"presigned\" must be signed with signature version 4, and be "
                     "valid for at most 900 s");
        err = ERR_BAD_AUTH_QUERY;
    }
    if (!err)
        err = front_prove(front, sigv4, keep, head, &claim, &ret->client, &ret->secret_key);
    ret->access_key = arena_copy(keep, claim.access_key);
    ret->session_token = arena_copy(keep, claim.session_token);
    sigv4_free(&sigv4);
    if (!ret_why->len)
        *ret_why = front_explain_key(front, keep, err);
    return err;
}

static enum err prove(void *arg, struct arena *keep, slice presigned, struct reader *ret,
                      slice *ret_why)
{
    struct front *front = arg;
    *ret_why = S("");
    *ret = (struct reader){ .client = clients_nobody(front->options.clients) };
    if (!presigned.len)
        return ret->client ? OK : ERR_NO_AUTH;
    struct request_head *head = arena_alloc(keep, sizeof(*head));
    enum err err = head_of(keep, presigned, head, ret_why);
    return err ? err : verify(front, keep, head, ret, ret_why);
}

static enum err renew(void *arg, struct arena *keep, struct reader *reader)
{
    struct front *front = arg;
    struct sigv4_claim claim = { .access_key = reader->access_key,
                                 .session_token = reader->session_token };
    struct secrets secrets;
    if (!reader->access_key.len) {
        reader->client = clients_nobody(front->options.clients);
        return reader->client ? OK : ERR_NO_AUTH;
    }
    enum err err = front_find_client(front, keep, &claim, &reader->client, &secrets);
    bool good = false;
    for (size_t i = 0; !err && i < secrets.count; i++)
        good |= slice_eq(secrets.list[i], reader->secret_key);
    return err || good ? err : ERR_SIGNATURE;    /* the secret was removed */
}

static enum err may_get(void *arg, struct arena *keep, const struct reader *reader, slice bucket,
                        const struct item *item, struct get_ask *ret)
{
    struct call call;
    if (!s3_bucket_is_valid(bucket))
        return ERR_BAD_BUCKET;
    item_call(&call, arg, reader->client, bucket, keep);
    call.quiet = reader->quiet;
    return item_ask(&call, item, ret);
}

static enum err find(void *arg, slice access_key, struct reader *ret)
{
    struct front *front = arg;
    *ret = (struct reader){ .access_key = access_key };
    if (access_key.len)
        return clients_find_only(front->options.clients, access_key, &ret->client);
    ret->client = front_borrower(front);
    return ret->client ? OK : ERR_UNKNOWN_KEY;
}

/* The list is judged as a ListObjectsV2 request of the client. */
static enum err may_list(void *arg, struct arena *keep, const struct reader *reader, slice bucket,
                         slice prefix, struct list_ask *ret)
{
    struct call call;
    slice detail;
    struct s3_param param = { .name = S("prefix"), .value = prefix };
    item_call(&call, arg, reader->client, bucket, keep);
    call.quiet = reader->quiet;
    call.s3.op = S3_LIST_OBJECTS_V2;
    call.s3.params = &param;
    call.s3.param_count = 1;
    enum err err = right_judge(&call);
    if (!err)
        err = rules_judge(&call, &detail);
    if (!err)
        *ret = (struct list_ask){ .rules = call.rules, .who = &reader->client->who,
                                  .op = S3_LIST_OBJECTS_V2, .bucket = bucket, .newest = true };
    return err;
}

struct reader_judge front_reader_judge(struct front *front)
{
    return (struct reader_judge){ front, prove, renew, may_get, find, may_list };
}
