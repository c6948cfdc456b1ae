/* credentials.h - whose name an origin is asked in. SPDX-License-Identifier: Apache-2.0
 *
 * One look through the sources that AWS SDKs know, in their order: settings, environment, roles and
 * web identity, profile, container, instance metadata. The first that is configured gives all of
 * it; that it fails is no reason to ask the next. The region is looked for on its own.
 * Reads files, and may wait for answers and processes: never on a loop or a carrier. */
#ifndef ORIGIN_CREDENTIALS_H
#define ORIGIN_CREDENTIALS_H

#include <stdatomic.h>

#include "base/arena.h"

struct carriers;

enum credentials_kind {
    CREDENTIALS_FIXED,              /* settings, environment: as long as the process */
    CREDENTIALS_IN_FILES,           /* read anew now and then: somebody may write others there */
    CREDENTIALS_LENT                /* until they expire */
};

struct credentials {
    slice access_key, secret_key, session_token, region;    /* token, region: may be empty */
    slice from;    /* where the keys were found: "env AWS_ACCESS_KEY_ID", "profile NAME" */
    enum credentials_kind kind;
    bool nameless;                  /* `from` does not tell whose: it may be another's next time */
    int64_t expires_s;              /* 0: never, as far as is known */
    bool outlasts;                  /* used beyond that while their source has no newer ones */
    unsigned source;                /* which one; to ask it alone the next time */
};

#define CREDENTIALS_ANY 0u          /* of the sources */

struct credentials_ask {
    slice access_key, secret_key, session_token, region, profile;    /* settings; empty: not set */
    slice secret_key_file, session_token_file;    /* the settings' were read from there; or empty */
    const char *(*env)(const char *name);    /* getenv, or a test's */
    struct carriers *carriers;      /* NULL: nobody is asked; what lends tells only its `from` */
    unsigned source;                /* CREDENTIALS_ANY, or the only one to ask */
    bool optional;                  /* for provider_new: to find none is no mistake */
    int64_t now_s;                  /* what is given must be good then */
    const atomic_bool *stop;        /* set: give up waiting; may be NULL */
};

/* ERR_NOT_FOUND (nowhere any), ERR_BAD_ARGUMENT (a mistake of who configured it), or how a source
 * failed; with a sentence, in keep. Then ret->from and ret->source say whose failure it was. */
enum err credentials_find(struct arena *keep, const struct credentials_ask *ask,
                          struct credentials *ret, slice *ret_why) MUST_USE;

#endif
