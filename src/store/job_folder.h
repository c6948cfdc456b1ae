/* job_folder.h - the place of files of other rooms in a cache folder.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The files of jobs lie in the folder jobs/ of a cache folder, and those of peers in peers/. The
 * store only says where that is: it neither reads nor removes anything there
 * (penstock-format(5)). */
#ifndef STORE_JOB_FOLDER_H
#define STORE_JOB_FOLDER_H

#include "store/store.h"

/* Opens the folder jobs/ of this cache folder, by the order of the settings, and makes it if it is
 * missing. *ret is a descriptor, which the caller closes. Returns OK; ERR_IO if the cache folder is
 * out of service, or its disk fails; ERR_FULL or ERR_LIMIT (file_err). Waits for the disk. */
enum err store_job_folder(struct store *store, size_t folder, int *ret) MUST_USE;
/* The same for the folder peers/. */
enum err store_peer_folder(struct store *store, size_t folder, int *ret) MUST_USE;

#endif
