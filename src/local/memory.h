/* memory.h - the interface of a kind of registered memory. SPDX-License-Identifier: Apache-2.0
 *
 * A kind takes memory that a client registers, and releases it. The fill engine does the rest.
 * There are two paths for the bytes. The kind chooses one by the members of struct buffer that it
 * sets:
 *
 *   direct   base: the memory, mapped here. Items are read straight into it.
 *   ring     device and gpu: a GPU, and the memory on it. Items are read into slabs of pinned
 *            memory, and that GPU's copier (device.h) copies them to the GPU.
 *
 * A new kind is a file with a struct memory_kind, and a row in memory.def. Threads: any thread may
 * call why_off. The session's keeper (its worker, inside.h) calls take and release, and they must
 * not block it. */
#ifndef LOCAL_MEMORY_H
#define LOCAL_MEMORY_H

#include "local/message.h"

struct buffer;
struct local;

struct memory_kind {
    /* Returns NULL if the kind is on, else the reason why it is off: a sentence without its full
     * stop, which lives as long as `local`. */
    const char *(*why_off)(const struct local *local);
    /* Takes the memory that the client offers. Returns OK if it has set the buffer's members for
     * one path; ERR_WAIT if buffer_taken follows; or another error, with the reason in *ret_why,
     * and then it holds nothing. It sets the entry in fds to -1 for each descriptor that it keeps;
     * the caller closes the others. */
    enum err (*take)(struct buffer *buffer, const struct memory_offer *memory, int *fds,
                     size_t fd_count, struct trouble *ret_why);
    /* Gives the memory back; the caller makes sure that no fill of it is in progress. Returns OK if
     * Penstock can't access the memory any more, or ERR_WAIT if buffer_released follows. */
    enum err (*release)(struct buffer *buffer);
};

const struct memory_kind *memory_kind(enum memory kind);
/* Returns JSON with one member for each kind: "on", or "off: " and the reason. The caller owns
 * it. */
struct json_t *memory_kinds_page(const struct local *local) MUST_USE;

/* ---- buffer.c: ends a take or release that returned ERR_WAIT; on the keeper's thread ---- */
/* Ends a take. If `why` is NULL, the memory is there; else it could not be taken, and the buffer is
 * freed. May free the session. */
void buffer_taken(struct buffer *buffer, const struct trouble *why);
/* Ends a release: the memory was given back, and the buffer is freed. May free the session. */
void buffer_released(struct buffer *buffer);

#endif
