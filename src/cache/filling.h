/* filling.h - a GET whose bytes go into memory that its client registered.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Between who answers it, in words (the S3 endpoint), and who knows that memory (the fill socket):
 * neither knows the other. It is made and freed by who answers; in between it is the other's, and it
 * comes back by its mail, on the thread of its box. */
#ifndef CACHE_FILLING_H
#define CACHE_FILLING_H

#include "cache/get.h"

#define FILL_ID_BYTES 16u         /* of a registered buffer */

struct filling {
    struct mail mail;
    struct mailbox *box;          /* where it comes back to: a reference */
    void (*lost)(struct filling *filling);    /* instead, on any thread: nobody empties that box */
    uint8_t buffer[FILL_ID_BYTES];
    uint64_t offset;              /* in it: where the first byte of the answer goes */
    const void *client;           /* whose it must be */
    struct get_ask ask;           /* what it points at stays, as its place and identity do */
    /* when it came back */
    bool declined;                /* no such buffer of this client, or no room: nothing was done */
    struct get_answer answer;     /* OK: its head is a reference, of who frees it; else the err */
    struct get_cost cost;
};

#endif
