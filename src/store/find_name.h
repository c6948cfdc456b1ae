/* find_name.h - the name of an object of which only the id is known.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_FIND_NAME_H
#define STORE_FIND_NAME_H

#include "store/volume_inside.h"

/* FOUND_NOTHING: the object has no metadata, or it is damaged. The other two can't tell: with
 * FOUND_UNKNOWN, the folder that may have the metadata is out of service or failed; with
 * FOUND_SILENT, it is in service, and its disk has not answered yet. */
enum found { FOUND_NOTHING, FOUND_NAME, FOUND_UNKNOWN, FOUND_SILENT };

/* Finds the name in the object's metadata: in RAM, else on the disk of the object's home. The name
 * lies in keep, in the form of metadata->name. Any thread of a volume. If the home is this volume,
 * the call waits for the disk. For the disk of another volume, it waits at most NAME_MS. */
#define NAME_MS 200u
enum found find_name(struct volume *volume, const struct object_id *id, struct arena *keep,
                     slice *ret);

/* The thread that reads names of a volume for the other volumes. It starts with the first name, and
 * ends with names_reader_free, which must be called before the volume's index and extents go, and
 * after the last call of find_name. */
struct names_reader *names_reader_new(struct volume *home);
void names_reader_free(struct names_reader **reader);

#endif
