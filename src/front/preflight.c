/* preflight.c - a browser's question before a request (OPTIONS).
 * SPDX-License-Identifier: Apache-2.0
 *
 * A browser cannot sign a preflight. The signature in a presigned URL covers only the request that
 * follows, and not the preflight. So a preflight goes to the origin unsigned, and the origin
 * answers it by the CORS rules of the bucket.
 * radosgw finds the tenant of a bucket by the access key in a presigned URL. A presigned URL names
 * the access key that a client has at Penstock. So if the URL of a preflight is presigned, Penstock
 * adds to the query the access key that this client has at the origin. In place of a signature,
 * Penstock adds 64 zeros. radosgw requires a signature beside the key, but does not verify it. An
 * origin that verifies it answers SignatureDoesNotMatch. Penstock then asks the origin again
 * without key and signature. No text that could serve as a signature is ever sent. An unknown key
 * is treated like the key of a client with the shared identity (Penstock's own credentials), so
 * that the answer does not reveal which keys exist. Threads: the loop. */
#include "front/passing.h"
#include "s3/encode.h"
#include "s3/xml.h"

const struct client preflight_client = { .key = { .own = true },
                                         .who = { .as = &preflight_client.key.as } };

bool preflight_is(const struct request_head *head)
{
    return slice_eq(head->method, S("OPTIONS")) && !head->chunked && !head->length;
}

/* Returns the access key that the client of the presigned URL has at the origin: its own key, or
 * the key of the shared identity. Returns an empty slice if the URL is not presigned, or if
 * Penstock has no key for this origin. */
static slice key_there(const struct call *call)
{
    const struct judged *judged = http_request_judged(call->http);
    const struct client *client = NULL;
    struct origin_health health;
    struct secrets secrets;
    if (!judged->claim.presigned)
        return S("");
    enum err err = front_find_client(call->front, call->keep, &judged->claim, &client, &secrets);
    if (!err && client->key.own)
        return client->key.as.access_key;
    origin_health(call->rules->origin, call->keep, &health);
    return health.keys.access_key;
}

void preflight_name_key(struct pass *pass)
{
    char date[AMZ_DATE_BYTES];
    slice plain = pass->request.origin.query, key = S("");
    if (pass->call->client == &preflight_client)
        key = key_there(pass->call);
    if (!key.len)
        return;
    struct text query = text_in(&pass->arena);
    amz_date_write(wall_s(), date);
    text_printf(&query, "%.*s%sX-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=",
                SLICE_ARG(plain), plain.len ? "&" : "");
    uri_encode(&query, key, true);
    text_printf(&query, "%%2F%.8s%%2Fus-east-1%%2Fs3%%2Faws4_request&X-Amz-Date=%s"
                "&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=%064d", date, date, 0);
    pass->request.plain_query = plain.len ? plain : S("");
    pass->request.origin.query = text_slice(&query);
}

bool preflight_asks_again(struct pass *pass)
{
    slice code, message, plain = pass->request.plain_query;
    pass->request.plain_query = (slice){ NULL, 0 };
    struct pass_answer *answer = &pass->answer;
    if (!plain.ptr || !pass->call || answer->err || pass->relaying || answer->status != 403 ||
        xml_read_error(&pass->arena, relay_whole(&pass->relay, &pass->arena), &code,
                       &message) != OK || !slice_eq(code, S("SignatureDoesNotMatch")))
        return false;
    pass->request.origin.query = plain;
    answer->fields = pass_fields(pass);
    relay_free(&pass->relay);
    relay_init(&pass->relay, &pass->request.origin);
    atomic_store(&answer->headed, false);
    atomic_store(&answer->over, false);
    pass_call_origin(pass);
    return true;
}
