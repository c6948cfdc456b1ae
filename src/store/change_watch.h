/* change_watch.h - notices at once that another program changes a file.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bytes in a locked map are lent without a checksum. If another program writes to the file, or
 * truncates it inside a page, the map shows these changes. The kernel (inotify) tells a thread of
 * each watched file that is changed, and the thread ends the lending. It takes the thread some
 * microseconds; without it, the change is noticed at the locker's next look (locker.c). What a
 * program writes through a map of its own is told by neither, and open extents are not watched:
 * Penstock itself writes to them. */
#ifndef STORE_CHANGE_WATCH_H
#define STORE_CHANGE_WATCH_H

#include "store/inside.h"

struct change_watch;
/* Starts the thread `changes`. Returns NULL if the kernel has no room for a watch
 * (fs.inotify.max_user_instances). */
struct change_watch *change_watch_new(void) MUST_USE;
/* Ends the thread. No extent may be watched any more. Accepts NULL. */
void change_watch_free(struct change_watch **watch);
/* Watches the file of a locked, sealed extent, which must stay until change_watch_remove. Returns
 * false if the kernel does not watch it (fs.inotify.max_user_watches; /proc is not mounted). A
 * change that came before is not noticed. */
bool change_watch_add(struct change_watch *watch, struct extent *extent) MUST_USE;
void change_watch_remove(struct change_watch *watch, struct extent *extent);

#endif
