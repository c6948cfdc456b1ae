/* admin.h - metrics, status and health for operators. SPDX-License-Identifier: Apache-2.0
 *
 * This is the application (struct http_app in http/http.h) that answers on the admin address: GET
 * / (a page for people), /metrics (Prometheus text), /status (JSON), /_/health/live and
 * /_/health/ready. No request
 * changes anything. The daemon adds its facts to /status by the callback `tell`. */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include "http/http.h"
#include "store/store.h"

#define ADMIN_CONNECTIONS_MAX 16    /* not shared with S3, whose limit may be reached */

/* The JSON of /status while it is written. A path is names with dots between them
 * ("cache.used_bytes"). A missing object on the path is created. If a name on the path is a list,
 * the path goes on in the last item of the list. */
struct status_document;
void document_text(struct status_document *to, const char *path, slice value);
void document_number(struct status_document *to, const char *path, uint64_t value);
/* Writes part / whole, a number from 0 to 1, or null if whole is 0. */
void document_ratio(struct status_document *to, const char *path, uint64_t part, uint64_t whole);
void document_real(struct status_document *to, const char *path, double value);
void document_flag(struct status_document *to, const char *path, bool value);
void document_item(struct status_document *to, const char *path);    /* appends an item to a list */
void document_store(struct status_document *to, const char *path,
                    const struct store_status *status);

struct admin_options {
    const char *version;
    const char *instance;     /* identifies this process */
    /* The token that /status needs. If it is empty: /status needs no token if `exposed` is false,
     * and is refused if `exposed` is true. */
    slice token;
    bool metrics_token;       /* /metrics needs the token, too */
    bool exposed;             /* other machines can reach the address */
    /* tell, ready and expose are called on a loop (a thread of http/). */
    void (*tell)(void *arg, struct status_document *to);    /* adds the rest of /status */
    bool (*ready)(void *arg);
    void (*expose)(void *arg, struct text *to);    /* adds families to /metrics; NULL: none */
    void *arg;
};

struct admin;
struct admin *admin_new(const struct admin_options *options) MUST_USE;
void admin_free(struct admin **admin);
/* `listen` must stay valid until http_stop. */
struct http_app admin_app(struct admin *admin, const char *listen) MUST_USE;

#endif
