/* message.h - reads one message of the fill socket. SPDX-License-Identifier: Apache-2.0
 *
 * The fill socket is the Unix socket on which clients ask Penstock to read objects into their
 * memory. Their messages are named "register", "fill" and so on. Pure: this code only turns JSON
 * text into a struct. A message that breaks the protocol is refused with a sentence that says which
 * member is wrong, why, and what would be right. Nothing is guessed. */
#ifndef LOCAL_MESSAGE_H
#define LOCAL_MESSAGE_H

#include "local/trouble.h"
#include "s3/items.h"

/* Limits of the protocol. They are fixed, because a client needs them before the reply to hello
 * tells it the other limits. A message longer than MESSAGE_BYTES_MAX lies in a memfd, and may have
 * up to "fill_list" bytes (a constant in base/config.def). */
#define MESSAGE_BYTES_MAX (128 * KIB)
#define MESSAGE_FDS_MAX 128u
#define ID_BYTES 16u                          /* id of a session, a buffer, a fill */
#define IPC_HANDLE_BYTES 64u                  /* of legacy CUDA IPC */

enum message_op {
    OP_HELLO, OP_REGISTER, OP_UNREGISTER, OP_FILL, OP_PREFETCH, OP_STATUS, OP_LARGE, OP_COUNT
};
/* The kinds of memory: MEMORY_MEMFD and the other rows of memory.def. */
enum memory {
#define MEMORY(id, name, table) id,
#include "local/memory.def"
#undef MEMORY
    MEMORY_KINDS
};

/* The members of the message "hello": the client's facts about itself. */
struct hello {
    uint64_t version;
    slice client, presigned;
};

/* The memory that a client offers in register. */
struct memory_offer {
    enum memory kind;
    uint64_t bytes;
    slice gpu, handle;                /* handle: of cuda-ipc, 64 bytes */
    uint64_t base_offset;
    uint64_t *chunks;
    size_t chunk_count;
};

/* message_read writes the message and its parts; after that, the keeper of the session and the
 * workers only read it. */
struct message {
    enum message_op op;
    bool has_number;
    int64_t number;                   /* the message's "id", which its reply repeats */
    /* Each comment names the operations that have this member and the members after it, up to the
     * next such comment. */
    struct hello hello;               /* hello */
    struct memory_offer memory;       /* register */
    uint8_t buffer[ID_BYTES];         /* unregister, fill */
    slice bucket, prefix;             /* fill, prefetch */
    bool skip, async;
    uint64_t deadline_ms;             /* 0: none */
    struct items items;
    uint64_t large_bytes;             /* OP_LARGE: length of the message in the memfd */
};

/* Returns OK; ERR_FORMAT if the message breaks the protocol; or ERR_LIMIT if it has too many items.
 * Both errors set *ret_why. Even then *ret has op and id, if they were read before the error. */
enum err message_read(struct arena *keep, slice text, size_t items_max, struct message *ret,
                      struct trouble *ret_why) MUST_USE;

#endif
