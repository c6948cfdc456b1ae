/* trouble.h - why something is refused, as a reply says it. SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_TROUBLE_H
#define LOCAL_TROUBLE_H

#include "base/slice.h"

struct trouble {
    int status;                       /* as HTTP has them */
    const char *code;                 /* S3's own, or one of ours in lower case */
    slice message;                    /* what, why, what to do */
};
struct trouble trouble_of(enum err err);
/* The message that says it, to the one of this "id" (NULL: it had none); the caller's to free. */
char *trouble_reply(const struct trouble *why, const int64_t *number) MUST_USE;
/* Says it; false, so that who judges returns it. */
static inline bool refused(struct trouble *ret, int status, const char *code, slice message)
{
    *ret = (struct trouble){ status, code, message };
    return false;
}

#endif
