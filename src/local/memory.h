/* memory.h - the interface of a kind of registered memory. SPDX-License-Identifier: Apache-2.0
 *
 * A kind takes memory that a client registers, and lets it go. The fill engine does the rest. Bytes
 * come by one of two paths, and the kind chooses one by the members of struct buffer that it sets:
 *
 *   direct   base: the memory, mapped here. Items are read right into it.
 *   ring     device and gpu: a GPU, and the memory there. Items are read into slabs of pinned
 *            memory, and that GPU's copier (device.h) copies them out.
 *
 * A new kind is a file with such a table, and a row in memory.def. Threads: why_off any; take and
 * release the keeper's, and they never block it. */
#ifndef LOCAL_MEMORY_H
#define LOCAL_MEMORY_H

#include "local/message.h"
#include "local/trouble.h"

struct buffer;
struct local;

struct memory_kind {
    /* NULL: the kind is on. Else why it is off: a sentence without its full stop, which lives as
     * long as the local. */
    const char *(*why_off)(const struct local *local);
    /* Gets at the memory that the message describes. OK: the buffer's members for one path are set.
     * ERR_WAIT: buffer_taken follows. Any other error: *ret_why says what is wrong, and nothing is
     * held. A descriptor that is kept is set to -1 in fds; the caller closes the others. */
    enum err (*take)(struct buffer *buffer, const struct message *message, int *fds,
                     size_t fd_count, struct trouble *ret_why);
    /* Gives the memory back; no fill of it is in progress. OK: nothing here reaches it any more.
     * ERR_WAIT: buffer_released follows. */
    enum err (*release)(struct buffer *buffer);
};

const struct memory_kind *memory_kind(enum memory kind);
/* Of each kind "on", or "off: " and why, as JSON; the caller's. */
struct json_t *memory_kinds_page(const struct local *local) MUST_USE;

/* ---- buffer.c: what the second half of take and release calls, on the keeper's thread ---- */
/* The memory is there; or, with `why`, it can't be had and the buffer is freed. May free the
 * session. */
void buffer_taken(struct buffer *buffer, const struct trouble *why);
/* The memory has been given back, and the buffer is freed. May free the session. */
void buffer_released(struct buffer *buffer);

#endif
