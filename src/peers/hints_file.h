/* hints_file.h - which nodes have all hints, for the next process.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Hints live in memory. If a process ends before it has delivered them, the next one must tell the
 * nodes that they may have missed some. So the file peers/hints in each cache folder lists the
 * nodes that have all hints of the last process:
 *
 *   no file           no process has had a hint
 *   a list of ids     a clean stop: these nodes have all hints, other ones may lack some
 *   an empty list     the process has had hints, and runs or has crashed
 *
 * A file is ids of 16 bytes, and the CRC-32C of them. A damaged one counts as empty; if the folders
 * have different lists, each of them does. `store` NULL: there are no files. These functions wait
 * for the disk. */
#ifndef PEERS_HINTS_FILE_H
#define PEERS_HINTS_FILE_H

#include "peers/hints.h"
#include "store/store.h"

/* At the start: reads the files. */
void hints_file_load(struct store *store, struct hints *hints, uint64_t now_ms);
/* Before the first hint: empties the files. */
void hints_file_mark(struct store *store);
/* At a clean stop: writes the files, if a process has had hints. */
void hints_file_save(struct store *store, struct hints *hints);

#endif
