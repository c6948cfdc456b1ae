/* gpu_client_fake.c - a trainer without a GPU, so that gpu_check itself is tested.
 * SPDX-License-Identifier: Apache-2.0 */
#include "local/gpu_client.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "local/fake_cudart.h"

static struct {
    int fds[CLIENT_CHUNKS];
    uint8_t *memory, *at;
    uint64_t bytes, mapped;
} own;
static const char *why = "";

bool client_begin(const char *uuid)
{
    return uuid != NULL;
}

const char *client_why(void)
{
    return why;
}

bool client_make(enum client_memory kind, uint64_t bytes, struct client_shared *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (kind == CLIENT_MANAGED || kind == CLIENT_POOL) {
        why = "invalid argument (of the fake)";
        return false;
    }
    size_t count = kind == CLIENT_VMM ? CLIENT_CHUNKS : 1;
    own.bytes = bytes;
    own.mapped = kind == CLIENT_VMM ? bytes : bytes + FAKE_GRANULE;
    own.memory = mmap(NULL, own.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < count; i++) {
        ret->chunks[i] = own.mapped / count;
        own.fds[i] = fake_memory(0, ret->chunks[i]);
        ret->fds[i] = kind == CLIENT_VMM ? dup(own.fds[i]) : -1;
        mmap(own.memory + i * ret->chunks[i], ret->chunks[i], PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, own.fds[i], 0);
    }
    ret->base_offset = kind == CLIENT_VMM ? 0 : 4104;
    own.at = own.memory + ret->base_offset;
    if (kind == CLIENT_IPC)
        fake_ipc_handle(own.fds[0], 0, ret->handle);
    return true;
}

bool client_paint(uint8_t byte)
{
    memset(own.at, byte, own.bytes);
    return true;
}

bool client_sum(uint64_t *ret)
{
    *ret = gpu_sum(own.at, own.bytes);
    return true;
}

void client_drop(void)
{
    munmap(own.memory, own.mapped);
    for (size_t i = 0; i < CLIENT_CHUNKS; i++)
        if (own.fds[i] > 0)
            close(own.fds[i]);
    memset(&own, 0, sizeof(own));
}

uint64_t client_free_bytes(void)
{
    return 0;
}

double client_speed(void)
{
    return 0;
}
