/* status_document.h - the JSON of /status. SPDX-License-Identifier: Apache-2.0
 *
 * admin.c makes and prints the document; functions of admin.h put the values in. */
#ifndef ADMIN_STATUS_DOCUMENT_H
#define ADMIN_STATUS_DOCUMENT_H

#include "admin/admin.h"

struct status_document *document_new(struct arena *keep) MUST_USE;
/* Returns the text, in keep. Frees the document and sets *document to NULL; no other function frees
 * it. */
slice document_print(struct status_document **document, struct arena *keep) MUST_USE;

#endif
