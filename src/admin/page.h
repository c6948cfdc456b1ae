/* page.h - the page for people at "/" of the admin address. SPDX-License-Identifier: Apache-2.0
 *
 * The page is one HTML file without figures of its own. Its script reads /status and /metrics. */
#ifndef ADMIN_PAGE_H
#define ADMIN_PAGE_H

#include "base/arena.h"

slice page_html(void);
/* Returns the Content-Security-Policy of the page, in keep. */
slice page_policy(struct arena *keep) MUST_USE;

#endif
