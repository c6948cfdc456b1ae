/* credentials.h - whose keys clients sign with, and whose Penstock signs with to an origin.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CREDENTIALS_H
#define CLI_CREDENTIALS_H

#include "base/config.h"
#include "origin/credentials.h"

/* With no key in the settings (key_count is 0), the AWS credentials of the environment or profile
 * serve both sides, if they are a pair that stays. On failure *ret_why is a sentence for people. */
enum err credentials_of_clients(const struct config *config, struct arena *keep,
                                struct credentials *ret, slice *ret_why) MUST_USE;
/* No credentials of Penstock's own are no mistake there: no client would use them. */
bool credentials_may_lack(const struct config *config, const struct config_origin *origin);
/* Only an origin whose answers depend on the signer needs them. */
bool credentials_are_needed(const struct config_origin *origin);
/* carriers NULL: a source that lends is not asked, and only its name is found. */
enum err credentials_at_origin(const struct config_origin *origin, struct carriers *carriers,
                               struct arena *keep, struct credentials *ret,
                               slice *ret_why) MUST_USE;

#endif
