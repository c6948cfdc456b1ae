/* names.h - the shared identity for which metadata was learned. SPDX-License-Identifier: Apache-2.0
 *
 * Each endpoint has a name: that of the shared identity there (store_names). If the name is not the
 * one that the folder remembers, the origin granted the objects in the folder to another identity.
 * From then on, all metadata in the extents that exist at that moment counts as unshared. One
 * extent number is enough to know these, because nothing is appended to an old extent. The same
 * happens if a refusal or a write, perhaps of an ACL, came while the folder was out of service. The
 * names are kept in the folder's file `names`, as keyed hashes. An endpoint that is not in the file
 * counts as one whose name has changed. Any thread. */
#ifndef STORE_NAMES_H
#define STORE_NAMES_H

#include "store/folder.h"

struct names;
struct names *names_new(void) MUST_USE;
void names_free(struct names **names);
/* To be called once. If a name is empty, it is not known yet: all metadata of its endpoint counts
 * as unshared, and the file stays as it is. */
void names_set(struct names *names, const uint8_t secret[STORE_SECRET_BYTES],
               const struct store_name *list, size_t count);
/* To be called after the folder was opened, and after names_set, before anything is appended to the
 * folder. */
void names_apply(struct names *names, const struct folder *folder);
/* Returns OK, ERR_NOT_FOUND, ERR_GONE or ERR_IO, as folder_read_rows does for the file. */
enum err names_look(int folder) MUST_USE;
/* Returns true if the metadata, in this extent, was learned under another name than the present
 * name of its endpoint. */
bool names_are_others(struct names *names, const uint8_t secret[STORE_SECRET_BYTES],
                      const struct metadata *metadata, uint32_t extent) MUST_USE;

#endif
