/* header.h - what is known of a request's headers. SPDX-License-Identifier: Apache-2.0
 *
 * The rows of header.def, for all who must decide by a header's name: what goes on to an origin,
 * what a cached object answers, what takes a right. Pure. */
#ifndef BASE_HEADER_H
#define BASE_HEADER_H

#include "base/slice.h"

enum header_fate {
    HEADER_UNKNOWN, HEADER_OURS, HEADER_UNSENT, HEADER_SENT, HEADER_UNSIGNED, HEADER_ORIGIN,
    HEADER_FOREIGN
};

struct header_known {
    enum header_fate fate;
    bool once, admin;
};

/* named: the setting forward_headers, names separated by commas. Any case. */
struct header_known header_judge(slice name, slice named) MUST_USE;
bool header_is_vendors(slice name);    /* it begins as those of S3 or another vendor do */
/* A server that hands headers on as CGI does might read this one as a vendor's. Metadata is nobody's. */
bool header_is_disguised(slice name);
/* OK, or why forward_headers can't have this name: the end of a sentence. */
const char *header_named_breaks(slice name);

#endif
