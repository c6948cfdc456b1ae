/* page.h - a JSON document that is told fact by fact. SPDX-License-Identifier: Apache-2.0 */
#ifndef ADMIN_PAGE_H
#define ADMIN_PAGE_H

#include "admin/admin.h"

struct admin_page *page_new(struct arena *keep) MUST_USE;
/* The document, in keep; empties *page, which must be printed to be freed. */
slice page_print(struct admin_page **page, struct arena *keep) MUST_USE;

#endif
