/* credentials.h - the keys of clients, and the credentials of Penstock at an origin.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CREDENTIALS_H
#define CLI_CREDENTIALS_H

#include "base/config.h"
#include "origin/credentials.h"

/* Finds the key of clients if the settings have none (key_count is 0): clients then sign with the
 * AWS credentials of Penstock's environment, mounted files or profile. If these credentials have a
 * session token, clients use it, too. Refuses credentials that Penstock would have to renew, such
 * as those of a role. After a failure *ret_why is a sentence for people. */
enum err credentials_of_clients(const struct config *config, struct arena *keep,
                                struct credentials *ret, slice *ret_why) MUST_USE;
/* Finds the key of the user who runs a command against the service, as an SDK would, or in the
 * profile that the setting "aws_profile" names. Refuses temporary credentials. */
enum err credentials_of_caller(const struct config *config, struct arena *keep,
                               struct credentials *ret, slice *ret_why) MUST_USE;
/* True if Penstock needs no own credentials at this origin, because no client would use them. */
bool credentials_may_lack(const struct config *config, const struct config_origin *origin);
/* True if the origin's answers depend on the signer. */
bool credentials_are_needed(const struct config_origin *origin);
/* Finds Penstock's own credentials at an origin. If may_lend is false, a source of temporary
 * credentials is not asked, and only its name is found. */
enum err credentials_at_origin(const struct config_origin *origin, bool may_lend,
                               struct arena *keep, struct credentials *ret,
                               slice *ret_why) MUST_USE;

#endif
