/* runs.h - which folders were in service together, and which missed a run of another one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A *run* is a time in which the same folders are in service. A volume that is out of service
 * misses the removals, refusals and purges of the run. So each format file has the serial of the
 * volume's last run, and for each other volume that of the last run that both shared. At a start,
 * each format file that can be read tells which volumes missed a run of its volume. */
#ifndef STORE_RUNS_H
#define STORE_RUNS_H

#include <stdatomic.h>

#include "store/format.h"

struct installation;

/* The format file of a configured folder, as it was at the start. */
struct page {
    struct format format;
    bool there;                       /* the format file can be read */
    bool ours;                        /* ... and has the secret of the installation */
};

/* Returns true if the page belongs to a volume of this installation, or to a copy of one. */
static inline bool page_has_volume(const struct page *page)
{
    return page->ours && page->format.version >= 2;
}

/* The runs of an installation. The arrays have a place for each folder of the route. */
struct runs {
    /* Of the present run, which ends when a folder goes out of service. */
    _Atomic uint64_t serial;
    atomic_bool serving[VOLUMES_MAX];
    /* The format files told this at the start. */
    bool missed[VOLUMES_MAX];         /* the folder missed a run of another one */
    /* The folder was in use together with one whose format file can't be read now, and that one may
     * have had runs alone since. */
    bool unsure[VOLUMES_MAX];
    bool unread[VOLUMES_MAX];         /* the folder is that one */
    bool left;                        /* the settings no longer have that one */
    _Atomic uint64_t serial_least[VOLUMES_MAX];    /* its own format file must have this serial */
    /* The serial in its format file at the start, or when the folder was first opened. */
    _Atomic uint64_t began[VOLUMES_MAX];
    uint64_t copied[VOLUMES_MAX];     /* the highest serial of a copy of it; 0: there is none */
};

/* Returns true if the other volume had a run that this one did not share, by their format files. */
bool runs_missed(const struct format *mine, const struct format *other);
/* Learns from the format files at the start. */
void runs_learn(struct installation *all, const struct page *pages);
/* For a folder that was just opened: finds the folders that missed a run of it, by its format file,
 * in which `last_run` was the serial. */
void runs_missed_of(struct installation *all, size_t folder, const struct format *format,
                    uint64_t last_run, bool ret[VOLUMES_MAX]);
/* A folder comes into service, whose format file has this serial, or goes out. */
void runs_join(struct installation *all, size_t folder, uint64_t serial);
void runs_leave(struct installation *all, size_t folder);
/* Brings the runs in a format file up to date. Returns true if that changed it. */
bool runs_note(const struct installation *all, struct format *format);

#endif
