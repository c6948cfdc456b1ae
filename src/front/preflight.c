/* preflight.c - what browsers ask before a request (OPTIONS). SPDX-License-Identifier: Apache-2.0
 *
 * A browser can't sign a preflight, also not the one of a presigned URL, whose signature is for the
 * request that follows. The origin answers it, unsigned, by the rules of its bucket.
 * In whose tenant a bucket lies, radosgw takes from the key that a presigned URL names: so the key
 * goes along, as the origin knows it, in a claim whose signature is 64 zeros. radosgw wants to see
 * one and does not verify it; an origin that does verify it says SignatureDoesNotMatch, and is then
 * asked again without a claim. Nothing that could be used as a signature ever leaves.
 * A key that is unknown here is treated as one of the shared identity, so that the answer does not
 * tell which keys are known. Threads: the loop. */
#include "front/passing.h"
#include "s3/encode.h"
#include "s3/xml.h"

static const struct sigv4_credentials unsigned_credentials = { 0 };
const struct client preflight_client = { .own = true, .as = { { 0 }, { 0 }, { 0 } },
                                         .who = { .as = &unsigned_credentials } };

bool preflight_is(const struct http_head *head)
{
    return slice_eq(head->method, S("OPTIONS")) && !head->chunked && !head->length;
}

/* As the origin knows the key that the URL names; empty: it names none, or the origin has none. */
static slice key_there(const struct call *call)
{
    const struct judged *judged = http_request_judged(call->http);
    const struct client *client = NULL;
    struct origin_health health;
    struct secrets secrets;
    if (!judged->claim.presigned)
        return S("");
    enum err err = front_find_client(call->front, call->keep, &judged->claim, &client, &secrets);
    if (!err && client->own)
        return client->as.access_key;
    origin_health(call->place->origin, call->keep, &health);
    return health.keys.access_key;
}

void preflight_name_key(struct pass *pass)
{
    char date[AMZ_DATE_BYTES];
    slice plain = pass->origin.query, key = S("");
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
    pass->plain_query = plain.len ? plain : S("");
    pass->origin.query = text_slice(&query);
}

bool preflight_asks_again(struct pass *pass)
{
    slice code, message, plain = pass->plain_query;
    pass->plain_query = (slice){ NULL, 0 };
    if (!plain.ptr || !pass->call || pass->err || pass->relaying || pass->status != 403 ||
        xml_read_error(&pass->arena, relay_whole(&pass->relay, &pass->arena), &code,
                       &message) != OK || !slice_eq(code, S("SignatureDoesNotMatch")))
        return false;
    pass->origin.query = plain;
    pass->fields = pass_fields(pass);
    relay_free(&pass->relay);
    relay_init(&pass->relay, &pass->origin);
    atomic_store(&pass->headed, false);
    atomic_store(&pass->over, false);
    pass_call_origin(pass);
    return true;
}
