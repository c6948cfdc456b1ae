/* share.c - whether the bytes of an object may come from other nodes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Both a fetch (fetch.c) and the forecast of a get (forecast.c) use this rule. Threads: any. */
#include "cache/inside.h"

const char *share_why_not(const struct cache *cache, const struct origin *origin,
                          const struct metadata *metadata, slice *ret_identity)
{
    *ret_identity = S("");
    if (!peers_answer(cache->peers))
        return "no other node answers";
    if (!origin_knows_identities(origin))
        return "the origin is a directory, whose objects nodes do not share";
    if (metadata && !learn_has_strong_etag(metadata))
        return "the object has no strong ETag, so nodes can't be sure that they mean the same version";
    *ret_identity = origin_owner(origin);
    if (!ret_identity->len)    /* the owner of a segment reads with these credentials */
        return "Penstock has no credentials of its own for this origin";
    return NULL;
}
