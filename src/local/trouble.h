/* trouble.h - why something is refused, as a reply says it. SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_TROUBLE_H
#define LOCAL_TROUBLE_H

#include "base/slice.h"

struct trouble {
    int status;                       /* of HTTP */
    const char *code;                 /* an S3 code, or one of the fill socket, in lower case */
    slice message;                    /* what, why, what to do */
};
struct trouble trouble_of(enum err err);
/* The reply that says it, to the message of this "id" (NULL: it had none); the caller frees it. */
char *trouble_reply(const struct trouble *why, const int64_t *number) MUST_USE;
/* Sets *ret and returns false, so that a function that judges can end with it. */
static inline bool refused(struct trouble *ret, int status, const char *code, slice message)
{
    *ret = (struct trouble){ status, code, message };
    return false;
}

#endif
