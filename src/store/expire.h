/* expire.h - removes records that were not read for a time. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_EXPIRE_H
#define STORE_EXPIRE_H

#include "store/volume_inside.h"

/* For the recycler: true if time has passed since the last pass, for any tally with a time of
 * expiry. */
bool expire_is_due(struct volume *volume);
/* Looks at all records of such tallies, and removes those that have expired. Ends early if room is
 * wanted; it is then due again. */
void expire_pass(struct volume *volume);

#endif
