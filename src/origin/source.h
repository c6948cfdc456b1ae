/* source.h - the sources of credentials, and their helper functions. Only credentials.c and the
 * files of the sources include it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A source returns ERR_NOT_FOUND if it is not configured. Otherwise it sets ret->from, and either
 * fills in `ret` or fails with a sentence in seek->why: what happened, why, and what to do. */
#ifndef ORIGIN_SOURCE_H
#define ORIGIN_SOURCE_H

#include "origin/aws_files.h"
#include "origin/credentials.h"

#define WEB_TIME_MS 5000u           /* longest time until the whole answer is there */

struct seek {
    struct arena *keep;
    const struct credentials_ask *ask;
    struct aws_files files;
    slice profile;                  /* name of the profile */
    slice region;
    unsigned depth;                 /* number of roles in the chain so far */
    slice why;
};

slice seek_env(const struct seek *seek, const char *name);
slice seek_profile(const struct seek *seek, const char *name);
/* Sets seek->why and returns `err`. */
enum err seek_fail(struct seek *seek, enum err err, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Reads a JSON document of credentials; `token_name` is the name of the session token in it. Fails
 * if their expiry is no valid time, or if they have expired (unless ret->outlasts is set). */
enum err seek_read_json(struct seek *seek, slice document, const char *token_name,
                        struct credentials *ret) MUST_USE;
/* The last step for temporary credentials: checks that no key is missing, and checks the expiry in
 * the same way as seek_read_json. */
enum err seek_lent(struct seek *seek, slice expires, struct credentials *ret) MUST_USE;

/* credentials.c: the keys of seek->profile and of the environment. */
enum err source_profile(struct seek *seek, struct credentials *ret) MUST_USE;
enum err source_env(struct seek *seek, struct credentials *ret) MUST_USE;
/* role.c: AWS STS. */
enum err source_role(struct seek *seek, struct credentials *ret) MUST_USE;
enum err source_web_identity(struct seek *seek, struct credentials *ret) MUST_USE;
/* process.c */
enum err source_process(struct seek *seek, struct credentials *ret) MUST_USE;
/* metadata.c */
enum err source_container(struct seek *seek, struct credentials *ret) MUST_USE;
enum err source_instance(struct seek *seek, struct credentials *ret) MUST_USE;

#endif
