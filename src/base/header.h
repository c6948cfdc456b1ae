/* header.h - the table of known request headers. SPDX-License-Identifier: Apache-2.0
 *
 * The rows of header.def decide, by the name of a header, whether the header is sent to an origin,
 * whether the cache may answer the request, and whether the client needs the right "admin".
 * The functions do no I/O. */
#ifndef BASE_HEADER_H
#define BASE_HEADER_H

#include "base/slice.h"

enum header_fate {
    HEADER_UNKNOWN, HEADER_OURS, HEADER_UNSENT, HEADER_SENT, HEADER_ORIGIN, HEADER_FOREIGN
};

/* The columns `fate`, `times` and `right` of a row; header.def explains their values. */
struct header_known {
    enum header_fate fate;
    bool once, admin;
};

/* `listed` is the value of the setting forward_headers: names separated by commas, in any case. */
struct header_known header_judge(slice name, slice listed) MUST_USE;
bool header_is_vendors(slice name);    /* true if it has a VENDOR prefix of header.def */
/* Some servers read '_' in a header name as '-', as CGI does. Returns true if such a server would
 * take this header for a vendor's. Returns false for all headers of user metadata
 * (x-amz-meta-*). */
bool header_is_disguised(slice name);
/* Returns NULL if forward_headers may list this name. Otherwise returns the reason, as the end of a
 * sentence. */
const char *header_listed_breaks(slice name);

#endif
