/* clearing.h - a folder whose format file is lost: is all in it ours, and away with its extents.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_CLEARING_H
#define STORE_CLEARING_H

#include "base/arena.h"

/* OK: a folder of ours that was in use. ERR_NOT_FOUND: one that never was. ERR_FORMAT: somebody's
 * files are in it, *ret_stranger is the first of them, in keep. ERR_IO. */
enum err clearing_look(const char *folder, struct arena *keep, slice *ret_stranger) MUST_USE;
/* Removes every extent but the one with the highest number, *ret_highest (0: there is none). */
enum err clearing_extents(const char *folder, uint32_t *ret_highest) MUST_USE;

#endif
