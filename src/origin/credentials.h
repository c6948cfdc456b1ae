/* credentials.h - finds the credentials for an origin. SPDX-License-Identifier: Apache-2.0
 *
 * A search goes through the sources that AWS SDKs know, in their order: settings, environment,
 * roles and web identity, profile, container, instance metadata. The first source that is
 * configured gives all of the credentials; if it fails, no other source is asked. The region is
 * looked up on its own. A search reads files, and may wait for answers and processes: never call it
 * on an HTTP loop or a carrier. */
#ifndef ORIGIN_CREDENTIALS_H
#define ORIGIN_CREDENTIALS_H

#include <stdatomic.h>

#include "base/arena.h"

enum credentials_kind {
    CREDENTIALS_FIXED,              /* settings, environment: good as long as the process runs */
    CREDENTIALS_IN_FILES,           /* read again now and then, because files get rewritten */
    CREDENTIALS_LENT                /* good until they expire */
};

struct credentials {
    slice access_key, secret_key, session_token, region;    /* token and region may be empty */
    slice from;    /* the source of the keys: "env AWS_ACCESS_KEY_ID", "profile NAME" */
    enum credentials_kind kind;
    bool nameless;                  /* `from` names no owner: the source may give another's keys */
    int64_t expires_s;              /* 0: no end is known */
    bool outlasts;                  /* usable after expires_s while the source has no newer ones */
    unsigned source;                /* number of the source, to ask it alone the next time */
};

#define CREDENTIALS_ANY 0u          /* search all sources */

struct credentials_ask {
    slice access_key, secret_key, session_token, region, profile;    /* settings; empty: not set */
    slice secret_key_file, session_token_file;    /* files the settings were read from, or empty */
    const char *(*env)(const char *name);    /* getenv, or a test's */
    bool may_lend;                  /* false: a source that lends gives only its `from` */
    unsigned source;                /* CREDENTIALS_ANY, or the only source to ask */
    bool optional;                  /* for provider_new: finding no credentials is no mistake */
    int64_t now_s;                  /* the credentials must be good at this time */
    const atomic_bool *stop;        /* when it is set, the search gives up waiting; may be NULL */
};

/* ERR_NOT_FOUND (no source is configured), ERR_BAD_ARGUMENT (a mistake in the configuration), or
 * the failure of a source; *ret_why is a sentence, in keep. ret->from and ret->source then name the
 * source that failed. */
enum err credentials_find(struct arena *keep, const struct credentials_ask *ask,
                          struct credentials *ret, slice *ret_why) MUST_USE;

#endif
