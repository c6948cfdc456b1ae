/* ban_list.h - the purges of the installation. SPDX-License-Identifier: Apache-2.0
 *
 * A purge bans all names that begin with a prefix: endpoint NUL bucket NUL start of the key. The
 * list has every ban that a volume may still need. Each volume has a row for each ban of the list,
 * and keeps in its own file which of its records each ban covers (bans.h).
 *
 * Bans have serials, which only grow. A fill notes the newest serial before it asks the origin, and
 * metadata in RAM has the newest serial that it was compared with. A later ban of the same name
 * makes both useless. So a purge need not look for fills in progress. */
#ifndef STORE_BAN_LIST_H
#define STORE_BAN_LIST_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/ban_merge.h"

struct ban_list {
    pthread_mutex_t lock;
    pthread_cond_t changed;           /* a volume has taken or written bans, or has opened */
    /* Changed under the lock: the highest serial of a ban, also of a dropped one; the number of
     * changes of the rows. */
    _Atomic uint64_t serial, version;
    uint64_t forgotten;               /* the mark of the last forgetting (bans.c); 0: none */
    /* By the order of the settings: true if the volume missed a run, and its file may lack a ban.
     * Changed under the lock. */
    atomic_bool missed[VOLUMES_MAX];
    uint64_t learned[VOLUMES_MAX];    /* the mark that each volume's file had when it was read */
    uint64_t unknown;                 /* no name can be compared with bans up to this serial */
    struct ban_row rows[BAN_ROWS_MAX];    /* in ascending order of their serials */
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
static inline uint64_t ban_list_version(const struct ban_list *list)
{
    return atomic_load_explicit(&list->version, memory_order_acquire);
}

/* Adds a ban for each prefix. A ban of a shorter prefix, or of the same one, replaces the earlier
 * ones. If the list has no room, it merges other bans; *ret_merged is the number of bans that this
 * saved. *ret_serial is the highest new serial. Returns OK, or ERR_LIMIT if there are more than
 * BAN_ROWS_MAX / 2 prefixes; then nothing was added. */
enum err ban_list_add(struct ban_list *list, const slice *prefixes, size_t count,
                      uint64_t *ret_serial, size_t *ret_merged) MUST_USE;
/* Returns true if the next bans may not have room. */
bool ban_list_is_full(struct ban_list *list, size_t more);
/* Notes the bans that every volume in service has swept, by their serials in ascending order. These
 * are merged first. */
void ban_list_settle(struct ban_list *list, const uint64_t *serials, size_t count);
/* A volume missed a run, so it lacks forgotten bans if its mark differs from that of the list. */
void ban_list_missed(struct ban_list *list, size_t volume);
/* Learns from a volume's file: adds the bans that the list lacks. If the file has a mark that the list
 * does not know, the list gets a new one. Then the volumes in `missed`, an array with a place for
 * each, may lack bans that this volume forgot; NULL: none. */
void ban_list_learn(struct ban_list *list, size_t volume, const struct bans_file *file,
                    const bool *missed);
/* Removes all bans but those whose serial is in `needed`, which is in ascending order, and makes a
 * new mark. Does nothing if the list is no longer of this version. Returns true if it removed any. */
bool ban_list_forget(struct ban_list *list, uint64_t version, const uint64_t *needed, size_t count);
/* Returns true if a ban with a higher serial than `since` has this name (as metadata->name), or if
 * that is not known any more. Cheap if no such ban exists. */
bool ban_list_has(struct ban_list *list, slice name, uint64_t since);
/* The same for metadata, which notes that it was compared. */
bool ban_list_has_metadata(struct ban_list *list, struct metadata *metadata);

#endif
