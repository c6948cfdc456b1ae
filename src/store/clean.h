/* clean.h - the mark of a clean stop, and what it binds. SPDX-License-Identifier: Apache-2.0
 *
 * A folder that was closed cleanly is believed at its next opening: nothing in it needs to be
 * proved again. So the mark must belong to this folder as it was left, and to no copy of it and no
 * later state. It says on which boot of which machine it was written, which files it lies beside
 * (device, inode, time of the last change) and what the index's meta pages were. All that is read
 * again at the opening, before LMDB is asked; whatever differs makes the opening an unclean one. */
#ifndef STORE_CLEAN_H
#define STORE_CLEAN_H

#include "store/metas.h"

/* The index is closed, nothing is written to the folder any more. ERR_FULL, ERR_IO: there is no
 * mark. */
enum err clean_leave(const char *folder, uint64_t opening, const struct metas *metas) MUST_USE;
/* Removes the mark, before anything else is changed. Was there one, and does it hold? */
bool clean_take(const char *folder, uint64_t opening) MUST_USE;

#endif
