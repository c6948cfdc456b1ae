/* explaining.h - an explanation of a get, for the files that write it.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   explain.c          what the cache would do, and why
 *   explain_peers.c    which other nodes would be asked */
#ifndef FRONT_EXPLAINING_H
#define FRONT_EXPLAINING_H

#include "front/inside.h"

/* The bytes that are asked for, and how many of them the cache has. */
struct explain_bytes {
    uint64_t first, end;              /* the wanted bytes */
    uint64_t examined;                /* the end of the bytes that were counted */
    uint64_t cached;                  /* the counted bytes that the cache has */
    bool outside;                     /* the object has no byte of the range: 416 */
};

/* Adds the member "peers", if the setting peers is set. */
struct json_t;
void explain_peers(struct json_t *to, struct call *call, const struct get_forecast *forecast,
                   const struct s3_range *range, const struct explain_bytes *bytes);

#endif
