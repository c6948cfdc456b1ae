/* purge.h - purges a prefix or a key. SPDX-License-Identifier: Apache-2.0
 *
 * After store_purge has returned OK, the store serves no byte and no metadata of a purged name that
 * it had before, or that an earlier fill brings. This is true after a crash, too. The sweep deletes
 * the entries of the index later (sweep.h). A folder that is out of service takes the purge before
 * it returns. */
#ifndef STORE_PURGE_H
#define STORE_PURGE_H

#include "store/route.h"
#include "store/store.h"

/* Returns the prefix of a purge, in keep. The purge covers all keys of the bucket that begin with
 * `key`; if `whole`, it covers this one key with its versions. */
slice purge_prefix(struct arena *keep, slice endpoint, slice bucket, slice key, bool whole);

struct purge_result {
    uint64_t serial;
    bool folders[VOLUMES_MAX];        /* by the order of the settings: out of service */
    bool any_out;
    size_t merged;                    /* other purges that were merged, to make room */
};
/* Waits until the committer of each folder in service has written the purge down. Returns OK;
 * ERR_LIMIT if there are too many prefixes; ERR_TOO_LARGE if a prefix is too long; ERR_IO if no
 * folder is in service; ERR_BUSY if a folder in service had no file descriptor for its file. After
 * ERR_IO and ERR_BUSY, the purge is in force, but may be lost at the end of the process. Not for a
 * loop. */
enum err store_purge(struct store *store, const slice *prefixes, size_t count,
                     struct purge_result *ret) MUST_USE;

/* A purge whose entries are not all deleted. */
struct purge_state {
    uint64_t serial;
    slice prefix;
    uint32_t extents, left;           /* to read for the sweep, in all folders; and those left */
    /* By the order of the settings. folders: the folder has entries left to delete. waiting: such a
     * folder is in service, but needs names of folders that are out, and waits for these. out: the
     * folder is out of service, and has such entries, or names that a waiting folder needs. unread:
     * the folder is in service, and can't open an extent that may have such entries. */
    bool folders[VOLUMES_MAX], waiting[VOLUMES_MAX], out[VOLUMES_MAX], unread[VOLUMES_MAX];
};
/* Finds the purges in force, in keep. Any thread; never waits for a disk. */
size_t store_purges(struct store *store, struct arena *keep, struct purge_state **ret);

#endif
