/* file.h - reads small files, and opens files in folders that other programs can change.
 * SPDX-License-Identifier: Apache-2.0
 *
 * In a folder that other programs can change, a FIFO or a link may stand where the caller expects a
 * file. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <dirent.h>
#include <errno.h>

#include "base/arena.h"

/* Reads a file of at most `max` bytes. Returns false with errno after a failure; EFBIG means that
 * the file is larger, ETIMEDOUT that it is a FIFO, and that nothing was written to it for 5 s. After
 * any failure, *ret has the bytes that were read before it. A NUL always follows *ret. */
bool file_read(const char *path, size_t max, struct arena *keep, slice *ret) MUST_USE;

/* Says why file_read failed with this errno: the end of a sentence, "the file can't be read: ". */
const char *file_read_fault(const char *path, size_t max, int error, struct arena *keep);
/* If something other than an ordinary file is at `path`, returns what it is, such as "a FIFO".
 * Follows symbolic links, as file_read does. Returns NULL if nothing is there. */
const char *file_odd_kind(const char *path);

/* Opens the file `name` in the folder `dir`, if it is an ordinary file. On failure returns -1 with
 * errno, which is FILE_ODD if something else has the name: a link, FIFO, socket, device or folder.
 * So the call never waits for another process, and never follows a link that has this name. */
int file_open(int dir, const char *name, int flags) MUST_USE;
#define FILE_ODD EMEDIUMTYPE
/* Makes a new file for writing. Removes a file that already has the name. */
int file_make_new(int dir, const char *name) MUST_USE;
/* Says what the errno of a failed call for a file means. ERR_FULL: the file system or a quota is
 * full, or the process may not make a file so large. ERR_LIMIT: the process or the system has no
 * file descriptor or no memory left, so the file may be good. ERR_IO: anything else. */
enum err file_err(int error);
/* If something other than an ordinary file has this name, returns what it is, such as "a FIFO".
 * Returns NULL for an ordinary file, and if nothing has the name. */
const char *file_odd(int dir, const char *name);
/* Like file_odd, but the name should be that of a folder: NULL for a folder. */
const char *file_odd_folder(int dir, const char *name);
/* Returns the next entry of a folder, other than "." and "..". Returns NULL at the end of the list,
 * and after an error, which it sets in *ret as file_err says. After an error, the caller must not
 * take the list for a complete one. */
struct dirent *file_next(DIR *dir, enum err *ret) MUST_USE;

#endif
