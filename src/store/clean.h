/* clean.h - the mark of a clean stop. SPDX-License-Identifier: Apache-2.0
 *
 * After a clean stop, nothing in the folder needs to be proved again at its next opening. So the
 * mark must be valid only for this folder as it was left, and for no copy and no later state of it.
 * The mark names the machine and the boot on which it was written, the files beside it (device,
 * inode, time of the last change) and the contents of the index's meta pages. The opening compares
 * all of these, before it calls LMDB. If one of them differs, the opening is an unclean one. */
#ifndef STORE_CLEAN_H
#define STORE_CLEAN_H

#include "store/metas.h"

/* Writes the mark. To be called when the index is closed and nothing more will be written to the
 * folder. Returns OK, or ERR_FULL or ERR_IO if the mark could not be written. */
enum err clean_leave(int folder, uint64_t opening, const struct metas *metas) MUST_USE;
/* Removes the mark; to be called before anything else is changed. Returns true if there was a mark,
 * and it is valid. */
bool clean_take(int folder, uint64_t opening) MUST_USE;
/* The same, but the mark stays. *ret_there: there is a mark, valid or not. */
bool clean_look(int folder, uint64_t opening, bool *ret_there) MUST_USE;

#endif
