/* sweep.h - deletes the index entries of purged records. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SWEEP_H
#define STORE_SWEEP_H

struct store;

/* The thread of a store. It ends when the list of bans has `stopping` set. */
void *sweep_run(void *store);

#endif
