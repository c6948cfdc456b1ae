/* places.c - a limit of calls at a time, which the clients share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "front/places.h"

void places_init(struct places *places)
{
    *places = (struct places){ .count = 0 };
    check(pthread_mutex_init(&places->lock, NULL) == 0);
}

bool places_take(struct places *places, unsigned all, unsigned client)
{
    unsigned own = 0;
    check(all <= PLACES_MAX);
    pthread_mutex_lock(&places->lock);
    for (unsigned i = 0; i < places->count; i++)
        own += places->clients[i] == client;
    bool fits = own < (all - (places->count - own)) / 2;
    if (fits)
        places->clients[places->count++] = client;
    pthread_mutex_unlock(&places->lock);
    return fits;
}

void places_give_back(struct places *places, unsigned client)
{
    unsigned i = 0;
    pthread_mutex_lock(&places->lock);
    while (i < places->count && places->clients[i] != client)
        i++;
    check(i < places->count);
    places->clients[i] = places->clients[--places->count];
    pthread_mutex_unlock(&places->lock);
}
