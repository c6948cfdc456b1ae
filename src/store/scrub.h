/* scrub.h - reads all records of a volume in the background, and verifies them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SCRUB_H
#define STORE_SCRUB_H

#include "store/volume_inside.h"

void scrub_init(struct scrub *scrub);
void scrub_end(struct scrub *scrub);
/* The thread. It must not be started if volume_options.scrub_ms is 0. */
void *scrub_run(void *volume);
/* Ends the thread; waits for at most one read of the disk. */
void scrub_stop(struct volume *volume);

#endif
