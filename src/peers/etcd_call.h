/* etcd_call.h - one call of etcd's JSON gateway. SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_ETCD_CALL_H
#define PEERS_ETCD_CALL_H

#include "peers/look.h"

struct json_t;

/* Where etcd is, and as whom Penstock asks it. */
struct etcd_door {
    slice url;                        /* scheme://host[:port] */
    slice user, password;             /* both may be empty */
    const char *ca_file;              /* "": the system's store */
    struct arena keep;                /* for texts of the owner */
    struct arena token_keep;
    slice token;                      /* what etcd gave for user and password; empty: none yet */
};

/* Sends `take_body` to URL/v3/PATH. *ret is an object that the caller frees. On failure, look->why
 * says what is wrong. `take_body` may be NULL: then a text in it was not UTF-8. */
enum err etcd_call(struct etcd_door *door, struct look *look, const char *path,
                   struct json_t *take_body, struct json_t **ret) MUST_USE;

#endif
