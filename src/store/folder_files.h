/* folder_files.h - the small files of a cache folder. SPDX-License-Identifier: Apache-2.0
 *
 * `folder` is a descriptor of the folder. No function here uses the folder's path, except where a
 * comment says so: another folder may be mounted or put there at any time. */
#ifndef STORE_FOLDER_FILES_H
#define STORE_FOLDER_FILES_H

#include "base/arena.h"

struct folder;

/* Temporary files of folder_write. */
#define FOLDER_FRESH "fresh"
#define FOLDER_FRESH_NAMES "fresh-names"
#define FOLDER_PATH_MAX 4096

/* Opens the folder that the path leads to now. Returns -1 with errno. */
int folder_dir(const char *path) MUST_USE;
/* The names of which each must be that of an ordinary file, or, for the first ones, of a folder.
 * Without them a folder can't be opened or checked. */
#define FOLDER_NEEDED 6u
extern const char *const folder_needed[FOLDER_NEEDED];
/* Returns what has this name instead: "a FIFO". Otherwise, and if nothing has it, returns NULL. */
const char *folder_odd(int folder, const char *name);
/* Syncs the folder `inner` of the folder. */
enum err folder_sync(int folder, const char *inner) MUST_USE;
/* Reads a small file of the folder, in keep. Returns OK, ERR_NOT_FOUND if there is no such file,
 * ERR_GONE if it has more than `max` bytes, or ERR_IO. */
enum err folder_read(int folder, const char *name, size_t max, struct arena *keep,
                     slice *ret) MUST_USE;
/* Replaces a small file as a whole, and syncs it. Returns OK, ERR_FULL, ERR_LIMIT (file_err) or
 * ERR_IO; the old file then stays. For one thread at a time. */
enum err folder_write(int folder, const char *name, const void *bytes, size_t len) MUST_USE;
/* Read and write a small file of rows, followed by their CRC. `rows` must have room for one row
 * more than `max`, or than `count`. Reading returns OK, ERR_NOT_FOUND if there is no such file,
 * ERR_GONE if it is damaged, or ERR_IO if it can't be read. After a failure *ret_count is 0. */
enum err folder_read_rows(int folder, const char *name, void *rows, size_t row_bytes, size_t max,
                          size_t *ret_count) MUST_USE;
enum err folder_write_rows(const struct folder *folder, const char *name, void *rows,
                           size_t row_bytes, size_t count) MUST_USE;
/* Makes a path for a library that opens files by paths: one that leads to this folder, whatever lies
 * at `path` now. Without /proc it is made from `path`. Valid while `folder` is open. Returns OK, or
 * ERR_IO if it is too long. */
enum err folder_path_of(int folder, const char *path, const char *name,
                        char ret[FOLDER_PATH_MAX]) MUST_USE;

#endif
