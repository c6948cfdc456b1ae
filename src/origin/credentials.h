/* credentials.h - finds the credentials for an origin. SPDX-License-Identifier: Apache-2.0
 *
 * A search asks its sources in the order of the AWS SDKs: settings, mounted files, environment,
 * role, web identity, profile, process, container, instance metadata. The first source that is
 * configured gives all of the credentials; if it fails, no other source is asked. The region is
 * looked up separately. A search reads files, and may wait for answers and processes: never call it
 * on a thread that serves clients (an HTTP loop) or talks to origins (a carrier). */
#ifndef ORIGIN_CREDENTIALS_H
#define ORIGIN_CREDENTIALS_H

#include <stdatomic.h>

#include "base/arena.h"

enum credentials_kind {
    CREDENTIALS_FIXED,              /* settings, environment: valid as long as the process runs */
    CREDENTIALS_IN_FILES,           /* read again regularly, because files get rewritten */
    CREDENTIALS_LENT                /* temporary: valid until they expire */
};

struct credentials {
    slice access_key, secret_key, session_token, region;    /* token and region may be empty */
    slice from;    /* the source of the keys: "env AWS_ACCESS_KEY_ID", "profile NAME" */
    enum credentials_kind kind;
    bool nameless;  /* `from` does not name the owner; later keys may be those of another role */
    int64_t expires_s;              /* 0: not known to expire */
    bool outlasts;                  /* valid even after expires_s, until newer ones come */
    unsigned source;                /* number of the source, so that the next search asks only it */
};

#define CREDENTIALS_ANY 0u          /* search all sources */

struct credentials_ask {
    slice access_key, secret_key, session_token, region, profile;    /* settings; empty: not set */
    slice secret_key_file, session_token_file;    /* files that hold these values, or empty */
    const char *(*env)(const char *name);    /* getenv, or a function of a test */
    bool may_lend;                  /* false: no source of LENT credentials is asked. If one is
                                     * configured, the search succeeds and returns only its name, in
                                     * `from`; instance metadata is skipped */
    unsigned source;                /* CREDENTIALS_ANY, or the only source to ask */
    bool optional;                  /* for provider_new: it is allowed to find no credentials */
    int64_t now_s;                  /* the credentials must be valid at this time */
    const atomic_bool *stop;        /* if set, the search ends early; may be NULL */
};

/* Returns ERR_NOT_FOUND if no source is configured, ERR_BAD_ARGUMENT for a mistake in the
 * configuration, or the failure of a source. On an error *ret_why is a sentence, in keep. After the
 * failure of a source, ret->from and ret->source name that source. */
enum err credentials_find(struct arena *keep, const struct credentials_ask *ask,
                          struct credentials *ret, slice *ret_why) MUST_USE;

#endif
