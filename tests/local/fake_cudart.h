/* fake_cudart.h - how a test plays with the fake CUDA. SPDX-License-Identifier: Apache-2.0
 *
 * Device memory is a memfd named "fake-gpu-N", for device N: fake_memory makes one. Its descriptor
 * is what a client would pass as VMM memory, and fake_ipc_handle makes a legacy handle of it, which
 * only another process can open. Any thread. */
#ifndef FAKE_CUDART_H
#define FAKE_CUDART_H

#include <stdint.h>

#define FAKE_GRANULE (2u << 20)

struct fake_setting {
    int driver;               /* 12090 is 12.9; 0: there is no driver */
    int devices;
    uint64_t seed;            /* of the delays */
    unsigned delay_us;        /* at most so long before each piece of a copy */
    long fail_call; /* this call of a device from now on is its last: a sticky error; 0: none */
    long fail_copy;           /* this copy from now on breaks its device; 0: none */
    long refuse_copy;         /* this one is refused, in the middle of its batch; 0: none */
    long refuse_pins;         /* so many times memory is not pinned */
};

/* All streams must be idle. Devices that broke are whole again, as in a new process. */
void fake_set(const struct fake_setting *setting);
int fake_memory(int device, uint64_t bytes);                     /* a descriptor, the caller's */
void fake_ipc_handle(int memory, int device, uint8_t ret[64]); /* valid while this process lives */
long fake_calls(void);            /* so far, of any device */
long fake_calls_batch(void);      /* of them, batches */
int fake_mappings(void);          /* of client memory, there are now */
int fake_pending(void);           /* copies under way */

#endif
