/* room.h - making room: which extent goes, and how. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROOM_H
#define STORE_ROOM_H

#include "store/inside.h"

/* One extent goes. ERR_FULL: there is none that may go. */
enum err room_recycle(struct store *store) MUST_USE;
/* Starts another extent, once there is room for it. ERR_FULL: there is none to be had. */
enum err room_next_extent(struct store *store) MUST_USE;
/* After the size was lowered: for a moment, so that a batch that comes need not wait. */
enum err room_shrink(struct store *store) MUST_USE;

#endif
