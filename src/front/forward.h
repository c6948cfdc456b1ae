/* forward.h - the fields and documents that Penstock forwards, both ways.
 * SPDX-License-Identifier: Apache-2.0
 *
 * These functions choose the headers and the query that an origin gets from a client's request, and
 * the headers and the document that the client gets from the origin's answer. */
#ifndef FRONT_FORWARD_H
#define FRONT_FORWARD_H

#include "front/inside.h"

/* Returns the fields for the origin. The list has room for INTAKE_FIELDS_MAX more, which the intake
 * of the body adds (intake.h). */
struct http_field *forward_fields(struct arena *keep, const struct call *call,
                                  size_t *ret_count) MUST_USE;
/* Returns the query for the origin: the parsed parameters, encoded anew, so that the origin reads
 * them as Penstock did. The client's signature is left out, and so are the parameters that are sent
 * as headers. */
slice forward_query(struct arena *keep, const struct s3_request *s3) MUST_USE;
/* In the answer to a form (PostObject), replaces the origin's address in Location by Penstock's. A
 * redirect keeps its Location. */
void forward_location(const struct call *call, int status, struct fields *fields);
/* True if forward_document changes the document of an answer: an error, or the answer to a form or
 * a CompleteMultipartUpload. The latter may have an error document although its status is 200. */
bool forward_changes(const struct call *call, int status);
/* Returns the document for the client, with Penstock's request id and Penstock's address. */
slice forward_document(const struct call *call, int status, slice document) MUST_USE;
/* Adds the fields of the origin's answer that the client gets. */
void forward_answer(struct arena *keep, const struct origin_reply *reply, struct fields *fields);

#endif
