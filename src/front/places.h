/* places.h - a limit of calls at a time, which the clients share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A client may have half of the places that the calls of other clients leave free. So a client that
 * is alone has half of all places, and no client can keep all others out. */
#ifndef FRONT_PLACES_H
#define FRONT_PLACES_H

#include <pthread.h>

#include "base/base.h"

#define PLACES_MAX 128u

struct places {
    pthread_mutex_t lock;
    unsigned count;
    unsigned clients[PLACES_MAX];    /* the numbers of the clients, one for each call */
};

void places_init(struct places *places);
/* Takes one of `all` places (at most PLACES_MAX) for a call of this client (client.h). Returns
 * false if the client has its share already. Any thread. */
bool places_take(struct places *places, unsigned all, unsigned client) MUST_USE;
void places_give_back(struct places *places, unsigned client);    /* any thread */

#endif
