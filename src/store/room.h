/* room.h - eviction: makes room by recycling extents. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROOM_H
#define STORE_ROOM_H

#include "store/volume_inside.h"

/* Recycles one extent. Returns OK, or ERR_FULL if no extent may be recycled. */
enum err room_recycle(struct volume *volume) MUST_USE;
/* Makes room for another extent, and starts it. Returns OK, or ERR_FULL if no room can be made. */
enum err room_next_extent(struct volume *volume) MUST_USE;
/* Recycles extents after the size was lowered. Ends after a moment, so that a commit need not
 * wait. */
enum err room_shrink(struct volume *volume) MUST_USE;

#endif
