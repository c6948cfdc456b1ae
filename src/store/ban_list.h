/* ban_list.h - the purges of the installation. SPDX-License-Identifier: Apache-2.0
 *
 * A purge bans all names that begin with a prefix: endpoint NUL bucket NUL start of the key. The
 * list has every ban that a volume may still need. Each volume takes the bans from here, and keeps
 * in its own file which of its records each ban covers (bans.h).
 *
 * Bans have serials, which only grow. A fill notes the newest serial before it asks the origin, and
 * metadata in RAM has the newest serial that it was compared with. A later ban of the same name
 * makes both useless. So a purge need not look for fills in progress. */
#ifndef STORE_BAN_LIST_H
#define STORE_BAN_LIST_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/format_files.h"

/* A ban, without the records that it covers. */
struct ban_row {
    uint64_t serial;
    slice prefix;                     /* owned by the list */
};

struct ban_list {
    pthread_mutex_t lock;
    pthread_cond_t changed;           /* a volume has taken or written bans, or has opened */
    _Atomic uint64_t serial;          /* of the newest ban; changes under the lock */
    uint64_t forgotten;               /* the highest serial of a ban that has left the list */
    struct ban_row rows[PREFIX_ROWS_MAX];
    size_t count;
    bool stopping;                    /* the sweep must end */
};

void ban_list_init(struct ban_list *list);
void ban_list_end(struct ban_list *list);

/* Cheap: one atomic load. */
static inline uint64_t ban_list_serial(const struct ban_list *list)
{
    return atomic_load_explicit(&list->serial, memory_order_acquire);
}

/* Adds a ban for each prefix. A ban of a shorter prefix, or of the same one, replaces the earlier
 * ones. *ret_serial is the highest new serial. Returns OK, or ERR_LIMIT if the list is full; then
 * nothing was added. */
enum err ban_list_add(struct ban_list *list, const slice *prefixes, size_t count,
                      uint64_t *ret_serial) MUST_USE;
/* Adds the bans of a volume's file that the list lacks. `serial` is that of the file. */
void ban_list_merge(struct ban_list *list, const struct ban *bans, size_t count, uint64_t serial);
/* Removes all bans up to `least` but those whose serial is in `kept`. */
void ban_list_forget(struct ban_list *list, uint64_t least, const uint64_t *kept, size_t count);
/* Returns true if a ban with a higher serial than `since` has this name (as metadata->name), or if
 * that is not known any more. Cheap if no such ban exists. */
bool ban_list_has(struct ban_list *list, slice name, uint64_t since);
/* The same for metadata, which notes that it was compared. */
bool ban_list_has_metadata(struct ban_list *list, struct metadata *metadata);

#endif
