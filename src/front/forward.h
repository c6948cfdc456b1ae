/* forward.h - the fields and documents that Penstock forwards, both ways.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FRONT_FORWARD_H
#define FRONT_FORWARD_H

#include "front/inside.h"

/* The fields for the origin, with room for those that the intake adds. */
struct http_field *forward_fields(struct arena *keep, const struct call *call,
                                  size_t *ret_count) MUST_USE;
/* The query for the origin: the parsed parameters, encoded anew, so that the origin reads the same.
 * Left out are the client's signature and the parameters that are sent as headers. */
slice forward_query(struct arena *keep, const struct s3_request *s3) MUST_USE;
/* Puts Penstock's address into the Location of a form's answer; the origin sent its own. */
void forward_location(const struct call *call, int status, struct fields *fields);
/* True if forward_document changes the document of an answer. A success may contain an error. */
bool forward_changes(const struct call *call, int status);
/* The document for the client, with Penstock's request id and the address of its endpoint. */
slice forward_document(const struct call *call, int status, slice document) MUST_USE;
void forward_answer(struct arena *keep, const struct origin_reply *reply, struct fields *fields);

#endif
