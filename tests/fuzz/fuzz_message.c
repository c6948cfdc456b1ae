/* fuzz_message.c - any text as a message of the fill socket. SPDX-License-Identifier: Apache-2.0
 *
 * A message that is read lies within its limits; a refusal has a status, a code and a sentence. */
#include "local/message.h"

#define ITEMS_MAX 100

static void judge(const struct message *message)
{
    const struct memory_offer *memory = &message->memory;
    check(message->op < OP_COUNT && memory->kind < MEMORY_KINDS);
    check(memory->chunk_count <= MESSAGE_FDS_MAX && message->items.count <= ITEMS_MAX);
    check(memory->bytes <= INT64_MAX && memory->base_offset <= INT64_MAX);
    check(!memory->handle.ptr || memory->handle.len == IPC_HANDLE_BYTES);
    check(!message->items.count || message->op == OP_FILL || message->op == OP_PREFETCH);
    for (size_t i = 0; i < message->items.count; i++) {
        const struct item *item = &message->items.list[i];
        check(item->kind != ITEM_RANGE && item->key.len);
        check(message->op == OP_FILL || item->to == ITEM_OPEN);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct message message;
    struct trouble why = { 0 };
    enum err err = message_read(&arena, (slice){ (const char *)data, size }, ITEMS_MAX, &message, &why);
    check(err == OK || err == ERR_FORMAT || err == ERR_LIMIT);
    check(err ? why.status >= 400 && why.code && why.message.len : true);
    if (!err)
        judge(&message);
    arena_free(&arena);
    return 0;
}
