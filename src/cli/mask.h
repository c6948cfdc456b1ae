/* mask.h - takes secrets out of texts that leave this machine. SPDX-License-Identifier: Apache-2.0
 *
 * Pure. Four things are replaced by ********: texts that are known to be secrets; access keys of
 * AWS; values after names that tell of a secret, as in "X-Amz-Signature=...", "\"token\": \"...\""
 * and "Authorization: ..."; and what stands before the @ of a URL. */
#ifndef CLI_MASK_H
#define CLI_MASK_H

#include "base/config.h"

#define MASK_SECRETS_MAX 1024u
struct mask {
    struct arena *keep;
    slice secrets[MASK_SECRETS_MAX];
    size_t count;
};

/* Adds a text that must not appear, also as it stands in URLs and JSON. A text of fewer than 4
 * bytes is not added: it would hide ordinary words. */
void mask_add(struct mask *mask, slice secret);
/* Adds the values of all secret settings, of all access keys, and of the variables of `environment`
 * whose names tell of a secret. */
void mask_add_settings(struct mask *mask, const struct config *config);
void mask_add_environment(struct mask *mask, const char *const *environment);
/* Returns the text without secrets, in mask->keep. */
slice mask_text(const struct mask *mask, slice text) MUST_USE;

#endif
