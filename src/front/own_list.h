/* own_list.h - the objects that the origin lists to a client. SPDX-License-Identifier: Apache-2.0
 *
 * Two users of one origin may have different buckets of the same name, and the cache has objects of
 * both. A client with an origin identity of its own may learn only of objects that its own requests
 * to the origin would show (penstock-access(7), "Two buckets with the same name"). So the answers
 * about the cache have, for such a client, only objects that the origin lists to it: the same key,
 * with the ETag of the cached version. If a grant is valid for a whole bucket or prefix, the
 * operator has said that the name of the bucket stands for one bucket. Then no list is needed. */
#ifndef FRONT_OWN_LIST_H
#define FRONT_OWN_LIST_H

#include "front/inside.h"
#include "s3/xml.h"

/* The part of the list that is wanted. */
struct own_list_ask {
    slice prefix, after;              /* keys with this prefix, behind the key `after` */
    size_t keys_max, bytes_max;       /* of the list in memory (rule H8 in src/README.md) */
};
struct own_list;

/* True if the call's client may see only objects of such a list. */
bool own_list_is_needed(const struct call *call) MUST_USE;
/* Asks the origin for the list, page by page. Returns ERR_WAIT: done() is called with the verdict,
 * unless own_list_free is called first. Otherwise returns the verdict, as list_right_ask does. The
 * list lives until own_list_free, so it may outlive the call. */
enum err own_list_ask(struct call *call, const struct own_list_ask *ask,
                      void (*done)(void *arg, enum err err), void *arg,
                      struct own_list **ret) MUST_USE;
/* Before the verdict, on the loop of the call. After the verdict, on any thread. */
void own_list_free(struct own_list **list);

/* For the time after the verdict OK. Any thread. */
/* Returns the object of this key, or NULL. */
const struct listed *own_list_find(const struct own_list *list, slice key);
/* True if the origin has more keys than the list. *ret is then the key after which they come. */
bool own_list_has_more(const struct own_list *list, slice *ret);

#endif
