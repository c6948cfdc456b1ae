/* show.h - names, sizes and times as people read them, and URLs of the form s3://BUCKET/KEY.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pure. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include "base/arena.h"

struct s3_url {
    slice bucket;
    slice key;          /* or a prefix; empty: the whole bucket. The bytes as they were typed */
};
/* Reads s3://BUCKET, s3://BUCKET/ or s3://BUCKET/KEY. Nothing is decoded. Returns false if the text
 * has another form; *ret_why is then the end of a sentence that begins with the text. */
bool s3_url_read(const char *text, struct s3_url *ret, const char **ret_why) MUST_USE;

/* Adds a name so that a terminal shows every byte. Control characters, characters that change the
 * direction of the text, and bytes that are not UTF-8 become \xNN, and a backslash becomes \\. */
void show_name(struct text *to, slice name);
/* Returns a text that a service sent, as show_name shows it. */
slice show_text(struct arena *keep, slice text) MUST_USE;
/* Returns s3://BUCKET/KEY. The key is shown as show_name does it. */
slice show_s3(struct arena *keep, slice bucket, slice key) MUST_USE;
/* Returns, for example, "1.5 MiB". show_bytes_as uses the unit that show_bytes uses for `other`, so
 * that people can compare the two numbers. */
slice show_bytes(struct arena *keep, uint64_t bytes) MUST_USE;
slice show_bytes_as(struct arena *keep, uint64_t bytes, uint64_t other) MUST_USE;
/* Returns a share in percent. The text is "100 %" only if `part` is all of `whole`, and "0 %" only
 * if `part` is 0. */
slice show_share(struct arena *keep, uint64_t part, uint64_t whole) MUST_USE;
/* Returns, for example, "41s", "12m", "7h" or "3d". */
slice show_seconds(struct arena *keep, uint64_t seconds) MUST_USE;

#endif
