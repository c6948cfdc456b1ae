/* room.h - eviction: which extent is recycled, and when. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROOM_H
#define STORE_ROOM_H

#include "store/inside.h"

/* Recycles one extent. ERR_FULL: there is none that may be recycled. */
enum err room_recycle(struct store *store) MUST_USE;
/* Makes room for another extent, and starts it. ERR_FULL: no room can be made. */
enum err room_next_extent(struct store *store) MUST_USE;
/* Recycles extents after the size was lowered. Ends after a moment, so that a commit need not
 * wait. */
enum err room_shrink(struct store *store) MUST_USE;

#endif
