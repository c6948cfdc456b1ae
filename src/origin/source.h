/* source.h - what the sources of credentials share; for credentials.c and the files it calls.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A source returns ERR_NOT_FOUND where it is not configured. Else it says in `ret` what it found,
 * with ret->from, or fails and says in `why` what, why, and what to do. */
#ifndef ORIGIN_SOURCE_H
#define ORIGIN_SOURCE_H

#include "origin/aws_files.h"
#include "origin/credentials.h"

#define WEB_TIME_MS 5000u           /* an answer must be there after so long */

struct seek {
    struct arena *keep;
    const struct credentials_ask *ask;
    struct aws_files files;
    slice profile;                  /* its name */
    slice region;
    unsigned depth;                 /* roles that lend to each other */
    slice why;
};

slice seek_env(const struct seek *seek, const char *name);
slice seek_profile(const struct seek *seek, const char *name);
/* Sets seek->why and returns `err`. */
enum err seek_fail(struct seek *seek, enum err err, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* A JSON document of credentials, whose token and expiry are called as they are there. What has
 * expired, or says no valid time, is a failure. */
enum err seek_read_json(struct seek *seek, slice document, const char *token_name,
                        struct credentials *ret) MUST_USE;
/* The common end of what was lent: complete, and good for a while. */
enum err seek_lent(struct seek *seek, slice expires, struct credentials *ret) MUST_USE;

/* credentials.c: keys and processes of seek->profile, for a role that is taken with them. */
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
