/* url_kind.h - the URLs of each kind of origin. SPDX-License-Identifier: Apache-2.0
 *
 * A kind of origin is, for example, an S3 server or a folder. The settings judge URLs, but the code
 * of the kinds is in src/origin (origin/kind.h), which base/ must not include. So the caller of
 * config_load passes a list of struct url_kind (config_sources). No function of this file uses a
 * network or a disk. */
#ifndef BASE_URL_KIND_H
#define BASE_URL_KIND_H

#include "base/arena.h"

struct url_scheme {
    const char *start;          /* the first characters of a URL: "https://" */
    const char *form;           /* the whole URL, for messages: "https://HOST[:PORT]" */
    unsigned port;              /* default port; 0: these URLs have no host */
};

/* How `penstock check` tries an origin. With PROBE_OPEN it opens the origin; a failure is a mistake
 * in the settings. With PROBE_CALL it sends a ListBuckets, unless --offline was given; a failure is
 * a warning, because a network can come back. */
enum url_probe { PROBE_OPEN, PROBE_CALL };

struct url_kind {
    struct url_scheme schemes[2];       /* if there is only one, the second start is NULL */
    /* Judges the rest of the URL after the scheme. On failure returns false and sets *ret_why, in
     * keep, to the end of a sentence that begins with the name of the setting. Before the call,
     * *ret_why lists the forms of all kinds. judge leaves it alone if the list explains enough. */
    bool (*judge)(slice rest, struct arena *keep, const char **ret_why);
    bool is_folder;             /* the rest of the URL is a folder of this machine */
    bool knows_identities;      /* the answers depend on the signer's credentials */
    enum url_probe probe;
};

/* A list of kinds: a function that returns the kind at index i, or NULL after the last kind. */
typedef const struct url_kind *url_kinds(size_t i);

/* Returns the kind of a URL, its scheme, and the rest of the URL; or NULL if no kind has such
 * URLs. */
const struct url_kind *url_kind_of(url_kinds *kinds, slice url, const struct url_scheme **ret_scheme,
                                   slice *ret_rest);
/* Returns true if `url` is valid for its kind. On failure sets *ret_why, as judge does; without a
 * reason from judge, *ret_why lists the forms of all kinds. */
bool url_judge(url_kinds *kinds, slice url, struct arena *keep, const char **ret_why) MUST_USE;
/* Returns all forms: "https://HOST[:PORT] or dir:/FOLDER". */
const char *url_forms(url_kinds *kinds, struct arena *keep) MUST_USE;

/* Two functions that a kind may have as `judge`. For url_judge_host, the rest must be "HOST[:PORT]"
 * without a path; for url_judge_folder, an absolute path. */
bool url_judge_host(slice rest, struct arena *keep, const char **ret_why) MUST_USE;
bool url_judge_folder(slice rest, struct arena *keep, const char **ret_why) MUST_USE;

/* Cuts ":PORT" off the end of HOST:PORT or [IPV6]:PORT and returns PORT. The ptr of the result is
 * NULL if there is no port. */
slice url_cut_port(slice *host);
/* Returns true for a number from 1 to 65535. For another number, sets *ret_why. Leaves *ret_why
 * alone if the text is no number. */
bool url_port_is_valid(slice port, const char **ret_why) MUST_USE;
/* Returns true for HOST[:PORT]. For a number that is no port, sets *ret_why. Leaves *ret_why alone
 * if something else is wrong. */
bool url_host_is_valid(slice host, const char **ret_why) MUST_USE;

#endif
