/* gpu_client.h - the trainer's side of scripts/gpu-check. SPDX-License-Identifier: Apache-2.0
 *
 * One buffer at a time, in a process of its own. gpu_client_cuda.c is the real one, with a kernel
 * that sums what lies there; gpu_client_fake.c plays it without a GPU. False: client_why says why.
 * */
#ifndef GPU_CLIENT_H
#define GPU_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENT_CHUNKS 2

enum client_memory { CLIENT_VMM, CLIENT_IPC, CLIENT_MANAGED, CLIENT_POOL };

struct client_shared {
    int fds[CLIENT_CHUNKS];               /* VMM: the receiver's to close */
    uint64_t chunks[CLIENT_CHUNKS];
    uint8_t handle[64];                   /* IPC */
    uint64_t base_offset;
};

/* True, and client_why not empty: there is no kernel, client_sum does without. */
bool client_begin(const char *uuid);
/* Managed memory and memory of a pool can't be exported: true would be news. */
bool client_make(enum client_memory kind, uint64_t bytes, struct client_shared *ret);
bool client_paint(uint8_t byte);          /* all of it */
/* As gpu_sum has it, by a kernel that is launched now: it sees what was copied before. */
bool client_sum(uint64_t *ret);
void client_drop(void);                   /* frees it, whoever else has it mapped */
uint64_t client_free_bytes(void);         /* of device memory */
double client_speed(void);                /* H: bytes/s of pinned copies, 64 MiB each, 2 streams */
const char *client_why(void);

/* Of whole words; each counts times an odd factor of its own, so no single change goes unseen. */
static inline uint64_t gpu_sum(const void *from, uint64_t bytes)
{
    const uint64_t *words = from;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < bytes / 8; i++)
        sum += words[i] * ((i * 0x9E3779B97F4A7C15) | 1);
    return sum;
}

#endif
