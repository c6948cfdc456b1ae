/* file.h - whole small files. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/arena.h"

/* Reads a file of at most `max` bytes. On failure returns false with errno, which is EFBIG if the
 * file is larger; *ret then holds the bytes that were read before. A NUL always follows *ret. */
bool file_read(const char *path, size_t max, struct arena *keep, slice *ret) MUST_USE;

#endif
