/* tar.h - writes an archive of small texts, in the format ustar.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TAR_H
#define CLI_TAR_H

#include "base/arena.h"

/* Adds a file of mode 0600. `name` has at most 99 bytes. */
void tar_add(struct text *to, slice name, slice bytes, int64_t modified_s);
void tar_end(struct text *to);

#endif
