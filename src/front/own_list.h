/* own_list.h - what the origin lists to a client. SPDX-License-Identifier: Apache-2.0
 *
 * Answers about the cache contain names of cached objects. Only a client that may list these names
 * at the origin gets such an answer. So each of these requests first sends the origin a list call,
 * as the client's identity. For most clients, a list of one key is enough: only its status counts.
 *
 * For other clients, the keys count, too. Two users of one origin may have different buckets of the
 * same name, and the cache has objects of both. A client with an origin identity of its own may
 * learn only of objects that its own requests to the origin would show (penstock-access(7), "Two
 * buckets with the same name"). So the answer to such a client has only objects that the origin
 * lists to it: the same key, with the ETag and the size of the cached version. If the setting
 * `grant_scope` is `bucket` or `prefix`, the operator declares that the name of the bucket stands
 * for the same bucket for all clients. Then the keys do not count. */
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

/* True if the call's client may see only objects of the list. */
bool own_list_is_needed(const struct call *call) MUST_USE;
/* Asks the origin for the first page of the list. The list will have objects only if
 * own_list_is_needed. To be called on the loop of the call. Returns the result: OK, ERR_DENIED,
 * ERR_NO_SUCH_BUCKET, ERR_SLOW_DOWN, or why the origin gave no answer. Returns ERR_WAIT if the
 * answer has not come yet. Then done() is called with the result, unless own_list_free is called
 * first. After OK, call own_list_read. */
enum err own_list_ask(struct call *call, const struct own_list_ask *ask,
                      void (*done)(void *arg, enum err err), void *arg,
                      struct own_list **ret) MUST_USE;
/* Reads the page that has come. This may take milliseconds, so a request for many keys does it on a
 * thread of a pool. Returns OK if the list is complete, or why the page can't be used.
 * Returns ERR_WAIT if another page is needed. Then call own_list_next on the loop of the call. It
 * asks the origin for that page, and returns the same results as own_list_ask. */
enum err own_list_read(struct own_list *list) MUST_USE;
enum err own_list_next(struct own_list *list) MUST_USE;
/* Returns a message that says why a result is an error. Empty: the usual message says enough. */
slice own_list_why(const struct own_list *list);
/* Frees the list. While the origin is being asked, only the loop of the call may call this
 * function. At any other time, any thread may, because the list may outlive the call. */
void own_list_free(struct own_list **list);

/* For the time after own_list_read has returned OK. Any thread. */
/* Returns the object of this key, or NULL. */
const struct listed *own_list_find(const struct own_list *list, slice key);
/* True if the origin has more keys than the list. *ret is then the key after which they come. */
bool own_list_has_more(const struct own_list *list, slice *ret);

#endif
