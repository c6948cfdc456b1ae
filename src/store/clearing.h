/* clearing.h - a folder without its format file: whose files are in it, and removing old extents.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_CLEARING_H
#define STORE_CLEARING_H

#include "base/arena.h"

/* Returns OK if Penstock has used the folder, ERR_NOT_FOUND if it never has, or ERR_FORMAT if the
 * folder has foreign files; *ret_stranger is the first of these, in keep. Returns ERR_IO if the
 * folder can't be read. */
enum err clearing_look(int folder, struct arena *keep, slice *ret_stranger) MUST_USE;
/* Calls `each` for each name in the folder that Penstock does not give, as "extents/notes". `each`
 * returns false to end the search. In jobs/, all names are Penstock's. */
typedef bool clearing_visit(void *arg, const char *inner, const char *name);
enum err clearing_each_stranger(int folder, clearing_visit *each, void *arg) MUST_USE;
/* Removes every extent except the one with the highest number. *ret_highest is that number, or 0 if
 * there is no extent. */
enum err clearing_extents(int folder, uint32_t *ret_highest) MUST_USE;
/* Removes the files in ages/. */
enum err clearing_ages(int folder) MUST_USE;

#endif
