/* guess.h - whether an object of unknown size is likely larger than a segment.
 * SPDX-License-Identifier: Apache-2.0
 *
 * If nodes share segments (peers/peers.h), a node fetches one segment of an object whose size it does
 * not know. A request without a range brings all fields of the object, and its end costs nothing if
 * the object is no larger; otherwise it costs a connection, and the bytes that are on their way. A
 * request for the segment alone costs nothing, but lacks the checksums of the object. So the guess
 * goes by the size of the object of the same folder that was met last. Any thread. */
#ifndef CACHE_GUESS_H
#define CACHE_GUESS_H

#include "store/store.h"

void guess_note(const struct object_name *name, bool larger);
bool guess_is_larger(const struct object_name *name);

#endif
