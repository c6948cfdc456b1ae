/* pins.h - which names are pinned. SPDX-License-Identifier: Apache-2.0
 *
 * A pin is a prefix of names, as penstock-format(5) has it: endpoint NUL bucket NUL start of the
 * key. Objects whose names begin with it stay in the cache. All volumes of a store share one table;
 * each has a copy of it in its file `pins` (pinned.h). A prefix that was unpinned keeps its row, so
 * that a volume that was away learns of it. Threads: any. */
#ifndef STORE_PINS_H
#define STORE_PINS_H

#include "store/format_files.h"

struct pins;
struct pins *pins_new(void) MUST_USE;
void pins_free(struct pins **pins);

/* True if a prefix of this name (as in metadata->name) is pinned. Cheap if nothing is pinned. */
bool pins_have(struct pins *pins, slice name);
bool pins_are_none(const struct pins *pins);
/* Pins or unpins a prefix, in RAM. *ret_was: it was pinned. Returns OK, or ERR_LIMIT if
 * PREFIX_ROWS_MAX prefixes are pinned. */
enum err pins_set(struct pins *pins, slice prefix, bool pinned, bool *ret_was) MUST_USE;
/* Adds the rows of a file to the table. Of two rows with the same prefix, the one with the higher
 * serial stays. Returns true if the file has all rows of the table. */
bool pins_merge(struct pins *pins, const struct pin *rows, size_t count, uint64_t serial);
/* Reads a folder's file `pins`, and adds its rows to the table. *ret_same: as pins_merge returns.
 * Returns OK; ERR_NOT_FOUND if there is no file; ERR_GONE if it is damaged, or is not a file; or
 * ERR_IO if the disk does not give it. */
enum err pins_read(struct pins *pins, int folder, bool *ret_same) MUST_USE;
#define PINS_FILE "pins"
/* Rises with each change of the table. 0: the table was always empty. */
uint64_t pins_version(const struct pins *pins);
/* Encodes the table as a file, in keep. *ret_version is the version of this table. */
slice pins_file(struct pins *pins, struct arena *keep, uint64_t *ret_version);
#define PINS_FILE_MAX (64u + PREFIX_ROWS_MAX * (16u + PREFIX_BYTES_MAX))

/* The pinned prefixes that begin with `start`, in ascending order. `up` is the longest other one
 * that is a prefix of this one, by its place in the list; PINS_NONE: there is none. `serial` is that
 * of the oldest pin in the list which holds all names of this one. All in keep. */
#define PINS_NONE SIZE_MAX
struct pins_row {
    slice prefix;
    size_t up;
    uint64_t serial;
};
size_t pins_list(struct pins *pins, slice start, struct arena *keep, struct pins_row **ret);
/* Returns the place of the longest prefix of this name, or PINS_NONE. Pure. */
size_t pins_find(const struct pins_row *rows, size_t count, slice name);

#endif
