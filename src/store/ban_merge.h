/* ban_merge.h - fewer bans that cover the same, and more. SPDX-License-Identifier: Apache-2.0
 *
 * Later bans of a volume cover all records that earlier ones cover. So the newest of some bans can
 * stand for all of them if its prefix is cut to the bytes that their prefixes share. It then covers
 * more names than were purged, but no record that came after it. Once a ban is swept, this costs
 * nothing: no look-up compares it, unless the index is built anew.
 *
 * The list then gives the merged ban a serial of its own. A volume that followed the list makes its
 * row from those that it had (bans.c). A volume that may lack one of the merged bans, because it was
 * away, does not know the serial, and takes the merged ban for all records that it has. Pure; any
 * thread. */
#ifndef STORE_BAN_MERGE_H
#define STORE_BAN_MERGE_H

#include "store/format_files.h"

#define BAN_ROWS_MAX (PREFIX_ROWS_MAX - 1)    /* a volume may have one of its own */
#define MARK_UNKNOWN UINT64_MAX       /* in place of the mark of a damaged file */

/* A ban, without the records that it covers. */
struct ban_row {
    uint64_t serial;
    /* The serial of the list when it got the ban. It is higher than that of the ban if the ban came
     * from the file of a volume, and the list had newer ones already. Of a merged ban: the highest
     * one of the bans for which it stands. */
    uint64_t arrived;
    slice prefix;                     /* owned by the list */
    bool settled;                     /* every volume in service has swept it */
    bool merged;                      /* it stands for bans that this list had */
    bool unnumbered;                  /* merged, and its serial is still that of another ban */
};

/* The number of bytes at the begin of both. */
size_t ban_shared_bytes(slice a, slice b);
/* Merges rows until at most `most` (1 or more) are left, settled rows first, and those with the
 * longest shared prefixes first. Returns the number of rows that are left, in the same order: a merged
 * row has the serial of the newest of its rows. */
size_t ban_rows_merge(struct ban_row *rows, size_t count, size_t most) MUST_USE;

#endif
