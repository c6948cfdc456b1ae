/* trouble.c - refusals: their statuses, codes and sentences. SPDX-License-Identifier: Apache-2.0
 *
 * The table holds the errors for which the fill socket has a sentence of its own that says more
 * than S3's. All other errors have the code and the sentence of S3. Any thread. */
#include "local/trouble.h"

#include <jansson.h>

#include "s3/error.h"

static const struct {
    enum err err;
    int status;
    const char *code, *message;
} ours[] = {
    { ERR_TOO_LARGE, 413, "too_large",
      "an object is larger than its place in the buffer, or than \"max\": give the item a larger "
      "place and a larger \"max\", or ask for a part of the object" },
    { ERR_TIMEOUT, 504, "deadline",
      "the fill took longer than its deadline_ms or the setting fill_time allows: send the fill "
      "again; bytes that the cache has stored by then are not fetched again" },
    { ERR_FAULT, 422, "buffer_fault",
      "pages of the buffer were missing when a fill wrote to them: don't punch holes into a "
      "buffer" },
    { ERR_GONE, 503, "gpu_lost",
      "the GPU has failed, and is out of use until Penstock is restarted (Penstock's log has the "
      "reason, in the event gpu_lost)" },
    { ERR_CANCELED, 499, "cancelled", "the fill was cancelled, because its session ended" },
};

struct trouble trouble_of(enum err err)
{
    for (size_t i = 0; i < countof(ours); i++)
        if (ours[i].err == err)
            return (struct trouble){ ours[i].status, ours[i].code, slice_of(ours[i].message) };
    const struct s3_error *row = s3_error_of(err);
    return (struct trouble){ row->status, row->code, slice_of(row->message) };
}

struct json_t *trouble_reply(const struct trouble *why)
{
    check(why->code != NULL && why->status >= 400);
    json_t *reply = json_pack("{s:b, s:s, s:i, s:s%}", "ok", 0, "error", why->code, "status",
                              why->status, "message", why->message.ptr ? why->message.ptr : "",
                              why->message.len);
    if (!reply)    /* the sentence quotes bytes that are not UTF-8 */
        reply = json_pack("{s:b, s:s, s:i}", "ok", 0, "error", why->code, "status", why->status);
    return reply;
}
