/* pin_pass.h - finds the records to pin. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_PIN_PASS_H
#define STORE_PIN_PASS_H

#include "base/base.h"

struct pin_pass;
struct store;

struct pin_pass *pin_pass_new(struct store *store) MUST_USE;
void pin_pass_start(struct pin_pass *pass);    /* starts the thread; the volumes must exist */
/* Ends all waits for a pass, now and later, and the pass that runs, soon. Never waits. */
void pin_pass_end(struct pin_pass *pass);
/* Does so, too, and waits for the end. To be called before the volumes are freed. */
void pin_pass_stop(struct pin_pass *pass);
void pin_pass_free(struct pin_pass **pass);
/* A pass begins after this call, and after the start of the thread. Returns its number, for
 * pin_pass_is_done. Any thread; cheap. */
uint64_t pin_pass_want(struct pin_pass *pass);
/* Wants a pass without a pause before it, and returns its number. For a pin or unpin that failed
 * after its pass: until the next pass has pinned the records of the old pins again, they may be
 * evicted. Also for a folder that was opened, or whose cache must shrink, because eviction in this
 * folder waits for the pass. */
uint64_t pin_pass_want_now(struct pin_pass *pass);
/* True when the pass has ended. It may have left out some volumes. Any thread; cheap. */
bool pin_pass_is_done(struct pin_pass *pass, uint64_t number);
/* Waits for a pass that begins after this call. Returns OK, or ERR_STOPPING. Any thread that may
 * wait for a disk. */
enum err pin_pass_wait(struct pin_pass *pass) MUST_USE;

#endif
