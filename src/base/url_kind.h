/* url_kind.h - the URLs of each kind of origin. SPDX-License-Identifier: Apache-2.0
 *
 * The settings judge URLs, but the kinds themselves are two floors higher (origin/kind.h). So the
 * caller of config_load gives it a list of these (config_sources). Pure: no function here uses a
 * network or a disk. */
#ifndef BASE_URL_KIND_H
#define BASE_URL_KIND_H

#include "base/arena.h"

struct url_scheme {
    const char *start;          /* the first characters of the URL: "https://" */
    const char *form;           /* the whole URL, for messages: "https://HOST[:PORT]" */
    unsigned port;              /* used where the URL names none; 0: such a URL has no host */
};

/* How `penstock check` tries an origin. PROBE_OPEN: it opens the origin; a failure is a mistake in
 * the settings. PROBE_CALL: it sends a ListBuckets, unless --offline was given; a failure is a
 * warning, because a network can come back. */
enum url_probe { PROBE_OPEN, PROBE_CALL };

struct url_kind {
    struct url_scheme schemes[2];       /* a NULL start ends them early */
    /* Judges the rest of the URL after the scheme. On failure *ret_why, in keep, ends a sentence
     * that begins with the name of the setting. It stays as it is if the forms above explain
     * enough. */
    bool (*judge)(slice rest, struct arena *keep, const char **ret_why);
    bool is_folder;             /* the rest of the URL is a folder of this machine */
    bool knows_identities;      /* its answers depend on the signer: it needs credentials */
    enum url_probe probe;
};

/* The list: the kind at place i; NULL: i is behind the last. */
typedef const struct url_kind *url_kinds(size_t i);

/* The kind of a URL, its scheme, and the rest of the URL. NULL: no kind has such URLs. */
const struct url_kind *url_kind_of(url_kinds *kinds, slice url, const struct url_scheme **ret_scheme,
                                   slice *ret_rest);
/* Is it a URL of some kind? On failure *ret_why, as for judge. */
bool url_judge(url_kinds *kinds, slice url, struct arena *keep, const char **ret_why) MUST_USE;
/* All forms: "https://HOST[:PORT] or dir:/FOLDER". */
const char *url_forms(url_kinds *kinds, struct arena *keep) MUST_USE;

/* Two judges that a kind may have: "HOST[:PORT]" without a path, and an absolute path. */
bool url_judge_host(slice rest, struct arena *keep, const char **ret_why) MUST_USE;
bool url_judge_folder(slice rest, struct arena *keep, const char **ret_why) MUST_USE;

/* Cuts ":PORT" off the end of HOST:PORT or [IPV6]:PORT. The result's ptr is NULL if there is
 * none. */
slice url_cut_port(slice *host);
/* False for a number outside of 1 to 65535, with *ret_why, or for no number, without. */
bool url_port_is_valid(slice port, const char **ret_why) MUST_USE;

#endif
