/* forward.h - what goes on to an origin, and what comes back from it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FRONT_FORWARD_H
#define FRONT_FORWARD_H

#include "front/inside.h"

/* With room for what the body's intake adds. */
struct http_field *forward_fields(struct arena *keep, const struct call *call,
                                  size_t *ret_count) MUST_USE;
/* The query as it was read, encoded anew: an origin reads it as we did. Without the client's own
 * signature, and what goes as headers. */
slice forward_query(struct arena *keep, const struct s3_request *s3) MUST_USE;
/* A document with another value in the first element of that name, if there is one. */
slice forward_element(struct arena *keep, slice document, const char *name, slice value) MUST_USE;
/* Where a form put its object, which the origin tells by its own address. */
void forward_location(const struct call *call, int status, struct fields *fields);
/* An answer's document as its client may read it: our id of the request (also where an error comes
 * in a success), our endpoint. */
bool forward_changes(const struct call *call, int status);
slice forward_document(const struct call *call, int status, slice document) MUST_USE;
void forward_answer(struct arena *keep, const struct origin_reply *reply, struct fields *fields);

#endif
