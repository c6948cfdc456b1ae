/* find_name.h - the name of an object of which only the id is known.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_FIND_NAME_H
#define STORE_FIND_NAME_H

#include "store/volume_inside.h"

/* Finds the name in the object's metadata: in RAM, else on the disk. The name lies in keep, in the
 * form of metadata->name. Returns false if there is no metadata, or if it can't be proved right.
 * Any thread of a volume; waits for the disk. */
bool find_name(struct volume *volume, const struct object_id *id, struct arena *keep, slice *ret);

#endif
