/* trouble.h - a refusal: its status, code and sentence. SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_TROUBLE_H
#define LOCAL_TROUBLE_H

#include "base/slice.h"

struct trouble {
    int status;                       /* an HTTP status */
    const char *code;                 /* an S3 code, or a lower-case code of the fill socket */
    slice message;                    /* what happened, why, and what to do */
};
struct trouble trouble_of(enum err err);
/* Returns the reply to a refused message, without "id"; the caller owns it. */
struct json_t *trouble_reply(const struct trouble *why) MUST_USE;
/* Sets *ret and returns false, so that a function that checks something can end with `return
 * refused(...)`. */
static inline bool refused(struct trouble *ret, int status, const char *code, slice message)
{
    *ret = (struct trouble){ status, code, message };
    return false;
}

#endif
